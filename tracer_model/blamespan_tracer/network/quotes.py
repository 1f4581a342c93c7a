"""The words of a blamed step that carried the decision: what breaks a contract, or what the score falls without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from blamespan.attribution import Evidence
from blamespan.trace import MessageActionTrace
from blamespan_tracer.contracts import Verdict
from blamespan_tracer.evidence import MAX_QUOTE_CHARS, sentences_of
from blamespan_tracer.network.inputs import RunInputs

__all__ = ["Quotes", "quotes_of"]

_MAX_STEPS = 3
_MAX_SENTENCES = 12
"""Of a longer step the first and last half of this many are tried,"""

_MAX_READINGS = 1_500
"""and fewer in long runs: as many as give this many readings of a step."""

_LEAST_SHARE = 0.02
"""Steps blamed less are not quoted."""


@dataclass(frozen=True, slots=True)
class Quotes:
    """What a run is quoted with, but for the choice of a sentence, which needs the network.

    Attributes:
        steps: The original steps to quote, the most blamed first, each with its share and its words; of the first
            these may be open.
        place: The merged step that the first is part of.
        sentences: Of the first, to choose from, two or more; empty where nothing is open.
    """

    steps: tuple[tuple[int, float, str], ...]
    place: int
    sentences: tuple[str, ...]

    def evidence(self, scores: Sequence[float]) -> list[Evidence]:
        """Quote the steps.

        Args:
            scores: For each of `sentences` the step's pointer score without it: quoted is the one without which it
                looks least wrong, the first of several alike.
        """
        chosen = self.sentences[int(np.argmin(scores))][:MAX_QUOTE_CHARS].strip() if self.sentences else ""
        quoted = [(step, share, quote or chosen * (not rank)) for rank, (step, share, quote) in enumerate(self.steps)]
        return [Evidence(step, quote, share) for step, share, quote in quoted if quote]


def quotes_of(
    trace: MessageActionTrace, run: RunInputs, shares: Sequence[float], verdicts: Sequence[Verdict]
) -> Quotes:
    """Choose what to quote of the most blamed steps: what breaks a contract, and of the first at least a sentence.

    Args:
        trace: The run.
        run: What the network read of it.
        shares: Of the original steps.
        verdicts: Of the contracts: words that break one are quoted first.
    """
    broken = {
        verdict.step: verdict.quote for verdict in reversed(verdicts) if verdict.outcome == "fail" and verdict.quote
    }
    ranked = sorted(range(len(shares)), key=lambda step: (-shares[step], step))[:_MAX_STEPS]
    first = ranked[0]
    most = max(2, min(_MAX_SENTENCES, _MAX_READINGS // len(run)))
    sentences = () if broken.get(first) else sentences_of(trace.steps[first].content, most)
    quotes = {first: sentences[0][:MAX_QUOTE_CHARS].strip()} if len(sentences) == 1 else {}
    return Quotes(
        steps=tuple(
            (step, shares[step], broken.get(step) or quotes.get(step, ""))
            for step in ranked
            if shares[step] >= _LEAST_SHARE
        ),
        place=next(place for place, steps in enumerate(run.origins) if first in steps),
        sentences=sentences if len(sentences) > 1 and shares[first] >= _LEAST_SHARE else (),
    )
