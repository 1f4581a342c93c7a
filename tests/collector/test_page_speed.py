"""How long people wait: measured in CPU time, as machines of tests do other things besides."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from blamespan_collector.jaeger import jaeger_routes
from blamespan_collector.store import RunStore, RunWriter
from tests.benchmarks.large_runs import make_large_run
from tests.collector.fakes import request
from tests.collector.paging import RUN, annotated, asking, stored
from tests.sdk.talks import talk

RUNS = 10_000
FIRST_VIEW_S = 1.5 if "PYTEST_XDIST_WORKER" in os.environ else 1.0
"""Beside another process that works as hard, the same answer takes up to half as much CPU time again."""

STEPS = 500
ATTEMPTS = 6


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    path = tmp_path_factory.mktemp("store") / "runs.db"
    writer = RunWriter(path, sync="normal")
    for first in range(1, RUNS, 500):
        writer.put(_payloads(range(first, first + 500)))
    writer.close()
    return RunStore(path)


def _payloads(numbers: range) -> Iterator[bytes]:
    runs = annotated(
        *(talk(number, ("Find it.", f"It is {number}.", "Right."), task=f"Find {number}.") for number in numbers)
    )
    return (request(spans).SerializeToString() for spans in runs)


async def fastest_s(store: RunStore, paths: Sequence[str]) -> float:
    """Ask for one after the other until an answer comes soon enough, and give the shortest time.

    Memory and caches are shared with whatever else runs: the same answer can take half as long again.
    """
    found: list[float] = []
    async with asking(store, routes=jaeger_routes(store)) as client:
        for path in paths:
            before_s = time.process_time()
            answer = await client.get(path)
            found.append(time.process_time() - before_s)
            assert answer.status_code == 200
            if found[-1] < FIRST_VIEW_S:
                break
    return min(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    "query",
    [
        "",
        "&limit=1500",
        "&operation=invoke_agent+nobody",
        "&tag=gen_ai.agent.name:nobody",
        "&tag=blamespan.blame.step:77",
        "&tag=error:true",
        "&maxDuration=1us",
    ],
)
async def test_ten_thousand_runs_are_searched_at_once(store: RunStore, query: str) -> None:
    """Jaeger's search over 10,000 stored runs takes less than a second, also for what none of them has."""
    took_s = await fastest_s(store, [f"/api/traces?service=team&start=0&end=2000000000000000{query}"] * ATTEMPTS)
    print(f"/api/traces {query}: {took_s * 1e3:.0f} ms")  # noqa: T201

    assert took_s < FIRST_VIEW_S


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/", "/?text=find+7777", "/?text=nothing", "/?agent=reviewer&mode=mast:FM-3.3"])
async def test_ten_thousand_runs_are_listed_at_once(store: RunStore, path: str) -> None:
    """With 10,000 runs stored the list, also filtered, takes less than a second."""
    took_s = await fastest_s(store, [path] * ATTEMPTS)
    print(f"{path}: {took_s * 1e3:.0f} ms")  # noqa: T201

    assert took_s < FIRST_VIEW_S


@pytest.mark.slow
async def test_five_hundred_steps_are_shown_at_once(tmp_path: Path) -> None:
    """A run of 500 steps with a kilobyte each, rules and drawing included, takes less than a second."""
    runs = annotated(*(talk(number, [f"{step} is {step * 7}. " * 60 for step in range(STEPS)]) for number in (1, 2, 3)))
    store = stored(tmp_path / "runs.db", *runs)
    took_s = await fastest_s(store, [f"/run/{number:032x}" for number in (1, 2, 3)])
    print(f"500 steps: {took_s * 1e3:.0f} ms")  # noqa: T201

    assert took_s < FIRST_VIEW_S


@pytest.mark.slow
async def test_time_of_a_page_grows_with_the_steps_and_is_spent_once(tmp_path: Path) -> None:
    """Eight times the steps take some eight times as long, not sixty-four; to leaf on takes a fraction of it."""
    runs = annotated(*(talk(count, [f"{step} is {step * 7}." for step in range(count)]) for count in (1_000, 8_000)))
    store = stored(tmp_path / "runs.db", *runs)
    took_s: list[float] = []
    async with asking(store) as client:
        for path in (f"/run/{1:032x}", *(f"/run/{n:032x}{more}" for n in (1_000, 8_000) for more in ("", "?from=0"))):
            before_s = time.process_time()
            answer = await client.get(path)
            took_s.append(time.process_time() - before_s)
            assert answer.status_code == (404 if len(took_s) == 1 else 200)
    _, short_s, _, long_s, leaf_s = took_s
    print(f"1,000 steps: {short_s * 1e3:.0f} ms; 8,000: {long_s * 1e3:.0f} ms, then {leaf_s * 1e3:.0f} ms")  # noqa: T201

    assert long_s < 20 * short_s
    assert leaf_s < long_s / 2


@pytest.mark.slow
async def test_twenty_thousand_steps_show_their_verdict_at_once(tmp_path: Path) -> None:
    """A run of 1,000 agents and 20,000 steps says within a second who is to blame; its steps follow by themselves."""
    store = stored(tmp_path / "runs.db", *annotated(make_large_run()))
    async with asking(store) as client:
        began_s = time.perf_counter()
        first = await client.get(RUN)
        took_s = time.perf_counter() - began_s
        for _ in range(100):
            later = await client.get(RUN)
            if "Refresh" not in later.headers:
                break
    print(f"20,000 steps: {took_s * 1e3:.0f} ms, laid out after {time.perf_counter() - began_s:.1f} s")  # noqa: T201

    assert first.headers["Refresh"] == "1"
    assert "Most to blame: <b><bdi>agent_" in first.text
    assert took_s < 2 * FIRST_VIEW_S  # by the clock, beside whatever else the machine does
    assert 'id="step-19999"' in later.text
    assert later.text.count("data-row") == STEPS
