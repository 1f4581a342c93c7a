"""Back ends that are asked for runs: all of them come, each once, and what cannot be had is named in its place."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

pytest.importorskip("httpx")

from blamespan.analysis.sources import pieces
from blamespan.errors import ConfigError, UnreadableInput
from blamespan.http_client import HttpLimits, RetryPolicy
from blamespan.importing.recorded import RecordedRun
from blamespan.importing.selection import Selection
from blamespan.rebuilding.rebuild import rebuild_run
from blamespan.rebuilding.runs import split_runs
from blamespan.trace import MessageActionTrace
from blamespan_integrations.backends import _api
from blamespan_integrations.backends import jaeger as jaeger_backend
from blamespan_integrations.backends import langfuse as langfuse_backend
from blamespan_integrations.backends.tempo import traceql
from tests.integrations.backends.runs import NOON, run_spans, trace_of
from tests.integrations.backends.servers import Answer, Asked, jaeger, jaeger_v1, langfuse, phoenix, served, tempo
from tests.integrations.dialects.recordings import HIDDEN, traces_of
from tests.integrations.dialects.recordings import trace_of as recorded_trace
from tests.integrations.drawing import draw
from tests.integrations.importers.files import NODES
from tests.integrations.importers.shapes import langfuse as langfuse_rows

ALL = Selection()
A_DAY = Selection(since=NOON - timedelta(hours=12), until=NOON + timedelta(hours=12))
TRACES = [run_spans(number, at=NOON + timedelta(seconds=10 * number)) for number in range(1, 41)]
IDS = [spans[0].trace_id for spans in TRACES]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Wait a moment where people would wait seconds; what one test gave up is new to the next."""
    monkeypatch.setattr(_api, "RETRIES", RetryPolicy(attempts=3, first_wait_s=0.01, deadline_s=2.0))
    monkeypatch.setattr(_api, "LIMITS", HttpLimits(silence_s=5.0, max_bytes=_api.LIMITS.max_bytes))
    monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", "pk-lf-public")
    monkeypatch.setenv("LANGFUSE_SECRET_KEY", "sk-lf-secret")
    yield
    _api._unanswered.clear()


def read(url: str, selection: Selection = ALL) -> tuple[list[RecordedRun], list[str]]:
    """Read a back end as `blamespan analyze` does, each piece as another process would."""
    runs, errors = [], []
    for piece in pieces([url], selection=selection):
        for item in pickle.loads(pickle.dumps(piece)).read():
            if isinstance(item, RecordedRun):
                runs.append(item)
            else:
                errors.append(str(item))
    return runs, errors


def ids_of(runs: Sequence[RecordedRun]) -> list[str]:
    return [run.trace.trace_id for run in runs]


def failing(
    answer: Callable[[Asked], Answer], when: Callable[[Asked], bool], given: Answer
) -> Callable[[Asked], Answer]:
    """Answer, but give something else at times."""
    return lambda asked: given if when(asked) else answer(asked)


def once(answer: Callable[[Asked], Answer], given: Answer) -> Callable[[Asked], Answer]:
    """Give something else the first time that each question comes."""
    seen: set[str] = set()

    def asked_again(asked: Asked) -> Answer:
        key = f"{asked.path}{sorted(asked.options.items())}"
        is_first = key not in seen
        seen.add(key)
        return given if is_first else answer(asked)

    return asked_again


# -- Jaeger


def test_jaeger_gives_every_run_of_a_range_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a search holds fewer traces than there are, the range is halved until all are found."""
    monkeypatch.setattr(jaeger_backend, "_AT_ONCE", 9)
    with served(jaeger(TRACES, at_most=9)) as server:
        runs, errors = read(f"jaeger://{server.host}", A_DAY)

    assert errors == []
    assert ids_of(runs) == IDS
    assert runs[0].trace == trace_of(1, at=NOON + timedelta(seconds=10))
    assert runs[0].source == f"jaeger://{server.host}:{IDS[0]}"
    assert runs[0].root_id == TRACES[0][0].span_id


def test_jaeger_more_at_one_moment_than_a_search_gives_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Traces that began at the same time are asked for in a greater number."""
    monkeypatch.setattr(jaeger_backend, "_AT_ONCE", 9)
    many = [run_spans(number, steps=1) for number in range(1, 12)]
    with served(jaeger(many)) as server:
        runs, errors = read(f"jaeger://{server.host}", Selection(since=NOON, until=NOON + timedelta(milliseconds=2)))

    assert errors == []
    assert len(set(ids_of(runs))) == 11


def test_jaeger_reads_the_service_that_its_url_names() -> None:
    """The last part of the path is the service; without one all services are read."""
    traces = [run_spans(1, service="one"), run_spans(2, service="two/a b")]
    with served(jaeger(traces)) as server:
        named, _ = read(f"jaeger://{server.host}/two%2Fa%20b", A_DAY)
        every, _ = read(f"jaeger://{server.host}/", A_DAY)

    assert ids_of(named) == [traces[1][0].trace_id]
    assert ids_of(every) == [spans[0].trace_id for spans in traces]


@pytest.mark.parametrize("prefix", ["", "/select/jaeger"])
def test_jaeger_of_the_first_version_is_read_likewise(prefix: str) -> None:
    """Where `/api/v3` is not there `/api` is asked, as VictoriaTraces answers it, below the path of the URL."""
    traces = [run_spans(1, service="one"), run_spans(2, service="two")]
    with served(jaeger_v1(traces, prefix)) as server:
        every, errors = read(f"jaeger://{server.host}{prefix}/", A_DAY)
        named, more = read(f"jaeger://{server.host}{prefix}/two", A_DAY)
        alone, _ = read(f"jaeger://{server.host}{prefix}/?trace_id={IDS[0]}", A_DAY)
        none, _ = read(f"jaeger://{server.host}{prefix}/two?tenant=blue", A_DAY)

    assert (errors, more, none) == ([], [], [])
    assert ids_of(every) == [spans[0].trace_id for spans in traces]
    assert ids_of(named) == [traces[1][0].trace_id]
    assert ids_of(alone) == [IDS[0]]
    assert [run.trace.steps[0].content for run in every] == [
        rebuild_run(split_runs(spans)[0]).steps[0].content for spans in traces
    ]


def test_jaeger_that_is_not_there_names_what_was_asked() -> None:
    """The error says which URLs were asked, and how a path before the service is written."""
    with served(jaeger_v1(TRACES[:1], "/select/jaeger")) as server:
        runs, errors = read(f"jaeger://{server.host}/team", A_DAY)

    assert runs == []
    [error] = errors
    assert f"http://{server.host}/api/v3/services or http://{server.host}/api/services" in error
    assert "HTTP 400" in error
    assert "jaeger://host:10428/select/jaeger/service" in error


def test_jaeger_is_asked_for_attributes() -> None:
    """A filter is the back end's to answer, where it can."""
    marked = [replace(span, attributes={**span.attributes, "tenant": "blue"}) for span in TRACES[3]]
    with served(jaeger([*TRACES[:3], marked])) as server:
        runs, errors = read(f"jaeger://{server.host}/team?tenant=blue", A_DAY)

    assert errors == []
    assert ids_of(runs) == [IDS[3]]


# -- Tempo


@pytest.mark.parametrize("has_v2", [True, False])
def test_tempo_gives_every_run_of_a_range_once(has_v2: bool) -> None:
    """Ids without their zeros, and traces with ids in base64, are the runs that were sent; older versions too."""
    with served(tempo(TRACES, has_v2=has_v2)) as server:
        runs, errors = read(f"tempo://{server.host}", A_DAY)

    assert errors == []
    assert ids_of(runs) == IDS
    assert runs[4].trace == trace_of(5, at=NOON + timedelta(seconds=50))


def test_tempo_keeps_the_range_to_the_second() -> None:
    """A run that began outside of the range is left out, though a search may give it."""
    within = Selection(since=NOON + timedelta(seconds=100), until=NOON + timedelta(seconds=130))
    with served(tempo(TRACES)) as server:
        runs, _ = read(f"tempo://{server.host}", within)

    assert ids_of(runs) == IDS[9:12]


def test_filters_are_a_query_that_cannot_be_broken_out_of() -> None:
    """Names and values are quoted; what looks like a number or a truth is asked for as both."""
    assert traceql({}) == "{ }"
    assert traceql({"service.name": 'a" || true'}) == '{ .service.name = "a\\" || true" }'
    assert traceql({"a b": "x", "n": "5"}) == '{ ."a b" = "x" } && { .n = "5" || .n = 5 }'


# -- Langfuse


def langfuse_traces(count: int) -> list[dict[str, Any]]:
    """Write traces as Langfuse's API gives them; ids are Langfuse's own."""
    rows = langfuse_rows("langfuse.langgraph-nodes")
    own = {row["id"]: f"obs-{number}" for number, row in enumerate(rows)}
    return [
        {
            "id": f"trace-{number}",
            "timestamp": rows[0]["startTime"],
            "observations": [
                {
                    **row,
                    "id": f"{own[row['id']]}-{number}",
                    "traceId": f"trace-{number}",
                    "parentObservationId": f"{own[row['parentObservationId']]}-{number}"
                    if row["parentObservationId"]
                    else None,
                }
                for row in rows
            ],
        }
        for number in range(count)
    ]


def test_langfuse_gives_the_runs_of_all_its_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbered pages are read to the last; each trace is the run that the framework made."""
    monkeypatch.setattr(langfuse_backend, "_A_PAGE", 4)
    with served(langfuse(langfuse_traces(9))) as server:
        runs, errors = read(f"langfuse://{server.host}")

    assert errors == []
    assert len(set(ids_of(runs))) == 9
    hidden = {*HIDDEN, "langfuse.observation.id", "langfuse.trace.id"}
    assert draw(runs[8].trace, hide=hidden) == NODES
    assert {one.headers["authorization"] for one in server.asked} == {"Basic cGstbGYtcHVibGljOnNrLWxmLXNlY3JldA=="}


def test_langfuse_page_that_fails_is_named_and_the_next_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """One page of a list that cannot be had takes none of the others with it."""
    monkeypatch.setattr(langfuse_backend, "_A_PAGE", 4)
    broken = failing(
        langfuse(langfuse_traces(10)),
        lambda asked: asked.path == "/api/public/traces" and asked.option("page") == "2",
        Answer(b"boom", 500),
    )
    with served(broken) as server:
        runs, errors = read(f"langfuse://{server.host}")

    assert len(runs) == 10 - 4
    assert len(errors) == 1
    assert "page 2 of the list of traces cannot be read" in errors[0]


def test_langfuse_page_that_is_too_large_is_asked_for_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Traces are listed with what they were asked and answered: a page of them is halved until it fits."""
    traces = langfuse_traces(10)
    size = len(json.dumps(traces[0]))
    padded = [{**trace, "input": "x" * size * 2} for trace in traces]
    monkeypatch.setattr(_api, "LIMITS", HttpLimits(max_bytes=size * 8))
    with served(langfuse(padded)) as server:
        runs, errors = read(f"langfuse://{server.host}")

    assert errors == []
    assert len(set(ids_of(runs))) == 10


def test_langfuse_needs_its_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without keys nothing is asked, and the message names the variables."""
    monkeypatch.delenv("LANGFUSE_SECRET_KEY")

    with pytest.raises(ConfigError, match="LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY"):
        pieces(["langfuse://localhost:3000"])


# -- Phoenix


def phoenix_rows(traces: Sequence[MessageActionTrace]) -> list[dict[str, Any]]:
    """Write steps as Phoenix's API writes spans."""
    return [
        {
            "id": "x",
            "name": f"invoke_agent {step.agent}",
            "context": {"trace_id": trace.trace_id, "span_id": step.span_id},
            "span_kind": "AGENT",
            "parent_id": None,
            "start_time": (NOON + timedelta(seconds=step.index)).isoformat(),
            "end_time": (NOON + timedelta(seconds=step.index + 1)).isoformat(),
            "status_code": "OK",
            "attributes": {
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": step.agent,
                "blamespan.step.index": step.index,
                "blamespan.step.kind": "message",
                "blamespan.step.content": step.content,
            },
            "events": [],
        }
        for trace in traces
        for step in trace.steps
    ]


def test_phoenix_gives_the_runs_of_all_its_pages() -> None:
    """Pages of traces and of each trace's spans are read until none names another."""
    with served(phoenix(phoenix_rows([trace_of(number, steps=5) for number in range(1, 6)]))) as server:
        runs, errors = read(f"phoenix://{server.host}/s/space/my%20project")

    assert errors == []
    assert ids_of(runs) == IDS[:5]
    assert [step.content for step in runs[0].trace.steps] == [f"words of step {index}" for index in range(5)]
    assert {path for path in server.paths() if path.endswith("/traces")} == {"/s/space/v1/projects/my project/traces"}


# -- What they have in common


def of_the_second(asked: Asked) -> bool:
    return asked.path.endswith(IDS[1])


def second_page_of_the_second(asked: Asked) -> bool:
    return asked.path.endswith("/spans") and asked.option("cursor") == "2" and IDS[1] in asked.option("trace_id")


PHOENIX = phoenix_rows([trace_of(number, steps=5) for number in (1, 2, 3)])
HALF = b'{"result": {"resourceSpans": []}}\n{"error": {"message": "storage went away"}}'
PARTIAL = {"status": "PARTIAL", "message": "trace exceeds max size", "trace": {"resourceSpans": []}}
AGAIN = {"data": PHOENIX[:1], "next_cursor": "again"}
LOST: dict[str, tuple[str, Callable[[Asked], Answer], Callable[[Asked], bool], Answer, str]] = {
    "gone": ("jaeger", jaeger(TRACES[:3]), of_the_second, Answer({"error": {"httpCode": 404}}, 404), "HTTP 404"),
    "gone from v1": (
        "jaeger",
        jaeger_v1(TRACES[:3]),
        of_the_second,
        Answer({"data": [], "errors": None}),
        "expected a trace, got none",
    ),
    "error amid it": ("jaeger", jaeger(TRACES[:3]), of_the_second, Answer(HALF), "storage went away"),
    "partial": ("tempo", tempo(TRACES[:3]), of_the_second, Answer(PARTIAL), "trace exceeds max size"),
    "page fails": ("phoenix", phoenix(PHOENIX), second_page_of_the_second, Answer(b"boom", 500), "HTTP 500"),
    "same page again": (
        "phoenix",
        phoenix(PHOENIX, page=9),
        lambda asked: asked.path.endswith("/spans") and IDS[1] in asked.option("trace_id"),
        Answer(AGAIN),
        "got the same again",
    ),
}
"""Where one of three traces cannot be had whole: the back end, when it answers what instead, and what is said of it."""


@pytest.mark.parametrize("lost", LOST)
def test_trace_that_cannot_be_had_whole_is_named_and_the_others_come(lost: str) -> None:
    """It is one error in its place, and no part of a run: half of it would be judged as if it were all."""
    scheme, answer, when, given, said = LOST[lost]
    with served(failing(answer, when, given)) as server:
        runs, errors = read(f"{scheme}://{server.host}", A_DAY)

    assert ids_of(runs) == [IDS[0], IDS[2]]
    [error] = errors
    assert IDS[1] in error
    assert said in error


@pytest.mark.parametrize("scheme", ["phoenix", "jaeger", "tempo", "langfuse"])
@pytest.mark.parametrize(
    "body",
    [
        b"null",
        b'{"error": {"x": 1}}',
        b'{"data": [{"id": "a", "trace_id": "b"}], "meta": {"totalPages": 99999999}, "next_cursor": "x"}',
        b'{"data": [{"id": "\\ud800", "trace_id": "\\ud800"}], "next_cursor": "\\ud800"}',
        b'{"traces": [{"traceID": 5}]}',
    ],
)
def test_answers_that_make_no_sense_are_named_and_end(scheme: str, body: bytes) -> None:
    """Whatever answers in a back end's place, there is an error, an end, and no crash."""
    with served(lambda asked: Answer(body)) as server:
        runs, errors = read(f"{scheme}://{server.host}", A_DAY)

    assert runs == []
    assert errors
    assert len(server.asked) < 20


@pytest.mark.parametrize(
    "given", [Answer(b"", 429, {"retry-after": "0"}), Answer(b"", 429), Answer(b"oops", 503), Answer(b"oops", 500)]
)
def test_throttled_back_end_is_asked_again(given: Answer) -> None:
    """A back end that is busy at first gives everything in the end."""
    with served(once(tempo(TRACES[:2]), given)) as server:
        runs, errors = read(f"tempo://{server.host}", A_DAY)

    assert errors == []
    assert ids_of(runs) == IDS[:2]


def test_back_end_that_stays_silent_is_left_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """After some questions without an answer the others are asked once each: silence has an end."""
    listing = tempo(TRACES)
    silent = failing(listing, lambda asked: asked.path != "/api/search", Answer(b"", 503))
    with served(silent) as server:
        runs, errors = read(f"tempo://{server.host}", A_DAY)

    assert runs == []
    assert len(errors) == len(TRACES)
    assert len([path for path in server.paths() if path != "/api/search"]) == 3 * 3 + len(TRACES) - 3


def test_nobody_there_is_one_error() -> None:
    """Where no one listens, that is named."""
    with served(lambda asked: Answer()) as server:
        pass
    _, errors = read(f"phoenix://{server.host}")

    assert len(errors) == 1
    assert "ConnectError" in errors[0]


def test_trace_id_as_a_filter_asks_for_that_trace_alone() -> None:
    """Whoever knows the trace need not have it searched for."""
    with served(tempo(TRACES)) as server:
        runs, _ = read(f"tempo://{server.host}?trace_id={IDS[7]}")

    assert ids_of(runs) == [IDS[7]]
    assert server.paths() == [f"/api/v2/traces/{IDS[7]}"]


def test_limit_ends_the_asking() -> None:
    """No more traces are asked for than the URL says."""
    with served(tempo(TRACES)) as server:
        runs, _ = read(f"tempo://{server.host}?limit=2", A_DAY)

    assert ids_of(runs) == IDS[:2]
    assert len([path for path in server.paths() if "traces" in path]) == 2


@pytest.mark.parametrize("option", ["api_key=hunter2", "token=hunter2", "since=hunter2", "limit=hunter2"])
def test_wrong_options_are_refused(option: str) -> None:
    """A key in a URL, and a time or number that is none, are mistakes that are said before anything is asked."""
    with pytest.raises(ConfigError) as caught:
        pieces([f"phoenix://localhost:1/p?{option}"])

    assert ("hunter2" in str(caught.value)) == option.startswith(("since", "limit"))


def test_run_is_looked_at_for_what_the_back_end_cannot_be_asked() -> None:
    """Filters that speak of the run are kept whatever the back end knows."""
    with served(tempo(TRACES[:2])) as server:
        known, _ = read(f"tempo://{server.host}?agent=writer", A_DAY)
        unknown, _ = read(f"tempo://{server.host}?agent=nobody", A_DAY)

    assert ids_of(known) == IDS[:2]
    assert unknown == []


def test_pieces_are_named_the_same_each_time() -> None:
    """What is resumed or shared out by name finds its piece again."""
    with served(tempo(TRACES)) as server:
        first, again = ([p.name for p in pieces([f"tempo://{server.host}"], selection=A_DAY)] for _ in range(2))

    assert first == again
    assert len(set(first)) == 3


def test_recorded_spans_mean_the_same_from_a_back_end() -> None:
    """Dialects are told apart behind a back end as they are in files."""
    name = "openinference.langgraph-nodes"
    (spans,) = traces_of(name)
    spans = [replace(span, resource={"service.name": "graph"}, origin=None) for span in spans]
    with served(jaeger([spans])) as server:
        runs, errors = read(f"jaeger://{server.host}", Selection(since=NOON - timedelta(days=365)))

    assert errors == []
    assert draw(runs[0].trace, hide=HIDDEN) == draw(recorded_trace(name), hide=HIDDEN)


def test_reading_that_is_left_leaves_no_connection() -> None:
    """Whoever takes one run and goes leaves nothing open: a warning would fail this test."""
    with served(tempo(TRACES[:1])) as server:
        (piece,) = pieces([f"tempo://{server.host}"], selection=A_DAY)
        reading = piece.read()
        assert not isinstance(next(reading), UnreadableInput)
        reading.close()  # type: ignore[attr-defined]
