"""What checked rules say of a run, where the package that has them is installed.

The tracer's part `apply_checks` is called with a run. It yields a `Judged` for each rule, or for each step that
breaks one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from blamespan.analysis.showing.legible import clean
from blamespan.pipeline import ask_part
from blamespan.plugins import find_part
from blamespan.trace import MessageActionTrace

_logger = logging.getLogger("blamespan.judges")

_AT_ONCE = 1_000, 150_000
"""Steps and characters that are checked in a second at most, however dense in sums and numbers (measured)."""
_AT_MOST = 50_000, 5_000_000


class _Rule(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def title(self) -> str: ...


class Judged(Protocol):
    """What a rule says of a run, or of one step of it."""

    @property
    def check(self) -> _Rule:
        """Which rule."""
        ...

    @property
    def outcome(self) -> str:
        """One of `pass`, `fail` and `inconclusive`."""
        ...

    @property
    def step(self) -> int | None:
        """Index of the step, or None where the run as a whole is meant."""
        ...

    @property
    def quote(self) -> str:
        """Words of the step that show it."""
        ...

    @property
    def reason(self) -> str:
        """What is wrong, or why nothing can be said."""
        ...


@dataclass(frozen=True, slots=True)
class BrokenRule:
    """A rule that a step, or the run, breaks or leaves open; texts are cleaned."""

    name: str
    title: str
    outcome: str
    step: int | None
    quote: str
    reason: str


def has_rules() -> bool:
    """Return whether any rules are installed."""
    return _judge() is not None


def rules_of(trace: MessageActionTrace, *, may_take_long: bool = False) -> list[BrokenRule] | None:
    """Check every rule on a run, and give those that are broken or left open at a step.

    Args:
        trace: The run.
        may_take_long: Whether somebody asked for it, rather than waits for a page.

    Returns:
        None where no rules are installed, or the run is too large.
    """
    judge = _judge()
    most_steps, most_chars = _AT_MOST if may_take_long else _AT_ONCE
    chars = sum(len(step.content) for step in trace.steps)
    if judge is None or len(trace.steps) > most_steps or chars > most_chars:
        return None

    def check() -> list[BrokenRule]:
        return [_broken(judged) for judged in judge(trace) if judged.outcome == "fail" or _is_open(judged)]

    return ask_part(check, _logger, f"rules are not checked on trace {trace.trace_id}") or []


def _is_open(judged: Judged) -> bool:
    return judged.outcome == "inconclusive" and judged.step is not None


def _broken(judged: Judged) -> BrokenRule:
    return BrokenRule(
        clean(judged.check.name),
        clean(judged.check.title),
        judged.outcome,
        judged.step,
        clean(judged.quote),
        clean(judged.reason),
    )


def _judge() -> Callable[[MessageActionTrace], Iterable[Judged]] | None:
    judge: Callable[[MessageActionTrace], Iterable[Judged]] | None
    judge = find_part("apply_checks", _logger, "checks are not shown")
    return judge
