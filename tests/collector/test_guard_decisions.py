"""Decisions of a guard on incoming spans: counted for Prometheus, marked on the page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from blamespan import conventions as words
from blamespan.cli import cli
from blamespan.otlp import request_to_json, spans_to_proto
from blamespan.rebuilding.emit import emit
from blamespan.spans import Span, SpanEvent
from blamespan_collector.receiving.intake import IntakeCounts
from blamespan_collector.service.metrics import Metrics
from tests.collector.fakes import run
from tests.collector.working import MemorySink, until, working
from tests.sdk.talks import talk

DECISION = {words.GUARD_ACTION: "block", words.GUARD_KIND: "tool", words.GUARD_RULE: "r", words.GUARD_REASON: "why"}


def guarded(span: Span, **changes: Any) -> Span:
    event = SpanEvent(words.GUARD_EVENT, span.start_ns, {**DECISION, **changes})
    return replace(span, events=(*span.events, event), attributes={**span.attributes, **DECISION})


def test_decisions_are_counted_by_action_and_kind(tmp_path: Path) -> None:
    """Each event counts once, with the run's first verdict; what is no decision of ours does not."""
    sink = MemorySink()
    root, step = run(1)[:2]
    odd = guarded(step, **{words.GUARD_ACTION: "explode"})
    spans = [guarded(root), guarded(guarded(step)), *(replace(span) for span in run(1)[2:])]
    spans[1] = replace(spans[1], events=(*spans[1].events, *odd.events))
    with working(tmp_path, sink) as one:
        one.take(spans)
        until(lambda: sink.traces)
        told = one.worker._message()["guard"]
    metrics = Metrics(IntakeCounts())
    metrics.hear({"guard": told}, 0)

    assert told == [["block", "tool", 3]]
    assert b'blamespan_guard_decisions_total{action="block",kind="tool"} 3.0' in metrics.text()


def test_kinds_of_decisions_are_bounded() -> None:
    """A worker that invents actions fills nothing."""
    metrics = Metrics(IntakeCounts())
    metrics.hear({"guard": [[f"a{n}", "tool", 1] for n in range(100)]}, 0)

    assert metrics.text().count(b"blamespan_guard_decisions_total{") <= 22


def test_page_shows_the_mark_and_its_reason_as_text(tmp_path: Path) -> None:
    """The mark stands in the step's row; what a policy says is text there, whatever it looks like."""
    trace = talk(1, ("w", "x"))
    hostile = {**DECISION, words.GUARD_REASON: '"><script>alert(1)</script>'}
    steps = (trace.steps[0], replace(trace.steps[1], attributes={**trace.steps[1].attributes, **hostile}))
    path = tmp_path / "traces.jsonl"
    request = ExportTraceServiceRequest(resource_spans=spans_to_proto(emit(replace(trace, steps=steps))))
    path.write_text(f"{request_to_json(request)}\n")
    done = CliRunner().invoke(cli, ["show", str(path), "--html", str(tmp_path / "report.html")])
    text = (tmp_path / "report.html").read_text()

    assert done.exit_code == 0, done.output
    assert text.count(">guard: block</span>") == 1
    assert "alert(1)" in text
    assert "<script>alert(1)" not in text
