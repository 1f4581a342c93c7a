"""The step network: attention over the steps of a run, from what they say of each other to who is to blame."""
