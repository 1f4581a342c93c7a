"""Batches are as large as the tracer is fast, and no trace is judged beside one that may end the process."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from blamespan.attribution import Attribution
from blamespan.trace import MessageActionTrace
from blamespan_collector.assembling.parts import Part, Released
from blamespan_collector.judging.annotator import Annotator
from blamespan_collector.judging.scorer import InFlight, Scorer, Task, first_batch
from tests.collector.fakes import FirstStepTracer, request, run


def task(number: int, *, size_bytes: int = 10_000, attempts: int = 0) -> Task:
    ids = frozenset({number.to_bytes(8, "big")})
    released: Released[int] = Released(ids)
    part = Part(number.to_bytes(16, "big"), (number,), ids, True, "complete", size_bytes, True, released)
    return Task(part, math.inf, attempts)


def numbers(tasks: Sequence[Task]) -> list[int]:
    return [one.part.items[0] for one in tasks]


def test_batch_holds_as_many_as_are_asked_for() -> None:
    """Under load batches are full; what waits alone is not kept waiting for others."""
    waiting = [task(number) for number in range(1, 6)]

    assert numbers(first_batch(waiting, 3)) == [1, 2, 3]
    assert numbers(first_batch(waiting[:1], 3)) == [1]


def test_batch_is_bounded_in_bytes() -> None:
    """However many traces go together: once they are large, no more is added."""
    assert numbers(first_batch([task(number, size_bytes=3_000_000) for number in range(1, 6)], 5)) == [1, 2]


def test_suspect_is_tried_alone() -> None:
    """A trace that may have ended the last process shares its batch with none, wherever it stands."""
    waiting = [task(1), task(2, attempts=1), task(3)]

    assert [numbers(first_batch(waiting[start:], 9)) for start in range(3)] == [[1], [2], [3]]


@pytest.mark.parametrize(("seconds_a_trace", "at_once"), [(0.0, 128), (0.3, 3), (2.0, 1)])
def test_batches_follow_the_tracers_pace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds_a_trace: float, at_once: int
) -> None:
    """A batch takes about a second: a slow tracer is given few traces at once, a fast one many."""
    now_s = [0.0]
    monkeypatch.setattr("blamespan_collector.judging.scorer.time.perf_counter", lambda: now_s[0] + 1e-6)

    class Paced(FirstStepTracer):
        def attribute(self, traces: Sequence[MessageActionTrace]) -> list[Attribution]:
            now_s[0] += seconds_a_trace * len(traces) + 1e-6
            return super().attribute(traces)

    scorer = Scorer(
        Annotator(Paced),
        lambda items: [request(run(item)).SerializeToString() for item in items],
        InFlight(tmp_path / "attributing"),
        max_bytes=4_000_000,
        kinds=frozenset({"traces"}),
        wake=lambda: None,
    )
    scorer._score([task(1), task(2)])

    assert scorer.at_once == at_once
