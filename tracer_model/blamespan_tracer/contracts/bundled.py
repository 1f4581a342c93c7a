"""Where installations made before look for the checks."""

from blamespan_tracer.checks.bundled import CHECKS as CONTRACTS

__all__ = ["CONTRACTS"]
