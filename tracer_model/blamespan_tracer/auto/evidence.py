"""Quote the claims that stand out in the most blamed steps, each as the sentence that makes it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from blamespan.attribution import Contradicted, Evidence
from blamespan.trace import MessageActionTrace
from blamespan_tracer.auto.observations import Observation, ObservedRun, SurpriseTable
from blamespan_tracer.ledger import Mention
from blamespan_tracer.ledger.ledger import TASK

__all__ = ["MIN_SURPRISE", "quote_claims"]

MIN_SURPRISE = 5.0
"""Observations that more than one sound claim in 150 shows are no evidence."""

_LEAST_OF_TOP = 0.1
"""Steps with less than this much of the most blamed step's share are not quoted: nobody blames them."""

_MAX_STEPS = 3
_MAX_QUOTE_CHARS = 200
_SPACE = re.compile(r"\s")
_BORDER = re.compile(r"(?<=[.!?])\s+|\n+")


def quote_claims(
    trace: MessageActionTrace, shares: Sequence[float], run: ObservedRun, table: SurpriseTable
) -> list[Evidence]:
    """Quote the contradicted claim that most speaks against each of the three most blamed steps that have one.

    Args:
        trace: The run.
        shares: (T,) of the blame.
        run: What is observed of it.
        table: Says how surprising that is.
    """
    claims = zip(run.claims.steps.tolist(), run.claims.places.tolist(), strict=True)
    scores = dict(zip(claims, run.scores.tolist(), strict=True))
    best: dict[int, tuple[float, Observation]] = {}
    for observation in run.observations:
        if observation.claim is None or observation.kind == "unsupported":
            continue
        surprise = table.surprise(observation)
        together = surprise + scores.get((observation.step, observation.place), 0.0)
        if surprise >= MIN_SURPRISE and together > best.get(observation.step, (0.0, None))[0]:
            best[observation.step] = together, observation
    least = _LEAST_OF_TOP * max(shares, default=0.0)
    blamed = [step for step in best if shares[step] > 0 and shares[step] >= least]
    ranked = sorted(blamed, key=lambda step: (-shares[step], step))[:_MAX_STEPS]
    quotes = []
    for step in ranked:
        observation = best[step][1]
        assert observation.claim is not None
        quote, source = _quote(trace, observation.claim.mention), observation.source
        contradicted = None
        if source is not None:
            contradicted = Contradicted(None if source.step == TASK else source.step, _quote(trace, source))
        quotes.append(Evidence(step, quote, shares[step], contradicted))
    return [quote for quote in quotes if quote.quote]


def _quote(trace: MessageActionTrace, mention: Mention) -> str:
    """Return the sentence or line around a value where it is stated."""
    if mention.step == TASK:
        text = trace.task
    else:
        step = trace.steps[mention.step]
        text = step.input_text if mention.is_input else step.content
    return _quote_around(text, mention.value.start, mention.value.stop)


def _quote_around(text: str, start: int, stop: int) -> str:
    """Return the sentence or line around a value, at most 200 characters of it."""
    begin = max((match.end() for match in _BORDER.finditer(text, max(0, start - 2_000), start)), default=0)
    after = _BORDER.search(text, stop)
    end = after.start() if after else len(text)
    if start - begin > _MAX_QUOTE_CHARS // 2:
        begin = start - _MAX_QUOTE_CHARS // 2
        space = _SPACE.search(text, begin, start)  # begins with a whole word
        begin = space.end() if space else begin
    return text[begin : min(end, max(begin + _MAX_QUOTE_CHARS, stop))][:_MAX_QUOTE_CHARS].strip()
