"""What Prometheus is told: bounded, rising over the lives of workers, and never broken by what a worker says."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from blamespan_collector.metrics import Metrics
from blamespan_collector.receiving.intake import IntakeCounts
from blamespan_collector.worker.counts import WorkerCounts


def samples(metrics: Metrics) -> dict[tuple[str, ...], float]:
    families = text_string_to_metric_families(metrics.text().decode())
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def test_counts_and_gauges_are_told() -> None:
    """Counts of the intake, counts and gauges of the worker, and own gauges, each under its name with its unit."""
    metrics = Metrics(IntakeCounts(requests=5, requests_malformed=1, spans_received=9), lambda: {"journal_bytes": 3})
    metrics.hear({"counts": {"spans_delivered": 4}, "gauges": {"queue_age_s": 1.5, "open_traces": 2}}, 0)
    told = samples(metrics)

    assert told["blamespan_requests_total", "accepted"] == 4
    assert told["blamespan_requests_total", "malformed"] == 1
    assert told["blamespan_spans_received_total",] == 9
    assert told["blamespan_spans_delivered_total",] == 4
    assert told["blamespan_queue_age_seconds",] == 1.5
    assert told["blamespan_open_traces",] == 2
    assert told["blamespan_journal_bytes",] == 3


def test_counts_rise_over_the_lives_of_workers() -> None:
    """A new worker begins at zero; what Prometheus sees goes on."""
    metrics = Metrics(IntakeCounts())
    counts = WorkerCounts()
    counts.took(0.02)
    counts.blame["planner", "mast:FM-1.1"] = 2
    counts.add("traces", 10)
    metrics.hear(counts.message(), 0)
    metrics.hear({"counts": {"traces": 1}, "blame": [["planner", "mast:FM-1.1", 1]]}, 1)
    told = samples(metrics)

    assert told["blamespan_traces_total",] == 11
    assert told["blamespan_blame_total", "planner", "mast:FM-1.1"] == 3
    assert told["blamespan_attribution_seconds_bucket", "0.01"] == 0
    assert told["blamespan_attribution_seconds_bucket", "0.025"] == 1
    assert told["blamespan_attribution_seconds_count",] == 1
    assert told["blamespan_worker_restarts_total",] == 1


def test_labels_are_bounded() -> None:
    """A thousand agents become a hundred and one; what would break a line or a terminal does not get there."""
    metrics = Metrics(IntakeCounts())
    blame = [[f"agent{number}", "mast:FM-1.1", 1] for number in range(1000)]
    metrics.hear({"blame": [["\x1b[31m\n" + "x" * 5000, "mast:FM-1.1", 1], *blame]}, 0)
    agents = {key[1]: value for key, value in samples(metrics).items() if key[0] == "blamespan_blame_total"}

    assert (len(agents), agents["other"], max(map(len, agents))) == (101, 901, 100)
    assert "\x1b" not in metrics.text().decode()


@pytest.mark.parametrize(
    "message",
    [
        {"counts": {"a b": 1, "x" * 500: 1, 5: 1, "fine": "text"}},
        {"counts": None, "gauges": [], "blame": None},
        {"ready": "yes"},
    ],
)
def test_odd_messages_break_nothing(message: dict[str, object]) -> None:
    """What cannot be a metric is left out."""
    metrics = Metrics(IntakeCounts())
    metrics.hear(message, 0)

    assert samples(metrics)["blamespan_spans_received_total",] == 0
