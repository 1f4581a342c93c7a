"""Interception of running programs: what passes at a framework's boundaries, and who hears of it."""
