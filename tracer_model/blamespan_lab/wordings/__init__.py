"""The words that agents use, with faults and without: the same ones."""

from blamespan_lab.wordings.choosing import choose, pick, say

__all__ = ["choose", "pick", "say"]
