"""A run that waits for nothing is ended; one that is only slow is not."""

from __future__ import annotations

import asyncio
import time

import pytest

from blamespan_lab.make.simulation import program
from blamespan_lab.make.simulation.program import StuckError, await_unless_stuck

IDLE_S = 0.6


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the tests short."""
    monkeypatch.setattr(program, "_LOOK_S", 0.05)


def test_run_that_waits_for_nothing_is_ended() -> None:
    """A lost message leaves a team waiting for its answer; it is cancelled and said so."""
    ended: list[str] = []

    async def lost() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append("cleaned up")

    with pytest.raises(StuckError, match="got nothing"):
        asyncio.run(await_unless_stuck(lost(), idle_s=IDLE_S))
    assert ended == ["cleaned up"]


def test_run_that_works_is_left_alone() -> None:
    """Who uses the processor is not stuck, however long it takes."""

    async def busy() -> str:
        end_s = time.monotonic() + 2 * IDLE_S
        while time.monotonic() < end_s:
            sum(range(20_000))
            await asyncio.sleep(0)
        return "done"

    assert asyncio.run(await_unless_stuck(busy(), idle_s=IDLE_S)) == "done"


def test_run_that_waits_for_code_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code in the sandbox runs in a process of its own, whose time does not show in ours."""
    monkeypatch.setattr(program, "is_running_code", lambda: True)

    async def waits() -> str:
        await asyncio.sleep(2 * IDLE_S)
        return "done"

    assert asyncio.run(await_unless_stuck(waits(), idle_s=IDLE_S)) == "done"


def test_errors_pass() -> None:
    """What a framework raises is the run's outcome, not ours."""

    async def breaks() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        asyncio.run(await_unless_stuck(breaks(), idle_s=IDLE_S))
