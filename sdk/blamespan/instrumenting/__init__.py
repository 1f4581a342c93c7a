"""`instrument()` and what it sets up: settings, exporters, the guard that keeps the host unharmed, forks."""
