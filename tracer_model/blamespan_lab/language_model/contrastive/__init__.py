"""Training of the contrastive encoder."""
