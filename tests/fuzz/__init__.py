"""Hostile bytes for everything that reads what others wrote. See docs/why/reliability.md."""
