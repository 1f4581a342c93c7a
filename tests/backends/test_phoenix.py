"""A real Arize Phoenix behind a real `blamespan collect`: spans and verdicts arrive once, however often they are sent.

Installs Phoenix (500 MB) into an environment of its own, so only `scripts/backends` runs it.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from blamespan import conventions as words
from blamespan.spans import Span
from tests.benchmarks.collector_servers import phoenix
from tests.collector.fakes import request, run
from tests.collector.working import until
from tests.faults.collector import CollectorProcess

pytestmark = [
    pytest.mark.skipif(not os.environ.get("BLAMESPAN_BACKENDS"), reason="run by scripts/backends"),
    pytest.mark.timeout(1500),
]

RUNS = 20
PROTOBUF = {"content-type": "application/x-protobuf"}
WRONG = "I could not find the file, but the total is certainly 40."


@pytest.fixture(scope="module")
def backend() -> Iterator[str]:
    """Phoenix on this machine; gives its URL."""
    with phoenix() as server:
        yield server.http.removesuffix("/v1/traces")


def runs() -> list[list[Span]]:
    """Make runs that ended now, as Phoenix shows the latest."""
    return [run(number, steps=4, content=WRONG) for number in range(1, RUNS + 1)]


@contextmanager
def collecting(folder: Path, url: str, *options: str) -> Iterator[CollectorProcess]:
    collector = CollectorProcess(folder, url, options, environment={**os.environ, "BLAMESPAN_PHOENIX": url})
    folder.mkdir(exist_ok=True)
    collector.spawn()
    collector.wait_ready()
    try:
        yield collector
    finally:
        collector.stop()


def send(collector: CollectorProcess, traces: list[list[Span]]) -> None:
    for spans in traces:
        url = f"http://{collector.addresses['http']}/v1/traces"
        httpx.post(url, content=request(spans).SerializeToString(), headers=PROTOBUF).raise_for_status()


def deliver(collector: CollectorProcess, traces: list[list[Span]]) -> None:
    """Send traces and wait until everything about them is where it should be."""
    send(collector, traces)
    health = f"http://{collector.addresses['http']}/healthz"

    def is_done() -> bool:
        counts = httpx.get(health).json()
        judged = counts.get("runs_attributed", 0) + counts.get("runs_abstained", 0)
        return bool(judged >= len(traces) and not counts["spans_waiting"] and not counts["open_traces"])

    until(is_done, 120)


def spans_in(url: str) -> list[dict[str, Any]]:
    """Read all spans that Phoenix has, as it tells them."""
    found: list[dict[str, Any]] = []
    cursor = None
    while True:
        told = {"limit": 1000, **({"cursor": cursor} if cursor else {})}
        answer = httpx.get(f"{url}/v1/projects/default/spans", params=told, timeout=60).raise_for_status().json()
        found += answer["data"]
        cursor = answer.get("next_cursor")
        if not cursor:
            return found


def annotations_in(url: str, span_ids: list[str]) -> list[dict[str, Any]]:
    """Read all annotations of spans."""
    found: list[dict[str, Any]] = []
    for start in range(0, len(span_ids), 50):
        asked = {"span_ids": span_ids[start : start + 50], "limit": 1000}
        answer = httpx.get(f"{url}/v1/projects/default/span_annotations", params=asked, timeout=60)
        found += answer.raise_for_status().json()["data"]
    return found


def told(url: str) -> tuple[Counter[str], Counter[tuple[str, str, str]]]:
    """Count what Phoenix has: spans by id, annotations by span, name and who says so."""
    spans = [span["context"]["span_id"] for span in spans_in(url)]
    annotations = annotations_in(url, spans)
    return Counter(spans), Counter((one["span_id"], one["name"], one["identifier"]) for one in annotations)


def test_phoenix_has_each_span_and_each_verdict_once(backend: str, tmp_path: Path) -> None:
    """Sent, sent again to the same collector, to another one, and to one killed half-way: nothing is doubled."""
    traces = runs()
    sent = {span.span_id for spans in traces for span in spans}
    with collecting(tmp_path / "first", backend) as collector:
        deliver(collector, traces)
        until(lambda: len(told(backend)[1]) >= RUNS, 60)
        first = told(backend)
        send(collector, traces)  # again: the collector knows them
    with collecting(tmp_path / "second", backend) as collector:  # with a journal that knows nothing
        deliver(collector, traces)
    third = CollectorProcess(tmp_path / "third", backend, environment={**os.environ, "BLAMESPAN_PHOENIX": backend})
    (tmp_path / "third").mkdir()
    third.spawn()
    third.wait_ready()
    send(third, traces)
    third.kill()
    with collecting(tmp_path / "third", backend) as collector:
        health = f"http://{collector.addresses['http']}/healthz"
        until(lambda: not httpx.get(health).json()["spans_waiting"], 60)
    again = told(backend)

    assert set(first[0]) == sent
    assert set(first[0].values()) == {1}
    assert set(first[1].values()) == {1}
    assert {name for _, name, _ in first[1]} >= {"blamespan.failure"}
    assert again == first


def test_phoenix_shows_the_verdict_on_the_span_it_is_about(backend: str, tmp_path: Path) -> None:
    """What stands on a run's span and what is annotated on it are the same number."""
    (spans,) = [run(1000, steps=4, content=WRONG)]
    with collecting(tmp_path / "one", backend) as collector:
        deliver(collector, [spans])
    (root,) = [span for span in spans_in(backend) if span["context"]["span_id"] == spans[0].span_id]
    until(lambda: annotations_in(backend, [spans[0].span_id]), 60)
    (failure,) = [one for one in annotations_in(backend, [spans[0].span_id]) if one["name"] == "blamespan.failure"]
    on_span = root["attributes"].get(words.FAILURE_SCORE)

    assert failure["annotator_kind"] == "CODE"
    assert failure["result"]["score"] == (None if on_span is None else pytest.approx(on_span, abs=1e-5))


def test_phoenix_that_is_down_gets_everything_when_it_is_back(backend: str, tmp_path: Path) -> None:
    """Spans and annotations wait while Phoenix does not answer, and go in their order then."""
    spans = run(2000, steps=4, content=WRONG)
    stopped = _phoenix_process(backend)
    os.kill(stopped, signal.SIGSTOP)
    try:
        with collecting(tmp_path / "down", backend) as collector:
            send(collector, [spans])
            health = f"http://{collector.addresses['http']}/healthz"
            until(lambda: httpx.get(health).json()["sinks_failing"], 60)
            os.kill(stopped, signal.SIGCONT)
            until(lambda: not httpx.get(health).json()["spans_waiting"], 90)
    finally:
        os.kill(stopped, signal.SIGCONT)
    found = Counter(span["context"]["span_id"] for span in spans_in(backend))

    assert {span.span_id: found[span.span_id] for span in spans} == {span.span_id: 1 for span in spans}


def _phoenix_process(url: str) -> int:
    port = int(url.rpartition(":")[2])
    (found,) = {
        one.pid
        for one in psutil.net_connections("tcp")
        if one.laddr and one.laddr.port == port and one.status == psutil.CONN_LISTEN
    }
    return int(found)
