"""The running collector, put together: what it refuses to do to itself, and what it says of itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from blamespan_collector.journal import writer as writing
from blamespan_collector.service import supervisor as supervising
from blamespan_collector.service.service import Service, _warn_of_open_doors
from blamespan_collector.settings import CollectorSettings, ListenAddress
from tests.collector import fake_workers
from tests.collector.fakes import until
from tests.collector.receiving import BODY, PROTOBUF

pytestmark = pytest.mark.usefixtures("forked_workers")
HERE, ANYWHERE = ListenAddress("127.0.0.1", 0), ListenAddress("0.0.0.0", 0)
ADMITTED = {"authorization": "Bearer a-long-secret"}
OPEN = "--http 0.0.0.0:0 takes spans from anybody who reaches it: set token-file or tls-client-ca"


def settings(folder: Path, **others: Any) -> CollectorSettings:
    options = {"grpc": None, "http": HERE, "out": str(folder / "out"), "drain_s": 3.0, "journal": folder / "journal"}
    return CollectorSettings(**{**options, **others})


@asynccontextmanager
async def serving(
    chosen: CollectorSettings, work: Any = fake_workers.steady
) -> AsyncIterator[tuple[Service, httpx.AsyncClient]]:
    service = Service(chosen)
    service._supervisor._work = work
    await service.start()
    url = f"http://{service.addresses['http']}"
    try:
        async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
            yield service, client
    finally:
        await service.stop()


async def test_monitor_tells_how_it_is(tmp_path: Path) -> None:
    """Health and readiness need no token, metrics do; with an address of their own they are there and only there."""
    chosen = settings(tmp_path, monitor=HERE, tokens=("a-long-secret",))
    async with serving(chosen) as (service, client):
        sent = await client.post("/v1/traces", content=BODY, headers={**ADMITTED, **PROTOBUF})
        elsewhere = await client.get("/metrics", headers=ADMITTED)
        monitor = f"http://{service.addresses['monitor']}"
        answers = [await client.get(f"{monitor}/{path}") for path in ("healthz", "readyz", "metrics")]
        families = {one.name: one.samples for one in text_string_to_metric_families(answers[2].text)}

    assert (sent.status_code, elsewhere.status_code) == (200, 404)
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert (answers[0].json()["status"], answers[0].json()["spans_received"]) == ("ok", 4)
    assert families["blamespan_spans_received"][0].value == 4
    assert families["blamespan_worker_ready"][0].value == 1
    assert families["blamespan_journal_bytes"][0].value > 0


async def test_metrics_beside_the_receiver_need_its_token(tmp_path: Path) -> None:
    """On the receiver's own address only probes go without a token."""
    async with serving(settings(tmp_path, tokens=("a-long-secret",))) as (_, client):
        answers = [(await client.get(f"/{path}")).status_code for path in ("healthz", "readyz", "metrics")]
        admitted = (await client.get("/metrics", headers=ADMITTED)).status_code

    assert (answers, admitted) == ([200, 200, 401], 200)


async def test_full_journal_is_not_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While requests would be refused, readiness says why; health stays."""
    monkeypatch.setattr(writing, "_MEASURE_EVERY_S", 0.0)
    async with serving(settings(tmp_path, max_journal_bytes=400_000)) as (_, client):
        (tmp_path / "journal" / "hog").write_bytes(bytes(400_000))
        ready, health = await client.get("/readyz"), await client.get("/healthz")

    assert (ready.status_code, health.status_code) == (503, 200)
    assert "of 400000 bytes" in ready.json()["reason"]


async def test_worker_that_dies_again_and_again_is_not_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While nothing can be delivered readiness says why, and requests are taken nevertheless; it mends by itself."""
    monkeypatch.setattr(supervising, "_FIRST_DELAY_S", 0.01)
    monkeypatch.setattr(supervising, "_CALM_S", 0.3)
    chosen = settings(tmp_path)
    async with serving(chosen, fake_workers.breaks_until_mended) as (service, client):
        await until(lambda: service._supervisor.trouble is not None, 60)
        ready = await client.get("/readyz")
        sent = await client.post("/v1/traces", content=BODY, headers=PROTOBUF)
        (chosen.journal / "mended").touch()
        await until(lambda: service._supervisor.is_ready and service._supervisor.trouble is None, 60)
        again = await client.get("/readyz")

    assert (ready.status_code, sent.status_code, again.status_code) == (503, 200, 200)
    assert "what comes is still taken" in ready.json()["reason"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, []),
        (
            {"http": ANYWHERE},
            ["--http 0.0.0.0:0 is reachable from elsewhere without TLS: set tls-cert and tls-key", OPEN],
        ),
        ({"http": ANYWHERE, "tls_cert": Path("cert"), "tls_key": Path("key")}, [OPEN]),
        ({"http": ANYWHERE, "tls_cert": Path("cert"), "tls_key": Path("key"), "tokens": ("a-long-secret",)}, []),
        ({"page": ANYWHERE}, ["--page 0.0.0.0:0 shows runs to anybody who reaches it: put a proxy before it"]),
    ],
)
def test_open_doors_are_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, options: dict[str, Any], said: list[str]
) -> None:
    """Who listens to the world without TLS or tokens is told, with what to set; who listens here alone is not."""
    _warn_of_open_doors(settings(tmp_path, store=tmp_path / "runs.db", **options))

    assert caplog.messages == said
