"""Training of the lexical tracer, and what all trainings share."""
