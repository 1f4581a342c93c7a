"""The words that agents use, with faults and without: the same ones."""

from blamespan_tracer.wordings.phrases import choose, say

__all__ = ["choose", "say"]
