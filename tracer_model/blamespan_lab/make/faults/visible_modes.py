"""What a fault shows to whoever reads the run, whatever kind it was written for.

Several kinds of fault are written by the same operators: a changed number may be meant as a hallucination, as a result
misread or as a constraint broken. The text tells none of this, so the label goes by the text: what is called another
way where nothing else is to be seen could not be learnt, by people neither.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from blamespan.intercepting.boundaries import Opportunity
from blamespan.taxonomy import ErrorMode, canonical, mode
from blamespan_lab.make.faults.text_parts import find_names, find_numbers

__all__ = ["find_visible_modes"]

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


def find_visible_modes(
    operator: str, kinds: Sequence[ErrorMode], at: Opportunity, before: str, after: str
) -> tuple[ErrorMode, ...]:
    """Return what a fault is called by what it shows.

    Args:
        operator: What wrote it.
        kinds: What its kind is called; other taxonomies' names for the same thing stay.
        at: Where it was written.
        before: What stood there.
        after: What stands there now.
    """
    if operator in _RESTATING:
        shown: tuple[ErrorMode, ...] = (_classify_restatement(at, before, after),)
    elif operator in _SHOWN:
        shown = tuple(map(mode, _SHOWN[operator].split()))
    else:
        return tuple(kinds)
    same_modes = [shown_mode for shown_mode in kinds if canonical(shown_mode)[0] in shown]
    return (*same_modes, *(shown_mode for shown_mode in shown if shown_mode not in same_modes))


def _classify_restatement(at: Opportunity, before: str, after: str) -> ErrorMode:
    """Distinguish what was read and given wrongly from what the agent worked out itself."""
    lost = _find_lost(before, after)
    if not lost:
        return _MISTAKEN
    whole = re.compile(rf"(?<![\w.,]){re.escape(lost)}(?!\w|[.,][0-9])")
    return _MISREAD if any(whole.search(text) for text in (at.task, *at.heard)) else _MISTAKEN


def _find_lost(before: str, after: str) -> str:
    """Return the number or name that the first difference between two texts is in; empty where it is in none."""
    shorter = min(len(before), len(after))
    at = next((index for index in range(shorter) if before[index] != after[index]), shorter)
    things = [*find_numbers(before), *find_names(before)]
    return next((part.text for part in things if part.start <= at <= part.end), "")
