"""`instrument()` and what it sets up: settings, exporters, the shield that keeps the host unharmed, forks."""
