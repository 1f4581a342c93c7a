"""A real Arize Phoenix read by its API, and annotated twice: it tells the runs it was sent, and nothing is doubled.

Installs Phoenix (500 MB) into an environment of its own, so only `scripts/backends` runs it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import timedelta
from typing import Any

import httpx
import pytest

from blamespan.analysis.sources import pieces
from blamespan.errors import NotWritten
from blamespan.importing.backends import open_writer
from blamespan.importing.recorded import RecordedRun
from blamespan.importing.selection import Selection
from blamespan.spans import Span
from tests.benchmarks.collector_servers import phoenix
from tests.collector.fakes import request
from tests.collector.working import until
from tests.integrations.backends.runs import NOON, in_project, run_spans, trace_of, verdicts, without_root
from tests.integrations.dialects.recordings import HIDDEN, traces_of
from tests.integrations.drawing import draw
from tests.integrations.importers.files import NODES, text, with_status

pytestmark = [
    pytest.mark.skipif(not os.environ.get("BLAMESPAN_BACKENDS"), reason="run by scripts/backends"),
    pytest.mark.timeout(1500),
]

PROTOBUF = {"content-type": "application/x-protobuf"}
ALL = Selection()
SWARM_WITHOUT_ADDRESSEES = text("""
    task: When is the tide?
    agents: desk, expert
    0 desk: tool_call 'transfer_to_expert({})'
    1 desk: tool_result 'Transferred to expert, adopting the role of expert immediately.' after 0
    2 desk: message 'Transferred to expert, adopting the role of expert immediately.' after 1
    3 expert: message 'The tide is at nine.' after 2
    """)


@pytest.fixture(scope="module")
def backend() -> Iterator[str]:
    """Phoenix on this machine; gives its URL."""
    with phoenix() as server:
        yield server.http.removesuffix("/v1/traces")


def address(url: str, project: str) -> str:
    return f"{url.replace('http://', 'phoenix://')}/{project}"


def send(url: str, project: str, traces: Sequence[list[Span]]) -> None:
    """Export spans to a project, as an OTLP exporter does, and wait until it has their traces."""
    spans = [span for spans in traces for span in spans]
    body = request(in_project(spans, project)).SerializeToString()
    httpx.post(f"{url}/v1/traces", content=body, headers=PROTOBUF, timeout=60).raise_for_status()
    until(lambda: len(spans_in(url, project)) >= len(spans), 60)


def spans_in(url: str, project: str) -> list[dict[str, Any]]:
    answer = httpx.get(f"{url}/v1/projects/{project}/spans", params={"limit": 1000}, timeout=60)
    return [] if answer.status_code == 404 else list(answer.raise_for_status().json()["data"])


def read(url: str, selection: Selection = ALL) -> list[RecordedRun]:
    found = [item for piece in pieces([url], selection=selection) for item in piece.read()]
    assert [item for item in found if not isinstance(item, RecordedRun)] == []
    return [item for item in found if isinstance(item, RecordedRun)]


def write(url: str, runs: Sequence[RecordedRun]) -> tuple[int, int, list[NotWritten]]:
    """Write verdicts back; gives how many were written and were not, and why."""
    failures: list[NotWritten] = []
    with closing(open_writer(url, on_failure=failures.append)) as writer:
        writer.write(verdicts(runs))
        return writer.written, writer.failed, failures


def annotations_in(url: str, project: str, kind: str, ids: Sequence[str]) -> list[dict[str, Any]]:
    asked = {f"{kind}_ids": list(ids), "limit": 1000}
    answer = httpx.get(f"{url}/v1/projects/{project}/{kind}_annotations", params=asked, timeout=60)
    return list(answer.raise_for_status().json()["data"])


@pytest.mark.parametrize(
    ("name", "drawing"),
    [("openinference.langgraph-nodes", with_status(NODES)), ("openinference.autogen-swarm", SWARM_WITHOUT_ADDRESSEES)],
)
def test_recorded_run_comes_back_from_phoenix(backend: str, name: str, drawing: str) -> None:
    """A run that a real framework made, recorded by OpenInference, is that run when Phoenix tells it."""
    project = name.replace(".", "-")
    send(backend, project, traces_of(name))

    (run,) = read(address(backend, project))

    assert draw(run.trace, hide=HIDDEN) == drawing


def test_runs_are_found_over_pages_and_by_time(backend: str) -> None:
    """More traces than a page holds are all found, each once; a range of time is kept."""
    traces = [run_spans(number, at=NOON + timedelta(minutes=number)) for number in range(1, 231)]
    send(backend, "pages", traces)
    url = address(backend, "pages")
    within = Selection(since=NOON + timedelta(minutes=10), until=NOON + timedelta(minutes=20))

    everything = [run.trace.trace_id for run in read(url)]

    assert everything == [spans[0].trace_id for spans in traces]
    assert [run.trace.trace_id for run in read(url, within)] == everything[9:19]


def test_annotations_written_twice_are_there_once(backend: str) -> None:
    """Each verdict stands on the spans it speaks of, once, however often it is written."""
    traces = [run_spans(number) for number in range(1000, 1010)]
    send(backend, "annotated", traces)
    runs = read(address(backend, "annotated"))
    counted = []
    for _ in range(2):
        assert write(address(backend, "annotated"), runs) == (10, 0, [])
        found = annotations_in(backend, "annotated", "span", [span.span_id for spans in traces for span in spans])
        counted.append(Counter((one["span_id"], one["name"], one["result"]["score"]) for one in found))

    roots, firsts = ([spans[place].span_id for spans in traces] for place in (0, 1))
    assert counted[0] == Counter(
        {
            **{(span_id, "blamespan.failure", 0.9): 1 for span_id in roots},
            **{(span_id, "blamespan.blame", 1.0): 1 for span_id in firsts},
        }
    )
    assert counted[1] == counted[0]


def test_run_without_its_own_span_is_annotated_on_its_trace(backend: str) -> None:
    """How likely a run failed stands on the trace where no span stands for the run."""
    spans = without_root(run_spans(2000))
    send(backend, "rootless", [spans])
    runs = read(address(backend, "rootless"))

    assert write(address(backend, "rootless"), runs) == (1, 0, [])

    (annotation,) = annotations_in(backend, "rootless", "trace", [spans[0].trace_id])
    assert annotation["name"] == "blamespan.failure"


def test_verdict_on_a_run_phoenix_does_not_have_is_named(backend: str) -> None:
    """One run that is not there keeps no other back."""
    send(backend, "partly", [run_spans(3000), run_spans(3001)])
    runs = read(address(backend, "partly"))

    written, failed, failures = write(
        address(backend, "partly"), [runs[0], RecordedRun("elsewhere", trace_of(3002)), runs[1]]
    )

    assert (written, failed) == (2, 1)
    assert [str(failure).partition(": ")[0] for failure in failures] == ["elsewhere"]


def test_verdicts_as_spans_are_there_once_and_change_no_reading(backend: str) -> None:
    """Verdicts written as spans, twice, are there once, and the run reads as before."""
    send(backend, "spans", [run_spans(4000)])
    before = read(address(backend, "spans"))
    for _ in range(2):
        write(f"{backend}/v1/traces", before)
    until(lambda: len(spans_in(backend, "spans")) > 4, 60)

    assert len(spans_in(backend, "spans")) == 5
    assert read(address(backend, "spans")) == before


def test_project_that_is_not_there_is_named(backend: str) -> None:
    """An unknown project is an error in its place, not an empty reading."""
    found = [item for piece in pieces([address(backend, "nowhere")]) for item in piece.read()]

    assert len(found) == 1
    assert "HTTP 404" in str(found[0])
