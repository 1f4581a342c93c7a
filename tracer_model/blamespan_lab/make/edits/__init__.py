"""Minimal pairs: runs that language models wrote, one thing in one step changed, beside the run as it was."""
