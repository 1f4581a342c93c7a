"""Batches are as large as the tracer is fast, and no trace is judged beside one that may end the process."""

from __future__ import annotations

import math
import queue
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import pytest

from blamespan.attribution import Attribution
from blamespan.trace import MessageActionTrace
from blamespan_collector.assembling.parts import Released, TracePart
from blamespan_collector.judging.annotator import Annotator
from blamespan_collector.judging.lanes import JudgingLane
from blamespan_collector.judging.large_runs import is_large
from blamespan_collector.judging.scorer import InFlight, JudgingTask, Scored, Scorer, first_batch
from tests.collector.fakes import FirstStepTracer, request, run


def task(number: int, *, size_bytes: int = 10_000, attempts: int = 0, spans: int = 1) -> JudgingTask:
    ids = frozenset((number * 10_000 + place).to_bytes(8, "big") for place in range(spans))
    released: Released[int] = Released(ids)
    part = TracePart(number.to_bytes(16, "big"), (number,), ids, True, "complete", size_bytes, True, released)
    return JudgingTask(part, math.inf, attempts)


def numbers(tasks: Sequence[JudgingTask]) -> list[int]:
    return [one.part.items[0] for one in tasks]


def test_batch_holds_as_many_as_are_asked_for() -> None:
    """Under load batches are full; what waits alone is not kept waiting for others."""
    waiting = [task(number) for number in range(1, 6)]

    assert numbers(first_batch(waiting, 3)) == [1, 2, 3]
    assert numbers(first_batch(waiting[:1], 3)) == [1]


def test_batch_is_bounded_in_bytes() -> None:
    """However many traces go together: once they are large, no more is added."""
    assert numbers(first_batch([task(number, size_bytes=3_000_000) for number in range(1, 6)], 5)) == [1, 2]


def test_batch_is_bounded_in_spans() -> None:
    """Runs of hundreds of steps are not lined up behind each other, however small these are in bytes."""
    assert numbers(first_batch([task(number, spans=600) for number in range(1, 6)], 5)) == [1, 2]


@pytest.mark.parametrize(
    ("spans", "size_bytes", "expected"),
    [(512, 1024 * 1024, False), (513, 10_000, True), (1, 1024 * 1024 + 1, True)],
)
def test_run_is_large_by_spans_or_bytes(spans: int, size_bytes: int, expected: bool) -> None:
    """Many steps take long, and so does one that says very much."""
    assert is_large(task(1, spans=spans, size_bytes=size_bytes).part) is expected


class Recorded:
    """Stands for a scorer's thread: notes what it is given, and is done when a test says so."""

    def __init__(self) -> None:
        self.at_once = 2
        self.batches: list[list[int]] = []
        self.busy_since_s: float | None = None
        self.results: queue.SimpleQueue[list[Scored]] = queue.SimpleQueue()

    def submit(self, tasks: list[JudgingTask]) -> None:
        self.batches.append(numbers(tasks))


def lane(
    takes: Callable[[TracePart[int]], bool], hung_after_s: tuple[float, float] = (60.0, 0.0)
) -> tuple[JudgingLane, Recorded]:
    scorer = Recorded()
    return JudgingLane(cast(Scorer, scorer), takes, hung_after_s), scorer


def test_lane_takes_only_what_belongs_to_it() -> None:
    """What waits goes first; of what is owed a lane takes its own, and says what it took."""
    made, scorer = lane(is_large)
    owed = [task(1), task(2, spans=600), task(3), task(4, spans=600)]
    made.waiting.append(task(9, spans=900))

    assert made.submit(owed) == []
    assert numbers(made.submit(owed)) == [2, 4]
    assert made.submit(owed) == []  # two batches lie ready
    assert scorer.batches == [[9], [2, 4]]


def test_lane_without_tasks_of_its_own_gives_nothing() -> None:
    """A scorer is not woken for nothing."""
    made, scorer = lane(is_large)

    assert made.submit([task(1)]) == []
    assert scorer.batches == []


def test_lane_is_hung_when_a_batch_takes_longer_than_its_spans_explain() -> None:
    """A run of thousands of steps may take its time; nothing under way is never hung."""
    made, scorer = lane(is_large, (1.0, 0.01))
    made.waiting.append(task(1, spans=1_000))
    made.submit([])
    scorer.busy_since_s = time.monotonic() - 5
    assert made.hung_s is None

    scorer.busy_since_s = time.monotonic() - 12
    assert made.hung_s == pytest.approx(12, abs=0.9)
    scorer.busy_since_s = None
    assert made.hung_s is None


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
