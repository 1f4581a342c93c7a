"""The page of a running collector: what is sent to it is there to look at, and goes on after a kill."""

from __future__ import annotations

import socket
import sqlite3
import time
from pathlib import Path

import httpx
import pytest

from blamespan_collector.service import service
from blamespan_collector.settings import CollectorSettings, ListenAddress
from blamespan_collector.store import RunQuery, RunStore, StoreUnavailable
from tests.collector.fakes import request, run
from tests.collector.test_command import finished, started, use_first_step_tracer

PROTOBUF = {"content-type": "application/x-protobuf"}


@pytest.fixture(autouse=True)
def _environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_first_step_tracer(tmp_path, monkeypatch)
    monkeypatch.delenv("BLAMESPAN_STORE", raising=False)
    monkeypatch.delenv("BLAMESPAN_PAGE", raising=False)


def send(told: dict[str, str], number: int) -> None:
    body = request(run(number)).SerializeToString()
    httpx.post(f"http://{told['http']}/v1/traces", content=body, headers=PROTOBUF, trust_env=False).raise_for_status()


def until_stored(store: RunStore, runs: int, within_s: float = 20.0) -> list[str]:
    """Wait for runs to be in a store."""
    until_s = time.monotonic() + within_s
    while time.monotonic() < until_s:
        try:
            found = store.search()
        except StoreUnavailable:
            found = []
        if len(found) >= runs:
            break
        time.sleep(0.05)
    return [one.trace_id for one in found]


def test_run_that_is_sent_is_on_the_page(tmp_path: Path) -> None:
    """With nothing but a page a collector takes spans, judges the run and shows it; a kill changes nothing."""
    journal = tmp_path / "journal"
    store = RunStore(journal / "store" / "runs.db")
    quick = ("--page", "127.0.0.1:0")
    with started(*quick, journal=journal, quiet_s=0.1) as (_, told):
        send(told, 1)
        assert until_stored(store, 1) == [f"{1:032x}"]
        answer = httpx.get(f"http://{told['page']}/run/{1:032x}", trust_env=False)
    with started(*quick, journal=journal, quiet_s=0.1) as (_, told):
        send(told, 2)
        found = until_stored(store, 2)
        page = httpx.get(f"http://{told['page']}/", trust_env=False)
        jaeger = httpx.get(f"http://{told['page']}/api/traces/2", trust_env=False)

    assert "Most to blame" in answer.text
    assert set(found) == {f"{1:032x}", f"{2:032x}"}
    assert all(f"/run/{trace_id}" in page.text for trace_id in found)
    assert [one["traceID"] for one in jaeger.json()["data"]] == [f"{2:016x}"]
    assert store.search(RunQuery(agent="agent0", mode="mast:FM-1.1"))[0].spans == 4


def test_page_in_use_is_named() -> None:
    """An address that was asked for and is taken ends the start with what to do."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = finished("--grpc", "none", "--http", "127.0.0.1:0", "--page", address)

    assert done.returncode == 1
    assert f"cannot listen for the page on {address}: Address already in use" in done.stderr
    assert "or choose another with --page 127.0.0.1:PORT" in done.stderr


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


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--store", "none"), "expected somewhere to send annotated traces, got neither --forward nor --out nor a"),
        (
            ("--store", "none", "--out", "-", "--page", "127.0.0.1:0"),
            "expected a --store for the --page at 127.0.0.1:0",
        ),
        (("--store", "/dev/null/x"), "expected a file for the store of runs that can be written, got '/dev/null/x'"),
        (("--page", "4320"), "expected an address as HOST:PORT, or 'none', got '4320'"),
    ],
)
def test_wrong_settings_are_named(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    """What cannot be shown or stored is said before anything starts."""
    free = ("--grpc", "none", "--http", "127.0.0.1:0", "--journal", str(tmp_path / "journal"))
    done = finished(*free, *arguments)

    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize("name", ["store_max_bytes", "store_max_age_s"])
def test_bounds_of_the_store_are_above_zero(tmp_path: Path, name: str) -> None:
    """A store that may hold nothing is refused before anything starts."""
    done = finished("--grpc", "none", "--http", "127.0.0.1:0", "--journal", str(tmp_path / "journal"), **{name: -1})

    assert (done.returncode, f"{name} must be above 0" in done.stderr) == (2, True), done.stderr


def test_newer_store_is_refused_at_the_start(tmp_path: Path) -> None:
    """A store that a newer version wrote is left as it is; the message says what to run."""
    path = tmp_path / "runs.db"
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA application_id = 1651274610")
        database.execute("PRAGMA user_version = 99")
    free = ("--grpc", "none", "--http", "127.0.0.1:0", "--journal", str(tmp_path / "journal"))
    done = finished(*free, "--store", str(path))

    assert done.returncode == 2
    assert "of version 99: a newer blamespan wrote it. Upgrade with: pip install" in done.stderr
