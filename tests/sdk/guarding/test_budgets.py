"""Budgets: what is reserved and settled, days that other processes share, and clocks that jump."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from blamespan.guarding.budgets import Books, Overrun, Reservation, default_day_file
from blamespan.guarding.policy import parse_policy
from blamespan.intercepting.boundaries import MustWait, RunScope
from blamespan.trace import Usage

DAY_S = 86_400.0


class Clock:
    def __init__(self, now_s: float = 0.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s


def books(clock: Clock | None = None, wall: Clock | None = None, **tables: Any) -> Books:
    clock = clock or Clock()
    return Books(parse_policy(tables), clock=clock, wall_clock=wall or Clock(1_000_000.0))


def reserve(kept: Books, run: RunScope, kind: Any = "model", agent: str = "a") -> Reservation | Overrun:
    return kept.reserve(kind, (agent,), run, 40, lambda name: name in ("*", agent))


def spend(kept: Books, run: RunScope, tokens: int = 0, agent: str = "a") -> bool:
    """Make a call; returns whether it was let through."""
    reservation = reserve(kept, run, agent=agent)
    if isinstance(reservation, Overrun):
        return False
    kept.settle(reservation, Usage(tokens, 0), 0, "")
    kept.release(reservation)
    return True


def test_what_is_left_of_a_budget_can_be_spent() -> None:
    """The call that reaches a limit is let through, the next one is not; a new run begins anew."""
    kept, run = books(budgets=[{"tokens": 100}]), RunScope()

    assert [spend(kept, run, 60) for _ in range(4)] == [True, True, False, False]
    assert spend(kept, RunScope(), 60)


def test_call_waits_where_others_may_use_up_the_rest() -> None:
    """Side by side no second call begins that might go beyond the limit; it goes on when the first has ended."""
    kept, run = books(budgets=[{"tokens": 100}]), RunScope()
    first = reserve(kept, run)
    assert isinstance(first, Reservation)

    with pytest.raises(MustWait):
        reserve(kept, run)
    kept.settle(first, Usage(10, 0), 0, "")
    kept.release(first)
    assert isinstance(reserve(kept, run), Reservation)


def test_call_that_never_ends_stops_no_other_for_ever() -> None:
    """After two minutes a call no longer waits for one that may never be answered."""
    clock, run = Clock(), RunScope()
    kept = books(clock, budgets=[{"tokens": 100}])
    reserve(kept, run)
    clock.now_s = 121.0

    outcome = kept.reserve("model", ("a",), run, 0, lambda name: True, 0.0)

    assert isinstance(outcome, Reservation)


def test_call_whose_cost_nobody_says_is_guessed() -> None:
    """A model that reports no tokens is no way around a budget of tokens."""
    kept, run = books(budgets=[{"tokens": 100}]), RunScope()
    reservation = reserve(kept, run)
    assert isinstance(reservation, Reservation)

    assert kept.settle(reservation, None, 400, "") == Usage(10, 100)
    kept.release(reservation)
    assert isinstance(reserve(kept, run), Overrun)


def test_money_follows_from_prices() -> None:
    """Each model has its price; one that nobody priced costs as much as the dearest."""
    prices = {"small": {"sent": 1.0}, "large": {"sent": 100.0}}
    run = RunScope()
    for model, spent in (("small", True), ("large", False), ("unknown", False)):
        kept = books(budgets=[{"money": 50.0}], prices=prices)
        reservation = reserve(kept, run)
        assert isinstance(reservation, Reservation)
        kept.settle(reservation, Usage(1_000_000, 0), 0, model)
        kept.release(reservation)
        assert isinstance(reserve(kept, run), Reservation) is spent


def test_seconds_go_on_whatever_the_wall_clock_says() -> None:
    """A budget of seconds is measured by a clock that never goes back."""
    clock, wall, run = Clock(), Clock(1_000_000.0), RunScope()
    kept = books(clock, wall, budgets=[{"seconds": 10}])
    assert spend(kept, run)
    wall.now_s = 0.0
    clock.now_s = 9.0
    assert spend(kept, run)
    wall.now_s = 9e9
    clock.now_s = 10.0

    assert not spend(kept, run)


def test_day_is_kept_for_every_process(tmp_path: Path) -> None:
    """What one process spends another one sees; a day later there is a new budget."""
    tables: dict[str, Any] = {
        "budgets": [{"per": "day", "calls": 3}],
        "day_file": str(tmp_path / "state" / "days.sqlite"),
    }
    first, second, run = books(**tables), books(**tables), RunScope()

    assert [spend(kept, run) for kept in (first, second, first, second)] == [True, True, True, False]
    assert spend(books(wall=Clock(1_000_000.0 + DAY_S), **tables), run)


def test_wall_clock_that_jumps_gives_no_new_day(tmp_path: Path) -> None:
    """Within a process the day follows from the clock that never goes back; set back, the old day's spending counts."""
    clock, wall = Clock(), Clock(1_000_000.0)
    tables: dict[str, Any] = {"budgets": [{"per": "day", "calls": 1}], "day_file": str(tmp_path / "days.sqlite")}
    kept, run = books(clock, wall, **tables), RunScope()
    assert spend(kept, run)
    for jump in (5 * DAY_S, -5 * DAY_S):
        wall.now_s += jump
        assert not spend(kept, run)
    assert not spend(books(Clock(), Clock(1_000_000.0), **tables), run)
    clock.now_s += DAY_S

    assert spend(kept, run)


def test_threads_side_by_side_spend_no_call_too_many(tmp_path: Path) -> None:
    """Of many threads exactly as many calls are let through as there are, also by the file of a day."""
    tables: dict[str, Any] = {
        "budgets": [{"calls": 20}, {"per": "day", "calls": 25}],
        "day_file": str(tmp_path / "d.sqlite"),
    }
    kept, run = books(**tables), RunScope()
    passed: list[bool] = []

    def work() -> None:
        for _ in range(10):
            outcome = reserve(kept, run, "tool")
            passed.append(isinstance(outcome, Reservation))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert passed.count(True) == 20


_PROCESS = """
import sys, time
from blamespan.guarding.budgets import Books, Overrun
from blamespan.guarding.policy import parse_policy
from blamespan.intercepting.boundaries import MustWait, RunScope
from blamespan.trace import Usage

limit, day_file = sys.argv[2], sys.argv[3]
books = Books(parse_policy({"budgets": [{"per": "day", limit: int(sys.argv[4])}], "day_file": day_file}))
run, calls = RunScope(), 0
print("ready", flush=True)
sys.stdin.readline()
while True:
    try:
        outcome = books.reserve(sys.argv[1], ("a",), run, 40, lambda name: True)
    except MustWait:
        time.sleep(0.001)
        continue
    if isinstance(outcome, Overrun):
        break
    calls += 1
    books.settle(outcome, Usage(1_000, 0), 0, "")
    books.release(outcome)
print(calls)
"""


@pytest.mark.parametrize(("kind", "limit", "most"), [("tool", "tool_calls", 60), ("model", "tokens", 40_000)])
def test_processes_side_by_side_spend_no_call_too_many(tmp_path: Path, kind: str, limit: str, most: int) -> None:
    """Of several processes exactly as many calls are let through as a day has; where tokens count, as they allow."""
    command = [sys.executable, "-c", _PROCESS, kind, limit, str(tmp_path / "days.sqlite"), str(most)]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    calls = [int(process.communicate(timeout=60)[0]) for process in processes]

    assert sum(calls) == (most if kind == "tool" else most // 1_000)
    assert sum(count > 0 for count in calls) > 1  # else they were not side by side


def test_call_of_a_process_that_died_is_waited_for_no_longer_than_any(tmp_path: Path) -> None:
    """What another process has begun is waited for as its cost is not known; not for ever, if it never ends."""
    clock = Clock()
    tables: dict[str, Any] = {"budgets": [{"per": "day", "tokens": 100}], "day_file": str(tmp_path / "days.sqlite")}
    assert isinstance(reserve(books(**tables), RunScope()), Reservation)  # and its process dies
    other = books(clock, **tables)

    with pytest.raises(MustWait):
        reserve(other, RunScope())
    clock.now_s = 121.0
    assert isinstance(reserve(other, RunScope()), Reservation)


def test_person_may_allow_a_budget_once_more() -> None:
    """A grant adds the whole budget again, once."""
    kept, run = books(budgets=[{"calls": 1}]), RunScope()
    assert spend(kept, run)
    overrun = reserve(kept, run)
    assert isinstance(overrun, Overrun)
    assert overrun.reason == "the budget for this run is used up: 1 calls"
    kept.grant(overrun, ("a",), run)

    assert [spend(kept, run) for _ in range(2)] == [True, False]


def test_day_file_lies_with_the_state_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`XDG_STATE_HOME` says where, as elsewhere."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    assert default_day_file() == tmp_path / "blamespan" / "guard.sqlite"
