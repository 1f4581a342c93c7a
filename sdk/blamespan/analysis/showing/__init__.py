"""Runs and verdicts for people: tables, `blamespan show`, untrusted text made fit to be read."""
