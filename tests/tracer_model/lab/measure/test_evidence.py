"""What counts as quoting what went wrong."""

from __future__ import annotations

from dataclasses import replace

from blamespan.attribution import Attribution, Evidence, TracerIdentity
from blamespan.importing.recorded import Origin, RecordedRun
from blamespan_lab.measure.generated import evaluate_evidence
from tests.tracer_model.runs import trace

SOUND = replace(trace(("A", "The list has 3 parts."), ("B", "So there are 3. Done.")), outcome="succeeded")
FAILED = replace(
    trace(("A", "The list has 3 parts."), ("B", "So there are 4. Done.")), trace_id="f" * 32, outcome="failed"
)
RUNS = [
    RecordedRun("x:1", SOUND, (), Origin("clean", "tables", "chain", "langgraph", twin=FAILED.trace_id)),
    RecordedRun("x:2", FAILED, (), Origin("faulty", "tables", "chain", "langgraph", decisive=1, twin=SOUND.trace_id)),
]


def verdicts(step: int, quote: str) -> list[Attribution]:
    shares = [1.0 if place == step else 0.1 for place in range(2)]
    silent = Attribution.abstain(SOUND, "sound", TracerIdentity("says", "1"))
    evidence = [Evidence(step, quote, 0.9)]
    spoken = Attribution.of(FAILED, shares, failure_score=0.9, tracer=TracerIdentity("says", "1"), evidence=evidence)
    return [silent, spoken]


def test_a_quote_is_right_where_the_twin_says_no_such_thing() -> None:
    """Of two sentences one differs: quoting that one is right, drawing one is half right."""
    assert evaluate_evidence(RUNS, verdicts(1, "So there are 4.")) == {"n": 1, "right": 100, "drawn": 50}
    assert evaluate_evidence(RUNS, verdicts(1, "Done.")) == {"n": 1, "right": 0, "drawn": 50}


def test_only_what_was_found_and_quoted_counts() -> None:
    """Another step's quote says nothing of this one; nor do runs whose twin is not there."""
    assert evaluate_evidence(RUNS, verdicts(0, "The list has 3 parts."))["n"] == 0
    assert evaluate_evidence(RUNS[1:], verdicts(1, "Done.")[1:])["n"] == 0
