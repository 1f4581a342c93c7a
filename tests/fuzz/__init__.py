"""Hostile bytes for everything that reads what others wrote. See docs/reliability.md."""
