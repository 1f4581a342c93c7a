"""The words that agents use, with faults and without: the same ones."""

from blamespan_lab.make.wordings.choosing import choose, choose_alternatives, pick

__all__ = ["choose", "choose_alternatives", "pick"]
