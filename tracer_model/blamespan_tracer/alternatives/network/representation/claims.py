"""What steps claim, and whose word it was first: numbers, names, identifiers and quotes, and who builds on whom.

What agents were given beside the run's messages (prompts, documents, packets) are its inputs: who repeats them invents
nothing.

Dims: G segments, N merged steps, C occurrences of claims, E edges.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from blamespan.lazy import lazy_property
from blamespan.trace import MessageActionTrace
from blamespan_tracer.alternatives.network.representation.reading import Flag, Ints, Mask, Reading, read_texts
from blamespan_tracer.tokens import MAX_TEXT_CHARS, is_number

Floats = NDArray[np.float64]

MAX_SOURCES = 8
"""Most earlier steps that one step is said to build on: the ones it owes most."""

_MAX_INPUT_CHARS = 1_000_000
"""Of all that a run's steps were given so much is read, from the first step on: bounded time for any run."""
_MOST_NUMBERS, _FEW = 2_000, 12


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
            it (`with_inputs`).
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
    is_claim |= _mark_quotations(reading) & ~is_call[reading.segment]
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


def _mark_quotations(reading: Reading) -> Mask:
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


@dataclass(frozen=True, slots=True)
class Inputs:
    """The tokens that steps were given.

    Attributes:
        first: The segment of the first step that was given each token, as `Reading.tokens` spells it.
        numbers: The numbers among them, with that segment, ascending by segment.
    """

    first: Mapping[str, int] = field(default_factory=dict)
    numbers: tuple[tuple[int, str], ...] = ()

    def numbers_until(self, segment: int) -> list[str]:
        """List the latest numbers that steps up to that of *segment* were given."""
        return [number for first, number in self.numbers if first <= segment][-_MOST_NUMBERS:]

    def few_until(self, segment: int) -> list[str]:
        """List them where they are few enough to work others out from; of many some two come to any value."""
        numbers = self.numbers_until(segment)
        return numbers if len(numbers) <= _FEW else []

    def has(self, token: str, segment: int) -> bool:
        """Check whether a step up to that of *segment* was given *token*."""
        return self.first.get(token, segment + 1) <= segment


_NO_INPUTS = Inputs()


def read_run_inputs(trace: MessageActionTrace) -> Inputs:
    """Read what the steps of a run were given; all of each text, however long, up to a bound for the run."""
    pieces: list[str] = []
    owners: list[int] = []
    room = _MAX_INPUT_CHARS
    for step in trace.steps:
        for piece in _cut_pieces(step.input_text[:room]):
            pieces.append(piece)
            owners.append(step.index + 1)  # segment 0 is the task
        room -= len(step.input_text[:room])
    if not pieces:
        return _NO_INPUTS
    reading = read_texts(pieces)
    first: dict[str, int] = {}
    for token, piece in zip(reading.token.tolist(), reading.segment.tolist(), strict=True):
        first.setdefault(reading.tokens[token], owners[piece])
    return Inputs(first, tuple((segment, token) for token, segment in first.items() if is_number(token)))


def with_inputs(claims: Claims, reading: Reading, inputs: Inputs) -> Claims:
    """Let what a step was given come from the task's segment, where the step would else be the first to say it."""
    if not inputs.first:
        return claims
    fresh = np.flatnonzero(claims.source == claims.segment)
    tokens = claims.token[claims.claim[fresh]].tolist()
    segments = claims.segment[fresh].tolist()
    is_input = [inputs.has(reading.tokens[token], segment) for token, segment in zip(tokens, segments, strict=True)]
    source = claims.source.copy()
    source[fresh[np.array(is_input, np.bool_)]] = 0
    return replace(claims, source=source)


def _cut_pieces(text: str) -> Iterator[str]:
    """Cut a text into pieces that are read whole, between two words."""
    while len(text) > MAX_TEXT_CHARS:
        end = max(text.rfind(" ", 0, MAX_TEXT_CHARS), text.rfind("\n", 0, MAX_TEXT_CHARS)) + 1 or MAX_TEXT_CHARS
        yield text[:end]
        text = text[end:]
    if text:
        yield text
