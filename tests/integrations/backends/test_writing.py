"""Verdicts written back: where they belong, once, and named where they were not taken."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("httpx")

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from blamespan import conventions as words
from blamespan.annotate import is_verdict
from blamespan.errors import ConfigError
from blamespan.http_client import RetryPolicy
from blamespan.importing.backends import open_writer
from blamespan.importing.recorded import RecordedRun
from blamespan.otlp import spans_from_proto
from blamespan.rebuilding.rebuild import rebuild
from blamespan.rebuilding.runs import split_runs
from blamespan.spans import Span
from blamespan.trace import Outcome
from blamespan_integrations.backends import _api
from blamespan_integrations.backends.otlp import span_of_verdict
from blamespan_integrations.importers._span_files import rebuild_runs
from tests.integrations.backends.runs import run_spans, trace_of, verdicts
from tests.integrations.backends.servers import Answer, Asked, served


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(_api, "RETRIES", RetryPolicy(attempts=2, first_wait_s=0.01, deadline_s=1.0))
    monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", "public")
    monkeypatch.setenv("LANGFUSE_SECRET_KEY", "secret")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "X-Key=abc")
    yield
    _api._unanswered.clear()


def runs(count: int) -> list[RecordedRun]:
    """Make runs as they are read: with the span that stands for the run."""
    return [RecordedRun(f"file:{n}", trace_of(n), root_id=run_spans(n)[0].span_id) for n in range(1, count + 1)]


def write(url: str, given: list[RecordedRun], times: int = 1) -> tuple[int, int, list[str]]:
    """Write verdicts on runs; gives how many were written and were not the last time, and what was told."""
    said: list[str] = []
    for _ in range(times):
        with closing(open_writer(url, on_failure=lambda failure: said.append(str(failure)))) as writer:
            writer.write(verdicts(given))
    return writer.written, writer.failed, said


def spans_sent(asked: list[Asked]) -> list[Span]:
    requests = [ExportTraceServiceRequest.FromString(one.body) for one in asked]
    return [span for one in requests for span in spans_from_proto(one.resource_spans)]


@pytest.mark.parametrize("suffix", ["", "/", "/v1/traces"])
@pytest.mark.parametrize("scheme", ["http", "otlp"])
def test_verdicts_go_as_spans_to_an_otlp_endpoint(scheme: str, suffix: str) -> None:
    """A span below the blamed one says all of the verdict; the same one each time it is written."""
    with served(lambda asked: Answer(b"")) as server:
        assert write(f"{scheme}://{server.host}{suffix}", runs(1), times=2) == (1, 0, [])
    first, again = spans_sent(server.asked)

    assert first == again
    assert server.asked[0].path == "/v1/traces"
    assert server.asked[0].headers["x-key"] == "abc"
    assert (first.trace_id, first.parent_id) == (trace_of(1).trace_id, trace_of(1).steps[0].span_id)
    assert first.attributes[words.BLAME_AGENT] == "planner"
    assert first.attributes[words.BLAME_SPAN_ID] == trace_of(1).steps[0].span_id


def test_verdict_among_the_spans_of_its_run_changes_nothing() -> None:
    """A trace with verdicts in it is the run that it was, and gets the same verdict span again."""
    (result,) = verdicts(runs(1))
    span = span_of_verdict(*result)
    again = [*run_spans(1), span]

    assert is_verdict(span)
    assert rebuild(again) == trace_of(1)
    assert [run.root.span_id for run in split_runs(again) if run.root] == [result[0].root_id]
    assert span_of_verdict(RecordedRun("elsewhere", rebuild(again), root_id=result[0].root_id), result[1]) == span


def test_verdict_of_another_tracer_or_another_verdict_is_another_span() -> None:
    """A back end that keeps one span of an id must not hide what was said later."""
    (result,) = verdicts(runs(1))
    run, verdict = result
    other_tracer = replace(verdict, tracer=replace(verdict.tracer, version="2"))
    surer = replace(verdict, failure_score=0.95)

    assert len({span_of_verdict(run, one).span_id for one in (verdict, other_tracer, surer)}) == 3


@pytest.mark.parametrize(("outcome", "score"), [("unknown", 0.2), ("succeeded", 0.94)])
def test_run_without_a_sign_of_failure_gets_no_verdict_span(outcome: Outcome, score: float) -> None:
    """What shows no sign of failure, or is known to have succeeded, is not accused by a span; its failed twin is."""
    (sound, failed) = runs(2)
    ((_, verdict), twin) = verdicts([replace(sound, trace=replace(sound.trace, outcome=outcome)), failed])
    with served(lambda asked: Answer(b"")) as server, closing(open_writer(f"otlp://{server.host}")) as writer:
        writer.write([(sound, replace(verdict, failure_score=score)), twin])

    assert [span.trace_id for span in spans_sent(server.asked)] == [failed.trace.trace_id]
    assert writer.written == 1
    assert writer.notes[0] == "verdicts not written back: 1 with no sign of failure"  # type: ignore[attr-defined]


def test_verdict_that_a_run_was_read_with_is_not_written_again() -> None:
    """A store that keeps both, as Tempo 3 does, holds each verdict once; another verdict is written beside it."""
    (first,) = verdicts(runs(1))
    (read,) = rebuild_runs("tempo", [*run_spans(1), span_of_verdict(*first)])
    assert isinstance(read, RecordedRun)
    other = replace(first[1], failure_score=0.95)
    with served(lambda asked: Answer(b"")) as server, closing(open_writer(f"otlp://{server.host}")) as writer:
        writer.write([(read, first[1]), (read, other)])

    assert [span.span_id for span in spans_sent(server.asked)] == [span_of_verdict(read, other).span_id]
    assert writer.written == 1
    assert writer.notes[0] == "verdicts not written back: 1 there already"  # type: ignore[attr-defined]


def test_abstention_is_a_span_below_the_run() -> None:
    """Where there is no verdict the span says why, below the run's own."""
    run = RecordedRun("file:1", trace_of(1, steps=1), root_id=run_spans(1)[0].span_id)
    ((_, verdict),) = verdicts([run])
    span = span_of_verdict(run, verdict)

    assert span.parent_id == run.root_id
    assert span.attributes[words.ABSTAINED] == "too short"


def test_rejected_spans_are_named_and_the_others_written() -> None:
    """An endpoint that takes some of a batch is asked for each, so that the count is true."""
    bad = trace_of(2).trace_id

    def answer(asked: Asked) -> Answer:
        said = ExportTraceServiceResponse()
        said.partial_success.rejected_spans = sum(span.trace_id == bad for span in spans_sent([asked]))
        said.partial_success.error_message = "too old" if said.partial_success.rejected_spans else ""
        return Answer(said.SerializeToString())

    with served(answer) as server:
        written, failed, said = write(f"otlp://{server.host}", runs(3))

    assert (written, failed) == (2, 1)
    assert said[0].startswith("file:2: the verdict was not written")
    assert "too old" in said[0]


def test_phoenix_is_told_of_the_span_of_the_run_or_of_its_trace() -> None:
    """The failure stands on the run's span, on the trace where there is none, and the blame on the step's."""
    with_root, without = runs(2)
    without = replace(without, root_id=None)
    with served(lambda asked: Answer({"data": []})) as server:
        assert write(f"phoenix://{server.host}/any", [with_root, without]) == (2, 0, [])
    told = {one.path: json.loads(one.body)["data"] for one in server.asked}

    assert [(one["span_id"], one["name"], one["result"]["score"]) for one in told["/v1/span_annotations"]] == [
        (with_root.root_id, "blamespan.failure", 0.9),
        (with_root.trace.steps[0].span_id, "blamespan.blame", 1.0),
        (without.trace.steps[0].span_id, "blamespan.blame", 1.0),
    ]
    assert [(one["trace_id"], one["name"]) for one in told["/v1/trace_annotations"]] == [
        (without.trace.trace_id, "blamespan.failure")
    ]
    assert {one.option("sync") for one in server.asked} == {"true"}


def test_phoenix_is_told_of_no_blame_without_a_sign_of_failure() -> None:
    """Such a run has its failure score, and no step is annotated."""
    (sound,) = runs(1)
    ((_, verdict),) = verdicts([sound])
    with (
        served(lambda asked: Answer({"data": []})) as server,
        closing(open_writer(f"phoenix://{server.host}/any")) as writer,
    ):
        writer.write([(sound, replace(verdict, failure_score=0.2))])
    told = [one for asked in server.asked for one in json.loads(asked.body)["data"]]

    assert [(one["span_id"], one["name"], one["result"]) for one in told] == [
        (
            sound.root_id,
            "blamespan.failure",
            {"label": "no sign of failure", "score": 0.2, "explanation": "nobody is blamed"},
        )
    ]


def langfuse_scores(asked: list[Asked]) -> list[dict[str, Any]]:
    return [json.loads(one.body) for one in asked]


def test_langfuse_scores_have_the_same_ids_each_time() -> None:
    """Scores of the same run by the same tracer replace each other; an abstention is none."""
    short = RecordedRun("file:9", trace_of(9, steps=1))
    with served(lambda asked: Answer({"id": "x"})) as server:
        assert write(f"langfuse://{server.host}", [*runs(1), short], times=2) == (2, 0, [])
    scores = langfuse_scores(server.asked)

    assert len(scores) == 4
    assert scores[:2] == scores[2:]
    assert scores[0]["id"] != scores[1]["id"]
    assert [(one["name"], one["value"], one["observationId"]) for one in scores[:2]] == [
        ("blamespan.failure", 0.9, runs(1)[0].root_id),
        ("blamespan.blame", 1.0, trace_of(1).steps[0].span_id),
    ]


def test_langfuse_is_told_its_own_ids() -> None:
    """Where traces and observations have ids that are none of OpenTelemetry's, scores name those."""
    trace = trace_of(1)
    own = {"langfuse.trace.id": "my-trace", "langfuse.observation.id": "my-observation"}
    steps = tuple(replace(step, attributes=own) for step in trace.steps)
    run = RecordedRun("langfuse:1", replace(trace, steps=steps))
    with served(lambda asked: Answer({"id": "x"})) as server:
        write(f"langfuse://{server.host}", [run])
    scores = langfuse_scores(server.asked)

    assert {one["traceId"] for one in scores} == {"my-trace"}
    assert [one.get("observationId") for one in scores] == [None, "my-observation"]


@pytest.mark.parametrize("make", ["jaeger", "tempo"])
def test_back_end_that_takes_no_verdicts_says_who_does(make: str) -> None:
    """Jaeger and Tempo take spans over OTLP, and the message says so."""
    with pytest.raises(ConfigError, match="http://localhost:4318"):
        open_writer(f"{make}://localhost:1")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("nothing", "expected a URL like"),
        ("phoenix://", "expected a URL like"),
        ("phoenix://host:port", "expected a URL like"),
        ("phoenix://user:hunter2@host", "without a key"),
        ("ftp://host", "blamespan.backends offers"),
        ("phoenix://host?x=1", "takes no options"),
    ],
)
def test_wrong_url_is_refused_without_telling_its_key(url: str, said: str) -> None:
    """A mistake in a URL is said at once, and what may be a password in it never."""
    with pytest.raises(ConfigError, match=said) as caught:
        open_writer(url)

    assert "hunter2" not in str(caught.value)


def refusing(paths: set[str]) -> Callable[[Asked], Answer]:
    return lambda asked: Answer(b"no", 500 if asked.path in paths else 200)


def test_back_end_that_is_down_fails_each_and_ends() -> None:
    """Every verdict that was not taken is named once, and counted."""
    with served(refusing({"/v1/traces"})) as server:
        written, failed, said = write(f"otlp://{server.host}", runs(4))

    assert (written, failed) == (0, 4)
    assert [one.partition(": ")[0] for one in said] == ["file:1", "file:2", "file:3", "file:4"]
