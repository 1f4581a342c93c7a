"""Stressing a team: many runs with a fault in each, and what became of them."""
