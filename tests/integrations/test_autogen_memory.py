"""Nothing of a team's run stays in memory once it is over, however it ended."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.integrations.autogen_ends import ENDS, succeeds
from tests.integrations.ends import alive_after, own_objects, recorded, variables_set_by_the_collector

RUNS = 2


def test_nothing_stays_of_a_run() -> None:
    """Team, agents, messages and what we know of the run go when the program drops them, as without us."""
    with recorded("autogen"):
        alive_after(ENDS, 1, succeeds)
        before = own_objects()

        alive = alive_after(ENDS, RUNS, succeeds)

        assert (alive, own_objects() - before) == ({}, Counter())


@pytest.mark.slow
def test_dropped_run_sets_no_context_variable() -> None:
    """What ends a run that the garbage collector finds sets no context variable: Python 3.11 can crash where it does.

    There the collector runs within `ContextVar.set()`, which a second one breaks; later releases collect elsewhere.
    """
    with recorded("autogen"):
        assert variables_set_by_the_collector(ENDS) == Counter()
