"""From spans to a message-action trace, and back."""
