"""Break `blamespan collect` in every way that happens, and count what reached its sinks. See docs/reliability.md."""
