"""What steps claim, and whose word it was first: numbers, names, identifiers and quotes, and who builds on whom.

Dims: G segments, N merged steps, C occurrences of claims, E edges.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from blamespan.lazy import lazy_property
from blamespan_tracer.representation.reading import Flag, Ints, Mask, Reading, is_number

__all__ = ["Claims", "Dependencies", "Floats", "Segments", "dependencies", "find_claims", "is_common"]

Floats = NDArray[np.float64]

MAX_SOURCES = 8
"""Most earlier steps that one step is said to build on: the ones it owes most."""

_COMMON = frozenset((24.0, 30.0, 60.0, 100.0, 180.0, 360.0, 365.0, 1000.0, 3600.0))
"""Numbers of more than a dozen that need no source."""


@dataclass(frozen=True)
class Segments:
    """What each segment of a run is.

    Attributes:
        owner: (G,) the merged step it belongs to; -1 for the task.
        is_given: (G,) the task, or the words of somebody who cannot be blamed.
        is_result: (G,) a tool's answer.
        is_call: (G,) a call's arguments.
        speaker: (G,) who speaks, a label of this run; -1 for the task and for tools.
    """

    owner: Ints
    is_given: Mask
    is_result: Mask
    is_call: Mask
    speaker: Ints

    @lazy_property
    def is_said(self) -> Mask:
        """What an agent that decides says or calls: (G,)."""
        is_said: Mask = ~self.is_given & ~self.is_result
        return is_said

    @lazy_property
    def speaking_steps(self) -> list[int]:
        """Per segment, the merged step in which a deciding agent says it, no call; -1 for all else: (G,)."""
        steps: list[int] = np.where(self.is_said & ~self.is_call, self.owner, -1).tolist()
        return steps


@dataclass(frozen=True, slots=True)
class Claims:
    """Every occurrence of every claim, in order, once per segment.

    Attributes:
        claim: (C,) which claim; equal numbers are equal claims.
        segment: (C,) where it occurs.
        source: (C,) the segment where the run has it first, at or before `segment`; the task's where a step was given
            it (`inputs.with_inputs`).
        is_number: (C,) a number rather than a name or an identifier.
        weight: (C,) what sharing it says, 0..1: much for a rare name or a long number, little for a 2.
        in_code: (C,) whether it stands in a code block there.
        token: (distinct claims,) what each is, an index of `Reading.tokens`.
    """

    claim: Ints
    segment: Ints
    source: Ints
    is_number: Mask
    weight: Floats
    in_code: Mask
    token: Ints

    @property
    def n_claims(self) -> int:
        """How many distinct ones the run has."""
        return len(self.token)


@dataclass(frozen=True, slots=True)
class Dependencies:
    """Who builds on whom: edge e goes from the earlier step to the one that uses what it brought in.

    Attributes:
        source: (E,) the earlier merged step.
        target: (E,) the later one, ascending.
        weight: (E,) what it owes to it: the weights of the shared claims added up.
    """

    source: Ints
    target: Ints
    weight: Floats


def find_claims(reading: Reading, labels: Mask, is_call: Mask) -> Claims:
    """Find the claims of all segments.

    Args:
        reading: The run's tokens.
        labels: (V,) which tokens are agents' names: labels of this run, not claims.
        is_call: (G,) which segments are calls: all their text is quoted, and what is quoted there says nothing.

    A claim is a number, a name (capitalised where no sentence begins), an identifier (digits, underscores or capitals
    within a word) or a word in quotation marks.
    """
    is_claim, key, is_number = _keys(reading)
    is_claim |= _mark_quoted(reading) & ~is_call[reading.segment]
    is_claim &= ~labels[reading.token]
    at = np.flatnonzero(is_claim)
    n_segments = len(reading.texts)
    pair = key[at] * n_segments + reading.segment[at]
    once = np.sort(np.unique(pair, return_index=True)[1])
    at, pair = at[once], pair[once]
    claim_key, segment = pair // n_segments, pair % n_segments
    distinct, first, claim, times = np.unique(claim_key, return_index=True, return_inverse=True, return_counts=True)
    rarity = np.log1p(n_segments / times) / np.log1p(n_segments) if n_segments else np.zeros(0)
    info = _information(reading, distinct)
    return Claims(
        claim,
        segment,
        segment[first][claim],
        is_number[at],
        (rarity * info)[claim],
        reading.in_code[at],
        distinct,
    )


def _keys(reading: Reading) -> tuple[Mask, Ints, Mask]:
    """Return which tokens claim something, the key of each, and which are numbers."""
    is_number = reading.has(Flag.NUMBER)
    is_word = reading.has(Flag.WORD) & ~reading.has(Flag.STOP)
    is_capital = is_word & reading.has(Flag.CAPITAL)
    is_name = np.zeros(len(reading.tokens) + 1, np.bool_)
    is_name[reading.token[is_capital & ~reading.opens & ~reading.in_code]] = True
    is_name = is_name[reading.token] & is_capital
    is_identifier = is_word & reading.has(Flag.IDENTIFIER)
    return is_number | is_name | is_identifier, reading.token, is_number


def _mark_quoted(reading: Reading) -> Mask:
    """Return which words, but for stop words, stand between two quotation marks of one sentence."""
    is_mark = reading.has(Flag.QUOTE)
    if not is_mark.any():
        return is_mark
    so_far = np.cumsum(is_mark)
    first, end = (np.searchsorted(reading.sentence, reading.sentence, side) for side in _SIDES)
    before = np.where(first > 0, so_far[first - 1], 0)
    is_paired = (so_far[end - 1] - before) % 2 == 0
    is_inside = (so_far - before) % 2 == 1
    is_quoted: Mask = is_inside & is_paired & reading.has(Flag.WORD) & ~reading.has(Flag.STOP) & ~reading.in_code
    return is_quoted


_SIDES: tuple[Literal["left", "right"], ...] = ("left", "right")


def _information(reading: Reading, keys: Ints) -> Floats:
    """Return how much each claim says by itself: a small number may be anything."""
    tokens = [reading.tokens[key] for key in keys.tolist()]
    return np.array(
        [min(1.0, 0.15 + 0.3 * (len(token.lstrip("-")) - 1)) if is_number(token) else 1.0 for token in tokens]
    )


def dependencies(claims: Claims, segments: Segments, n_steps: int) -> Dependencies:
    """Draw an edge from where each claim comes from to every later step that an agent uses it in."""
    target, source = segments.owner[claims.segment], segments.owner[claims.source]
    uses = segments.is_said[claims.segment] & (source >= 0) & (source < target)
    if not uses.any():
        none = np.zeros(0, np.int64)
        return Dependencies(none, none, np.zeros(0))
    pairs, which = np.unique(target[uses] * n_steps + source[uses], return_inverse=True)
    weight = np.bincount(which, claims.weight[uses])
    to = pairs // n_steps
    order = np.lexsort((-weight, to))
    begins = np.searchsorted(to, to)  # `to` ascends, and lexsort keeps that
    chosen = np.sort(order[np.arange(len(to)) - begins < MAX_SOURCES])
    return Dependencies(pairs[chosen] % n_steps, to[chosen], weight[chosen])


def is_common(value: float) -> bool:
    """Check whether a number needs no source: counts, list numbers, hours, per cent."""
    return abs(value) <= 12 or value in _COMMON
