"""Checks: rules that runs keep or break, checked by machine; as explanations and as a tracer."""

from blamespan_tracer.checks.bundled import CHECKS
from blamespan_tracer.checks.check import (
    Check,
    CheckResult,
    ExaminedRun,
    Finding,
    Source,
    apply_checks,
    check,
    step_check,
)
from blamespan_tracer.checks.in_use import checks_in_use
from blamespan_tracer.checks.toml_rules import read_toml_checks
from blamespan_tracer.checks.tracer import ChecksTracer

__all__ = [
    "CHECKS",
    "Check",
    "CheckResult",
    "ChecksTracer",
    "ExaminedRun",
    "Finding",
    "Source",
    "apply_checks",
    "check",
    "checks_in_use",
    "read_toml_checks",
    "step_check",
]
