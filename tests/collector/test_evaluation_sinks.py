"""Verdicts beside the spans: log events, Phoenix's annotations, Langfuse's scores; sent twice, they stand once."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from blamespan.errors import ConfigError
from blamespan.otlp.proto import mapping
from blamespan.pipeline import attribute_traces
from blamespan_collector.delivering.backend import BackendAccess
from blamespan_collector.delivering.evaluation_sinks import EvaluationLogs, LangfuseScores, PhoenixAnnotations
from blamespan_collector.delivering.sinks import Doubtful, Refused, TryAgain
from blamespan_collector.wire.evaluations import evaluations, read_evaluations, write_evaluations
from tests.collector.backends import HttpBackend, serving
from tests.collector.fakes import FirstStepTracer, run

ROOT, STEP = run(1)[0].span_id, run(1)[1].span_id


def told(number: int = 1, revision: int = 0) -> bytes:
    [attributed] = attribute_traces([run(number)], FirstStepTracer(), revision=revision)
    return write_evaluations(evaluations(attributed.runs))


async def test_verdict_is_a_log_event_on_the_evaluated_span() -> None:
    """`gen_ai.evaluation.result`, parented to its span, with name, score, label, explanation; the same bytes again."""
    backend = HttpBackend()
    with serving(backend) as url:
        sink = EvaluationLogs(url, BackendAccess())
        for _ in range(2):
            await sink.send("verdicts", [told()])
        await sink.close()

    first, again = backend.asked
    records = ExportLogsServiceRequest.FromString(first.body).resource_logs[0].scope_logs[0].log_records
    said = [(r.event_name, r.trace_id.hex(), r.span_id.hex(), mapping(r.attributes)) for r in records]
    assert (first.target, first.body) == ("/v1/logs", again.body)
    assert [one[:3] for one in said] == [
        ("gen_ai.evaluation.result", run(1)[0].trace_id, ROOT),
        ("gen_ai.evaluation.result", run(1)[0].trace_id, STEP),
    ]
    assert {key: value for key, value in said[1][3].items() if key.startswith("gen_ai")} == {
        "gen_ai.evaluation.name": "blamespan.blame",
        "gen_ai.evaluation.score.value": 1.0,
        "gen_ai.evaluation.score.label": "mast:FM-1.1",
        "gen_ai.evaluation.explanation": "agent0 at step 0: Disobey task specification",
    }


async def test_phoenix_is_told_in_its_own_form() -> None:
    """One annotation per span, name and identifier: what comes again, or as a revision, replaces it."""
    backend = HttpBackend()
    with serving(backend) as url:
        sink = PhoenixAnnotations(url, "secret", BackendAccess())
        await sink.send("verdicts", [told()])
        await sink.send("verdicts", [told(revision=1)])
        await sink.close()

    first, revised = backend.asked
    assert first.target == "/v1/span_annotations?sync=true"
    assert first.headers["authorization"] == "Bearer secret"
    assert json.loads(first.body)["data"][1] == {
        "span_id": STEP,
        "name": "blamespan.blame",
        "annotator_kind": "CODE",
        "result": {
            "label": "mast:FM-1.1",
            "score": 1.0,
            "explanation": "agent0 at step 0: Disobey task specification",
        },
        "metadata": {"tracer": "first-step/1", "revision": 0},
        "identifier": "blamespan:first-step",
    }
    assert [keys(one) for one in json.loads(revised.body)["data"]] == [
        keys(one) for one in json.loads(first.body)["data"]
    ]


def keys(annotation: dict[str, Any]) -> tuple[str, str, str]:
    return annotation["span_id"], annotation["name"], annotation["identifier"]


async def test_phoenix_without_the_spans_is_asked_again() -> None:
    """An annotation needs its span: 404 may only mean that it is not there yet."""
    with serving(HttpBackend([(404, {})])) as url:
        sink = PhoenixAnnotations(url, "", BackendAccess())
        with pytest.raises(Doubtful, match="does not have the spans"):
            await sink.send("verdicts", [told()])
        await sink.send("verdicts", [told()])
        await sink.close()


async def test_phoenix_that_never_has_the_spans_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where spans go elsewhere, their verdicts are set aside in the end, rather than fill the disk."""
    monkeypatch.setattr("blamespan_collector.delivering.evaluation_sinks._ABSENT_S", 0.0)
    with serving(HttpBackend([(404, {}), (404, {})])) as url:
        sink = PhoenixAnnotations(url, "", BackendAccess())
        with pytest.raises(Refused, match="Are they forwarded to it"):
            await sink.send("verdicts", [told()])
        await sink.close()


async def test_langfuse_is_told_in_its_own_form() -> None:
    """One score per evaluation, under an id that follows from the span and the name: a second one replaces it."""
    backend = HttpBackend()
    with serving(backend) as url:
        sink = LangfuseScores(url, ("public", "secret"), BackendAccess())
        await sink.send("verdicts", [told()])
        await sink.send("verdicts", [told(revision=1)])
        await sink.close()

    scores = [json.loads(asked.body) for asked in backend.asked]
    assert backend.asked[0].target == "/api/public/scores"
    assert backend.asked[0].headers["authorization"] == f"Basic {base64.b64encode(b'public:secret').decode()}"
    assert [score["id"] for score in scores[:2]] == [score["id"] for score in scores[2:]]
    assert len({score["id"] for score in scores}) == 2
    assert {key: scores[1][key] for key in ("traceId", "observationId", "name", "value", "dataType")} == {
        "traceId": run(1)[0].trace_id,
        "observationId": STEP,
        "name": "blamespan.blame",
        "value": 1.0,
        "dataType": "NUMERIC",
    }


async def test_langfuse_that_is_down_is_tried_again() -> None:
    """Scores wait as spans do."""
    with serving(HttpBackend([(429, {})])) as url:
        sink = LangfuseScores(url, ("public", "secret"), BackendAccess())
        with pytest.raises(TryAgain, match="HTTP 429"):
            await sink.send("verdicts", [told()])
        await sink.close()


def test_missing_keys_are_named() -> None:
    """Langfuse needs both of its keys."""
    with pytest.raises(ConfigError, match="LANGFUSE_PUBLIC_KEY"):
        LangfuseScores("https://langfuse.example", ("", ""), BackendAccess())


def test_evaluations_survive_the_outbox() -> None:
    """What is read is what was written."""
    assert write_evaluations(read_evaluations([told()])) == told()
