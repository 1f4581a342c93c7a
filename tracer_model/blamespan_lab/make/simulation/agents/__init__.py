"""The simulated agents: policies that read what they are sent, do their part in prose, and err at a set rate."""
