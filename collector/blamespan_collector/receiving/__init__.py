"""Taking OTLP in: servers, limits, who may send, and requests cut into journal entries; all in the main process."""
