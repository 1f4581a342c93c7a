"""What the peer is given says the same as the run, and whom tools name is counted as it should be."""

from __future__ import annotations

import json

from tests.benchmarks import detective_peer
from tests.sdk.builders import small_run

from blamespan.importing.recorded import Fault, RecordedRun


def test_peer_gets_a_span_for_each_decision_below_the_one_it_builds_on() -> None:
    """Results of tools are no decisions; what builds on one stands below the call."""
    [resource] = json.loads(detective_peer._agent_spans(small_run()))["resourceSpans"]
    spans = resource["scopeSpans"][0]["spans"]

    assert [(span["name"], span.get("parentSpanId", "")[-1:]) for span in spans] == [
        ("user", ""),
        ("solver", "1"),
        ("solver", "2"),
        ("checker", "4"),
    ]


def test_figures_count_failed_and_sound_runs_apart() -> None:
    """A name in a sound run is a false alarm, whoever it is; case and notes in brackets do not matter."""
    failed = RecordedRun("a", small_run(), faults=(Fault("Solver"),))
    sound = RecordedRun("b", small_run(), faults=())

    figure = detective_peer._figure("tool", "runs", [failed, failed, failed, sound], ["solver (tool)", "x", None, "x"])

    assert (figure.failed, figure.named, figure.right, figure.sound, figure.accused) == (3, 2, 1, 1, 1)
