"""What the worker counts and tells."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from blamespan.pipeline import AttributedRun

__all__ = ["WorkerCounts"]

_UPPER_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_MOST_LABELS = 200
"""Pairs of agent and mode told apart; the others are `other`: names in traces must not fill a metrics store."""
_BLAMED_ABOVE = 0.5
"""Runs with a lower failure score blame nobody."""


@dataclass
class WorkerCounts:
    """Numbers since the start.

    Attributes:
        counts: By name.
        blame: How often which agent was blamed for which mode.
    """

    counts: Counter[str] = field(default_factory=Counter)
    blame: Counter[tuple[str, str]] = field(default_factory=Counter)
    _latencies: list[int] = field(default_factory=lambda: [0] * (len(_UPPER_S) + 1))
    _latency_sum_s: float = 0.0

    def add(self, name: str, number: int = 1) -> None:
        """Count."""
        self.counts[name] += number

    def took(self, seconds: float) -> None:
        """Count one trace that was attributed in so many seconds."""
        self._latencies[bisect_left(_UPPER_S, seconds)] += 1
        self._latency_sum_s += seconds

    def verdicts(self, runs: Sequence[AttributedRun]) -> None:
        """Count whom the runs' verdicts blame, and for what."""
        for verdict in (item.attribution for item in runs):
            if verdict.abstained is not None:
                self.add("runs_abstained")
                continue
            self.add("runs_attributed")
            if verdict.failure_score <= _BLAMED_ABOVE or not verdict.agents:
                continue
            agent = verdict.agents[0].agent
            mode = next((blame.mode for blame in verdict.modes if blame.agent == agent), None)
            pair = (agent[:100], f"{mode.taxonomy}:{mode.code}" if mode else "unknown")
            self.blame[pair if pair in self.blame or len(self.blame) < _MOST_LABELS else ("other", "other")] += 1

    def message(self) -> dict[str, Any]:
        """Tell all that is counted here."""
        running, buckets = 0, []
        for upper, number in zip((*_UPPER_S, float("inf")), self._latencies, strict=True):
            running += number
            buckets.append([upper, running])
        return {
            "counts": dict(self.counts),
            "blame": [[agent, mode, number] for (agent, mode), number in self.blame.items()],
            "latency_s": {"buckets": buckets, "sum": self._latency_sum_s},
        }
