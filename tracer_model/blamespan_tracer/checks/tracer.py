"""Checks as a tracer: blames the first step that breaks one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from blamespan._version import __version__
from blamespan.attribution import Attribution, Contradicted, Evidence, ModeBlame, TracerIdentity
from blamespan.trace import MessageActionTrace
from blamespan_tracer.checks.check import Check, CheckResult, apply_checks
from blamespan_tracer.checks.in_use import checks_in_use, digest_files

_MAX_EVIDENCE = 3
_REST = 0.5
"""What all later broken checks weigh together, beside 1 for the first: the step that broke first stays decisive."""


class ChecksTracer:
    """Attributes runs by what checks they break.

    The decisive step is the first that breaks one; steps that break a check whose breaking is a symptom count
    only where no other is broken. `failure_score` is how likely the run failed if each broken check speaks for
    itself: one minus the product of what their `trust` leaves open. Where none is broken there is no verdict.

    Args:
        checks: What is checked, in order; none of them evidence.
        files: Digest of the files that some of them were read from; empty where all are installed.
    """

    def __init__(self, checks: Sequence[Check], files: str = "") -> None:
        self._checks = tuple(checks)
        self._files = files

    @classmethod
    def in_use(cls) -> ChecksTracer:
        """Use the bundled checks, those of installed packages, and those of `BLAMESPAN_CHECKS`.

        Raises:
            ConfigError: if one of them is no check.
        """
        return cls(checks_in_use(), digest_files())

    @property
    def identity(self) -> TracerIdentity:
        """Name and version; there are no weights."""
        return TracerIdentity("checks", __version__)

    @property
    def checks(self) -> tuple[Check, ...]:
        """What is checked, in order."""
        return self._checks

    @property
    def settings(self) -> dict[str, str]:
        """What decides its verdicts beside the installed checks: the files with further ones, by their digest."""
        return {"files": self._files} if self._files else {}

    def attribute(self, traces: Sequence[MessageActionTrace]) -> list[Attribution]:
        """Attribute each run; one verdict per trace, in order."""
        return [attribute_results(trace, apply_checks(self._checks, trace), self.identity) for trace in traces]


def attribute_results(trace: MessageActionTrace, results: Sequence[CheckResult], tracer: TracerIdentity) -> Attribution:
    """Turn the results of checks on a run into who is to blame."""
    broken = [
        (result.step, result)
        for result in results
        if result.outcome == "fail" and result.step is not None and trace.can_be_blamed(trace.steps[result.step])
    ]
    causes = [(step, result) for step, result in broken if not result.check.is_symptom] or broken
    causes.sort(key=lambda cause: cause[0])  # stable: checks in their order where one step breaks several
    if not causes:
        return Attribution.abstain(trace, "no check is broken", tracer)
    shares = [0.0] * len(trace.steps)
    first = causes[0][0]
    later = [(step, result.check.trust) for step, result in causes if step != first]
    whole = sum(trust for _, trust in later)
    for step, trust in later:
        shares[step] += _REST * trust / whole if whole > 0 else 0.0
    shares[first] = 1.0
    failure_score = _score_failure([result for _, result in broken])
    return Attribution.of(
        trace,
        shares,
        failure_score=failure_score,
        unaided_score=failure_score,
        tracer=tracer,
        modes=_rank_modes(trace, broken),
        evidence=_choose_evidence(causes),
    )


def _score_failure(broken: Sequence[CheckResult]) -> float:
    trust_of = {result.check.name: result.check.trust for result in broken}
    remainder = 1.0
    for trust in trust_of.values():
        remainder *= 1.0 - trust
    return 1.0 - remainder


def _rank_modes(trace: MessageActionTrace, broken: Sequence[tuple[int, CheckResult]]) -> list[ModeBlame]:
    best: dict[tuple[str, str], ModeBlame] = {}
    for step, result in broken:
        check, agent = result.check, trace.steps[step].agent
        if result.mode is None:
            continue
        key = (str(result.mode), agent)
        if key not in best or best[key].score < check.trust:
            best[key] = ModeBlame(result.mode, agent, check.trust)
    return list(best.values())


def _choose_evidence(broken: Sequence[tuple[int, CheckResult]]) -> list[Evidence]:
    """Return the first quotes that break checks, each with the words that it contradicts where one names them."""
    quoted: dict[tuple[int, str], CheckResult] = {}
    for step, result in broken:
        if result.quote:
            quoted.setdefault((step, result.quote), result)
    return [
        Evidence(step, quote, result.check.trust, _contradicted(result), f"check {result.check.name}")
        for (step, quote), result in islice(quoted.items(), _MAX_EVIDENCE)
    ]


def _contradicted(result: CheckResult) -> Contradicted | None:
    return None if result.source is None else Contradicted(result.source.step, result.source.quote)
