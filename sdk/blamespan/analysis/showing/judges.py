"""What checked rules say of a run, where a package that has rules is installed.

A package offers a judge as an entry point of the group `blamespan.judges`: called with a run, it gives a `Judged` for
each rule, or for each step that breaks one. So contracts are shown without knowing whose they are.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Protocol, cast

from blamespan.analysis.showing.legible import clean
from blamespan.errors import BlamespanError
from blamespan.plugins import load_entry, plugins
from blamespan.trace import MessageActionTrace

__all__ = ["BrokenRule", "Judged", "has_rules", "rules_of"]

_logger = logging.getLogger("blamespan.judges")

_GROUP = "blamespan.judges"
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
    def contract(self) -> _Rule:
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
    """Tell whether any rules are installed."""
    return bool(_judges())


def rules_of(trace: MessageActionTrace, *, may_take_long: bool = False) -> list[BrokenRule] | None:
    """Check every rule on a run, and give those that are broken or left open at a step.

    Args:
        trace: The run.
        may_take_long: Whether somebody asked for it, rather than waits for a page.

    Returns:
        None where no rules are installed, or the run is too large.
    """
    judges = _judges()
    most_steps, most_chars = _AT_MOST if may_take_long else _AT_ONCE
    chars = sum(len(step.content) for step in trace.steps)
    if not judges or len(trace.steps) > most_steps or chars > most_chars:
        return None
    found: list[BrokenRule] = []
    for judge in judges:
        try:
            found += [_broken(one) for one in judge(trace) if one.outcome == "fail" or _is_open(one)]
        except Exception:  # third-party code
            _logger.exception("rules could not be checked on trace %s", trace.trace_id)
    return found


def _is_open(judged: Judged) -> bool:
    return judged.outcome == "inconclusive" and judged.step is not None


def _broken(judged: Judged) -> BrokenRule:
    return BrokenRule(
        clean(judged.contract.name),
        clean(judged.contract.title),
        judged.outcome,
        judged.step,
        clean(judged.quote),
        clean(judged.reason),
    )


@cache
def _judges() -> tuple[Callable[[MessageActionTrace], Iterable[Judged]], ...]:
    found = []
    for name, entry in plugins(_GROUP).items():
        try:
            found.append(cast("Callable[[MessageActionTrace], Iterable[Judged]]", load_entry(entry)))
        except (BlamespanError, ImportError, AttributeError) as error:
            _logger.warning("the rules of %r are not shown: %s", name, error)
    return tuple(found)
