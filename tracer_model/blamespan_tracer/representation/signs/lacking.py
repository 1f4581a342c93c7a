"""Who lacks what: "I cannot go on without the rent of the house", and who was the first to say so.

Where several lack one thing, the first of them is nearest to whoever should have found it, or passed it on. Words for
lacking are many: who only names a thing, and has no value for anything, may well lack it, and is followed likewise.

Dims: N merged steps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from blamespan_tracer.representation.analysis import Analysis
from blamespan_tracer.representation.reading import Mask

__all__ = ["Lacking", "LackingAndNaming", "find_lacking"]

Floats = NDArray[np.float64]

_LACK_WORDS = (
    "lack lacks lacking lacked need needs needing needed require requires requiring required missing misses absent "
    "absence waiting wait waits await awaits awaiting awaited unknown unavailable unobtainable unreachable without "
    "cannot can't couldn't unable impossible blocked blocking blocker stuck stalled halted paused empty nothing "
    "nowhere no sorry yet share provide supply request requests requested ask asking undetermined undefined unclear "
    "unstated unspecified unresolved unanswered outstanding pending gap gaps incomplete insufficient could haven't "
    "hasn't"
)
_LACKS = frozenset(_LACK_WORDS.split())
"""Words by which a sentence says that something is not there, or asks for it."""

_LEAST_WORDS, _MAX_WORDS = 2, 24
"""Words of the task or of tools that name a thing; one alone names too much."""

_MAX_LACKED, _MAX_TELLS, _MAX_TOLD = 8, 40, 400
"""Things of a segment that are looked at, lacked and told, the first; values that each is looked up in, the latest."""

_MAX_NAMED = 3
"""Things that a segment only names, up to which it may lack them: who names more makes a plan."""


@dataclass(frozen=True, slots=True)
class Lacking:
    """Per merged step: (N,) each.

    Attributes:
        lacks: Whether it lacks something,
        first: and is the first to lack it,
        known: and somebody had said it before,
        given: or the task gives it.
        later: Share of the decisions after it that lack the same.
        drops: Whether it comes next after what somebody lacks later was said last, and does not say it again.
    """

    lacks: Floats
    first: Floats
    known: Floats
    given: Floats
    later: Floats
    drops: Floats


@dataclass(frozen=True, slots=True)
class LackingAndNaming:
    """Both ways to tell what a step lacks.

    Attributes:
        said: By words for it.
        named: By things that a step only names, a few of them, while it has no value for anything.
    """

    said: Lacking
    named: Lacking


_Thing: TypeAlias = frozenset[int]
"""The words of the task or of tools that name a thing."""


@dataclass(frozen=True, slots=True)
class _Passage:
    """What a segment names.

    Attributes:
        step: Whose it is, -1 for the task's.
        lacks: What it says is not there.
        names: What it only names.
        tells: What it has a value for.
    """

    step: int
    lacks: list[_Thing]
    names: list[_Thing]
    tells: list[_Thing]


def find_lacking(run: Analysis) -> LackingAndNaming:
    """Follow what is said to be lacking, or only named, through the run."""
    passages = list(_passages(run))
    return LackingAndNaming(
        said=_followed(((each, each.lacks) for each in passages), run.decides),
        named=_followed(((each, each.names) for each in passages), run.decides),
    )


def _followed(passages: Iterable[tuple[_Passage, Sequence[_Thing]]], decides: Mask) -> Lacking:
    """Return for every step what it lacks, the things beside each passage, and who else said or lacks them."""
    found = {name: np.zeros(len(decides)) for name in Lacking.__slots__}
    lacked_in: dict[_Thing, list[int]] = defaultdict(list)
    of_task: list[_Thing] = []
    told: list[tuple[int, _Thing]] = []
    next_decision = _next(decides)
    for passage, things in passages:
        step = passage.step
        if step < 0:
            of_task += passage.tells
            continue
        for thing in things if decides[step] else ():
            tellers = [teller for teller, each in told[-_MAX_TOLD:] if thing <= each]
            found["lacks"][step] = 1.0
            found["first"][step] = max(found["first"][step], thing not in lacked_in)
            found["known"][step] = max(found["known"][step], bool(tellers))
            found["given"][step] = max(found["given"][step], any(thing <= each for each in of_task))
            if tellers and next_decision[tellers[-1]] < step:
                found["drops"][next_decision[tellers[-1]]] = 1.0
            lacked_in[thing].append(step)
        told += [(step, thing) for thing in passage.tells]
    found["later"] = _lacked_later(lacked_in.values(), decides)
    return Lacking(**found)


def _lacked_later(lacked_in: Iterable[Sequence[int]], decides: Mask) -> Floats:
    """Return the share of the decisions after each step that lack what it lacks: (N,)."""
    after = decides.sum() - np.cumsum(decides)
    shares = np.zeros(len(decides))
    for steps in lacked_in:
        distinct = list(dict.fromkeys(steps))
        for place, step in enumerate(distinct):
            shares[step] = max(shares[step], (len(distinct) - place - 1) / max(int(after[step]), 1))
    return shares


def _next(decides: Mask) -> list[int]:
    """Return the first decision after each step, or the number of steps where none is left."""
    following = len(decides)
    found = []
    for step in range(len(decides) - 1, -1, -1):
        found.append(following)
        following = step if decides[step] else following
    return found[::-1]


def _passages(run: Analysis) -> Iterator[_Passage]:
    """Read what each segment that is neither a call nor a result names."""
    segments, lacks = run.segments, run.reading.known(_LACKS)
    names_things = run.facts.given - lacks
    for segment, own in groupby(run.sentences, lambda each: each.segment):
        if segments.is_result[segment] or segments.is_call[segment]:
            continue
        lacking: list[_Thing] = []
        naming: list[_Thing] = []
        tells: list[_Thing] = []
        for sentence in own:
            thing = frozenset((sentence.words | sentence.names) & names_things)
            if not _LEAST_WORDS <= len(thing) <= _MAX_WORDS:
                continue
            if sentence.value >= 0:
                tells.append(thing)
                continue
            naming.append(thing)
            if sentence.words & lacks:
                lacking.append(thing)
        tells, lacking = tells[:_MAX_TELLS], lacking[:_MAX_LACKED]
        lacking = [each for each in lacking if not any(each <= value for value in tells)]
        names = [] if tells or len(set(naming)) > _MAX_NAMED else naming[:_MAX_LACKED]
        yield _Passage(int(segments.owner[segment]), lacking, names, tells)
