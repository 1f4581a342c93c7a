"""Train the tracer `auto`: from edited runs, from failures that people labelled, and from runs of every kind."""
