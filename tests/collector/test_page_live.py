"""The page of a running collector: what is sent to it is there to look at, and goes on after a kill."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from blamespan.otlp import request_from_json
from blamespan_collector.service import service
from blamespan_collector.settings import CollectorSettings, ListenAddress
from blamespan_collector.store import RunQuery, RunStore, StoreUnavailable
from tests.collector.fakes import request, run, spans_of
from tests.collector.receiving import PROTOBUF
from tests.collector.test_command import last_line, started
from tests.collector.working import until


@pytest.fixture(autouse=True)
def _environment(own_folders: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BLAMESPAN_STORE", raising=False)
    monkeypatch.delenv("BLAMESPAN_PAGE", raising=False)


def send(told: dict[str, str], number: int) -> None:
    body = request(run(number)).SerializeToString()
    httpx.post(f"http://{told['http']}/v1/traces", content=body, headers=PROTOBUF, trust_env=False).raise_for_status()


def until_stored(store: RunStore, runs: int) -> list[str]:
    """Wait for runs to be in a store."""
    found: list[str] = []

    def are_there() -> bool:
        with suppress(StoreUnavailable):
            found[:] = [one.trace_id for one in store.search()]
        return len(found) >= runs

    until(are_there, 20)
    return found


def test_run_that_is_sent_is_on_the_page_whatever_kills_the_collector(tmp_path: Path) -> None:
    """With nothing but a page a collector takes spans, judges the run and shows it.

    After `kill -9` right after the answer the next start goes on: every span is delivered, once.
    """
    journal, path = tmp_path / "journal", tmp_path / "traces.jsonl"
    store = RunStore(journal / "store" / "runs.db")
    options = ("--page", "127.0.0.1:0", "--out", str(path))
    with started(*options, journal=journal, quiet_s=0.1) as (process, told):
        send(told, 1)
        assert until_stored(store, 1) == [f"{1:032x}"]
        answer = httpx.get(f"http://{told['page']}/run/{1:032x}", trust_env=False)
        send(told, 2)
        process.kill()
    with started(*options, journal=journal, quiet_s=0.1) as (process, told):
        found = until_stored(store, 2)
        page = httpx.get(f"http://{told['page']}/", trust_env=False)
        jaeger = httpx.get(f"http://{told['page']}/api/traces/2", trust_env=False)
        said = last_line(process)
    written = [span for line in path.read_text().splitlines() for span in spans_of([request_from_json(line)])]

    assert "Most to blame" in answer.text
    assert set(found) == {f"{1:032x}", f"{2:032x}"}
    assert all(f"/run/{trace_id}" in page.text for trace_id in found)
    assert [one["traceID"] for one in jaeger.json()["data"]] == [f"{2:016x}"]
    assert store.search(RunQuery(agent="agent0", mode="mast:FM-1.1"))[0].spans == 4
    assert said == "blamespan: everything that was acknowledged is delivered"
    assert [span.span_id for span in written] == [span.span_id for number in (1, 2) for span in run(number)]


def test_default_page_in_use_does_not_keep_spans_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Where nobody chose the page's address and it is taken, a line says so, and spans are received nevertheless."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        page = ListenAddress("127.0.0.1", taken.getsockname()[1])
        monkeypatch.setattr(service, "DEFAULT_PAGE", page)
        settings = CollectorSettings(journal=tmp_path, store=tmp_path / "runs.db", page=page)

        assert service._page(settings) is None
    assert f"there is no page to look at runs: cannot listen for the page on {page}" in caplog.text
