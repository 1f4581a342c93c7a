"""Trains tracers and the heads that users teach: one file for each."""

from pathlib import Path

__all__ = ["RECIPES"]

RECIPES = Path(__file__).parent / "recipes"
"""The recipes that `blamespan lab train` knows by name; each made the weights that come with the package."""
