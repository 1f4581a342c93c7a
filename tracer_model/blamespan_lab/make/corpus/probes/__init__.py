"""Probes: how well a corpus's labels can be guessed from what should tell nothing, and from words alone."""
