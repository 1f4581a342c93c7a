"""Verdicts on assembled traces: in batches, with a deadline, so that no trace can spoil or delay another."""
