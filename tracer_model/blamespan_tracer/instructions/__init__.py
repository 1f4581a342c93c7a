"""Instructions: what texts of a run demand of its agents, and whom an agent obeys where two of them disagree."""

from blamespan_tracer.instructions.conflicts import InstructionConflict, StatedDemand, find_conflicts
from blamespan_tracer.instructions.demands import Demand, read_demands

__all__ = ["Demand", "InstructionConflict", "StatedDemand", "find_conflicts", "read_demands"]
