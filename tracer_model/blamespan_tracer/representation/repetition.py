"""How much of a step was said before, by itself and by others, and how much is said again later.

Dims: G segments, T tokens, S shingles (four tokens in a row).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blamespan_tracer.representation.claims import Segments
from blamespan_tracer.representation.reading import Flag, Ints, Reading

__all__ = ["Repetition", "find_repetition"]

Floats = NDArray[np.float64]

_WIDTH = 4
"""Tokens of a shingle: three are common by chance, five miss what is slightly reworded."""


@dataclass(frozen=True, slots=True)
class Repetition:
    """Per merged step, as shares of its shingles: (N,) each, 0 for a step too short to have any.

    Attributes:
        own: Said before by the same speaker.
        others: Said before, but by another agent that decides.
        given: Said before by the task, a user or a tool.
        later: Said again later by another agent.
    """

    own: Floats
    others: Floats
    given: Floats
    later: Floats


def find_repetition(reading: Reading, segments: Segments, n_steps: int) -> Repetition:
    """Compare the shingles of all segments."""
    shingle, segment = _shingles(reading)
    step, speaker = segments.owner[segment], segments.speaker[segment]
    said = segments.is_said[segment]
    n_speakers = int(speaker.max(initial=0)) + 1
    own_first = _first(shingle * n_speakers + speaker.clip(min=0), np.where(said, step, n_steps))
    agents_first = _first(shingle, np.where(said, step, n_steps))
    given_first = _first(shingle, np.where(said, n_steps, step))
    last_other = -_first(shingle, np.where(said, -step, n_steps))
    size = np.bincount(step[said], minlength=n_steps).clip(min=1)

    def share(of: NDArray[np.bool_]) -> Floats:
        shares: Floats = np.bincount(step[of & said], minlength=n_steps) / size
        return shares

    is_own = own_first < step
    return Repetition(
        own=share(is_own),
        others=share((agents_first < step) & ~is_own),
        given=share(given_first < step),
        later=share(last_other > step),
    )


def _shingles(reading: Reading) -> tuple[Ints, Ints]:
    """Number the shingles of words and numbers, each once per segment: (S,) and the segment of each (S,)."""
    at = np.flatnonzero(reading.has(Flag.WORD | Flag.NUMBER))
    token, segment = reading.token[at].astype(np.uint64), reading.segment[at]
    if len(at) < _WIDTH:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    mixed = np.zeros(len(at) - _WIDTH + 1, np.uint64)
    for place in range(_WIDTH):
        mixed = (mixed ^ token[place : len(token) - _WIDTH + 1 + place]) * np.uint64(0x9E3779B185EBCA87)
        mixed ^= mixed >> np.uint64(29)
    whole = segment[: len(mixed)] == segment[_WIDTH - 1 :]
    number = np.unique(mixed[whole], return_inverse=True)[1].astype(np.int64)
    return number, segment[: len(mixed)][whole]


def _first(key: Ints, step: Ints) -> Ints:
    """Return each entry the least step of all entries with its key."""
    if not len(key):
        return key
    _, which = np.unique(key, return_inverse=True)
    least = np.full(int(which.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(least, which, step)
    return least[which]
