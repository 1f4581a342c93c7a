"""Write a verdict onto the spans of its run: pure; statuses, ids and times stay as they were.

A silent failure's span stays OK: flipping it would corrupt everybody's error-rate alerts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from blamespan import conventions as words
from blamespan.attribution import Attribution, Evidence, ModeBlame, TracerIdentity
from blamespan.errors import ConfigError
from blamespan.rebuild import rebuild_run
from blamespan.runs import Run
from blamespan.spans import Attributes, Span
from blamespan.taxonomy import mode
from blamespan.trace import AttributeValue, MessageActionTrace

__all__ = ["annotate", "read_verdict"]


_IDENTITY = (words.TRACER_NAME, words.TRACER_VERSION, words.TRACER_WEIGHTS)


def annotate(run: Run, attribution: Attribution) -> list[Span]:
    """Copy the run's spans with the verdict on them.

    Every step's span gets its score and its index; the suspects (the steps of `step_set` and the
    decisive one) their rank, error mode and evidence; the run's span the summary. Where a run has no
    span of its own, the summary stands on the decisive step's. After an abstention only the run's
    span says so. A tool span stands for its call: a result is nobody's decision.

    Returns:
        All spans of the run, in their order; those without a part in the verdict are the same objects.
    """
    by_span: dict[str, dict[str, AttributeValue]] = {}
    if attribution.abstained is None:
        by_span = _step_attributes(attribution)
    summary_at = run.root.span_id if run.root else _decisive_span(attribution)
    if summary_at:
        by_span[summary_at] = {**by_span.get(summary_at, {}), **_summary(attribution)}
    return [span.with_attributes(by_span.get(span.span_id, {})) for span in run.spans]


def read_verdict(run: Run) -> Attribution | None:
    """Read the verdict that `annotate` wrote on a run's spans; None where there is none.

    What the wire does not carry is not guessed: the agents and suspects come back, modes only of
    suspects, and scores as rounded there.
    """
    trace = rebuild_run(run)
    spans = {span.span_id: span for span in run.spans}
    said = [span for span in run.spans if words.TRACER_NAME in span.attributes]
    if not said:
        return None
    tracer = TracerIdentity(*(said[0].text(key) or "" for key in _IDENTITY))
    revision = said[0].integer(words.REVISION) or 0
    if words.ABSTAINED in said[0].attributes:
        return replace(Attribution.abstain(trace, said[0].text(words.ABSTAINED) or "", tracer), revision=revision)
    decisions = [(step, spans[step.span_id]) for step in trace.steps if step.kind != "tool_result"]
    ranked = sorted((span.integer(words.BLAME_RANK) or 0, step.index) for step, span in decisions)
    suspects = [trace.steps[index] for rank, index in ranked if rank]
    verdict = Attribution.of(
        trace,
        _shares(trace, spans),
        failure_score=_number(said[0], words.FAILURE_SCORE),
        tracer=tracer,
        modes=_unique(_read_mode(step.agent, spans[step.span_id]) for step in suspects),
        evidence=[
            Evidence(step.index, quote, _number(spans[step.span_id], words.BLAME_SCORE))
            for step in suspects
            if (quote := spans[step.span_id].text(words.EVIDENCE))
        ],
    )
    return replace(verdict, revision=revision, step_set=tuple(sorted(step.index for step in suspects)))


def cut(text: str, max_bytes: int = words.MAX_ATTRIBUTION_BYTES) -> str:
    """Cut *text* on a character boundary so that its UTF-8 form has at most *max_bytes*."""
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= max_bytes:
        return encoded.decode()
    return encoded[: max_bytes - len("…".encode())].decode("utf-8", "ignore") + "…"


def _step_attributes(attribution: Attribution) -> dict[str, dict[str, AttributeValue]]:
    suspects = [step for step in attribution.steps if step.index in {*attribution.step_set, attribution.decisive_step}]
    suspects.sort(key=lambda step: (step.index != attribution.decisive_step, -step.score, step.index))
    ranks = {step.index: rank for rank, step in enumerate(suspects, start=1)}
    found: dict[str, dict[str, AttributeValue]] = {}
    for step in attribution.steps:
        if step.span_id in found:
            continue  # the result on its call's span
        said: dict[str, AttributeValue] = {words.STEP_INDEX: step.index, words.BLAME_SCORE: _rounded(step.score)}
        if step.index in ranks:
            said[words.BLAME_RANK] = ranks[step.index]
            said[words.BLAME_DECISIVE] = step.index == attribution.decisive_step
            said |= {**_error(_mode_of(attribution, step.agent)), **_evidence(attribution, step.index)}
        found[step.span_id] = said
    return found


def _summary(attribution: Attribution) -> Attributes:
    found: dict[str, AttributeValue] = {
        words.TRACER_NAME: cut(attribution.tracer.name),
        words.TRACER_VERSION: cut(attribution.tracer.version),
        words.REVISION: attribution.revision,
    }
    if attribution.tracer.weights:
        found[words.TRACER_WEIGHTS] = attribution.tracer.weights
    if attribution.abstained is not None:
        return found | {words.ABSTAINED: cut(attribution.abstained)}
    found[words.FAILURE_SCORE] = _rounded(attribution.failure_score)
    if attribution.decisive_step is not None:
        decisive = attribution.steps[attribution.decisive_step]
        found |= {
            words.BLAME_AGENT: cut(decisive.agent),
            words.BLAME_STEP: decisive.index,
            words.BLAME_SPAN_ID: decisive.span_id,
            **_error(_mode_of(attribution, decisive.agent)),
        }
    return found


def _decisive_span(attribution: Attribution) -> str | None:
    if attribution.decisive_step is None:
        return attribution.steps[0].span_id if attribution.steps else None
    return attribution.steps[attribution.decisive_step].span_id


def _mode_of(attribution: Attribution, agent: str) -> ModeBlame | None:
    return next((blame for blame in attribution.modes if blame.agent == agent), None)


def _error(blame: ModeBlame | None) -> Mapping[str, AttributeValue]:
    if blame is None:
        return {}
    return {
        words.ERROR_MODE: blame.mode.code,
        words.ERROR_NAME: blame.mode.name,
        words.ERROR_TAXONOMY: blame.mode.taxonomy,
        words.ERROR_SCORE: _rounded(blame.score),
    }


def _evidence(attribution: Attribution, index: int) -> Mapping[str, AttributeValue]:
    quotes = [item.quote for item in attribution.evidence if item.index == index]
    return {words.EVIDENCE: cut(" … ".join(quotes))} if quotes else {}


def _shares(trace: MessageActionTrace, spans: Mapping[str, Span]) -> list[float]:
    return [
        _number(spans[step.span_id], words.BLAME_SCORE) if trace.can_be_blamed(step) else 0.0 for step in trace.steps
    ]


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


def _rounded(score: float) -> float:
    """Six decimals: enough to rank by, and the same digits on every machine."""
    return round(score, 6) if math.isfinite(score) else 0.0
