"""`blamespan mcp` over the collector's store: what was stored is explained, and an outcome goes back to its trace."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from mcp.shared.memory import create_connected_server_and_client_session as connected

from blamespan import conventions as words
from blamespan.analysis.mcp_server import StoredRuns, mcp_server, send_outcome
from blamespan.errors import BlamespanError
from blamespan.rebuilding.rebuild import rebuild_run
from blamespan.rebuilding.runs import split_runs
from tests.collector.paging import annotated, stored
from tests.collector.receiving import receiving
from tests.sdk.talks import talk


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with one run that failed."""
    [spans] = annotated(talk(1, outcome="failed"))
    stored(tmp_path / "runs.db", spans)
    return tmp_path / "runs.db"


async def test_stored_run_is_listed_and_explained_by_its_own_verdict(path: Path) -> None:
    """The verdict is the one it went out with: no tracer is asked."""
    async with connected(mcp_server(StoredRuns(path))._mcp_server) as session:
        listed = (await session.call_tool("list_runs", {})).structuredContent
        assert listed is not None
        [run] = listed["runs"]
        explained = (await session.call_tool("explain_run", {"run_id": run["run_id"][-4:].zfill(4)})).structuredContent

    assert (run["blamed_agent"], run["decisive_step"]) == ("reviewer", 2)
    assert explained is not None
    assert explained["tracer"] == "last-steps 1"


async def test_unknown_run_is_named_with_the_nearest(path: Path) -> None:
    """The agent learns which ids there are."""
    async with connected(mcp_server(StoredRuns(path))._mcp_server) as session:
        refused = await session.call_tool("explain_run", {"run_id": "f" * 32})

    assert refused.isError
    assert "the nearest are\n" in refused.content[0].text  # type: ignore[union-attr]


async def test_outcome_is_sent_to_the_collector_as_a_part_of_the_run(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The span that says it, put to the run's own spans, gives the run that outcome."""
    [run] = StoredRuns(path).all()
    async with receiving(tmp_path / "collector") as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.http_url)
        await asyncio.to_thread(send_outcome, run, "succeeded", "a person looked")
        [span] = collector.spans
    [spans] = annotated(talk(1, outcome="failed"))
    [whole] = split_runs([*spans, span])

    assert span.attributes[words.RUN_OUTCOME_REASON] == "a person looked"
    assert rebuild_run(whole).outcome == "succeeded"


def test_absent_collector_is_said(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The outcome is not lost in silence: the message says where it should have gone."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    [run] = StoredRuns(path).all()

    with pytest.raises(BlamespanError, match="expected a collector that takes the outcome, got none"):
        send_outcome(run, "failed", "")
