"""Makes labelled runs: teams in which something goes wrong, edits of recorded runs, and corpora of both."""

from pathlib import Path

__all__ = ["RECIPES"]

RECIPES = Path(__file__).parent / "recipes"
"""The recipes that `blamespan lab generate` knows by name."""
