"""Nothing of a program's run stays in memory once it is over, however it ended."""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from typing import Any

import pytest

from tests.integrations.ends import alive_after, own_objects, recorded, variables_set_by_the_collector
from tests.integrations.hosts import INSTALLED

RUNS = 2


@pytest.fixture(params=[name for name in ("autogen", "langgraph") if name in INSTALLED])
def framework(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def ends_of(framework: str) -> Any:
    """Return the module of a framework's runs that end in every way there is."""
    return import_module(f"tests.integrations.{framework}_ends")


def test_nothing_stays_of_a_run(framework: str) -> None:
    """Team or graph, agents, state and what we know of the run go when the program drops them, as without us."""
    ends = ends_of(framework)
    with recorded(framework):
        alive_after(ends.ENDS, 1, ends.succeeds)
        before = own_objects()

        alive = alive_after(ends.ENDS, RUNS, ends.succeeds)

        assert (alive, own_objects() - before) == ({}, Counter())


@pytest.mark.slow
def test_dropped_run_sets_no_context_variable(framework: str) -> None:
    """What ends a run that the garbage collector finds sets no context variable: Python 3.11 can crash where it does.

    There the collector runs within `ContextVar.set()`, which a second one breaks; later releases collect elsewhere.
    """
    with recorded(framework):
        assert variables_set_by_the_collector(ends_of(framework).ENDS) == Counter()
