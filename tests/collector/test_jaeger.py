"""Jaeger's query API from the store: the shapes that its UI and Grafana read, and what is read back from them."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from opentelemetry.trace import SpanKind

from blamespan import conventions as words
from blamespan.analysis.sources import pieces
from blamespan.importing.recorded import load_importer
from blamespan.importing.selection import Selection
from blamespan.otlp import request_from_json, spans_from_proto
from blamespan.rebuilding.rebuild import rebuild_run
from blamespan.rebuilding.runs import split_runs
from blamespan.spans import Span, SpanEvent
from blamespan.trace import MessageActionTrace
from blamespan_collector.jaeger import jaeger_routes
from blamespan_collector.jaeger import searching as limits
from blamespan_collector.store import RunStore
from tests.collector import paging
from tests.collector.documents import HOSTILE
from tests.collector.paging import annotated, serving_page, stored
from tests.sdk.builders import span as a_span
from tests.sdk.talks import NOW_NS, talk

LATER_NS = NOW_NS + 3_600 * 10**9
WINDOW = f"start={NOW_NS // 1_000}&end={LATER_NS // 1_000}"
WINDOW_V3 = "&".join(
    f"query.start_time_{which}={datetime.fromtimestamp(at / 1e9, UTC).isoformat().replace('+00:00', 'Z')}"
    for which, at in (("min", NOW_NS), ("max", LATER_NS))
)


def asking(store: RunStore) -> httpx.AsyncClient:
    return paging.asking(store, routes=jaeger_routes(store, lambda: LATER_NS))


async def got(store: RunStore, path: str) -> tuple[int, Any]:
    """Give status and document; whatever is asked, the answer is JSON."""
    async with asking(store) as client:
        answer = await client.get(path)
    assert answer.headers["content-type"] == "application/json"
    return answer.status_code, json.loads(answer.content)


async def found(store: RunStore, query: str) -> list[str]:
    """Search, and give the ids of what is found."""
    status, document = await got(store, f"/api/traces?service=team&{WINDOW}&{query}")
    assert (status, document["errors"]) == (200, None)
    return [one["traceID"] for one in document["data"]]


def shop(number: int, *, at_s: int = 0, seconds: int = 1, **changes: Any) -> list[Span]:
    """A shop's request, which asks a bank."""
    start_ns = NOW_NS + at_s * 10**9
    common = {"trace_id": f"{number:032x}", "start_ns": start_ns, "end_ns": start_ns + seconds * 10**9}
    asking: dict[str, Any] = {"name": "GET /", "kind": SpanKind.SERVER, "resource": {"service.name": "shop"}}
    return [
        a_span(number * 10, **(asking | common | changes)),
        a_span(number * 10 + 1, "pay", parent=number * 10, resource={"service.name": "bank"}, **common),
    ]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    """Two runs of a team, and a request of a shop."""
    return stored(
        tmp_path_factory.mktemp("jaeger") / "runs.db", *annotated(talk(1), talk(2, task="Count the lamps.")), shop(3)
    )


def envelope(*data: object) -> dict[str, object]:
    """Jaeger's around what was found."""
    return {"data": [*data], "total": len(data), "limit": 0, "offset": 0, "errors": None}


@pytest.mark.parametrize(
    ("path", "document"),
    [
        ("/api/services", envelope("bank", "shop", "team")),
        ("/api/v3/services", {"services": ["bank", "shop", "team"]}),
        ("/api/operations?service=shop", envelope({"name": "GET /", "spanKind": "server"})),
        ("/api/operations?service=shop&spanKind=client", envelope()),
        (
            "/api/services/team/operations",
            envelope("invoke_agent planner", "invoke_agent reviewer", "invoke_agent solver", "invoke_workflow"),
        ),
        ("/api/services/no%2Fsuch/operations", envelope()),
        (
            "/api/v3/operations?service=bank&span_kind=internal",
            {"operations": [{"name": "pay", "spanKind": "internal"}]},
        ),
    ],
)
async def test_services_and_operations_are_listed(store: RunStore, path: str, document: dict[str, object]) -> None:
    """As Jaeger: in `data`, counted in `total`, in v3 the message itself; the older question gives names alone."""
    assert await got(store, path) == (200, document)


async def test_trace_is_given_by_any_form_of_its_id(store: RunStore) -> None:
    """With or without leading zeros, in any case, the same trace comes, in the envelope of Jaeger's."""
    answers = [await got(store, f"/api/traces/{said}") for said in ("3", f"{3:016x}", f"{3:032x}")]

    assert answers[0] == answers[1] == answers[2]
    status, document = answers[0]
    assert status == 200
    [one] = document.pop("data")
    assert document == {"total": 0, "limit": 0, "offset": 0, "errors": None}
    assert (one["traceID"], [span["operationName"] for span in one["spans"]]) == (f"{3:016x}", ["GET /", "pay"])


def through(tmp_path: Path, name: str, document: Any) -> list[MessageActionTrace]:
    """Read an answer with the importer of that name."""
    path = tmp_path / f"{name}.json"
    path.write_text(json.dumps(document))
    importer = load_importer(name)
    assert importer.matches(path, path.read_bytes()[:4096])
    runs = [run for run in importer.read(path) if not isinstance(run, Exception)]
    return [run.trace for run in runs]


async def test_answers_are_read_back_to_the_same_runs(tmp_path: Path) -> None:
    """What the importers of Jaeger's formats read from our answers is the run that was stored, steps, links and all."""
    texts = ("Find it.", "12 * 3 = 35", "Checked, é 漢 👍.", *HOSTILE[:7])
    spans = annotated(talk(1, texts), talk(2, agents=("a", "b c", "d")))
    store = stored(tmp_path / "runs.db", *spans)
    runs = [rebuild_run(run) for one in spans for run in split_runs(one)]
    paths = {
        "jaeger": ("/api/traces/{}", f"/api/traces?service=team&{WINDOW}"),
        "jaeger-v3": ("/api/v3/traces/{}", f"/api/v3/traces?{WINDOW_V3}"),
    }

    for name, (one, every) in paths.items():
        alone = [through(tmp_path, name, (await got(store, one.format(run.trace_id)))[1]) for run in runs]
        assert [run for answer in alone for run in answer] == runs
        together = through(tmp_path, name, (await got(store, every))[1])
        assert sorted(together, key=lambda run: run.trace_id) == runs


def test_back_end_jaeger_reads_us(tmp_path: Path) -> None:
    """`blamespan analyze jaeger://...` finds in our answers, over a socket, the runs that are stored."""
    spans = annotated(talk(1), talk(2))
    store = stored(tmp_path / "runs.db", *spans, shop(3))
    asked = Selection(*(datetime.fromtimestamp(at / 1e9, UTC) for at in (NOW_NS, LATER_NS)))
    with serving_page(store) as url:
        found = pieces([f"jaeger://{url.removeprefix('http://')}/team"], selection=asked)
        read = [item for piece in found for item in piece.read()]

    runs = {rebuild_run(run).trace_id: rebuild_run(run) for one in spans for run in split_runs(one)}
    assert {item.trace.trace_id: item.trace for item in read if not isinstance(item, Exception)} == runs


async def test_v3_answers_spans_as_they_were_sent(tmp_path: Path) -> None:
    """The envelope of Jaeger's gateway holds OTLP-JSON, from which nothing is missing."""
    [spans] = annotated(talk(1, HOSTILE))
    store = stored(tmp_path / "runs.db", spans[:4], spans[4:])
    _, document = await got(store, f"/api/v3/traces/{1:032x}")

    assert list(document) == ["result"]
    assert list(spans_from_proto(request_from_json(json.dumps(document["result"])).resource_spans)) == spans


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("", [2, 1]),
        ("limit=1", [2]),
        ("operation=invoke_agent+solver", [2, 1]),
        ("operation=solver", []),
        ("operation=GET+/", []),
        ("minDuration=2500ms", [2, 1]),
        ("minDuration=3001ms", []),
        ("maxDuration=999ms", []),
        ("minDuration=1s&maxDuration=1s", [2, 1]),
        ('tags={"gen_ai.agent.name":"solver"}', [2, 1]),
        ("tag=gen_ai.agent.name:nobody", []),
        ("tag=blamespan.blame.decisive:true", [2, 1]),
        ("tag=blamespan.blame.decisive:true&tag=gen_ai.agent.name:solver", []),
        ("tag=blamespan.blame.decisive:true&operation=invoke_agent+reviewer", [2, 1]),
        ("tag=blamespan.error.score:0.7", [2, 1]),
        ("tag=blamespan.error.score:0.70", [2, 1]),
        ("tag=blamespan.error.score:0.71", []),
        ("tag=blamespan.blame.rank:1", [2, 1]),
        ("tag=blamespan.blame.rank:1.0", []),
        ("tag=span.kind:internal", [2, 1]),
        ("tag=span.kind:server", []),
        ("tag=error:true", []),
        ("tag=error:false", []),
        ("tag=otel.status_code:ERROR", []),
        ("tag=service.name:team", []),
        ("tag=nothing:", []),
    ],
)
async def test_one_span_must_fit_everything(store: RunStore, query: str, ids: list[int]) -> None:
    """As in Jaeger a trace is found if one span of it has the name, the duration and all the tags at once."""
    assert await found(store, query) == [f"{number:016x}" for number in ids]


async def test_tags_of_process_and_logs_are_searched(tmp_path: Path) -> None:
    """Tags are looked for where Jaeger looks: in the span, its process, its status, and what happened during it."""
    event = SpanEvent("exception", NOW_NS, {"exception.type": "Timeout", "list": ("a", 1)})
    resource = {"service.name": "team", "host.name": "web-1"}
    store = stored(tmp_path / "runs.db", shop(1, events=(event,), resource=resource, status="error"), shop(2))
    asked = ("tag=error:true", "tag=otel.status_code:ERROR", "tag=span.kind:server")

    for query in (
        *asked,
        "tag=host.name:web-1",
        "tag=event:exception",
        "tag=exception.type:Timeout",
        'tag=list:["a",1]',
    ):
        assert await found(store, query) == [f"{1:016x}"], query
    assert await found(store, "tag=host.name:web-2") == []


async def test_time_is_that_of_spans(tmp_path: Path) -> None:
    """A span must start in the time asked for; its trace may have begun before, as long runs do."""
    before, long = shop(1, at_s=-60), shop(2, at_s=-60, seconds=120)
    long.append(replace(long[1], span_id=f"{99:016x}", name="late", start_ns=NOW_NS + 10**9, end_ns=NOW_NS + 2 * 10**9))
    store = stored(tmp_path / "runs.db", before, long, shop(3), shop(4, at_s=7_200))
    _, document = await got(store, f"/api/traces?service=bank&{WINDOW}")

    assert [one["traceID"] for one in document["data"]] == [f"{3:016x}", f"{2:016x}"]


async def test_traces_are_given_by_several_ids(store: RunStore) -> None:
    """`traceID` may come again and again; each that is not stored is an error beside those that are."""
    status, document = await got(store, "/api/traces?traceID=1&traceID=99&traceID=2&traceID=1")

    assert status == 200
    assert [one["traceID"] for one in document["data"]] == [f"{1:016x}", f"{2:016x}"]
    assert document["errors"] == [{"msg": "trace not found", "traceID": f"{0x99:016x}"}]


async def test_search_of_jaegers_ui_is_answered_in_lines(tmp_path: Path) -> None:
    """What the UI asks from 2.19 on: counts, root and times of each trace, the last to start first, as Jaeger does."""
    failed = shop(2, at_s=60, status="error")
    orphan = replace(failed[1], span_id=f"{77:016x}", parent_id=f"{66:016x}", end_ns=0)
    store = stored(tmp_path / "runs.db", shop(1), [*failed, orphan], *annotated(talk(3)))
    asked = await got(store, f"/api/v3/trace-summaries?query.service_name=bank&{WINDOW_V3}&query.num_traces=20")

    start_ns = NOW_NS + 60 * 10**9
    assert asked == (
        200,
        {
            "summaries": [
                {
                    "traceId": f"{2:032x}",
                    "rootServiceName": "shop",
                    "rootOperationName": "GET /",
                    "minStartTimeUnixNano": str(start_ns),
                    "maxEndTimeUnixNano": str(start_ns + 10**9),
                    "spanCount": 3,
                    "errorSpanCount": 1,
                    "orphanSpanCount": 1,
                    "services": [
                        {"name": "bank", "spanCount": 2, "errorSpanCount": 0},
                        {"name": "shop", "spanCount": 1, "errorSpanCount": 1},
                    ],
                },
                {
                    "traceId": f"{1:032x}",
                    "rootServiceName": "shop",
                    "rootOperationName": "GET /",
                    "minStartTimeUnixNano": str(NOW_NS),
                    "maxEndTimeUnixNano": str(NOW_NS + 10**9),
                    "spanCount": 2,
                    "errorSpanCount": 0,
                    "orphanSpanCount": 0,
                    "services": [
                        {"name": "bank", "spanCount": 1, "errorSpanCount": 0},
                        {"name": "shop", "spanCount": 1, "errorSpanCount": 0},
                    ],
                },
            ]
        },
    )


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("query.service_name=team", [2, 1]),
        ("query.serviceName=team&query.searchDepth=1", [2]),
        ("serviceName=team&searchDepth=1", [2]),
        ("query.operation_name=GET+/", [3]),
        ("query.span_name=GET+/", [3]),
        ('query.attributes={"gen_ai.agent.name":"solver"}', [2, 1]),
        ('attributes={"gen_ai.agent.name":"nobody"}', []),
        ("query.service_name=team&durationMin=2500ms", [2, 1]),
        ("query.service_name=team&query.duration_max=2500ms&query.durationMin=2s", []),
        ("query.service_name=nobody", []),
    ],
)
async def test_search_in_lines_takes_both_spellings(store: RunStore, query: str, ids: list[int]) -> None:
    """Whatever is asked in snake or camel case chooses the traces; that there are none is an empty list."""
    status, document = await got(store, f"/api/v3/trace-summaries?{WINDOW_V3}&{query}")

    assert (status, [row["traceId"] for row in document["summaries"]]) == (200, [f"{number:032x}" for number in ids])


async def test_line_of_a_trace_without_root_names_its_earliest_orphan(tmp_path: Path) -> None:
    """A run whose own span has not come is still listed under a name, and its spans are counted once each."""
    lone = shop(1)[1:]
    store = stored(tmp_path / "runs.db", lone, lone)
    _, document = await got(store, f"/api/v3/trace-summaries?{WINDOW_V3}")

    [row] = document["summaries"]
    assert (row["rootServiceName"], row["rootOperationName"]) == ("bank", "pay")
    assert (row["spanCount"], row["orphanSpanCount"]) == (1, 1)


async def test_size_of_traces_does_not_cut_a_search_in_lines(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is summed up is not held: only time cuts such a search short, and a header says so."""
    monkeypatch.setattr(limits, "_MAX_ANSWERED_BYTES", 1)
    async with asking(store) as client:
        every = await client.get(f"/api/v3/trace-summaries?{WINDOW_V3}")
        monkeypatch.setattr(limits, "_MAX_SEARCH_S", -1.0)
        some = await client.get(f"/api/v3/trace-summaries?{WINDOW_V3}")

    assert (len(every.json()["summaries"]), every.headers.get("warning")) == (3, None)
    assert len(some.json()["summaries"]) == 1
    assert "ask for a shorter time" in some.headers["warning"]


async def test_dependencies_are_counted(tmp_path: Path) -> None:
    """Who called whom, in the time asked for, as Jaeger's graph wants it."""
    store = stored(tmp_path / "runs.db", shop(1), shop(2, at_s=60), shop(3, at_s=-7_200), *annotated(talk(4)))
    ms = LATER_NS // 10**6
    asked = [await got(store, f"/api/dependencies?endTs={ms}&lookback={lookback}") for lookback in (3_600_000, 1)]

    links = [{"parent": "shop", "child": "bank", "callCount": 2}]
    assert asked == [(200, {"data": data, "total": 0, "limit": 0, "offset": 0, "errors": None}) for data in (links, [])]
    assert (await got(store, "/api/dependencies"))[1]["data"] == [{**links[0], "callCount": 3}]
    window = WINDOW_V3.replace("query.start_time_min", "start_time").replace("query.start_time_max", "endTime")
    assert await got(store, f"/api/v3/dependencies?{window}") == (200, {"dependencies": links})


async def test_spans_without_a_service_are_found(tmp_path: Path) -> None:
    """Jaeger has a name for them; they are listed, and found, by it."""
    nameless = shop(1, resource={"host.name": "x"})
    store = stored(tmp_path / "runs.db", nameless, shop(2))
    name = "OTLPResourceNoServiceName"

    assert (await got(store, "/api/services"))[1]["data"] == [name, "bank", "shop"]
    assert (await got(store, f"/api/services/{name}/operations"))[1]["data"] == ["GET /"]
    _, document = await got(store, f"/api/traces?service={name}&{WINDOW}")
    assert [one["traceID"] for one in document["data"]] == [f"{1:016x}"]


async def test_long_names_are_found_as_they_are_listed(tmp_path: Path) -> None:
    """Names are listed cut at 500 bytes; asked for so, or whole, they are found."""
    long = "é" * 400
    store = stored(tmp_path / "runs.db", shop(1, name=long, resource={"service.name": long}))
    listed = (await got(store, "/api/services"))[1]["data"][-1]
    operation = (await got(store, f"/api/services/{listed}/operations"))[1]["data"][0]

    for service, name in ((listed, operation), (long, long)):
        _, document = await got(store, f"/api/traces?service={service}&operation={name}&{WINDOW}")
        assert len(document["data"]) == 1


@pytest.mark.parametrize(
    ("path", "code", "said"),
    [
        ("/api/traces", 400, "parameter 'service' is required"),
        ("/api/traces?service=team&limit=many", 400, "unable to parse param 'limit'"),
        ("/api/traces?traceID=x", 400, "cannot parse trace id"),
        ("/api/traces?" + "&".join(f"traceID={n}" for n in range(1, 1_502)), 400, "expected 1500 'traceID' at most"),
        ("/api/traces/nonsense", 400, "cannot parse trace id"),
        ("/api/traces/" + "1" * 33, 400, "cannot parse trace id"),
        ("/api/traces/ffff", 404, "trace not found"),
        ("/api/operations", 400, "parameter 'service' is required"),
        ("/api/dependencies?endTs=now", 400, "unable to parse param 'endTs'"),
        ("/api/dependencies?lookback=-1", 400, "unable to parse param 'lookback'"),
        ("/api/metrics/calls", 404, "Not Found"),
        ("/api/v3/services/../../nothing", 404, "Not Found"),
        ("/api/quality-metrics?hours=1&service=team", 404, "Not Found"),
        ("/api/deep-dependencies?service=team", 404, "Not Found"),
        ("/analytics/v1/dependencies?service=team", 404, "Not Found"),
        ("/analytics", 404, "Not Found"),
        ("/quality-metrics?hours=1&service=team", 404, "Not Found"),
    ],
)
async def test_errors_have_jaegers_shape(store: RunStore, path: str, code: int, said: str) -> None:
    """`errors` holds code and message, `data` is null, and the status is the code."""
    status, document = await got(store, path)
    [error] = document.pop("errors")

    assert (status, error["code"], document) == (code, code, {"data": None, "total": 0, "limit": 0, "offset": 0})
    assert said in error["msg"]


@pytest.mark.parametrize(
    ("path", "code", "said"),
    [
        ("/api/v3/traces", 400, "query.start_time_min and query.start_time_max are required"),
        (f"/api/v3/traces?{WINDOW_V3}&query.service_name=nobody", 404, "No traces found"),
        ("/api/v3/traces/nonsense", 400, "cannot parse trace id"),
        ("/api/v3/traces/ffff", 404, "trace not found"),
        ("/api/v3/operations", 400, "parameter 'service' is required"),
        ("/api/v3/trace-summaries", 400, "query.start_time_min and query.start_time_max are required"),
        (f"/api/v3/trace-summaries?{WINDOW_V3}&query.searchDepth=0", 400, "unable to parse param 'query.searchDepth'"),
        ("/api/v3/dependencies?startTime=2026-01-31T12:00:00Z", 400, "startTime and endTime are required"),
        (
            "/api/v3/dependencies?startTime=2026-01-31T12:00:00Z&end_time=2026-01-31T12:00:00Z",
            400,
            "endTime must be after startTime",
        ),
        ("/api/v3/capabilities", 404, "Not Found"),
        ("/api/v3/spans", 404, "Not Found"),
    ],
)
async def test_errors_of_v3_have_its_shape(store: RunStore, path: str, code: int, said: str) -> None:
    """`error` holds httpCode and message, and the status is the code."""
    status, document = await got(store, path)

    assert (status, list(document), document["error"]["httpCode"]) == (code, ["error"], code)
    assert said in document["error"]["message"]


async def test_store_that_is_not_there_is_an_error_of_theirs(tmp_path: Path) -> None:
    """Without a store the answer says what to start, in either shape."""
    store = RunStore(tmp_path / "none.db")
    status, document = await got(store, "/api/services")
    status_v3, document_v3 = await got(store, "/api/v3/services")

    assert (status, status_v3) == (503, 503)
    assert "Start blamespan collect --store" in document["errors"][0]["msg"]
    assert "Start blamespan collect --store" in document_v3["error"]["message"]


async def test_fault_of_ours_is_json_too(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """What nobody foresaw is a 500 that tells no more than its kind."""
    monkeypatch.setattr(RunStore, "services", lambda self: 1 / 0)

    assert await got(store, "/api/v3/services") == (
        500,
        {"error": {"httpCode": 500, "message": "internal error: ZeroDivisionError"}},
    )


async def test_only_reading_is_allowed(store: RunStore) -> None:
    """Nothing can be changed, archived or uploaded through the API."""
    async with asking(store) as client:
        answers = [await client.request(method, "/api/traces") for method in ("POST", "PUT", "DELETE", "OPTIONS")]
        answers.append(await client.post("/api/archive/1"))

    assert [answer.status_code for answer in answers] == [405, 405, 405, 405, 404]


async def test_hostile_text_stays_json(tmp_path: Path) -> None:
    """Whatever traces say, in names, keys and values, the answers are JSON that says the same."""
    spans = [
        replace(one, name=text, resource={"service.name": "team", text: text}).with_attributes({text: text})
        for text, one in zip(HOSTILE, annotated(talk(1, HOSTILE))[0], strict=False)
    ]
    store = stored(tmp_path / "runs.db", spans)
    _, document = await got(store, f"/api/traces/{1:032x}")

    [one] = document["data"]
    assert [span["operationName"] for span in one["spans"]] == [span.name for span in spans]
    assert {"key": HOSTILE[7], "type": "string", "value": HOSTILE[7]} in one["spans"][7]["tags"]
    for text in HOSTILE:
        status, _ = await got(store, f"/api/traces?{urlencode({'service': text, 'tag': text})}")
        assert status in (200, 400)


@pytest.mark.parametrize(("name", "most"), [("_MAX_ANSWERED_BYTES", 1), ("_MAX_SEARCH_S", -1.0)])
async def test_one_question_costs_so_much_and_no_more(
    store: RunStore, monkeypatch: pytest.MonkeyPatch, name: str, most: float
) -> None:
    """Where time or size runs out, what was found comes, and it is said that there may be more."""
    monkeypatch.setattr(limits, name, most)
    _, document = await got(store, f"/api/traces?service=team&{WINDOW}")
    _, by_ids = await got(store, "/api/traces?traceID=1&traceID=2")
    async with asking(store) as client:
        v3 = await client.get(f"/api/v3/traces?{WINDOW_V3}")

    assert [one["traceID"] for one in document["data"]] == [f"{2:016x}"]
    assert "ask for a shorter time" in document["errors"][0]["msg"]
    assert len(by_ids["data"]) < 2
    assert "ask for a shorter time" in by_ids["errors"][0]["msg"]
    assert "ask for a shorter time" in v3.headers["warning"]


async def test_questions_wait_for_each_other(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two are answered at a time: the process also receives spans. Who waits too long is told to ask again."""
    monkeypatch.setattr(limits, "_WAIT_S", 0.05)
    entered, leave = threading.Semaphore(0), threading.Event()

    def slow(self: object, ids: object) -> limits.Found:
        entered.release()
        leave.wait(10)
        return limits.Found((), ("1",))

    monkeypatch.setattr(limits.Searcher, "by_ids", slow)
    async with asking(store) as client:
        two = [asyncio.create_task(client.get(path)) for path in ("/api/traces/1", "/api/v3/traces/1")]
        assert await asyncio.to_thread(lambda: entered.acquire(timeout=10) and entered.acquire(timeout=10))
        third = await client.get("/api/traces?traceID=1")
        leave.set()
        answers = [third, *await asyncio.gather(*two)]

    assert [answer.status_code for answer in answers] == [503, 404, 404]
    assert "2 questions are under way since 0.05 s. Ask again later" in third.text


async def test_annotations_are_tags(store: RunStore) -> None:
    """A verdict is read where people look: as tags of the span, and as those one can search for."""
    _, document = await got(store, "/api/traces/1")
    [decisive] = [span for span in document["data"][0]["spans"] if span["warnings"]]
    tags = {tag["key"]: tag["value"] for tag in decisive["tags"]}

    assert {key: value for key, value in tags.items() if key.startswith(("blamespan.blame", "blamespan.e"))} == {
        words.BLAME_DECISIVE: True,
        words.BLAME_RANK: 1,
        words.BLAME_SCORE: 0.571429,
        words.ERROR_MODE: "FM-3.3",
        words.ERROR_NAME: "Incorrect verification",
        words.ERROR_SCORE: 0.7,
        words.ERROR_TAXONOMY: "mast",
        words.EVIDENCE: "Checked, that is right.",
    }
