"""Quote what speaks against the most blamed steps: the contradicted claim, or the words that break a check.

Dims: T steps of a run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from blamespan.attribution import Contradicted, Evidence
from blamespan.trace import MessageActionTrace
from blamespan_tracer.auto.observed_run import ObservedRun, strongest_contradiction
from blamespan_tracer.checks import CheckResult
from blamespan_tracer.ledger import Mention
from blamespan_tracer.ledger.ledger import TASK, Claim, Contradiction

__all__ = ["DoubtedClaim", "find_doubted_claims", "quote_steps"]

_LEAST_OF_TOP = 0.1
"""Steps with less than this much of the most blamed step's share are not quoted: nobody blames them."""

_MAX_STEPS = 3
_MAX_QUOTE_CHARS = 200
_SPACE = re.compile(r"\s")
_BORDER = re.compile(r"(?<=[.!?])\s+|\n+")


@dataclass(frozen=True, slots=True)
class DoubtedClaim:
    """A claim that a source contradicts, and that stands above usual sound claims.

    Attributes:
        claim: It.
        contradiction: The strongest against it.
        score: Of the trees, above the floor.
    """

    claim: Claim
    contradiction: Contradiction
    score: float


def find_doubted_claims(run: ObservedRun, least_score: float = 0.0) -> Mapping[int, DoubtedClaim]:
    """Return, by step, the likeliest wrong of the claims that a source contradicts.

    Args:
        run: What is observed of a run.
        least_score: Claims whose score is not above it are left out.
    """
    doubted: dict[int, DoubtedClaim] = {}
    for claim, score in zip(run.claims.claims, run.scores.tolist(), strict=True):
        if score <= least_score:
            continue
        step = claim.mention.step
        if step in doubted and doubted[step].score >= score:
            continue
        if (contradiction := strongest_contradiction(claim)) is not None:
            doubted[step] = DoubtedClaim(claim, contradiction, score)
    return doubted


def quote_steps(
    trace: MessageActionTrace,
    shares: Sequence[float],
    doubted: Mapping[int, DoubtedClaim],
    results: Sequence[CheckResult],
) -> list[Evidence]:
    """Quote what most speaks against each of the three most blamed steps against which anything speaks.

    Args:
        trace: The run.
        shares: (T,) of the blame.
        doubted: By step, its likeliest wrong claim.
        results: Of checks; the words that break one are quoted where no source contradicts the step.
    """
    broken = {
        result.step: result
        for result in reversed(results)
        if result.step is not None and result.outcome == "fail" and result.quote and not result.is_repaired
    }
    least = _LEAST_OF_TOP * max(shares, default=0.0)
    blamed = [step for step in {*doubted, *broken} if shares[step] > 0 and shares[step] >= least]
    quotes = []
    for step in sorted(blamed, key=lambda step: (-shares[step], step))[:_MAX_STEPS]:
        if step in doubted:
            quotes.append(_quote_claim(trace, doubted[step], shares[step]))
        else:
            source = broken[step].source
            contradicted = None if source is None else Contradicted(source.step, source.quote)
            quotes.append(Evidence(step, broken[step].quote, shares[step], contradicted))
    return [quote for quote in quotes if quote.quote]


def _quote_claim(trace: MessageActionTrace, doubted: DoubtedClaim, share: float) -> Evidence:
    mention, source = doubted.claim.mention, doubted.contradiction.source
    contradicted = Contradicted(None if source.step == TASK else source.step, _quote(trace, source))
    return Evidence(mention.step, _quote(trace, mention), share, contradicted)


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
