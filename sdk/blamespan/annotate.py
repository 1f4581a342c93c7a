"""Write a verdict onto the spans of its run: pure; statuses, ids and times stay as they were.

A silent failure's span stays OK: flipping it would corrupt everybody's error-rate alerts.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import cast, get_args

from blamespan import conventions as words
from blamespan.attribution import (
    Attribution,
    Cause,
    CauseKind,
    Contradicted,
    Evidence,
    ModeBlame,
    Opinion,
    TracerIdentity,
    Verification,
    VerificationOutcome,
)
from blamespan.errors import ConfigError
from blamespan.rebuilding.rebuild import rebuild_run
from blamespan.rebuilding.runs import Run
from blamespan.spans import Attributes, Scope, Span, SpanLink
from blamespan.taxonomy import mode
from blamespan.trace import AttributeValue, MessageActionTrace, Step

_NO_ID_YET = "f" * 16
_FAMILIES = (
    "blamespan.blame.",
    "blamespan.cause.",
    "blamespan.claim.",
    "blamespan.contradiction.",
    "blamespan.error.",
    "blamespan.failure.",
    "blamespan.opinion.",
    "blamespan.schema.",
    "blamespan.tracer.",
    "blamespan.verification.",
)
_OTHERS = frozenset(
    {
        words.ABSTAINED,
        words.EVIDENCE,
        words.FINDING,
        words.LIKENESS,
        words.PARTIAL,
        words.REVISION,
        words.VERDICT,
        words.VERIFIED,
    }
)
"""What a verdict says on the spans of its run: all keys of the families, and these. The numbers of steps are not among
them, as they may be the source's."""
_IDENTITY = (words.TRACER_NAME, words.TRACER_VERSION, words.TRACER_WEIGHTS)


def annotate(run: Run, attribution: Attribution) -> list[Span]:
    """Copy the run's spans with the verdict on them.

    Every step's span gets its score and its index; those put to the test what came of it; the run's span the summary,
    with the verdict in a word. Where that word is one of `FAILURE_WORDS`, the suspects (the steps of `step_set` and the
    decisive one) get their rank, error mode and evidence. Where a run has no span of its own, the summary stands on the
    decisive step's, or the first step's where nobody is named. After an abstention only the run's span says so. A tool
    span stands for its call: a result is nobody's decision.

    Steps go by the numbers that their spans give them. Part of a run, rebuilt, counts from 0 again: where a span
    says which step it is, that stays and the verdict names it so.

    Returns:
        All spans of the run, in their order; those without a part in the verdict are the same objects.
    """
    by_span = verdict_attributes(run, attribution)
    return [span.with_attributes(by_span.get(span.span_id, {})) for span in run.spans]


def without_verdict(span: Span) -> Span:
    """Copy a span without what an earlier verdict wrote on it; a span that stands for one stays as it is."""
    if is_verdict(span) or not any(map(is_verdict_word, span.attributes)):
        return span
    return replace(span, attributes={key: value for key, value in span.attributes.items() if not is_verdict_word(key)})


def is_verdict_word(key: str) -> bool:
    """Check whether an attribute's key is one that only a verdict has."""
    return key.startswith(_FAMILIES) or key in _OTHERS


def received_word(key: str) -> str:
    """Return the key under which a verdict's word is kept that somebody else sent."""
    return words.RECEIVED + key.removeprefix("blamespan.")


def verdict_attributes(run: Run, attribution: Attribution) -> dict[str, Attributes]:
    """List what `annotate` writes, by span id; spans without a part in the verdict are left out."""
    by_span: dict[str, Attributes] = {}
    numbers = step_numbers(run)
    if attribution.abstained is None:
        step_attributes = _step_attributes(attribution, numbers)
        for span in run.spans:
            if words.STEP_INDEX in span.attributes and span.span_id in step_attributes:
                step_attributes[span.span_id].pop(words.STEP_INDEX, None)
        by_span.update(step_attributes)
    summary_at = run.root.span_id if run.root else _summary_step(attribution)
    if summary_at:
        by_span[summary_at] = {**by_span.get(summary_at, {}), **_summary(attribution, numbers)}
    return by_span


def step_numbers(run: Run) -> dict[str, int]:
    """List the numbers that a run's spans give their steps, by span id; those that give none are left out."""
    return {span.span_id: number for span in run.spans if (number := span.integer(words.STEP_INDEX)) is not None}


def verdict_span(run: Run, attribution: Attribution) -> Span:
    """Make a span that stands for a verdict on spans that are out already: they must not be sent again.

    It lies below the decisive step's span, with a link to it, and repeats all that would stand on that span and
    on the run's. Where nobody is named it lies below the run's span, and says that, or why. Its id follows from
    the trace, the run, the tracer and the revision alone, so that the same verdict is the same span.
    """
    names_suspects = attribution.names_suspects
    target_id = _summary_step(attribution) if names_suspects or run.root is None else run.root.span_id
    target = next((span for span in run.spans if span.span_id == target_id), run.root or run.spans[0])
    numbers = step_numbers(run)
    attributes = dict(_summary(attribution, numbers))
    agent = ""
    if names_suspects and attribution.decisive_step is not None:
        agent = cut(attribution.steps[attribution.decisive_step].agent, 200)
        attributes = {
            **_step_attributes(attribution, numbers).get(target.span_id, {}),
            **attributes,
            words.BLAME_SPAN_NAME: cut(target.name),
        }
    made = Span(
        trace_id=target.trace_id,
        span_id=_NO_ID_YET,
        parent_id=target.span_id,
        name=f"verdict {agent}".rstrip(),
        start_ns=target.start_ns,
        end_ns=max(target.start_ns, target.end_ns),
        attributes=attributes,
        links=(SpanLink(target.trace_id, target.span_id),),
        resource=target.resource,
        scope=Scope(words.VERDICT_SCOPE, attribution.tracer.version),
    )
    return replace(made, span_id=_id_of(made, run))


def is_verdict(span: Span) -> bool:
    """Check whether a span was made by `verdict_span`."""
    return span.scope.name == words.VERDICT_SCOPE and words.TRACER_NAME in span.attributes


def read_verdict(run: Run, trace: MessageActionTrace | None = None) -> Attribution | None:
    """Read the verdict that `annotate` wrote on a run's spans; None where there is none.

    What the wire does not carry is not guessed: the agents and suspects come back, modes only of
    suspects, and scores as rounded there. Where no suspect is named, who would be to blame follows from the shares.

    Args:
        run: The run.
        trace: The run as rebuilt, where that was done already.
    """
    trace = trace or rebuild_run(run)
    spans = {span.span_id: span for span in run.spans}
    verdict_spans = [span for span in run.spans if words.TRACER_NAME in span.attributes and not is_verdict(span)]
    if not verdict_spans:
        return None
    tracer = TracerIdentity(*(verdict_spans[0].text(key) or "" for key in _IDENTITY))
    revision = verdict_spans[0].integer(words.REVISION) or 0
    numbers = step_numbers(run)
    by_number = {
        numbers.get(step.span_id, step.index): step.index for step in trace.steps if step.kind != "tool_result"
    }
    opinions = tuple(
        replace(item, step=None if item.step is None else by_number.get(item.step))
        for item in read_opinions(verdict_spans[0])
    )
    if words.ABSTAINED in verdict_spans[0].attributes:
        reason = verdict_spans[0].text(words.ABSTAINED) or ""
        return replace(Attribution.abstain(trace, reason, tracer), revision=revision, opinions=opinions)
    score = _number(verdict_spans[0], words.FAILURE_SCORE)
    is_told = words.FAILURE_UNAIDED_SCORE in verdict_spans[0].attributes
    unaided_score = _number(verdict_spans[0], words.FAILURE_UNAIDED_SCORE) if is_told else None
    shares = _shares(trace, spans)
    if not any(shares) and verdict_spans[0].text(words.VERDICT) is not None:
        blameless = Attribution.blameless(trace, failure_score=score, tracer=tracer, unaided_score=unaided_score)
        return replace(blameless, revision=revision, cause=_read_cause(trace, verdict_spans[0]))
    decisions = [(step, spans[step.span_id]) for step in trace.steps if step.kind != "tool_result"]
    ranked = sorted((span.integer(words.BLAME_RANK) or 0, step.index) for step, span in decisions)
    suspects = [trace.steps[index] for rank, index in ranked if rank]
    verdict = Attribution.of(
        trace,
        shares,
        failure_score=score,
        tracer=tracer,
        modes=_unique(_read_mode(step.agent, spans[step.span_id]) for step in suspects),
        evidence=[
            Evidence(
                step.index,
                quote,
                _number(spans[step.span_id], words.BLAME_SCORE),
                _read_contradicted(trace, spans[step.span_id]),
                spans[step.span_id].text(words.FINDING) or "",
            )
            for step in suspects
            if (quote := spans[step.span_id].text(words.EVIDENCE))
        ],
        by_evidence=[_read_part(trace, step, spans[step.span_id]) for step in trace.steps],
    )
    return replace(
        verdict,
        revision=revision,
        decisive_step=suspects[0].index if suspects else verdict.decisive_step,
        cause=_read_cause(trace, verdict_spans[0]),
        step_set=tuple(sorted(step.index for step in suspects)) or verdict.step_set,
        unaided_score=unaided_score,
        opinions=opinions,
        verified=tuple(
            item for step, span in decisions if (item := _read_verification(step.index, span.attributes)) is not None
        ),
    )


def read_verifications(trace: MessageActionTrace) -> tuple[Verification, ...]:
    """Read which steps of a rebuilt run its spans say were put to the test, and what came of it, in step order."""
    found = (_read_verification(step.index, step.attributes) for step in trace.steps)
    return tuple([item for item in found if item is not None])


def read_opinions(span: Span) -> tuple[Opinion, ...]:
    """Read who said what from the span with a verdict's summary, steps by the numbers that spans give them.

    Nothing where the four lists do not fit each other.
    """
    keys = (words.OPINION_TRACERS, words.OPINION_STEPS, words.OPINION_SCORES, words.OPINION_NOTES)
    lists = [value if isinstance(value := span.attributes.get(key), tuple | list) else () for key in keys]
    if len({len(items) for items in lists}) != 1:
        return ()
    return tuple(
        Opinion(str(tracer), number if number >= 0 else None, score, str(note))
        for tracer, number, score, note in zip(*lists, strict=True)
        if isinstance(number, int) and isinstance(score, int | float) and 0 <= score <= 1
    )


def cut(text: str, max_bytes: int = words.MAX_ATTRIBUTION_BYTES) -> str:
    """Cut *text* on a character boundary so that its UTF-8 form has at most *max_bytes*."""
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= max_bytes:
        return encoded.decode()
    return encoded[: max_bytes - len("…".encode())].decode("utf-8", "ignore") + "…"


def _step_attributes(attribution: Attribution, numbers: Mapping[str, int]) -> dict[str, dict[str, AttributeValue]]:
    suspected = {*attribution.step_set, attribution.decisive_step} if attribution.names_suspects else set()
    suspects = [step for step in attribution.ranked_steps() if step.index in suspected]
    ranks = {step.index: rank for rank, step in enumerate(suspects, start=1)}
    by_span: dict[str, dict[str, AttributeValue]] = {}
    for step in attribution.steps:
        if step.span_id in by_span:
            continue  # the result on its call's span
        attributes: dict[str, AttributeValue] = {
            words.STEP_INDEX: numbers.get(step.span_id, step.index),
            words.BLAME_SCORE: _round_score(step.score),
        }
        if step.index in ranks:
            attributes[words.BLAME_RANK] = ranks[step.index]
            attributes[words.BLAME_DECISIVE] = step.index == attribution.decisive_step and attribution.has_evidence
            if step.by_evidence is not None:
                attributes[words.BLAME_EVIDENCE_SCORE] = _round_score(step.by_evidence)
            attributes |= {**_error(attribution.mode_of(step.agent)), **_evidence(attribution, step.index)}
        by_span[step.span_id] = attributes
    for item in attribution.verified:
        by_span[attribution.steps[item.index].span_id] |= _verification(item)
    return by_span


def _summary(attribution: Attribution, numbers: Mapping[str, int]) -> Attributes:
    attributes: dict[str, AttributeValue] = {
        words.TRACER_NAME: cut(attribution.tracer.name),
        words.TRACER_VERSION: cut(attribution.tracer.version),
        words.REVISION: attribution.revision,
        words.VERDICT: attribution.word,
    }
    if attribution.tracer.weights:
        attributes[words.TRACER_WEIGHTS] = attribution.tracer.weights
    if attribution.opinions:
        attributes |= _opinions(attribution, numbers)
    if attribution.abstained is not None:
        return attributes | {words.ABSTAINED: cut(attribution.abstained)}
    attributes[words.FAILURE_SCORE] = _round_score(attribution.failure_score)
    if attribution.unaided_score is not None:
        attributes[words.FAILURE_UNAIDED_SCORE] = _round_score(attribution.unaided_score)
    if attribution.names_suspects and attribution.decisive_step is not None:
        decisive = attribution.steps[attribution.decisive_step]
        attributes |= {
            words.BLAME_AGENT: cut(decisive.agent),
            words.BLAME_STEP: numbers.get(decisive.span_id, decisive.index),
            words.BLAME_SPAN_ID: decisive.span_id,
            **_error(attribution.mode_of(decisive.agent)),
        }
    return {**attributes, **_cause(attribution)}


def _cause(attribution: Attribution) -> Attributes:
    cause = attribution.cause
    if cause is None:
        return {}
    attributes: dict[str, AttributeValue] = {
        words.CAUSE_KIND: cause.kind,
        words.CAUSE_NAME: cut(cause.name, 200),
        words.CAUSE_REASON: cut(cause.reason),
        words.CAUSE_QUOTE: cut(cause.quote),
        **_error(ModeBlame(cause.mode, "", attribution.failure_score)),
    }
    if cause.step is not None:
        attributes[words.CAUSE_SPAN_ID] = attribution.steps[cause.step].span_id
    if cause.against is not None:
        attributes[words.CAUSE_AGAINST] = cut(cause.against.quote)
    return attributes


def _read_cause(trace: MessageActionTrace, span: Span) -> Cause | None:
    kind, quote = span.text(words.CAUSE_KIND), span.text(words.CAUSE_QUOTE)
    if kind not in get_args(CauseKind) or quote is None:
        return None
    own = [step for step in trace.steps if step.span_id == span.text(words.CAUSE_SPAN_ID)]
    step = next((step.index for step in own if quote in step.content), own[-1].index if own else None)
    against = span.text(words.CAUSE_AGAINST)
    name, reason = span.text(words.CAUSE_NAME) or "", span.text(words.CAUSE_REASON) or ""
    contradicted = None if against is None else Contradicted(None, against)
    return Cause(cast(CauseKind, kind), name, step, quote, reason, contradicted)


def _opinions(attribution: Attribution, numbers: Mapping[str, int]) -> Mapping[str, AttributeValue]:
    steps = [None if item.step is None else attribution.steps[item.step] for item in attribution.opinions]
    return {
        words.OPINION_TRACERS: tuple(cut(item.tracer, 200) for item in attribution.opinions),
        words.OPINION_STEPS: tuple(-1 if step is None else numbers.get(step.span_id, step.index) for step in steps),
        words.OPINION_SCORES: tuple(_round_score(item.score) for item in attribution.opinions),
        words.OPINION_NOTES: tuple(cut(item.note, 400) for item in attribution.opinions),
    }


def _id_of(made: Span, run: Run) -> str:
    """Derive an id from all that a span says, and the run it speaks of."""
    top = run.root.span_id if run.root else min(span.span_id for span in run.spans)
    return hashlib.sha256(f"{top}/{made!r}".encode("utf-8", "replace")).hexdigest()[:16]


def _summary_step(attribution: Attribution) -> str | None:
    """Return the span of the decisive step; of the first step where nobody is named."""
    if attribution.names_suspects and attribution.decisive_step is not None:
        return attribution.steps[attribution.decisive_step].span_id
    return attribution.steps[0].span_id if attribution.steps else None


def _error(blame: ModeBlame | None) -> Mapping[str, AttributeValue]:
    if blame is None:
        return {}
    return {
        words.ERROR_MODE: blame.mode.code,
        words.ERROR_NAME: blame.mode.name,
        words.ERROR_TAXONOMY: blame.mode.taxonomy,
        words.ERROR_SCORE: _round_score(blame.score),
    }


def _verification(item: Verification) -> Mapping[str, AttributeValue]:
    return {
        words.VERIFIED: item.outcome,
        words.VERIFICATION_REPEATS: item.repeats,
        words.VERIFICATION_SUCCEEDED: item.succeeded,
        words.VERIFICATION_UNCHANGED_REPEATS: item.unchanged_repeats,
        words.VERIFICATION_UNCHANGED_SUCCEEDED: item.unchanged_succeeded,
    }


def _read_verification(index: int, attributes: Attributes) -> Verification | None:
    outcome = attributes.get(words.VERIFIED)
    if outcome not in get_args(VerificationOutcome):
        return None
    counts = (
        words.VERIFICATION_REPEATS,
        words.VERIFICATION_SUCCEEDED,
        words.VERIFICATION_UNCHANGED_REPEATS,
        words.VERIFICATION_UNCHANGED_SUCCEEDED,
    )
    numbers = [value if isinstance(value := attributes.get(key), int) else 0 for key in counts]
    return Verification(index, cast(VerificationOutcome, outcome), *numbers)


def _evidence(attribution: Attribution, index: int) -> Mapping[str, AttributeValue]:
    items = [item for item in attribution.evidence if item.index == index]
    if not items:
        return {}
    attributes: dict[str, AttributeValue] = {words.EVIDENCE: cut(" … ".join(item.quote for item in items))}
    if finding := next((item.finding for item in items if item.finding), ""):
        attributes[words.FINDING] = cut(finding)
    contradicted = next((item.contradicts for item in items if item.contradicts is not None), None)
    if contradicted is not None:
        attributes[words.CONTRADICTION_QUOTE] = cut(contradicted.quote)
        if contradicted.index is not None:
            attributes[words.CONTRADICTION_SPAN_ID] = attribution.steps[contradicted.index].span_id
    return attributes


def _read_contradicted(trace: MessageActionTrace, span: Span) -> Contradicted | None:
    """Read which words a step contradicts; of a call and its result, which share a span, the one that has them."""
    quote, span_id = span.text(words.CONTRADICTION_QUOTE), span.text(words.CONTRADICTION_SPAN_ID)
    if quote is None:
        return None
    own = [step for step in trace.steps if step.span_id == span_id]
    having = [step for step in own if quote in step.content or quote in step.input_text]
    return Contradicted(next((step.index for step in having or own), None), quote)


def _shares(trace: MessageActionTrace, spans: Mapping[str, Span]) -> list[float]:
    return [
        _number(spans[step.span_id], words.BLAME_SCORE) if trace.can_be_blamed(step) else 0.0 for step in trace.steps
    ]


def _read_part(trace: MessageActionTrace, step: Step, span: Span) -> float | None:
    """Read the part of a step's share that evidence gives; None where its span does not say."""
    is_told = words.BLAME_EVIDENCE_SCORE in span.attributes and trace.can_be_blamed(step)
    return _number(span, words.BLAME_EVIDENCE_SCORE) if is_told else None


def _read_mode(agent: str, span: Span) -> ModeBlame | None:
    taxonomy, code = span.text(words.ERROR_TAXONOMY), span.text(words.ERROR_MODE)
    try:
        return ModeBlame(mode(f"{taxonomy}:{code}"), agent, _number(span, words.ERROR_SCORE))
    except ConfigError:  # none there, or a third party's taxonomy
        return None


def _unique(modes: Iterable[ModeBlame | None]) -> list[ModeBlame]:
    return list(dict.fromkeys(mode for mode in modes if mode is not None))


def _number(span: Span, key: str) -> float:
    value = span.attributes.get(key)
    return float(value) if isinstance(value, int | float) else 0.0


def _round_score(score: float) -> float:
    """Six decimals: enough to rank by, and the same digits on every machine."""
    return round(score, 6) if math.isfinite(score) else 0.0
