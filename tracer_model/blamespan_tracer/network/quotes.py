"""The words of a blamed step that carried the decision: what breaks a contract, or what the score falls without."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from blamespan.attribution import Evidence
from blamespan.trace import MessageActionTrace
from blamespan_tracer.contracts import Verdict
from blamespan_tracer.evidence import MAX_QUOTE_CHARS
from blamespan_tracer.network.inputs import RunInputs

__all__ = ["evidence_of"]

_MAX_STEPS = 3
_MAX_SENTENCES = 12
"""Of a longer step the first and last half of this many are tried,"""

_MAX_READINGS = 1_500
"""and fewer in long runs: as many as give this many readings of a step."""

_MAX_READ_CHARS = 8_000

_LEAST_SHARE = 0.02
"""Steps blamed less are not quoted."""

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")


def evidence_of(
    trace: MessageActionTrace,
    run: RunInputs,
    shares: Sequence[float],
    verdicts: Sequence[Verdict],
    score: Callable[[int, Sequence[str]], Sequence[float]],
) -> list[Evidence]:
    """Quote the most blamed steps: what breaks a contract, and of the first at least its heaviest sentence.

    Args:
        trace: The run.
        run: What the network read of it.
        shares: Of the original steps.
        verdicts: Of the contracts: words that break one are quoted first.
        score: For a merged step and texts in place of its own: its pointer score with each.
    """
    broken = {
        verdict.step: verdict.quote for verdict in reversed(verdicts) if verdict.outcome == "fail" and verdict.quote
    }
    place = {step: number for number, steps in enumerate(run.origins) for step in steps}
    ranked = sorted(range(len(shares)), key=lambda step: (-shares[step], step))[:_MAX_STEPS]
    found = []
    for rank, step in enumerate(ranked):
        if shares[step] < _LEAST_SHARE:
            break
        quote = broken.get(step)
        if not quote and rank == 0:
            most = max(2, min(_MAX_SENTENCES, _MAX_READINGS // len(run)))
            quote = _heaviest(trace.steps[step].content, most, partial(score, place[step]))
        if quote:
            found.append(Evidence(step, quote, shares[step]))
    return found


def _heaviest(text: str, most: int, score: Callable[[Sequence[str]], Sequence[float]]) -> str:
    """Find the sentence without which the step looks least wrong, of at most *most*; the first of several alike."""
    sentences = [part.strip() for part in _SENTENCE_END.split(text[:_MAX_READ_CHARS]) if part.strip()]
    if len(sentences) > most:
        sentences = [*sentences[: most // 2], *sentences[-(most - most // 2) :]]
    if len(sentences) < 2:
        return sentences[0][:MAX_QUOTE_CHARS].strip() if sentences else ""
    without = [" ".join(sentences[:number] + sentences[number + 1 :]) for number in range(len(sentences))]
    return sentences[int(np.argmin(score(without)))][:MAX_QUOTE_CHARS].strip()
