"""The dashboard on the collector itself: is it up, does it keep up, does everything arrive."""

from __future__ import annotations

from collections.abc import Mapping

from grafana_foundation_sdk.builders import timeseries
from grafana_foundation_sdk.models import dashboard as models
from panels import AnyPanel, at_once, counter, dashboard, lines, number, over_time, quantile, shown, thresholds


def collector_dashboard() -> models.Dashboard:
    """Make it."""
    return dashboard(
        "blamespan collector",
        "blamespan-collector",
        "What the collector tells of itself. docs/how-to/collect.md explains it.",
        {
            "At a glance": _at_a_glance(),
            "In and out": [_requests(), _spans(), _waiting()],
            "Verdicts": [*_verdicts(), _traces()],
            "Journal and losses": [_journal(), _losses()],
        },
    )


def per_second(metric: str, where: str = "") -> str:
    """Ask for the rate of a counter."""
    return f"sum(rate({counter(metric, where)}[$__rate_interval]))"


def total(metric: str) -> str:
    """Ask for a number of all collectors together."""
    return f"sum({counter(metric)})"


def _at_a_glance() -> list[AnyPanel]:
    good, bad, none_is_good = (None, "red"), (None, "green"), thresholds((None, "green"), (1, "red"))
    late = thresholds(bad, (60, "orange"), (300, "red"))
    rows = [
        ("Workers at work", "Has every collector one?", "sum", "worker_ready", thresholds(good, (1, "green"))),
        ("Worker restarts", "Did workers die?", "sum", "worker_restarts_total", none_is_good),
        ("Sinks failing", "Does a backend refuse or not answer?", "sum", "sinks_failing", none_is_good),
        ("Oldest in the queue", "For how long has a sink left it there?", "max", "queue_age_seconds", late),
        ("Behind the journal", "Does the worker keep up with what comes in?", "max", "journal_lag_seconds", late),
        ("Spans lost", "Was anything lost that was acknowledged?", "sum", "spans_lost_total", none_is_good),
    ]
    return [
        shown(
            number("s" if name.endswith("seconds") else "short").thresholds(colors),
            title,
            question,
            at_once(f"{how}({counter(f'blamespan_{name}')})"),
            width=4,
            height=4,
        )
        for title, question, how, name, colors in rows
    ]


def _several(title: str, question: str, unit: str, asked: Mapping[str, str], width: int) -> timeseries.Panel:
    """Draw one line for each query, by legend."""
    return shown(
        lines(unit), title, question, *(over_time(query, legend) for legend, query in asked.items()), width=width
    )


def _requests() -> timeseries.Panel:
    asked = f"sum by (outcome) (rate({counter('blamespan_requests_total')}[$__rate_interval]))"
    question = "What comes of requests? Who is told `busy` comes again; what is `malformed` or `set_aside` does not."
    return _several("Requests", question, "reqps", {"{{outcome}}": asked}, 8)


def _spans() -> timeseries.Panel:
    names = {"received": "received", "delivered, to each sink": "delivered", "refused": "refused"}
    asked = {legend: per_second(f"blamespan_spans_{name}_total") for legend, name in names.items()}
    return _several("Spans per second", "How many spans come in and go out?", "cps", asked, 8)


def _waiting() -> timeseries.Panel:
    names = {
        "spans for a sink": "spans_waiting",
        "traces for their end": "open_traces",
        "traces for a verdict": "traces_waiting",
    }
    asked = {legend: total(f"blamespan_{name}") for legend, name in names.items()}
    return _several("What waits", "Where does it pile up?", "short", asked, 8)


def _verdicts() -> list[timeseries.Panel]:
    of = {"half": 0.5, "95 of 100": 0.95}
    delays = {legend: quantile(number, "blamespan_verdict_delay_seconds") for legend, number in of.items()}
    times = {legend: quantile(number, "blamespan_attribution_seconds") for legend, number in of.items()}
    return [
        _several(
            "From a run's end to its verdict",
            "After how long can people look? `quiet-s` is in it, and what a program's exporter held back.",
            "s",
            delays,
            8,
        ),
        _several("Time to attribute a trace", "How long does the tracer take?", "s", times, 8),
    ]


def _traces() -> timeseries.Panel:
    names = {
        "complete": "traces_complete",
        "gone on before their verdict": "traces_past_deadline",
        "gone on for want of room": "traces_overflow",
        "without a verdict, something broke": "traces_not_attributed",
        "verdicts told later": "revisions",
    }
    asked = {legend: per_second(f"blamespan_{name}_total") for legend, name in names.items()}
    return _several("Traces per second", "Do all traces get their verdict in time?", "cps", asked, 8)


def _journal() -> timeseries.Panel:
    names = {"on disk": "journal_bytes", "in memory, for the disk": "journal_waiting_bytes"}
    asked = {legend: total(f"blamespan_{name}") for legend, name in names.items()}
    return _several("Journal", "How near is `max-journal-bytes`?", "bytes", asked, 12)


def _losses() -> timeseries.Panel:
    names = {
        "lost": "spans_lost_total",
        "set aside, a sink refused them for good": "spans_set_aside_total",
        "refused, their sender was told": "spans_refused_total",
    }
    asked = {legend: total(f"blamespan_{name}") for legend, name in names.items()}
    return _several("Spans that did not arrive", "Since the collectors started", "short", asked, 12)
