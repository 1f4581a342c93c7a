"""Verdicts as evaluations of spans: what back ends with annotations or scores of their own are told.

`blamespan.failure` on the run's span, how likely the run failed by an agent's fault; and of a run that failed or looks
failed `blamespan.blame` on the decisive step's, its share of the blame, its error mode and its words.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from blamespan.annotate import cut
from blamespan.attribution import NO_EVIDENCE, NO_SIGN, Attribution

BLAME = "blamespan.blame"
FAILURE = "blamespan.failure"


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One evaluation of one span.

    Attributes:
        trace_id: 32 hex digits.
        span_id: 16 hex digits, of the evaluated span; empty where it is the whole trace that is evaluated.
        name: `BLAME` or `FAILURE`.
        score: 0..1; None where the tracer abstained.
        label: The error mode as `taxonomy:code`, the blamed agent, or `no sign of failure` or `abstained`.
        explanation: In words.
        time_ns: When the evaluated span ended, Unix time in ns.
        service: `service.name` of its program.
        tracer: Who says so, as `name/version`.
        revision: Of the verdict.
    """

    trace_id: str
    span_id: str
    name: str
    score: float | None
    label: str
    explanation: str
    time_ns: int
    service: str
    tracer: str
    revision: int

    @property
    def id(self) -> str:
        """32 hex digits: the same for each revision of what one tracer says of one span under one name."""
        parts = (self.trace_id, self.span_id, self.name, self.tracer.partition("/")[0])
        return hashlib.sha256("/".join(parts).encode("utf-8", "replace")).hexdigest()[:32]


def evaluations_of(
    verdict: Attribution,
    *,
    run_span_id: str,
    ends_ns: Mapping[str, int],
    numbers: Mapping[str, int],
    service: str = "",
) -> list[Evaluation]:
    """Return one verdict's evaluations.

    Args:
        verdict: On a run.
        run_span_id: Of the run's own span; empty where it has none.
        ends_ns: When each span ended, by its id; the run's under an empty id, too, where it has no span.
        numbers: What the spans call their steps, by their ids; the others go by their index.
        service: `service.name` of the program.
    """
    rows = [(FAILURE, run_span_id, *_failure(verdict, numbers))]
    if verdict.names_suspects and verdict.decisive_step is not None:
        step = verdict.steps[verdict.decisive_step]
        rows.append((BLAME, step.span_id, round(step.score, 6), *_blame(verdict, numbers)))
    return [
        Evaluation(
            trace_id=verdict.trace_id,
            span_id=span_id,
            name=name,
            score=score,
            label=cut(label, 200),
            explanation=cut(explanation),
            time_ns=ends_ns.get(span_id, 0),
            service=service,
            tracer=cut(f"{verdict.tracer.name}/{verdict.tracer.version}", 200),
            revision=verdict.revision,
        )
        for name, span_id, score, label, explanation in rows
    ]


def as_phoenix_annotation(evaluation: Evaluation) -> dict[str, Any]:
    """Write an evaluation as Phoenix's annotation of a span, or of a trace.

    Phoenix keeps one for each span, name and identifier: another revision replaces it.
    """
    return {
        **({"span_id": evaluation.span_id} if evaluation.span_id else {"trace_id": evaluation.trace_id}),
        "name": evaluation.name,
        "annotator_kind": "CODE",
        "result": {"label": evaluation.label or None, "score": evaluation.score, "explanation": evaluation.explanation},
        "metadata": {"tracer": evaluation.tracer, "revision": evaluation.revision},
        "identifier": f"blamespan:{evaluation.tracer.partition('/')[0]}",
    }


def as_langfuse_score(evaluation: Evaluation) -> dict[str, Any]:
    """Write an evaluation as Langfuse's score of an observation, or of a trace; an id that comes again replaces it."""
    return {
        "id": evaluation.id,
        "traceId": evaluation.trace_id,
        **({"observationId": evaluation.span_id} if evaluation.span_id else {}),
        "name": evaluation.name,
        "value": evaluation.score,
        "dataType": "NUMERIC",
        "comment": f"{evaluation.label}: {evaluation.explanation}" if evaluation.label else evaluation.explanation,
        "metadata": {"tracer": evaluation.tracer, "revision": evaluation.revision},
    }


def _failure(verdict: Attribution, numbers: Mapping[str, int]) -> tuple[float | None, str, str]:
    if verdict.cause is not None:
        return round(verdict.failure_score, 6), verdict.cause.title, f"no agent is blamed: {verdict.cause.reason}"
    if verdict.abstained is not None or (verdict.decisive_step is None and verdict.word != NO_SIGN):
        return None, "abstained", verdict.abstained or "no step can be blamed"
    if verdict.decisive_step is None or not verdict.names_suspects:
        return round(verdict.failure_score, 6), verdict.word, "nobody is blamed"
    step, verb = verdict.steps[verdict.decisive_step], "blamed" if verdict.has_evidence else "suspected"
    return (
        round(verdict.failure_score, 6),
        step.agent,
        f"{step.agent} is {verb}, for step {numbers.get(step.span_id, step.index)}",
    )


def _blame(verdict: Attribution, numbers: Mapping[str, int]) -> tuple[str, str]:
    assert verdict.decisive_step is not None
    step = verdict.steps[verdict.decisive_step]
    blame = verdict.mode_of(step.agent)
    mode = blame.mode if blame else None
    quotes = [item.quote for item in verdict.evidence if item.index == step.index]
    suspected = "" if verdict.has_evidence else f"suspected, {NO_EVIDENCE}: "
    explanation = f"{suspected}{step.agent} at step {numbers.get(step.span_id, step.index)}"
    explanation += f": {mode.name}" if mode else ""
    return f"{mode.taxonomy}:{mode.code}" if mode else "", explanation + (f" “{' … '.join(quotes)}”" if quotes else "")
