"""The default tracer: what a run says against itself, weighed with what the other tracers say of it."""
