"""Two runs side by side: which steps are the same, and where they part. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher

from blamespan.analysis.showing.run_view import RunView, StepView

MOST_COMPARED = 1_000
"""Steps of each run that are compared."""


@dataclass(frozen=True, slots=True)
class StepPair:
    """What stands in one line.

    Attributes:
        left: Step of the first run, or None.
        right: Step of the second run, or None.
        is_same: Whether both are there, by the same agent, of the same kind, with the same words.
        number: Place of the line.
    """

    left: StepView | None
    right: StepView | None
    is_same: bool
    number: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs side by side.

    Attributes:
        left: The first run.
        right: The second run.
        pairs: Their steps, line by line.
        parting: The first line that is not the same; None where all are.
        left_out: Steps of both that are not compared.
    """

    left: RunView
    right: RunView
    pairs: tuple[StepPair, ...]
    parting: StepPair | None
    left_out: int


def compare(left: RunView, right: RunView) -> Comparison:
    """Align the steps of two runs."""
    pairs = tuple(_pairs(left.steps[:MOST_COMPARED], right.steps[:MOST_COMPARED]))
    left_out = max(0, len(left.steps) - MOST_COMPARED) + max(0, len(right.steps) - MOST_COMPARED)
    return Comparison(left, right, pairs, next((pair for pair in pairs if not pair.is_same), None), left_out)


def _pairs(left: tuple[StepView, ...], right: tuple[StepView, ...]) -> Iterator[StepPair]:
    number = 0
    matcher = SequenceMatcher(None, _keys(left), _keys(right), autojunk=False)
    for kind, from_left, to_left, from_right, to_right in matcher.get_opcodes():
        for offset in range(max(to_left - from_left, to_right - from_right)):
            at_left, at_right = from_left + offset, from_right + offset
            yield StepPair(
                left[at_left] if at_left < to_left else None,
                right[at_right] if at_right < to_right else None,
                kind == "equal",
                number,
            )
            number += 1


def _keys(steps: tuple[StepView, ...]) -> list[tuple[str, str, int, int]]:
    """List what steps are told apart by: who says what, and for the how manieth time.

    No key comes twice in a run: to match runs that repeat a few messages a thousand times would take for ever.
    """
    times: Counter[tuple[str, str, int]] = Counter()
    keys: list[tuple[str, str, int, int]] = []
    for step in steps:
        key = (step.step.agent, step.step.kind, hash(step.step.content))
        times[key] += 1
        keys.append((*key, times[key]))
    return keys
