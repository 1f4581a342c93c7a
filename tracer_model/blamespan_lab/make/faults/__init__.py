"""Faults on purpose: which kinds there are, how each is written into a run, and what it is called."""
