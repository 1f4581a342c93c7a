"""A run read once: its decisions, what they state and claim, and what ties them together."""

from blamespan_tracer.alternatives.network.representation.analysis import Analysis, analyse
from blamespan_tracer.alternatives.network.representation.represent import EDGE_TYPES, ROLES, Representation, represent

__all__ = ["EDGE_TYPES", "ROLES", "Analysis", "Representation", "analyse", "represent"]
