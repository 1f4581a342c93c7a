"""What a fault shows to whoever reads the run, whatever kind it was written for.

Several kinds of fault are written by the same operators: a changed number may be meant as a hallucination, as a result
misread or as a constraint broken. The text tells none of this, so the label goes by the text: what is called another
way where nothing else is to be seen could not be learnt, by people neither.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from blamespan.injecting.boundaries import Opportunity
from blamespan.taxonomy import ErrorMode, canonical, mode
from blamespan_lab.faults.wording import names, numbers

__all__ = ["shown_modes"]

_SHOWN: Mapping[str, str] = {
    "drop-fact": "mast:FM-2.4",
    "withhold": "mast:FM-2.4",
    "truncate": "blamespan:X5",
    "out-of-room": "blamespan:X5",
    "cut-context": "mast:FM-1.4 blamespan:X5",
    "forget-early": "mast:FM-1.4",
    "forget-others": "mast:FM-1.4",
    "skip-verification": "mast:FM-3.2",
}
"""By operator, for those that are of kinds of several modes: what can be seen of it."""

_MISREAD, _MISTAKEN = mode("blamespan:X3"), mode("mast:FM-2.6")
_RESTATING = ("change-number", "swap-name")
"""Operators that say one thing for another: what they show depends on whether it had been told."""


def shown_modes(
    operator: str, kinds: Sequence[ErrorMode], at: Opportunity, before: str, after: str
) -> tuple[ErrorMode, ...]:
    """Say what a fault is called by what it shows.

    Args:
        operator: What wrote it.
        kinds: What its kind is called; other taxonomies' names for the same thing stay.
        at: Where it was written.
        before: What stood there.
        after: What stands there now.
    """
    if operator in _RESTATING:
        shown: tuple[ErrorMode, ...] = (_restated(at, before, after),)
    elif operator in _SHOWN:
        shown = tuple(map(mode, _SHOWN[operator].split()))
    else:
        return tuple(kinds)
    kept = [each for each in kinds if canonical(each)[0] in shown]
    return (*kept, *(each for each in shown if each not in kept))


def _restated(at: Opportunity, before: str, after: str) -> ErrorMode:
    """Tell what was read and given wrongly from what the agent worked out itself."""
    lost = _lost(before, after)
    if not lost:
        return _MISTAKEN
    whole = re.compile(rf"(?<![\w.,]){re.escape(lost)}(?!\w|[.,][0-9])")
    return _MISREAD if any(whole.search(text) for text in (at.task, *at.heard)) else _MISTAKEN


def _lost(before: str, after: str) -> str:
    """Give the number or name that the first difference between two texts is in; empty where it is in none."""
    shorter = min(len(before), len(after))
    at = next((place for place in range(shorter) if before[place] != after[place]), shorter)
    things = [*numbers(before), *names(before)]
    return next((found.text for found in things if found.start <= at <= found.end), "")
