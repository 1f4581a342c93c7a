"""Importers of formats that hold spans give them along: the run they tell is the same, with a verdict on them too."""

from __future__ import annotations

from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from blamespan.analysis.outcomes import annotated_spans, attribute_recorded
from blamespan.analysis.sources import pieces
from blamespan.importing.recorded import RecordedRun, SpanImporter
from blamespan.otlp import request_from_json, request_to_json, spans_from_proto, spans_to_proto
from blamespan.rebuilding.rebuild import rebuild_run
from blamespan.rebuilding.runs import split_runs
from tests.integrations.drawing import draw
from tests.integrations.importers.files import FIXTURES, IMPORTERS, runs_in
from tests.sdk.fixed_tracer import LongestStepTracer


def with_spans(path: Path) -> list[RecordedRun]:
    [piece] = pieces([str(path)])
    return [run for run in piece.read(with_spans=True) if isinstance(run, RecordedRun)]


@pytest.mark.parametrize("kind", ["langsmith", "mlflow", "phoenix"])
def test_annotated_spans_tell_the_run_that_was_read(kind: str) -> None:
    """As OTLP-JSON they are read as the same run, whatever the format was that they came from."""
    if kind == "phoenix":
        pytest.importorskip("pyarrow")
    for path in sorted(FIXTURES.glob(f"{kind}*")):
        runs = with_spans(path)
        lines = [
            request_to_json(ExportTraceServiceRequest(resource_spans=spans_to_proto(annotated_spans(result))))
            for result in attribute_recorded(runs, LongestStepTracer())
        ]

        again = [split_runs(spans_from_proto(request_from_json(line).resource_spans)) for line in lines]
        assert [[draw(rebuild_run(one)) for one in some] for some in again] == [[draw(run.trace)] for run in runs]
        assert all(len(run.spans) > len(run.trace.steps) for run in runs)
        assert [run.trace for run in runs] == [run.trace for run in runs_in(path)]


def test_spans_are_given_to_whoever_asks() -> None:
    """Every format of spans can; the others hold none."""
    able = {importer.name for importer in IMPORTERS if isinstance(importer, SpanImporter)}

    assert able >= {"generated", "jaeger", "jaeger-v3", "langfuse", "langsmith", "mlflow", "otlp-json", "otlp-proto"}
    assert able >= {"phoenix", "tempo", "trail"}
    assert not able & {"autogen-events", "autogen-messages", "agent-framework", "who-and-when", "aegis"}
    assert not any(run.spans for path in FIXTURES.glob("langsmith*") for run in runs_in(path))
