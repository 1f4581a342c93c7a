"""Sending what is ready: one persistent lane per sink, and the sinks."""
