"""Verdicts as evaluations (`blamespan.evaluations`), and how they wait in the outbox."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from blamespan.annotate import step_numbers
from blamespan.evaluations import Evaluation, evaluations_of
from blamespan.pipeline import AttributedRun


def evaluations(runs: Iterable[AttributedRun]) -> list[Evaluation]:
    """Return the verdicts on runs."""
    return [evaluation for item in runs for evaluation in _of_run(item)]


def write_evaluations(evaluations: Sequence[Evaluation]) -> bytes:
    """Write evaluations for the outbox."""
    return json.dumps([asdict(evaluation) for evaluation in evaluations], separators=(",", ":")).encode()


def read_evaluations(payloads: Iterable[bytes]) -> list[Evaluation]:
    """Read what `write_evaluations` wrote."""
    return [Evaluation(**fields) for payload in payloads for fields in json.loads(payload)]


def _of_run(item: AttributedRun) -> list[Evaluation]:
    run = item.run
    top = run.root or run.spans[0]
    service = top.resource.get("service.name")
    return evaluations_of(
        item.attribution,
        run_span_id=top.span_id,
        ends_ns={span.span_id: span.end_ns for span in run.spans},
        numbers=step_numbers(run),
        service=service if isinstance(service, str) else "",
    )
