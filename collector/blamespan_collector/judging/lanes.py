"""A scorer with the traces that wait for it: large runs have one of their own, so that no small one waits for them."""

from __future__ import annotations

import queue
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from blamespan_collector.assembling.parts import TracePart
from blamespan_collector.judging.scorer import JudgingTask, Scored, Scorer, first_batch

_BATCHES_AHEAD = 2
"""Batches given to the scorer: the next one lies ready when one is done."""


class JudgingLane:
    """Lines up traces for one scorer. For one thread.

    Args:
        scorer: Gives the verdicts.
        takes: Tells whether a trace belongs here.
        hung_after_s: How long a batch may take, and how long more for each span in it, before it will never end.

    Attributes:
        waiting: What is not given to the scorer yet, in the order of deadlines.
    """

    def __init__(
        self, scorer: Scorer, takes: Callable[[TracePart[int]], bool], hung_after_s: tuple[float, float] = (60.0, 0.0)
    ) -> None:
        self.scorer = scorer
        self.takes = takes
        self.waiting: deque[JudgingTask] = deque()
        self._hung_after_s = hung_after_s
        self._batches: deque[list[JudgingTask]] = deque()

    @property
    def scoring(self) -> list[JudgingTask]:
        """List what the scorer has."""
        return [task for batch in self._batches for task in batch]

    @property
    def is_overdue(self) -> bool:
        """Check whether the tracer keeps a trace past its deadline: then no other waits for it."""
        return any(task.is_out for task in self.scoring)

    @property
    def hung_s(self) -> float | None:
        """Return for how long the scorer did not come back, where that is too long."""
        since_s = self.scorer.busy_since_s  # another thread sets it
        if since_s is None or not self._batches:
            return None
        busy_s = time.monotonic() - since_s
        base_s, per_span_s = self._hung_after_s
        allowed_s = base_s + per_span_s * sum(len(task.part.span_ids) for task in self._batches[0])
        return busy_s if busy_s > allowed_s else None

    def expired(self, now_s: float) -> Iterator[JudgingTask]:
        """Take out of the line, one by one, what does not wait any longer."""
        is_overdue = self.is_overdue
        while self.waiting and (is_overdue or self.waiting[0].deadline_s <= now_s):
            yield self.waiting.popleft()

    def submit(self, owed: Sequence[JudgingTask]) -> list[JudgingTask]:
        """Submit the scorer's next batch: of what waits, or of what is *owed* and belongs here.

        Returns:
            What was taken of *owed*.
        """
        if len(self._batches) >= _BATCHES_AHEAD:
            return []
        if self.waiting:
            batch = first_batch(self.waiting, self.scorer.at_once)
            for _ in batch:
                self.waiting.popleft()
            self._give(batch)
            return []
        taken = first_batch([task for task in owed if self.takes(task.part)], self.scorer.at_once)
        if taken:
            self._give(taken)
        return taken

    def results(self) -> list[Scored]:
        """Take the results of one batch; none where none is done."""
        try:
            results = self.scorer.results.get_nowait()
        except queue.Empty:
            return []
        self._batches.popleft()
        return results

    def _give(self, batch: list[JudgingTask]) -> None:
        self._batches.append(batch)
        self.scorer.submit(batch)
