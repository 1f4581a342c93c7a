"""What is found in a run beside the verdict on it, where the package that looks is installed: rules that it breaks,
known failures that it shows, and instructions that disagree. Texts are fit to be shown.

The tracer's parts `apply_checks`, `known_failures` and `instruction_conflicts` are called with a run.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from blamespan.analysis.showing.legible import clean, printable
from blamespan.pipeline import ask_part, format_error
from blamespan.plugins import find_part
from blamespan.trace import MessageActionTrace

_logger = logging.getLogger("blamespan.findings")

_AT_ONCE = 1_000, 150_000
"""Steps and characters that are checked in a second at most, however dense in sums and numbers (measured)."""
_AT_MOST = 50_000, 5_000_000
_MAX_QUOTE_CHARS = 200
_MAX_CONFLICTS = 1_000
"""Most of one run."""


@dataclass(frozen=True, slots=True)
class BrokenRule:
    """A rule that a step, or the run, breaks or leaves open.

    Attributes:
        name: Of the rule.
        title: What it asks for.
        outcome: `fail` or `inconclusive`.
        step: Index of the step; None where the run as a whole is meant.
        quote: Words of the step that show it.
        reason: What is wrong, or why nothing can be said.
    """

    name: str
    title: str
    outcome: str
    step: int | None
    quote: str
    reason: str


@dataclass(frozen=True, slots=True)
class RuleFindings:
    """What checking every rule on a run came to.

    Attributes:
        rules: Those that are broken, or left open at a step; None where no rule was checked: none is installed, or the
            run is too large.
        failure: Why the checks could not be run, as a sentence to be shown; empty where they could.
    """

    rules: tuple[BrokenRule, ...] | None = None
    failure: str = ""

    @property
    def broken(self) -> tuple[BrokenRule, ...]:
        """The rules that are broken, without those that are left open."""
        return tuple(rule for rule in self.rules or () if rule.outcome == "fail")


@dataclass(frozen=True, slots=True)
class KnownFailure:
    """A step that fails as a known failure did.

    Attributes:
        name: Of the schema.
        title: What goes wrong, or empty.
        step: Index of the step.
        score: How much of the schema's signature the step shows, 0..1.
        recurrence: In which run it came first, and how often since.
        seen_trace_id: Trace id of the first run that it was seen in, or empty.
    """

    name: str
    title: str
    step: int
    score: float
    recurrence: str
    seen_trace_id: str

    def __str__(self) -> str:
        title = f" ({self.title})" if self.title else ""
        return f"known failure at step {self.step}: {self.name}{title}, {self.score:.2f}, {self.recurrence}"

    def as_json(self) -> dict[str, Any]:
        """Write it as a row of results has it."""
        return {
            "schema": self.name,
            "step": self.step,
            "score": round(self.score, 6),
            "seen_trace_id": self.seen_trace_id or None,
        }


@dataclass(frozen=True, slots=True)
class DecidedConflict:
    """Two instructions that an agent could not both follow.

    Attributes:
        step: Index of the step that shows which it obeyed.
        agent: Who.
        kind: What both are about.
        obeyed: `higher` or `lower`: of the two, which instruction it obeyed.
        rule_by: Who states the higher one: `system`, `user`, `orchestrator`.
        rule_step: Index of the step that says it or was given it; None for the task.
        rule: Its words.
        request_by: Who states the lower one: `user`, `orchestrator`, `agent`, `tool`.
        request_step: Likewise of the lower one, and
        request: its words.
    """

    step: int
    agent: str
    kind: str
    obeyed: str
    rule_by: str
    rule_step: int | None
    rule: str
    request_by: str
    request_step: int | None
    request: str

    def as_json(self) -> dict[str, Any]:
        """Write it as a row of results has it."""
        return asdict(self)


def has_rules() -> bool:
    """Return whether any rules are installed."""
    return _find_checks() is not None


def rules_of(trace: MessageActionTrace, *, may_take_long: bool = False) -> RuleFindings:
    """Check every rule on a run, and return those that are broken or left open at a step.

    Who shows them shows why checks could not be run, too: the log does not repeat it.

    Args:
        trace: The run.
        may_take_long: Whether somebody asked for it, rather than waits for a page.
    """
    apply_checks = _find_checks()
    most_steps, most_chars = _AT_MOST if may_take_long else _AT_ONCE
    chars = sum(len(step.content) for step in trace.steps)
    if apply_checks is None or len(trace.steps) > most_steps or chars > most_chars:
        return RuleFindings()
    try:
        results = apply_checks(trace)
        return RuleFindings(tuple(_broken(result) for result in results if _is_broken_or_open(result)))
    except Exception as error:  # what came from outside may break anything
        _logger.debug("rules are not checked on trace %s", trace.trace_id, exc_info=True)
        return RuleFindings((), clean(f"Checks could not be run: {format_error(error)}"))


def known_failures_of(trace: MessageActionTrace) -> tuple[KnownFailure, ...]:
    """Match a run against the schemata that its user keeps, the surest match first; nothing where there are none."""
    match: Callable[[MessageActionTrace], Iterable[KnownFailure]] | None
    match = find_part("known_failures", _logger, "known failures are not looked for")
    if match is None:
        return ()

    def look() -> tuple[KnownFailure, ...]:
        return tuple(
            replace(
                known,
                name=printable(known.name),
                title=printable(known.title)[:200],
                recurrence=printable(known.recurrence),
            )
            for known in match(trace)
        )

    return ask_part(look, _logger, f"known failures are not looked for in trace {trace.trace_id}") or ()


def conflicts_of(trace: MessageActionTrace) -> tuple[DecidedConflict, ...]:
    """Find where instructions disagree in a run, in step order; nothing where the package is not installed."""
    find = find_part("instruction_conflicts", _logger, "conflicts of instructions are not looked for")
    if find is None:
        return ()

    def look() -> tuple[DecidedConflict, ...]:
        return tuple(_decided(conflict) for conflict in find(trace)[:_MAX_CONFLICTS])

    return ask_part(look, _logger, f"conflicts of instructions are not looked for in trace {trace.trace_id}") or ()


def _find_checks() -> Callable[[MessageActionTrace], Iterable[Any]] | None:
    checks: Callable[[MessageActionTrace], Iterable[Any]] | None
    checks = find_part("apply_checks", _logger, "checks are not shown")
    return checks


def _is_broken_or_open(result: Any) -> bool:  # a `CheckResult` of the tracer's package
    return result.outcome == "fail" or (result.outcome == "inconclusive" and result.step is not None)


def _broken(result: Any) -> BrokenRule:  # likewise
    return BrokenRule(
        clean(result.check.name),
        clean(result.check.title),
        result.outcome,
        result.step,
        clean(result.quote),
        clean(result.reason),
    )


def _decided(conflict: Any) -> DecidedConflict:  # an `InstructionConflict` of the tracer's package
    rule, request = conflict.rule, conflict.request
    return DecidedConflict(
        conflict.step,
        printable(conflict.agent),
        conflict.kind,
        conflict.obeyed,
        rule.by,
        rule.step,
        printable(rule.quote[:_MAX_QUOTE_CHARS]),
        request.by,
        request.step,
        printable(request.quote[:_MAX_QUOTE_CHARS]),
    )
