"""A tracer that takes its time, so that something can happen meanwhile."""

from __future__ import annotations

import time
from collections.abc import Sequence

from blamespan.attribution import Attribution
from blamespan.trace import MessageActionTrace
from tests.sdk.fixed_tracer import LongestStepTracer


class SlowTracer(LongestStepTracer):
    """Sleeps for each run.

    Args:
        seconds: How long.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def attribute(self, traces: Sequence[MessageActionTrace]) -> list[Attribution]:
        """Attribute each run."""
        time.sleep(self._seconds * len(traces))
        return super().attribute(traces)
