"""What people and machines look at: `/healthz`, `/readyz`, and `/metrics` in Prometheus's text format.

The counts are those of the intake and of every worker so far.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any, TypeVar

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from blamespan._version import __version__
from blamespan_collector.receiving.intake import IntakeCounts
from blamespan_collector.receiving.tokens import BearerTokens
from blamespan_collector.worker.messages import WorkerMessage

_MOST_AGENTS = 100
"""Distinct agents in labels; those that come later are `other`. A label's values are kept for ever by Prometheus."""
_MOST_MODES = 50
_MOST_WORDS = 40
"""Distinct outcomes, verdicts and tracers in labels together."""
_MOST_GUARD_WORDS = 20
"""Distinct actions and kinds of rules of guards together."""
_MOST_LABEL = 100
_NAME = re.compile(r"[a-z][a-z0-9_]{0,60}")
_MOST_INCIDENTS = 50
_INCIDENT_LABELS = ("incident", "service", "agent", "mode")
_RUN_LABELS = ("outcome", "verdict", "tracer")
_SUM = -1.0
"""Where a range's upper end stands in a key, the sum of the numbers has this; no range of ours ends there."""
_OUTCOMES = ("malformed", "busy", "unauthorized", "set_aside")
_HISTOGRAMS = {
    "attribution_s": ("blamespan_attribution_seconds", "Time a trace took to attribute: its share of its batch's.", ()),
    "verdict_delay_s": ("blamespan_verdict_delay_seconds", "Time from the end of a run to its first verdict.", ()),
    "blame_share": ("blamespan_blame_share", "Share of the blame on the most blamed agent, of runs found failed.", ()),
    "failure_score": ("blamespan_failure_score", "How likely runs failed, by their verdict.", ("outcome",)),
    "unaided_score": (
        "blamespan_failure_unaided_score",
        "How likely runs failed, by a verdict that is not told how they ended.",
        ("outcome",),
    ),
}
"""What a worker calls them: name, help and labels."""
_COUNT_HELP = {
    "revisions": "Verdicts that came after the spans had gone on, or replaced another.",
    "entries_damaged": "Acknowledged parts of requests that cannot be read, because their bytes on disk are damaged.",
    "segments_damaged": "Segments of the journal with damaged bytes; everything else in them goes on.",
    "alerts_failed": "Messages about incidents that a receiver did not take; they are tried again.",
    "alerts_sent": "Messages about incidents that a receiver took.",
    "logs_set_aside": "Log records set aside, because a sink refused them.",
    "spans_delivered": "Spans that a sink has taken; each sink counts.",
    "spans_set_aside": "Spans set aside, because a sink refused them.",
    "spans_resent": "Spans sent again as somebody asked.",
    "spans_lost": "Acknowledged spans that cannot be delivered, because their bytes on disk are damaged or gone.",
    "traces_complete": "Traces that went on in order.",
    "traces_late": "Traces of which spans came after they had gone on.",
    "traces_overflow": "Traces that went on early, because too many or too large ones waited.",
    "traces_not_attributed": "Traces that went on without a verdict because something broke.",
    "traces_past_deadline": "Traces that went on before their verdict, which follows as a revision.",
}
_GAUGE_HELP = {
    "alerts_failing": "Receivers of alerts that did not take the last one.",
    "incidents_open": "Incidents that are open: runs that fail alike.",
    "journal_lag_s": "How far the worker is behind what was acknowledged.",
    "kept_bytes": "What was delivered and is kept to be sent again.",
    "set_aside_records": "Log records, metrics and verdicts that are set aside now.",
    "set_aside_spans": "Spans that are set aside now.",
    "open_traces": "Traces that wait for their end.",
    "queue_age_s": "Age of the oldest thing that waits for a sink.",
    "journal_bytes": "Size of the journal's folder.",
    "journal_waiting_bytes": "What waits in memory for the journal's disk.",
    "sinks_failing": "Sinks that did not take what was last sent to them.",
    "spans_waiting": "Spans that wait for a sink; each sink that lacks one counts.",
    "traces_waiting": "Traces that wait for their verdict.",
    "worker_ready": "1 while a worker is at work.",
}


_Key = TypeVar("_Key")


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
        """Return the counts since our start."""
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
        self._counts, self._blame, self._runs, self._histograms = _Totals(), _Totals(), _Totals(), _Totals()
        self._guard = _Totals()
        self._known_guard_words: set[str] = set()
        self._gauges: dict[str, float] = {}
        self._incidents: list[tuple[list[str], float]] = []
        self._agents: set[str] = set()
        self._modes: set[str] = set()
        self._words: set[str] = set()
        self._tracer = ""
        self._restarts = 0

    def hear(self, message: WorkerMessage, restarts: int) -> None:
        """Take a worker's message; *restarts* tells one worker from the next."""
        if restarts != self._restarts:
            self._restarts = restarts
            for totals in (self._counts, self._blame, self._guard, self._runs, self._histograms):
                totals.renew()
        if isinstance(message.get("counts"), Mapping):
            self._counts.set(dict(_numbers(message["counts"])))
        if isinstance(message.get("gauges"), Mapping):
            self._gauges = dict(_numbers(message["gauges"]))
        if isinstance(message.get("tracer"), str):
            self._tracer = message["tracer"]
        with suppress(TypeError, ValueError):
            self._blame.set(self._bound_blame(message.get("blame", ())))
        with suppress(TypeError, ValueError):
            guard = message.get("guard", ())
            self._guard.set(_add_up((self._guard_words(*labels), number) for *labels, number in guard))
        with suppress(TypeError, ValueError):
            runs = message.get("runs", ())
            self._runs.set(_add_up((self._word(*labels), number) for *labels, number in runs if len(labels) == 3))
        with suppress(TypeError, ValueError):
            incidents = list(message.get("incidents", ()))[:_MOST_INCIDENTS]
            self._incidents = [
                ([_printable(str(label)) for label in labels], float(runs))
                for *labels, runs in incidents
                if len(labels) == 4
            ]
        with suppress(TypeError, ValueError, AttributeError):
            self._histograms.set(_add_up(self._points(message.get("histograms", {}))))

    def text(self) -> bytes:
        """Write everything in Prometheus's text format."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        return generate_latest(registry)

    def counts(self) -> dict[str, float]:
        """Return all counts and gauges by name, for `/healthz`."""
        return {**asdict(self._intake), **self._counts.totals(), **self._gauges, **self._own_gauges()}

    def collect(self) -> Iterator[Metric]:
        """Yield every metric, as `prometheus_client` asks for them."""
        yield InfoMetricFamily("blamespan", "The collector.", value={"version": __version__})
        if self._tracer:
            name, _, version = map(_printable, self._tracer.partition("/"))
            identity = {"name": name, "version": version}
            yield InfoMetricFamily("blamespan_tracer", "Who gives the verdicts.", value=identity)
        yield from self._of_intake()
        for name, total in sorted(self._counts.totals().items()):
            text = _COUNT_HELP.get(name, f"{name.replace('_', ' ')} by the worker.")
            yield CounterMetricFamily(f"blamespan_{name}", text, value=total)
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
        guard = CounterMetricFamily(
            "blamespan_guard_decisions", "Decisions of guards on the spans of runs.", labels=["action", "kind"]
        )
        for values, number in sorted(self._guard.totals().items()):
            guard.add_metric(values, number)
        yield guard
        runs = CounterMetricFamily(
            "blamespan_runs", "Runs by what is known of them and their first verdict.", labels=_RUN_LABELS
        )
        for values, number in sorted(self._runs.totals().items()):
            runs.add_metric(values, number)
        yield runs
        incidents = GaugeMetricFamily(
            "blamespan_incident_runs",
            "Runs of each open incident, those with the latest runs.",
            labels=_INCIDENT_LABELS,
        )
        for values, number in self._incidents:
            incidents.add_metric(values, number)
        yield incidents
        yield from self._of_histograms()

    def _of_histograms(self) -> Iterator[Metric]:
        points: dict[str, dict[tuple[str, ...], dict[float, float]]] = {}
        for (name, labels, upper), number in self._histograms.totals().items():
            points.setdefault(name, {}).setdefault(labels, {})[upper] = number
        for name, (metric, text, names) in _HISTOGRAMS.items():
            family = HistogramMetricFamily(metric, text, labels=names)
            for labels, numbers in sorted(points.get(name, {}).items()):
                total = numbers.pop(_SUM, 0.0)
                buckets = [("+Inf" if math.isinf(upper) else repr(upper), numbers[upper]) for upper in sorted(numbers)]
                family.add_metric(labels, buckets, total)
            yield family

    def _points(self, histograms: Mapping[str, Any]) -> Iterator[tuple[tuple[str, tuple[str, ...], float], float]]:
        """Yield each range of each known histogram, and its sum, under a key of its own."""
        for name, series in histograms.items():
            if name not in _HISTOGRAMS:
                continue
            for labels, buckets, total in series:
                key = self._word(*labels)
                if len(key) != len(_HISTOGRAMS[name][2]) or not buckets:
                    raise ValueError(f"expected labels and ranges of {name}, got {labels!r} and {buckets!r}")
                yield (name, key, _SUM), total
                yield from (((name, key, float(upper)), number) for upper, number in buckets)

    def _word(self, *values: Any) -> tuple[str, ...]:
        return tuple(_bound_label(str(value), self._words, _MOST_WORDS) for value in values)

    def _guard_words(self, action: Any, kind: Any) -> tuple[str, str]:
        known = self._known_guard_words
        return _bound_label(str(action), known, _MOST_GUARD_WORDS), _bound_label(str(kind), known, _MOST_GUARD_WORDS)

    def _bound_blame(self, blame: Iterable[Any]) -> dict[tuple[str, str], float]:
        return _add_up(
            (
                (
                    _bound_label(str(agent), self._agents, _MOST_AGENTS),
                    _bound_label(str(mode), self._modes, _MOST_MODES),
                ),
                number,
            )
            for agent, mode, number in blame
        )


def _bound_label(value: str, labels: set[str], most: int) -> str:
    """Return *value* as a label, or `other` where there are *most* already; names come from traces."""
    value = _printable(value)
    if value not in labels and len(labels) >= most:
        return "other"
    labels.add(value)
    return value


def _printable(value: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in value[:_MOST_LABEL])


def _add_up(pairs: Iterable[tuple[_Key, Any]]) -> dict[_Key, float]:
    """Add up what has the same key.

    Raises:
        ValueError, TypeError: if a number is none.
    """
    totals: dict[_Key, float] = {}
    for key, number in pairs:
        totals[key] = totals.get(key, 0) + float(number)
    return totals


def _numbers(counts: Mapping[Any, Any]) -> Iterator[tuple[str, float]]:
    for name, value in counts.items():
        if isinstance(name, str) and _NAME.fullmatch(name) and isinstance(value, int | float):
            yield name, value


def _with_unit(name: str) -> str:
    return f"{name.removesuffix('_s')}_seconds" if name.endswith("_s") else name


def monitor_routes(metrics: Metrics, not_ready: Callable[[], str | None], tokens: BearerTokens) -> list[Route]:
    """Build the routes.

    `/healthz` answers while the process lives, and tells counts. `/readyz` answers 503 where requests would
    be refused, or where they are taken but nothing can be delivered. Neither asks for a token, as probes have
    none; `/metrics` does, as it names agents.

    Args:
        metrics: What is told.
        not_ready: Why requests would be refused now, or nothing is delivered; None where all is well.
        tokens: Who may read the metrics.
    """

    async def health(_: Request) -> Response:
        return JSONResponse({"status": "ok", **metrics.counts()})

    async def ready(_: Request) -> Response:
        reason = not_ready()
        if reason is None:
            return JSONResponse({"status": "ready"})
        return JSONResponse({"status": "not ready", "reason": reason}, 503)

    async def text(request: Request) -> Response:
        if not tokens.admits(request.headers.get("authorization")):
            return Response("expected a bearer token that is known here", 401, {"WWW-Authenticate": "Bearer"})
        return Response(metrics.text(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    return [
        Route("/healthz", health, methods=["GET"]),
        Route("/readyz", ready, methods=["GET"]),
        Route("/metrics", text, methods=["GET"]),
    ]
