"""Contrastive learning on an encoder, after AEGIS's DCL: who erred and how, from the turns of each agent."""
