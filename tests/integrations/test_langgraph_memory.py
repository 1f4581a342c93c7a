"""Errors that a LangGraph run catches on its way are not kept."""

from __future__ import annotations

import gc
from contextlib import suppress

from tests.integrations.ends import Watch, recorded
from tests.integrations.langgraph_ends import OwnError, State, graph


def test_many_caught_errors_are_not_kept_while_a_run_goes_on() -> None:
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
    with recorded("langgraph"):
        graph(Watch(), work).invoke({})
        gc.collect()

        assert at_work == [32]
        assert watch.alive.total() == 0
