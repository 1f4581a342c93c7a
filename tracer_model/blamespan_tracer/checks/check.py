"""What a check is, and what comes of checks on a run.

A check is a rule that a step, or a run, keeps or breaks, and that a machine can check: step and trace contracts in the
sense of arXiv 2603.18096 (Message-Action Traces). A new check is one function in a file of `checks/bundled`:

    @check("sum-holds", "A written sum holds.", mode="mast:FM-2.6", trust=0.9)
    def sums_hold(run: ExaminedRun) -> Iterator[Finding]:
        for step in run.decisions:
            ...
            yield Finding(step.index, "fail", "12 * 3 = 35", "comes to 36")
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal, TypeAlias

from blamespan.taxonomy import ErrorMode
from blamespan.taxonomy import mode as find_mode
from blamespan.trace import MessageActionTrace
from blamespan_tracer.checks.examined_run import ExaminedRun
from blamespan_tracer.representation import Analysis

__all__ = [
    "MAX_QUOTE_CHARS",
    "Check",
    "CheckResult",
    "Examine",
    "Finding",
    "Outcome",
    "Source",
    "apply_checks",
    "check",
]

_log = logging.getLogger(__name__)

Outcome: TypeAlias = Literal["pass", "fail", "inconclusive"]
"""Kept; broken; or there was nothing to judge by, or not enough."""

MAX_QUOTE_CHARS = 200
"""Longer quotes are cut: a sentence or two, well under what backends cut."""

_MAX_FINDINGS = 1_000
"""Most findings of one check in one run."""


@dataclass(frozen=True, slots=True)
class Source:
    """The words that a finding contradicts.

    Attributes:
        step: Index of the original step that has them, or None for the task.
        quote: The words, as they stand there.
    """

    step: int | None
    quote: str


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check finds in one step.

    Attributes:
        step: Index of the original step that keeps or breaks the check.
        outcome: Which of these.
        quote: Words of that step that show it, as they stand in its content; cut to 200 characters.
        reason: In a few words what is wrong with them.
        strength: How much of the step breaks the check, for models: 1, or a share above 0.
        source: The words that it contradicts, where there are such.
    """

    step: int
    outcome: Outcome
    quote: str = ""
    reason: str = ""
    strength: float = 1.0
    source: Source | None = None


Examine: TypeAlias = Callable[[ExaminedRun], Iterable[Finding]]
"""Examines a run: yields a finding for each step that it can judge, none where there is nothing to judge."""


@dataclass(frozen=True, slots=True)
class Check:
    """A rule and the function that examines a run by it.

    Attributes:
        name: Unique among the checks in use: `sum-holds`.
        title: The rule in one sentence.
        examine: Examines a run. Must be deterministic, and must not raise.
        mode: What breaking it is called, or None where no taxonomy has a word.
        trust: How likely a run that breaks it failed for that, 0..1: a prior, not measured on the user's runs.
        is_symptom: Whether what breaks it is more often what came of an error than the error: it is blamed only where
            no other check is broken.
        is_evidence: Whether it only informs models, and is no contract: nobody is told that it is kept or broken.
    """

    name: str
    title: str
    examine: Examine
    mode: ErrorMode | None = None
    trust: float = 0.5
    is_symptom: bool = False
    is_evidence: bool = False


def check(
    name: str,
    title: str,
    *,
    mode: str | None = None,
    trust: float = 0.5,
    is_symptom: bool = False,
    is_evidence: bool = False,
) -> Callable[[Examine], Check]:
    """Make a check of a function that examines a run; the arguments are those of `Check`.

    Args:
        name: Unique among the checks in use.
        title: The rule in one sentence.
        mode: What breaking it is called, as `taxonomy:code`.
        trust: How likely a run that breaks it failed for that, 0..1.
        is_symptom: Whether it is blamed only where no other check is broken.
        is_evidence: Whether it only informs models.

    Raises:
        ConfigError: if no taxonomy has the mode.
    """

    def make(examine: Examine) -> Check:
        error_mode = find_mode(mode) if mode else None
        return Check(name, title, examine, error_mode, trust, is_symptom, is_evidence)

    return make


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a check comes to on a run, or on one step of it.

    Attributes:
        check: Which.
        outcome: `pass` stands for the whole run: something was examined, nothing is broken, nothing is open.
        step: Index of the step, or None where the run as a whole is meant.
        quote: Words of the step that show it.
        reason: What is wrong, or why nothing can be said.
        source: The words that it contradicts, where there are such.
    """

    check: Check
    outcome: Outcome
    step: int | None = None
    quote: str = ""
    reason: str = ""
    source: Source | None = None


def apply_checks(
    checks: Sequence[Check], trace: MessageActionTrace, analysis: Analysis | None = None
) -> list[CheckResult]:
    """Apply every check to a run.

    Args:
        checks: Which.
        trace: The run.
        analysis: What the representation found out about it, where that is known already.

    Returns:
        For each check, in order, every step that breaks it or leaves it open, by step; or else one result for the
        run. A check that raises is inconclusive and the failure is logged: a rule must not break what it watches.
    """
    run = ExaminedRun(trace, analysis)
    return [result for check in checks for result in _apply(check, run)]


def _apply(check: Check, run: ExaminedRun) -> list[CheckResult]:
    try:
        findings = list(islice(check.examine(run), _MAX_FINDINGS))
    except Exception as error:
        _log.warning("check %r raised on run %s", check.name, run.trace.trace_id, exc_info=True)
        return [CheckResult(check, "inconclusive", reason=f"the check raised {type(error).__name__}")]
    n_steps = len(run.trace.steps)
    broken = [finding for finding in findings if finding.outcome != "pass" and 0 <= finding.step < n_steps]
    if broken:
        return [_make_result(check, finding, run) for finding in sorted(broken, key=lambda finding: finding.step)]
    if findings:
        return [CheckResult(check, "pass")]
    return [CheckResult(check, "inconclusive", reason="nothing in the run to judge")]


def _make_result(check: Check, finding: Finding, run: ExaminedRun) -> CheckResult:
    quote = finding.quote.strip()[:MAX_QUOTE_CHARS].strip()
    is_quoted = quote in run.trace.steps[finding.step].content
    return CheckResult(check, finding.outcome, finding.step, quote if is_quoted else "", finding.reason, finding.source)
