"""What agents were given beside the run's messages: prompts, documents, packets. Who repeats it invents nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from blamespan.trace import MessageActionTrace
from blamespan_tracer.representation.claims import Claims
from blamespan_tracer.representation.reading import MAX_STEP_CHARS, Reading, is_number, read_texts

__all__ = ["Inputs", "read_inputs", "with_inputs"]

_MAX_CHARS = 1_000_000
"""Of all that a run's steps were given so much is read, from the first step on: bounded time for any run."""
_MOST_NUMBERS, _FEW = 2_000, 12


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
        return [number for given, number in self.numbers if given <= segment][-_MOST_NUMBERS:]

    def few_until(self, segment: int) -> list[str]:
        """List them where they are few enough to work others out from; of many some two come to any value."""
        numbers = self.numbers_until(segment)
        return numbers if len(numbers) <= _FEW else []

    def has(self, token: str, segment: int) -> bool:
        """Check whether a step up to that of *segment* was given *token*."""
        return self.first.get(token, segment + 1) <= segment


_NONE = Inputs()


def read_inputs(trace: MessageActionTrace) -> Inputs:
    """Read what the steps of a run were given; all of each text, however long, up to a bound for the run."""
    pieces: list[str] = []
    owners: list[int] = []
    room = _MAX_CHARS
    for step in trace.steps:
        for piece in _pieces(step.input_text[:room]):
            pieces.append(piece)
            owners.append(step.index + 1)  # segment 0 is the task
        room -= len(step.input_text[:room])
    if not pieces:
        return _NONE
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
    is_given = [inputs.has(reading.tokens[token], segment) for token, segment in zip(tokens, segments, strict=True)]
    source = claims.source.copy()
    source[fresh[np.array(is_given, np.bool_)]] = 0
    return replace(claims, source=source)


def _pieces(text: str) -> Iterator[str]:
    """Cut a text into pieces that are read whole, between two words."""
    while len(text) > MAX_STEP_CHARS:
        end = max(text.rfind(" ", 0, MAX_STEP_CHARS), text.rfind("\n", 0, MAX_STEP_CHARS)) + 1 or MAX_STEP_CHARS
        yield text[:end]
        text = text[end:]
    if text:
        yield text
