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
from blamespan_collector.service.service import Service
from blamespan_collector.settings import CollectorSettings, ListenAddress
from tests.collector import fake_workers
from tests.collector.fakes import request, run, until
from tests.collector.receiving import PROTOBUF

pytestmark = pytest.mark.usefixtures("installed_tracers")
HERE = ListenAddress("127.0.0.1", 0)


def settings(folder: Path, **others: Any) -> CollectorSettings:
    options = {"grpc": None, "http": HERE, "out": str(folder / "out"), "drain_s": 3.0, "journal": folder / "journal"}
    options["tracer"] = "first-step"
    return CollectorSettings(**{**options, **others})


@asynccontextmanager
async def serving(chosen: CollectorSettings) -> AsyncIterator[tuple[Service, httpx.AsyncClient]]:
    service = Service(chosen)
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
    headers = {"authorization": "Bearer a-long-secret", **PROTOBUF}
    async with serving(chosen) as (service, client):
        sent = await client.post("/v1/traces", content=request(run(1)).SerializeToString(), headers=headers)
        elsewhere = await client.get("/metrics", headers=headers)
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
        headers = {"authorization": "Bearer a-long-secret"}
        admitted = (await client.get("/metrics", headers=headers)).status_code

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
    service = Service(chosen)
    service._supervisor._work = fake_workers.breaks_until_mended
    await service.start()
    async with httpx.AsyncClient(base_url=f"http://{service.addresses['http']}", trust_env=False) as client:
        await until(lambda: service._supervisor.trouble is not None, 60)
        ready = await client.get("/readyz")
        sent = await client.post("/v1/traces", content=request(run(1)).SerializeToString(), headers=PROTOBUF)
        (chosen.journal / "mended").touch()
        await until(lambda: service._supervisor.trouble is None, 60)
        again = await client.get("/readyz")
    await service.stop()

    assert (ready.status_code, sent.status_code, again.status_code) == (503, 200, 200)
    assert "what comes is still taken" in ready.json()["reason"]
