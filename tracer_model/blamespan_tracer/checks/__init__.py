"""Checks: rules that runs keep or break, checked by machine; as explanations, as features and as a tracer."""

from blamespan_tracer.checks.bundled import CHECKS, EVIDENCE, VERDICT_CHECKS
from blamespan_tracer.checks.check import (
    Check,
    CheckResult,
    ExaminedRun,
    Finding,
    Source,
    apply_checks,
    check,
    evidence,
)
from blamespan_tracer.checks.in_use import checks_in_use
from blamespan_tracer.checks.toml_rules import read_toml_checks
from blamespan_tracer.checks.tracer import ChecksTracer

__all__ = [
    "CHECKS",
    "EVIDENCE",
    "VERDICT_CHECKS",
    "Check",
    "CheckResult",
    "ChecksTracer",
    "ExaminedRun",
    "Finding",
    "Source",
    "apply_checks",
    "check",
    "checks_in_use",
    "evidence",
    "read_toml_checks",
]
