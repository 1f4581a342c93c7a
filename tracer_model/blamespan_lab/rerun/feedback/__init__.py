"""From a verdict to what the next attempt is told, and whether that helps."""
