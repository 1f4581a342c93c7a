"""Verdicts as evaluations: what every sink beside OTLP's spans is told, and how it waits in the outbox.

Two per run: `blamespan.failure` on the run's span, how likely the run failed by an agent's fault; and
`blamespan.blame` on the decisive step's, its share of the blame, its error mode and its words.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from blamespan.annotate import cut, step_numbers
from blamespan.attribution import Attribution
from blamespan.pipeline import AttributedRun

__all__ = ["BLAME", "FAILURE", "Evaluation", "evaluations", "read_evaluations", "write_evaluations"]

BLAME = "blamespan.blame"
FAILURE = "blamespan.failure"


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One evaluation of one span.

    Attributes:
        trace_id: 32 hex digits.
        span_id: 16 hex digits, of the evaluated span.
        name: `BLAME` or `FAILURE`.
        score: 0..1; None where the tracer abstained.
        label: The error mode as `taxonomy:code`, the blamed agent, or `abstained`.
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


def evaluations(runs: Iterable[AttributedRun]) -> list[Evaluation]:
    """Tell the verdicts on runs."""
    return [one for item in runs for one in _of_run(item)]


def write_evaluations(found: Sequence[Evaluation]) -> bytes:
    """Write evaluations for the outbox."""
    return json.dumps([asdict(one) for one in found], separators=(",", ":")).encode()


def read_evaluations(payloads: Iterable[bytes]) -> list[Evaluation]:
    """Read what `write_evaluations` wrote."""
    return [Evaluation(**one) for payload in payloads for one in json.loads(payload)]


def _of_run(item: AttributedRun) -> list[Evaluation]:
    run, verdict = item.run, item.attribution
    spans = {span.span_id: span for span in run.spans}
    top = run.root or run.spans[0]
    numbers = step_numbers(run)
    found = [(FAILURE, top, *_failure(verdict, numbers))]
    if verdict.abstained is None and verdict.decisive_step is not None:
        step = verdict.steps[verdict.decisive_step]
        found.append((BLAME, spans[step.span_id], round(step.score, 6), *_blame(verdict, numbers)))
    service = top.resource.get("service.name")
    return [
        Evaluation(
            trace_id=span.trace_id,
            span_id=span.span_id,
            name=name,
            score=score,
            label=cut(label, 200),
            explanation=cut(explanation),
            time_ns=span.end_ns,
            service=service if isinstance(service, str) else "",
            tracer=cut(f"{verdict.tracer.name}/{verdict.tracer.version}", 200),
            revision=verdict.revision,
        )
        for name, span, score, label, explanation in found
    ]


def _failure(verdict: Attribution, numbers: Mapping[str, int]) -> tuple[float | None, str, str]:
    if verdict.abstained is not None or verdict.decisive_step is None:
        return None, "abstained", verdict.abstained or "no step can be blamed"
    step = verdict.steps[verdict.decisive_step]
    return (
        round(verdict.failure_score, 6),
        step.agent,
        f"{step.agent} is blamed, for step {numbers.get(step.span_id, step.index)}",
    )


def _blame(verdict: Attribution, numbers: Mapping[str, int]) -> tuple[str, str]:
    assert verdict.decisive_step is not None
    step = verdict.steps[verdict.decisive_step]
    mode = next((blame.mode for blame in verdict.modes if blame.agent == step.agent), None)
    quotes = [item.quote for item in verdict.evidence if item.index == step.index]
    said = f"{step.agent} at step {numbers.get(step.span_id, step.index)}" + (f": {mode.name}" if mode else "")
    return f"{mode.taxonomy}:{mode.code}" if mode else "", said + (f" “{' … '.join(quotes)}”" if quotes else "")
