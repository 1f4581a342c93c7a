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

from blamespan_tracer.alternatives.network.evidence.columns import Evidence
from blamespan_tracer.alternatives.network.representation.analysis import Analysis
from blamespan_tracer.alternatives.network.representation.claims import Floats
from blamespan_tracer.alternatives.network.representation.reading import Mask

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

_MAX_LACKED, _MAX_VALUES, _MAX_LATEST = 8, 40, 400
"""Things of a segment that are looked at, lacked and valued, the first; values that a thing is looked up in, the
latest."""

_MAX_NAMED = 3
"""Things that a segment only names, up to which it may lack them: who names more makes a plan."""


_COLUMNS = ("lacks", "first", "was_said", "of_task", "drops", "later")
"""Whether a step lacks something, is the first to, and somebody had said it before, or the task gives it; whether it
comes next after what somebody lacks later was said last, and does not say it again; the share of the later decisions
that lack it."""

_Thing: TypeAlias = frozenset[int]
"""The words of the task or of tools that name a thing."""


@dataclass(frozen=True, slots=True)
class _LackingSegment:
    """What a segment names.

    Attributes:
        step: Whose it is, -1 for the task's.
        lacks: What it says is not there.
        names: What it only names.
        values: What it has a value for.
    """

    step: int
    lacks: list[_Thing]
    names: list[_Thing]
    values: list[_Thing]


def find_lacking(run: Analysis) -> tuple[Floats, ...]:
    """Follow what is said to be lacking through the run, and what a few steps only name, without a value for it."""
    segments = list(_read_segments(run))
    by_words = _follow(((segment, segment.lacks) for segment in segments), run.decides)
    by_names = _follow(((segment, segment.names) for segment in segments), run.decides)
    return *by_words.values(), *(by_names[name] for name in _COLUMNS[:-1])


LACKING = Evidence(
    find_lacking,
    (
        "lacks something",
        "is the first to lack it",
        "lacks what was said",
        "lacks what the task gives",
        "drops what is lacked later",
        "lacked later",
        "only names something",
        "is the first to only name it",
        "only names what was said",
        "only names what the task gives",
        "drops what is only named later",
    ),
    shares=frozenset(("lacked later",)),
)


def _follow(segments: Iterable[tuple[_LackingSegment, Sequence[_Thing]]], decides: Mask) -> dict[str, Floats]:
    """Return for every step what it lacks, the things beside each segment, and who else said or lacks them."""
    columns = {name: np.zeros(len(decides)) for name in _COLUMNS}
    lacked_in: dict[_Thing, list[int]] = defaultdict(list)
    of_task: list[_Thing] = []
    latest: list[tuple[int, _Thing]] = []
    next_decision = _find_next(decides)
    for segment, things in segments:
        step = segment.step
        if step < 0:
            of_task += segment.values
            continue
        for thing in things if decides[step] else ():
            sayers = [sayer for sayer, value in latest[-_MAX_LATEST:] if thing <= value]
            columns["lacks"][step] = 1.0
            columns["first"][step] = max(columns["first"][step], thing not in lacked_in)
            columns["was_said"][step] = max(columns["was_said"][step], bool(sayers))
            is_of_task = any(thing <= value for value in of_task)
            columns["of_task"][step] = max(columns["of_task"][step], is_of_task)
            if sayers and next_decision[sayers[-1]] < step:
                columns["drops"][next_decision[sayers[-1]]] = 1.0
            lacked_in[thing].append(step)
        latest += [(step, thing) for thing in segment.values]
    columns["later"] = _share_lacked_later(lacked_in.values(), decides)
    return columns


def _share_lacked_later(lacked_in: Iterable[Sequence[int]], decides: Mask) -> Floats:
    """Return the share of the decisions after each step that lack what it lacks: (N,)."""
    after = decides.sum() - np.cumsum(decides)
    shares = np.zeros(len(decides))
    for steps in lacked_in:
        distinct = list(dict.fromkeys(steps))
        for index, step in enumerate(distinct):
            shares[step] = max(shares[step], (len(distinct) - index - 1) / max(int(after[step]), 1))
    return shares


def _find_next(decides: Mask) -> list[int]:
    """Return the first decision after each step, or the number of steps where none is left."""
    following = len(decides)
    next_decision = []
    for step in range(len(decides) - 1, -1, -1):
        next_decision.append(following)
        following = step if decides[step] else following
    return next_decision[::-1]


def _read_segments(run: Analysis) -> Iterator[_LackingSegment]:
    """Read what each segment that is neither a call nor a result names."""
    segments, lacks = run.segments, run.reading.known(_LACKS)
    names_things = run.facts.subject_tokens - lacks
    for segment, own in groupby(run.sentences, lambda sentence: sentence.segment):
        if segments.is_result[segment] or segments.is_call[segment]:
            continue
        lacking: list[_Thing] = []
        naming: list[_Thing] = []
        values: list[_Thing] = []
        for sentence in own:
            thing = frozenset((sentence.words | sentence.names) & names_things)
            if not _LEAST_WORDS <= len(thing) <= _MAX_WORDS:
                continue
            if sentence.value >= 0:
                values.append(thing)
                continue
            naming.append(thing)
            if sentence.words & lacks:
                lacking.append(thing)
        values, lacking = values[:_MAX_VALUES], lacking[:_MAX_LACKED]
        lacking = [thing for thing in lacking if not any(thing <= value for value in values)]
        names = [] if values or len(set(naming)) > _MAX_NAMED else naming[:_MAX_LACKED]
        yield _LackingSegment(int(segments.owner[segment]), lacking, names, values)
