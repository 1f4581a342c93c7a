"""What of a step's text is seen at once on the page, what is folded away, and what is left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from blamespan.analysis.showing.legible import Passage, clean, passages
from blamespan.analysis.showing.run_view import RunView, StepView

_SHOWN_CHARS = 1_500
_AROUND_CHARS = 500
"""Seen before evidence that is far down."""
_FOLDED_CHARS = 60_000
"""Of one step: more is for the raw spans."""
_RUN_CHARS = 3_000_000
"""Of one run, after which steps show their beginning only."""


@dataclass(frozen=True, slots=True)
class FoldedText:
    """The text of a step, and what the step was given.

    Attributes:
        shown: What is seen of its text at once.
        folded: What is seen when asked for: the rest, or all of it where *is_excerpt*.
        is_excerpt: Whether *shown* is the place of the evidence rather than the beginning.
        left_out: How many characters are not on the page at all.
        given: What of its input no step before it says; folded away.
        given_left_out: How many characters of that are not on the page.
    """

    shown: tuple[Passage, ...]
    folded: tuple[Passage, ...]
    is_excerpt: bool
    left_out: int
    given: str
    given_left_out: int


def fold_texts(view: RunView, first: int, most: int) -> dict[int, FoldedText]:
    """Fold the texts of *most* steps from index *first* on; return them by the step's index."""
    room = _RUN_CHARS
    texts: dict[int, FoldedText] = {}
    for item in view.steps[: first + most]:
        chars = max(_SHOWN_CHARS, min(_FOLDED_CHARS, room))
        if item.step.index >= first:
            texts[item.step.index] = _fold(item, chars)
        room -= min(len(item.step.content), chars) + min(len(item.step.input_text), chars)
    return texts


def _fold(item: StepView, most: int) -> FoldedText:
    """Part a step's text; where evidence is far down, its place is seen rather than the beginning."""
    step = item.step
    text, given = clean(step.content[:most]), step.input_text[:most]
    every = passages(text, item.quotes)
    evidence = next((number for number, passage in enumerate(every) if passage.is_evidence), None)
    start = sum(len(passage.text) for passage in every[:evidence]) if evidence is not None else 0
    is_excerpt = evidence is not None and start > _SHOWN_CHARS - _AROUND_CHARS
    if is_excerpt:
        around = text[start - _AROUND_CHARS : start + _SHOWN_CHARS - _AROUND_CHARS]
        shown, folded = (Passage("… "), *passages(around, item.quotes), Passage(" …")), every
    else:
        shown, folded = _split_at(every, _SHOWN_CHARS)
    return FoldedText(
        shown,
        folded,
        is_excerpt,
        left_out=max(0, len(step.content) - most),
        given=clean(given),
        given_left_out=len(step.input_text) - len(given),
    )


def _split_at(every: Sequence[Passage], at: int) -> tuple[tuple[Passage, ...], tuple[Passage, ...]]:
    """Part text after *at* characters."""
    before: list[Passage] = []
    after: list[Passage] = []
    for passage in every:
        fits = max(0, at)
        at -= len(passage.text)
        before += [Passage(passage.text[:fits], passage.is_evidence)] if fits else []
        after += [Passage(passage.text[fits:], passage.is_evidence)] if len(passage.text) > fits else []
    return tuple(before), tuple(after)
