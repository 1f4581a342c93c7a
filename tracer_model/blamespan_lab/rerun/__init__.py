"""Runs a program again with something changed: a step put right, a fault put in, feedback given to the next attempt."""
