"""What checks and ledger cost grows with the length of a run: function calls are counted."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from blamespan.trace import MessageActionTrace, StepKind
from blamespan_tracer.checks import CHECKS, apply_checks
from blamespan_tracer.ledger import read_ledger
from blamespan_tracer.ledger.records import find_tables
from tests.tracer_model.teams import team


def _run(*contents: str) -> MessageActionTrace:
    """Make a run in which a tool's answers and messages take turns."""
    kinds: tuple[StepKind, StepKind] = ("tool_result", "message")
    said = [("Clerk", content, kinds[index % 2]) for index, content in enumerate(contents)]
    return team(*said, task="Check every order.")


def _count_calls(work: Callable[[], object]) -> int:
    """Count the calls of functions, ours and built-in ones, that some work takes."""
    n_calls = 0

    def count(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal n_calls
        n_calls += event in ("call", "c_call")

    previous = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(previous)
    return n_calls


def _state_many_rows_in_one_line(size: int) -> MessageActionTrace:
    table = "order,amount\n" + "\n".join(f"order-{row}x,{row * 7 + 1000}" for row in range(size))
    return _run(table, " and ".join(f"order-{row}x has {row * 7 + 1000}" for row in range(size)))


def test_a_statement_twice_as_long_takes_twice_as_many_calls() -> None:
    """Of a table, and a line about all its rows, twice the length takes at most two and a half times as many calls."""

    def read(size: int) -> int:
        run = _state_many_rows_in_one_line(size)
        return _count_calls(lambda: (apply_checks(CHECKS, run), read_ledger(run)))

    read(20)  # what is worked out once a process

    assert read(400) < 2.5 * read(200)


@pytest.mark.parametrize(
    "line",
    ["-" * 200_000 + "x", "- " * 100_000 + "x", "-" + " " * 200_000 + "x", "a|" + "_" * 200_000 + "b"],
    ids=["dashes", "parted dashes", "blanks", "underscores"],
)
def test_a_line_that_is_nearly_a_border_is_read_in_linear_time(line: str) -> None:
    """A line of two hundred thousand dashes is no table; patterns that go back over it would take minutes."""
    assert find_tables(f"{line}\n{line}\n", ()) == []


def test_a_border_below_a_heading_is_no_row() -> None:
    """Lines of dashes, equal signs and pipes part the heading from its rows, however they are written."""
    for border in ("|---|---|", "|:--|--:|", "+====+===+", "--- ---", "-=-"):
        (table,) = find_tables(f"| order | amount |\n{border}\n| north | 12 |\n", ())

        assert [list(row.cells) for row in table.rows] == [["order", "amount"]]
