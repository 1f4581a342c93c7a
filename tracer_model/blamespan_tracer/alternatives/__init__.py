"""Tracers beside the default one, each asked for by its name; their weights; what only they need."""
