"""What Prometheus is told: bounded, rising over the lives of workers, and never broken by what a worker says."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from blamespan import taxonomy
from blamespan.attribution import Attribution, ModeBlame, TracerIdentity
from blamespan.pipeline import AttributedRun
from blamespan.rebuilding.runs import Run
from blamespan.spans import Span
from blamespan.trace import Agent, MessageActionTrace, Outcome, Step
from blamespan_collector.receiving.intake import IntakeCounts
from blamespan_collector.service.metrics import Metrics
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


def judged(
    agent: str = "planner",
    *,
    outcome: Outcome = "unknown",
    score: float = 0.9,
    unaided_score: float | None = None,
    ended_ns: int | None = None,
) -> AttributedRun:
    """One run whose only step is to blame."""
    ended_ns = time.time_ns() if ended_ns is None else ended_ns
    span = Span("1" * 32, "2" * 16, None, "step", start_ns=1, end_ns=ended_ns)
    step = Step(index=0, span_id=span.span_id, agent=agent, kind="message", content="")
    trace = MessageActionTrace("1" * 32, "", (step,), (Agent(agent),), outcome=outcome)
    tracer = TracerIdentity("lexical", "1")
    modes = [ModeBlame(taxonomy.MAST["FM-1.1"], agent, 0.8)]
    verdict = Attribution.of(trace, [1.0], failure_score=score, tracer=tracer, modes=modes, unaided_score=unaided_score)
    return AttributedRun(Run(None, (span,)), trace, verdict)


def told(counts: WorkerCounts) -> dict[tuple[str, ...], float]:
    metrics = Metrics(IntakeCounts())
    metrics.hear(counts.message(), 0)
    return samples(metrics)


def test_runs_are_told_by_outcome_verdict_and_tracer() -> None:
    """What is known of a run stands beside what its verdict comes to, in the word that its spans say."""
    counts = WorkerCounts()
    counts.expect("lexical")
    abstained = judged(outcome="failed")
    silent = Attribution.abstain(abstained.trace, "no words", TracerIdentity("lexical", "1"))
    runs = [judged(outcome="succeeded"), judged(outcome="failed"), judged(score=0.2)]
    counts.verdicts([*runs, replace(abstained, attribution=silent)])
    found = {key[1:]: value for key, value in told(counts).items() if key[0] == "blamespan_runs_total"}

    assert {key: value for key, value in found.items() if value} == {
        ("succeeded", "lexical", "no sign of failure"): 1,
        ("failed", "lexical", "failed"): 2,
        ("unknown", "lexical", "no sign of failure"): 1,
    }
    assert len(found) == 5  # the others are told as 0, so that their first rise is seen


def test_a_verdict_that_replaces_another_counts_no_second_run() -> None:
    """Revisions are verdicts given, not runs."""
    counts = WorkerCounts()
    counts.verdicts([judged()])
    counts.verdicts([judged()], is_first=False)
    found = told(counts)

    assert found["blamespan_runs_total", "unknown", "lexical", "looks failed"] == 1
    assert found["blamespan_blame_total", "planner", "mast:FM-1.1"] == 1
    assert found["blamespan_runs_attributed_total",] == 2


def test_delays_count_from_the_end_of_a_run() -> None:
    """Two seconds are two seconds; a clock that is ahead gives 0, and a run of 1970 one day."""
    counts = WorkerCounts()
    now_ns = time.time_ns()
    counts.verdicts([judged(ended_ns=ended) for ended in (now_ns - 2_100_000_000, now_ns + 10**12, 5)])
    found = told(counts)
    ends = {key[1]: value for key, value in found.items() if key[0] == "blamespan_verdict_delay_seconds_bucket"}

    assert (ends["0.5"], ends["2.0"], ends["3.0"], ends["3600.0"], ends["+Inf"]) == (1, 1, 2, 2, 3)
    assert found["blamespan_verdict_delay_seconds_sum",] == pytest.approx(86_402.1, abs=0.5)


def test_scores_without_the_outcome_are_told_by_outcome() -> None:
    """What a tracer says of runs unaided is counted apart; where it does not say, nothing is."""
    counts = WorkerCounts()
    counts.expect("lexical")
    runs = [judged(outcome="failed", score=0.99, unaided_score=0.35), judged(outcome="failed", score=0.99)]
    counts.verdicts([*runs, judged(score=0.5), judged(outcome="succeeded", score=0.2, unaided_score=0.2)])
    found = told(counts)

    sums = {end: found["blamespan_failure_unaided_score_sum", end] for end in ("failed", "succeeded", "unknown")}
    assert sums == {"failed": 0.35, "succeeded": 0.2, "unknown": 0.5}
    assert found["blamespan_failure_unaided_score_count", "failed"] == 1
    assert found["blamespan_failure_score_sum", "failed"] == 1.98


def test_scores_are_told_by_what_is_known_of_the_run() -> None:
    """Scores of runs that succeeded stand apart from those of runs that failed; no number is no score."""
    counts = WorkerCounts()
    counts.verdicts([judged(outcome="succeeded", score=0.3), judged(outcome="failed", score=0.95)])
    counts.verdicts([judged(outcome="failed", score=float("nan"))])
    found = told(counts)

    assert found["blamespan_failure_score_bucket", "0.3", "succeeded"] == 1
    assert found["blamespan_failure_score_bucket", "0.9", "failed"] == 0
    assert found["blamespan_failure_score_sum", "failed"] == 0.95
    assert found["blamespan_blame_share_count",] == 2  # of runs that failed, whatever their scores


def test_agents_without_end_keep_their_mode() -> None:
    """Ten thousand invented agents become `other`, with what they are blamed for; those who came first stay."""
    counts = WorkerCounts()
    counts.verdicts([judged("planner")])
    counts.verdicts([judged(f"invented-{number}") for number in range(10_000)])
    counts.verdicts([judged("planner")])
    blame = {key[1:]: value for key, value in told(counts).items() if key[0] == "blamespan_blame_total"}

    assert blame["planner", "mast:FM-1.1"] == 2
    assert blame["other", "mast:FM-1.1"] == 10_000 - 99
    assert len(blame) == 101


def test_a_tracer_that_renames_itself_fills_nothing() -> None:
    """Who gives verdicts is a label, too: a thousand names become a few and `other`, and no run is forgotten."""
    counts = WorkerCounts()
    one = judged()
    for number in range(1000):
        tracer = TracerIdentity(f"tracer-{number}", "1")
        counts.verdicts([replace(one, attribution=replace(one.attribution, tracer=tracer))])
    found = {key: value for key, value in told(counts).items() if key[0] == "blamespan_runs_total"}

    assert (len(counts.runs), sum(found.values())) == (51, 1000)
    assert len(found) < 50


def test_open_incidents_are_told_while_they_are_open() -> None:
    """A series each, of fifty at most; one that was closed is gone, and hostile names are text."""
    metrics = Metrics(IntakeCounts())
    rows = [[f"{n:012x}", "shop", "pri\x1bcing", "blamespan:X3", n] for n in range(60)]
    metrics.hear({"incidents": rows, "gauges": {"incidents_open": 60}}, 0)
    many = samples(metrics)
    metrics.hear({"incidents": rows[7:8], "gauges": {"incidents_open": 1}}, 0)
    one = samples(metrics)

    assert sum(key[0] == "blamespan_incident_runs" for key in many) == 50
    assert {key: value for key, value in one.items() if "incident" in key[0]} == {
        ("blamespan_incidents_open",): 1,
        ("blamespan_incident_runs", "pri?cing", f"{7:012x}", "blamespan:X3", "shop"): 7,
    }


def test_labels_are_bounded() -> None:
    """A thousand agents become a hundred and one; what would break a line or a terminal does not get there."""
    metrics = Metrics(IntakeCounts())
    names = ['a"} 1\nblamespan_forged{x="', "\x1b[31mred\n" + "x" * 5000, "\u202egnp.exe", "\ud800", "", "\\"]
    blame = [[name, "mast:FM-1.1", 1] for name in [*names, *(f"agent{number}" for number in range(1000))]]
    metrics.hear({"blame": blame}, 0)
    agents = {key[1]: value for key, value in samples(metrics).items() if key[0] == "blamespan_blame_total"}
    lines = metrics.text().decode().splitlines()

    assert (len(agents), agents["other"], max(map(len, agents))) == (101, 906, 100)
    assert all(line.isprintable() and len(line) < 250 for line in lines)
    assert not any(line.startswith("blamespan_forged") for line in lines)


@pytest.mark.parametrize(
    "message",
    [
        {"counts": {"a b": 1, "x" * 500: 1, 5: 1, "fine": "text"}},
        {"counts": None, "gauges": [], "blame": None, "runs": None, "histograms": None, "tracer": None},
        {"blame": [["planner"]], "runs": [["failed", 1], ["a", "b", "c", "d"]], "histograms": {"blame_share": [1]}},
        {"histograms": {"failure_score": [[[], [[1.0, 1]], 1.0]], "blame_share": [[[], [], 0.0]], 5: []}},
        {"histograms": {"blame_share": [[[], [["high", "many"]], "all"]], "unheard_of": [[[], [[1.0, 1]], 1.0]]}},
        {"guard": [["block"], ["block", "tool", "many"]]},
        {"guard": "nonsense", "ready": "yes"},
    ],
)
def test_odd_messages_break_nothing(message: dict[str, object]) -> None:
    """What cannot be a metric is left out."""
    metrics = Metrics(IntakeCounts())
    metrics.hear(message, 0)

    assert samples(metrics)["blamespan_spans_received_total",] == 0
