"""Which spans make up a trace, and when it is complete: pure, without I/O or a clock of its own."""
