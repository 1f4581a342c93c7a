"""What the table of `scripts/bench faults` says follows from what was measured."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("autogen_agentchat")
pytest.importorskip("langgraph")

from tests.benchmarks.faults_figures import Failure, flips_by, mode_shares, same, shape_of, speed_of
from tests.benchmarks.faults_work import Cell, Examined

from blamespan_lab.rerun.stress.figures import Rate


def examined(number: int = 0, family: str = "code", **figures: Any) -> Examined:
    given: dict[str, Any] = {
        "written": 4,
        "flipped": 1,
        "kept": {"clean": 4, "faulty": 1, "harmless": 3},
        "dropped": {},
        "failures": (),
        "digest": "d",
        "cpu_s": 2.0,
        "start_s": 10.0,
        "end_s": 14.0,
    }
    return Examined(Cell(family, "chain", "autogen", number, 6), **{**given, **figures})


def test_speed_counts_every_verified_run_against_the_whole_time() -> None:
    """From the first start to the last end; processor time says what an idle machine would do."""
    speed = speed_of([examined(), examined(1, start_s=12.0, end_s=18.0)], processes=2)

    assert (speed.runs, speed.failures, speed.wall_s, speed.cpu_s) == (16, 2, 8.0, 4.0)
    assert (speed.per_s, speed.per_s_idle, speed.is_met) == (2.0, 8.0, True)


def test_slow_work_misses_the_bar() -> None:
    """Below five runs per second by either clock."""
    assert not speed_of([examined(cpu_s=40.0)], processes=2).is_met


def test_flips_are_of_what_was_written() -> None:
    """Summed up by family, nothing counted twice."""
    done = [examined(), examined(1, flipped=3), examined(2, family="lookup")]

    assert flips_by(done, lambda one: one.cell.family) == {"code": Rate(4, 8), "lookup": Rate(1, 4)}


def test_rounds_agree_where_their_digests_do() -> None:
    """The order in which cells were done does not matter; one other byte does."""
    first = [examined(0), examined(1)]

    assert same(first, first[::-1]) == (2, 2)
    assert same(first, [examined(1), examined(0, digest="e")]) == (1, 2)


def test_shape_puts_decisive_steps_into_fifths() -> None:
    """The last step is in the last fifth, whatever the length."""
    shape = shape_of([Failure(0, 10), Failure(9, 10), Failure(2, 3), Failure(4, 10)])

    assert shape is not None
    assert (shape.fifths, shape.steps, shape.middle_step) == ((25.0, 0.0, 25.0, 25.0, 25.0), (3, 10.0, 10), 3.0)
    assert shape_of([]) is None


def test_modes_are_canonical() -> None:
    """A failure counts once for each of its modes, under their canonical names."""
    failures = [Failure(0, 2, ("aegis:FM-2.1", "mast:FM-1.3")), Failure(0, 2, ("mast:FM-1.3", "blamespan:X5"))]

    assert mode_shares(failures) == {"mast:FM-1.3": 100.0, "blamespan:X5": 50.0}
