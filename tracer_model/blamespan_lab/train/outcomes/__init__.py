"""Learning from a user's own runs which of them failed, and measuring how well."""
