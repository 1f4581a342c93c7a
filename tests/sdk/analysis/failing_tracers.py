"""Tracers that fail in ways that tracers of others may: by an exception, and by taking their process with them."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path

from blamespan.attribution import Attribution, TracerIdentity
from blamespan.trace import MessageActionTrace
from tests.sdk.fixed_tracer import LongestStepTracer


class PickyTracer(LongestStepTracer):
    """Raises on a run whose task is a certain one, whatever shares the batch.

    Args:
        task: That one.
    """

    def __init__(self, task: str) -> None:
        self._task = task

    def attribute(self, traces: Sequence[MessageActionTrace]) -> list[Attribution]:
        """Attribute each run."""
        if any(trace.task == self._task for trace in traces):
            raise IndexError(f"cannot think about {self._task!r}")
        return super().attribute(traces)


class DyingTracer(LongestStepTracer):
    """Kills its process, as a lack of memory does, on a run whose task is a certain one.

    Args:
        task: That one.
        grave: A file that is made on the first death; once it is there, nobody dies. None: dies each time.
    """

    def __init__(self, task: str, grave: Path | None = None) -> None:
        self._task = task
        self._grave = grave
        self._home = os.getpid()

    def attribute(self, traces: Sequence[MessageActionTrace]) -> list[Attribution]:
        """Attribute each run."""
        if any(trace.task == self._task for trace in traces) and not (self._grave and self._grave.exists()):
            assert os.getpid() != self._home, "only a worker process may die"
            if self._grave:
                self._grave.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().attribute(traces)


class BatchingTracer(LongestStepTracer):
    """Lives on an accelerator, and notes in which process it ran, and how many runs it was given at once."""

    identity = TracerIdentity("batching", "1")
    device = "cuda"
    batch_runs = 5

    def __init__(self) -> None:
        self.batches: list[int] = []

    def attribute(self, traces: Sequence[MessageActionTrace]) -> list[Attribution]:
        """Attribute each run."""
        self.batches.append(len(traces))
        return super().attribute(traces)
