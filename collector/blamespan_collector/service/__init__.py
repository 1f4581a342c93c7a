"""The first process: receivers, the supervisor of the worker, the monitor, and what `--check` tries."""
