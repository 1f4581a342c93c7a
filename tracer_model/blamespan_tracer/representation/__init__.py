"""Runs as models see them: decisions, what ties them together, and what stands out about each."""

from blamespan_tracer.representation.analysis import Analysis, analyse
from blamespan_tracer.representation.features import STEP_FEATURES
from blamespan_tracer.representation.record import EDGE_TYPES, Batch, Representation
from blamespan_tracer.representation.represent import represent
from blamespan_tracer.representation.roles import ROLES

__all__ = ["EDGE_TYPES", "ROLES", "STEP_FEATURES", "Analysis", "Batch", "Representation", "analyse", "represent"]
