"""Where installations made before look for the checks."""

from blamespan_tracer.checks.tracer import ContractsTracer

__all__ = ["ContractsTracer"]
