"""What the worker knows across restarts: one SQLite file, room set aside in it, and the rescue of a damaged one."""
