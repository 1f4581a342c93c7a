"""Training of language models and encoders on labelled runs."""
