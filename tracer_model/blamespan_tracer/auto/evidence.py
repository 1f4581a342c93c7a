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
from blamespan_tracer.tokens import SENTENCE_END

_LEAST_OF_TOP = 0.1
"""Steps with less than this much of the most blamed step's share are not quoted: nobody blames them."""

_MAX_STEPS = 3
_MAX_QUOTE_CHARS = 200
_SPACE = re.compile(r"\s")


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


def find_doubted_claims(run: ObservedRun) -> Mapping[int, DoubtedClaim]:
    """Return, by step, the likeliest wrong of the claims that a source contradicts and that score above the floor."""
    doubted: dict[int, DoubtedClaim] = {}
    for claim, score in zip(run.claims.claims, run.scores.tolist(), strict=True):
        if score <= 0.0:
            continue
        step = claim.mention.step
        if step in doubted and doubted[step].score >= score:
            continue
        if (contradiction := strongest_contradiction(claim)) is not None:
            doubted[step] = DoubtedClaim(claim, contradiction, score)
    return doubted


def quote_steps(
    run: ObservedRun,
    trace: MessageActionTrace,
    shares: Sequence[float],
    doubted: Mapping[int, DoubtedClaim],
    results: Sequence[CheckResult],
    most: int = _MAX_STEPS,
) -> list[Evidence]:
    """Quote the most blamed steps, each with the words that most speak against it.

    These are a contradicted claim with its source, words that break a check, or the likeliest wrong of what the step
    states; of a step that states nothing its last sentence.

    Args:
        run: What is observed of the run.
        trace: The run.
        shares: (T,) of the blame.
        doubted: By step, its likeliest wrong claim that a source contradicts.
        results: Of checks.
        most: Steps that are quoted.
    """
    broken = {
        result.step: result
        for result in reversed(results)
        if result.step is not None and result.outcome == "fail" and result.quote and not result.is_repaired
    }
    likeliest: dict[int, tuple[float, Claim]] = {}
    for claim, score in zip(run.claims.claims, run.scores.tolist(), strict=True):
        step = claim.mention.step
        if step not in likeliest or score > likeliest[step][0]:
            likeliest[step] = score, claim
    least = _LEAST_OF_TOP * max(shares, default=0.0)
    blamed = [step for step, share in enumerate(shares) if share > 0 and share >= least]
    quotes = []
    for step in sorted(blamed, key=lambda step: (-shares[step], step))[:most]:
        contradicted, finding = None, ""
        if step in doubted:
            finding = f"claim {doubted[step].contradiction.kind}"
            source = doubted[step].contradiction.source
            quote = _quote(trace, doubted[step].claim.mention)
            contradicted = Contradicted(None if source.step == TASK else source.step, _quote(trace, source))
        elif step in broken:
            quote, shown = broken[step].quote, broken[step].source
            finding = f"check {broken[step].check.name}"
            contradicted = None if shown is None else Contradicted(shown.step, shown.quote)
        elif step in likeliest:
            quote = _quote(trace, likeliest[step][1].mention)
        else:
            content = trace.steps[step].content.rstrip()
            quote = _quote_around(content, max(0, len(content) - 1), len(content))
        quotes.append(Evidence(step, quote, shares[step], contradicted, finding))
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
    begin = max((match.end() for match in SENTENCE_END.finditer(text, max(0, start - 2_000), start)), default=0)
    after = SENTENCE_END.search(text, stop)
    end = after.start() if after else len(text)
    if start - begin > _MAX_QUOTE_CHARS // 2:
        begin = start - _MAX_QUOTE_CHARS // 2
        space = _SPACE.search(text, begin, start)  # begins with a whole word
        begin = space.end() if space else begin
    return text[begin : min(end, max(begin + _MAX_QUOTE_CHARS, stop))][:_MAX_QUOTE_CHARS].strip()
