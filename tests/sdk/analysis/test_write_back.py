"""`blamespan analyze URL --write-back URL` through the whole command: twice, and nothing is there twice."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httpx")

from click.testing import CliRunner
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from blamespan.annotate import is_verdict
from blamespan.cli import cli
from blamespan.otlp import spans_from_proto
from blamespan.rebuilding.emit import emit
from blamespan.spans import Span
from tests.integrations.backends.runs import run_spans, trace_of
from tests.integrations.backends.servers import Answer, Asked, jaeger, phoenix, served

YESTERDAY = datetime.now(UTC) - timedelta(days=1)


def test_spans_written_back_to_where_runs_came_from_stand_there_once() -> None:
    """A back end that keeps all that it gets is analyzed, written to, and analyzed again with the verdicts in it.

    Sound runs get none, the others one; the second time nothing is sent, as the back end was asked for what it has.
    """
    kept: dict[str, list[Span]] = {}
    for number in (1, 2, 3):
        for span in run_spans(number, at=YESTERDAY, steps=4, outcome="failed" if number > 1 else "unknown"):
            kept.setdefault(span.trace_id, []).append(span)

    def answer(asked: Asked) -> Answer:
        if asked.method != "POST":
            return jaeger(list(kept.values()))(asked)
        for span in spans_from_proto(ExportTraceServiceRequest.FromString(asked.body).resource_spans):
            kept[span.trace_id].append(span)
        return Answer(b"")

    with served(answer) as server:
        asked = ["analyze", f"jaeger://{server.host}/team", "--write-back", f"otlp://{server.host}", "--json"]
        first = subprocess.run(
            [sys.executable, "-m", "blamespan", *asked], capture_output=True, text=True, timeout=100, check=False
        )
        after_first = {trace_id: list(spans) for trace_id, spans in kept.items()}
        second = CliRunner().invoke(cli, asked)

    assert first.returncode == 0
    verdicts = [json.loads(line)["verdict"] for line in first.stdout.splitlines()]
    n_sound = verdicts.count("no sign of failure")
    assert 0 < n_sound < 3
    assert first.stderr.startswith(
        f"note: verdicts not written back: {n_sound} with no sign of failure\nnote: the verdicts went out as spans"
    )
    assert first.stderr.count("\n") == 2
    assert [sum(map(is_verdict, spans)) for spans in after_first.values()] == [
        int(verdict != "no sign of failure") for verdict in verdicts
    ]
    assert (second.exit_code, second.stdout) == (0, first.stdout)
    assert second.stderr == (
        f"note: verdicts not written back: {3 - n_sound} there already, {n_sound} with no sign of failure\n"
    )
    assert kept == after_first


def test_annotations_written_back_take_the_place_of_the_same(tmp_path: Path) -> None:
    """Phoenix keeps one annotation for each span, name and identifier: a second analysis writes the same ones."""
    runs = [trace_of(number, at=YESTERDAY, steps=4) for number in (1, 2)]
    wrong = [replace(run, steps=(*run.steps[:3], replace(run.steps[3], content="12 * 3 = 35"))) for run in runs]
    rows = [row(span) for run in wrong for span in emit(run)]
    written: list[dict[tuple[str, str, str], Any]] = []

    def answer(asked: Asked) -> Answer:
        for one in json.loads(asked.body)["data"] if asked.method == "POST" else ():
            written[-1][one["span_id"], one["name"], one["identifier"]] = one
        return phoenix(rows)(asked)

    with served(answer) as server:
        for number in (1, 2):
            written.append({})
            out = str(tmp_path / f"{number}.jsonl")
            url = f"phoenix://{server.host}"
            found = CliRunner().invoke(cli, ["analyze", url, "--write-back", url, "--out", out])
            assert (found.exit_code, found.stderr) == (0, "")

    assert written[0] == written[1]
    assert sorted({name for _, name, _ in written[0]}) == ["blamespan.blame", "blamespan.failure"]
    assert (tmp_path / "1.jsonl").read_bytes() == (tmp_path / "2.jsonl").read_bytes()


def row(span: Span) -> dict[str, Any]:
    """Write a span as Phoenix's API does."""
    return {
        "name": span.name,
        "context": {"trace_id": span.trace_id, "span_id": span.span_id},
        "span_kind": "UNKNOWN",
        "parent_id": span.parent_id,
        "start_time": datetime.fromtimestamp(span.start_ns / 1e9, UTC).isoformat(),
        "end_time": datetime.fromtimestamp(span.end_ns / 1e9, UTC).isoformat(),
        "status_code": "UNSET",
        "attributes": dict(span.attributes),
        "events": [],
    }
