"""Nothing of a graph's run stays in memory once it is over, however it ended."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.integrations.ends import Watch, alive_after, own_objects, recorded, variables_set_by_the_collector
from tests.integrations.langgraph_ends import ENDS, OwnError, State, graph, succeeds

RUNS = 2


@pytest.fixture
def is_recorded() -> Iterator[None]:
    with recorded("langgraph"):
        yield


def test_nothing_stays_of_a_run(is_recorded: None) -> None:
    """Graph, state and what we know of the run go when the program drops them, as without us."""
    alive_after(ENDS, 1, succeeds)
    before = own_objects()

    alive = alive_after(ENDS, RUNS, succeeds)

    assert (alive, own_objects() - before) == ({}, Counter())


def test_many_caught_errors_are_not_kept_while_a_run_goes_on(is_recorded: None) -> None:
    """A run that catches one error after another holds on to a bounded number of them, and at last to none."""
    watch, at_work = Watch(), []

    def work(_: State) -> State:
        for _ in range(100):
            with suppress(OwnError):
                inner.invoke({})
        gc.collect()
        at_work.append(watch.alive.total())
        return {}

    def break_down(_: State) -> None:
        raise watch(OwnError())

    inner = graph(Watch(), break_down, name="inner")
    graph(Watch(), work).invoke({})
    gc.collect()

    assert at_work == [32]
    assert watch.alive.total() == 0


@pytest.mark.slow
def test_dropped_run_sets_no_context_variable() -> None:
    """What ends a run that the garbage collector finds sets no context variable: Python 3.11 can crash where it does.

    There the collector runs within `ContextVar.set()`, which a second one breaks; later releases collect elsewhere.
    """
    with recorded("langgraph"):
        assert variables_set_by_the_collector(ENDS) == Counter()
