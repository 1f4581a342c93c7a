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
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

import numpy as np

from blamespan.taxonomy import ErrorMode
from blamespan.taxonomy import mode as find_mode
from blamespan.trace import MessageActionTrace
from blamespan_tracer.checks.examined_run import ExaminedRun, Finding, Outcome, Source
from blamespan_tracer.representation.claims import Floats

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

MAX_QUOTE_CHARS = 200
"""Longer quotes are cut: a sentence or two, well under what backends cut."""

_MAX_FINDINGS = 1_000
"""Most findings of one check in one run."""


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
        is_share: Whether the strength of its findings is a share: models also see how far it is from the run's other
            steps.
    """

    name: str
    title: str
    examine: Examine
    mode: ErrorMode | None = None
    trust: float = 0.5
    is_symptom: bool = False
    is_evidence: bool = False
    is_share: bool = False

    def apply(self, run: ExaminedRun) -> list[CheckResult]:
        """Return every step that breaks it or leaves it open, by step; or else one result for the run.

        Where it raises, it is inconclusive and the failure is logged: a rule must not break what it watches.
        """
        try:
            findings = list(islice(self.examine(run), _MAX_FINDINGS))
        except Exception as error:
            self._log_failure(run)
            return [CheckResult(self, "inconclusive", reason=f"the check raised {type(error).__name__}")]
        n_steps = len(run.trace.steps)
        broken = [finding for finding in findings if finding.outcome != "pass" and 0 <= finding.step < n_steps]
        if broken:
            return [self._make_result(finding, run) for finding in sorted(broken, key=lambda finding: finding.step)]
        if findings:
            return [CheckResult(self, "pass")]
        return [CheckResult(self, "inconclusive", reason="nothing in the run to judge")]

    def strengths(self, run: ExaminedRun) -> Floats:
        """Return how strongly each of the N merged steps breaks it: (N,), 0 where it does not, or where it raises."""
        owner, strengths = run.analysis.owner, [0.0] * len(run.analysis.steps)
        try:
            for finding in self.examine(run):
                if finding.outcome == "fail":
                    row = owner[finding.step]
                    strengths[row] = max(strengths[row], finding.strength)
        except Exception:
            self._log_failure(run)
            strengths = [0.0] * len(strengths)
        return np.array(strengths, np.float64)

    def _make_result(self, finding: Finding, run: ExaminedRun) -> CheckResult:
        quote = finding.quote.strip()[:MAX_QUOTE_CHARS].strip()
        is_quoted = quote in run.trace.steps[finding.step].content
        return CheckResult(
            self, finding.outcome, finding.step, quote if is_quoted else "", finding.reason, finding.source
        )

    def _log_failure(self, run: ExaminedRun) -> None:
        _log.warning("check %r raised on run %s", self.name, run.trace.trace_id, exc_info=True)


def check(
    name: str,
    title: str,
    *,
    mode: str | None = None,
    trust: float = 0.5,
    is_symptom: bool = False,
    is_evidence: bool = False,
    is_share: bool = False,
) -> Callable[[Examine], Check]:
    """Make a check of a function that examines a run; the arguments are those of `Check`.

    Args:
        name: Unique among the checks in use.
        title: The rule in one sentence.
        mode: What breaking it is called, as `taxonomy:code`.
        trust: How likely a run that breaks it failed for that, 0..1.
        is_symptom: Whether it is blamed only where no other check is broken.
        is_evidence: Whether it only informs models.
        is_share: Whether the strength of its findings is a share.

    Raises:
        ConfigError: if no taxonomy has the mode.
    """

    def make(examine: Examine) -> Check:
        error_mode = find_mode(mode) if mode else None
        return Check(name, title, examine, error_mode, trust, is_symptom, is_evidence, is_share)

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


def apply_checks(checks: Iterable[Check], trace: MessageActionTrace) -> list[CheckResult]:
    """Apply every check to a run, in order; see `Check.apply`."""
    run = ExaminedRun(trace)
    return [result for check in checks for result in check.apply(run)]
