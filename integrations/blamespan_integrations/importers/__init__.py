"""File formats of recorded runs, read into message-action traces."""
