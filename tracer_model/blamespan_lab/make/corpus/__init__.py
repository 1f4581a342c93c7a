"""Corpora of labelled runs: recipes, generation, storage, and probes for what gives labels away."""
