"""Tracers: models that attribute a failed run to agents, steps and kinds of error, and how they are trained."""
