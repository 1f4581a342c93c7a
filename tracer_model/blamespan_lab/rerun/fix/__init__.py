"""From a failure to a fix that is proved, and a test that keeps it."""
