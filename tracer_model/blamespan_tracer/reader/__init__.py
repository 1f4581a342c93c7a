"""A pretrained language model reads a run, and says which of its claims it did not expect."""
