"""What `/metrics` tells: counts of the intake and of every worker so far, in Prometheus's text format."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from blamespan._version import __version__
from blamespan_collector.receiving.intake import IntakeCounts
from blamespan_collector.supervisor import WorkerMessage

__all__ = ["Metrics"]

_MOST_AGENTS = 100
"""Distinct agents in labels; those that come later are `other`. A label's values are kept for ever by Prometheus."""
_MOST_MODES = 50
_MOST_LABEL = 100
_NAME = re.compile(r"[a-z][a-z0-9_]{0,60}")
_OUTCOMES = ("malformed", "busy", "unauthorized", "set_aside")
_GAUGE_HELP = {
    "open_traces": "Traces that wait for their end.",
    "queue_age_s": "Age of the oldest thing that waits for a sink.",
    "journal_bytes": "Size of the journal's folder.",
    "journal_waiting_bytes": "What waits in memory for the journal's disk.",
    "worker_ready": "1 while a worker is at work.",
}


class _Totals:
    """Counts over several workers: each begins at zero, Prometheus wants one that only rises."""

    def __init__(self) -> None:
        self._before: dict[Any, float] = {}
        self._now: dict[Any, float] = {}

    def set(self, counts: Mapping[Any, float]) -> None:
        """Take what the present worker counted since its start."""
        self._now = dict(counts)

    def renew(self) -> None:
        """Begin with the next worker."""
        self._before = self.totals()
        self._now = {}

    def totals(self) -> dict[Any, float]:
        """Give the counts since our start."""
        return {
            key: self._before.get(key, 0) + self._now.get(key, 0) for key in dict.fromkeys([*self._before, *self._now])
        }


class Metrics(Collector):
    """Collects what the intake counts and what workers say; whatever a worker says, this does not break.

    Args:
        intake: Counts of this process, read when asked.
        gauges: Gives what else this process knows, by name.
    """

    def __init__(self, intake: IntakeCounts, gauges: Callable[[], Mapping[str, float]] = dict) -> None:
        self._intake = intake
        self._own_gauges = gauges
        self._counts, self._blame, self._buckets, self._seconds = _Totals(), _Totals(), _Totals(), _Totals()
        self._gauges: dict[str, float] = {}
        self._agents: set[str] = set()
        self._modes: set[str] = set()
        self._restarts = 0

    def hear(self, message: WorkerMessage, restarts: int) -> None:
        """Take a worker's message; *restarts* tells one worker from the next."""
        if restarts != self._restarts:
            self._restarts = restarts
            for totals in (self._counts, self._blame, self._buckets, self._seconds):
                totals.renew()
        if isinstance(message.get("counts"), Mapping):
            self._counts.set(dict(_numbers(message["counts"])))
        if isinstance(message.get("gauges"), Mapping):
            self._gauges = dict(_numbers(message["gauges"]))
        if isinstance(message.get("blame"), Iterable):
            self._blame.set(self._bounded(message["blame"]))
        latency = message.get("latency_s")
        if isinstance(latency, Mapping):
            self._buckets.set({float(upper): float(number) for upper, number in latency["buckets"]})
            self._seconds.set({"sum": float(latency["sum"])})

    def text(self) -> bytes:
        """Write everything in Prometheus's text format."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        return generate_latest(registry)

    def counts(self) -> dict[str, float]:
        """Give all counts and gauges by name, for `/healthz`."""
        return {**asdict(self._intake), **self._counts.totals(), **self._gauges, **self._own_gauges()}

    def collect(self) -> Iterator[Metric]:
        """Give every metric, as `prometheus_client` asks for them."""
        yield InfoMetricFamily("blamespan", "The collector.", value={"version": __version__})
        yield from self._of_intake()
        for name, total in sorted(self._counts.totals().items()):
            yield CounterMetricFamily(f"blamespan_{name}", f"{name.replace('_', ' ')} by the worker.", value=total)
        for name, value in sorted({**self._gauges, **self._own_gauges()}.items()):
            text = _GAUGE_HELP.get(name, f"{name.replace('_', ' ')} now.")
            yield GaugeMetricFamily(f"blamespan_{_with_unit(name)}", text, value=value)
        yield CounterMetricFamily("blamespan_worker_restarts", "Workers that died.", value=self._restarts)
        yield from self._of_verdicts()

    def _of_intake(self) -> Iterator[Metric]:
        counts = asdict(self._intake)
        outcomes = {outcome: counts[f"requests_{outcome}"] for outcome in _OUTCOMES}
        requests = CounterMetricFamily("blamespan_requests", "Requests by what came of them.", labels=["outcome"])
        requests.add_metric(["accepted"], counts["requests"] - outcomes["malformed"] - outcomes["set_aside"])
        for outcome, number in outcomes.items():
            requests.add_metric([outcome], number)
        yield requests
        yield CounterMetricFamily(
            "blamespan_spans_received", "Spans acknowledged, which are in the journal.", value=counts["spans_received"]
        )
        yield CounterMetricFamily(
            "blamespan_spans_refused", "Spans their sender was told to keep.", value=counts["spans_refused"]
        )

    def _of_verdicts(self) -> Iterator[Metric]:
        blame = CounterMetricFamily("blamespan_blame", "Runs by who was blamed for what.", labels=["agent", "mode"])
        for (agent, mode), number in sorted(self._blame.totals().items()):
            blame.add_metric([agent, mode], number)
        yield blame
        buckets = sorted(self._buckets.totals().items())
        if buckets:
            yield HistogramMetricFamily(
                "blamespan_attribution_seconds",
                "Time a batch of verdicts took.",
                buckets=[("+Inf" if math.isinf(upper) else repr(upper), number) for upper, number in buckets],
                sum_value=self._seconds.totals().get("sum", 0.0),
            )

    def _bounded(self, blame: Iterable[Any]) -> dict[tuple[str, str], float]:
        found: dict[tuple[str, str], float] = {}
        for agent, mode, number in blame:
            key = (_known(str(agent), self._agents, _MOST_AGENTS), _known(str(mode), self._modes, _MOST_MODES))
            found[key] = found.get(key, 0) + float(number)
        return found


def _known(value: str, seen: set[str], most: int) -> str:
    """Give *value* as a label, or `other` where there are *most* already; names come from traces."""
    value = "".join(char if char.isprintable() else "?" for char in value[:_MOST_LABEL])
    if value not in seen and len(seen) >= most:
        return "other"
    seen.add(value)
    return value


def _numbers(counts: Mapping[Any, Any]) -> Iterator[tuple[str, float]]:
    for name, value in counts.items():
        if isinstance(name, str) and _NAME.fullmatch(name) and isinstance(value, int | float):
            yield name, value


def _with_unit(name: str) -> str:
    return f"{name.removesuffix('_s')}_seconds" if name.endswith("_s") else name
