"""Break `blamespan collect` in every way, and count what reached its sinks. See docs/why/reliability.md."""
