"""Trains tracers and the heads that users teach: one file for each."""

from pathlib import Path

__all__ = ["LANGUAGE_MODEL_PACKAGES", "RECIPES"]

RECIPES = Path(__file__).parent / "recipes"
"""The recipes that `blamespan lab train` knows by name; each made the weights that come with the package."""

LANGUAGE_MODEL_PACKAGES = ("torch", "transformers", "trl", "peft", "accelerate", "datasets")
"""What training a language model imports; the extra `llm` brings it."""
