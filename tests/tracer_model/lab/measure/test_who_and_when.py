"""Who&When figures against values worked out by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from blamespan.attribution import Attribution, TracerIdentity
from blamespan.errors import UnreadableInput
from blamespan.importing.recorded import Fault, RecordedRun
from blamespan_lab.measure.who_and_when import cross_validated_steps, evaluate_subset
from blamespan_lab.recorded_runs import read_subset
from blamespan_tracer.auto.plain_features import PLAIN_FEATURES, plain_features
from tests.tracer_model.runs import trace

WHO = TracerIdentity("fixed", "1")
LINES = (("Planner", "plan"), ("Coder", "```x```"), ("Terminal", "error"), ("Coder", "fixed"), ("Planner", "done"))


def run(number: int, agent: str, step: int) -> RecordedRun:
    found = trace(*LINES, number=number, task=f"question {number}", roles={"Terminal": "executor"})
    return RecordedRun(f"{number}.json", found, (Fault(agent, step=step),))


def verdict(recorded: RecordedRun, *shares: float) -> Attribution:
    return Attribution.of(recorded.trace, shares, failure_score=0.5, tracer=WHO)


RUNS = [run(1, "coder (thought)", 1), run(2, "Planner", 4), run(3, "Coder", 1), run(4, "Coder", 3)]
VERDICTS = [
    verdict(RUNS[0], 0, 5, 0, 1, 0),
    verdict(RUNS[1], 3, 1, 0, 0, 2),
    verdict(RUNS[2], 5, 3, 0, 1, 1),
    Attribution.abstain(RUNS[3].trace, "because", WHO),
]


def test_steps_and_agents_are_counted_by_the_protocol() -> None:
    """Suffix and case of a name do not count, an abstention is wrong, nearness and top three are apart."""
    found = evaluate_subset(RUNS, VERDICTS)

    assert (found["n"], found["abstained"]) == (4, 1)
    assert (found["step"], found["agent"]) == (25.0, 50.0)
    assert (found["top3"], found["within1"], found["within3"]) == (75.0, 50.0, 50.0)


def test_baselines_are_what_they_say() -> None:
    """Each figure follows from the five lines of the run and the four labels."""
    baselines = evaluate_subset(RUNS, VERDICTS)["baselines"]

    assert baselines["random"] == {"step": pytest.approx(20), "agent": pytest.approx(100 / 3)}
    assert baselines["random_blamable"] == {"step": pytest.approx(25), "agent": pytest.approx(50)}
    assert baselines["best_constant_step"] == {"step": 50.0, "agent": 75.0}
    assert baselines["best_fixed_agent"] == {"step": 0.0, "agent": 75.0}
    assert baselines["first_code_fence_else_step_1"] == {"step": 50.0, "agent": 75.0}
    assert baselines["busiest_agent"] == {"step": 0.0, "agent": 25.0}


def test_plain_features_fill_every_column_with_numbers() -> None:
    """One finite number per step and named feature, also for a run of one empty step."""
    for found in (RUNS[0].trace, trace(("a", ""), task="")):
        features = plain_features(found)

        assert features.shape == (len(found.steps), len(PLAIN_FEATURES))
        assert np.isfinite(features).all()


def test_plain_model_learns_a_surface_rule() -> None:
    """Where the labelled step is always the one with a code fence, it is found in runs never seen."""
    traces = []
    for number in range(1, 41):
        lines = [("a", f"we go on with part {place}") for place in range(6)]
        lines[number % 6] = ("a", "```run()```")
        traces.append(trace(*lines, number=number, task=f"question {number}"))

    answers = cross_validated_steps(traces, [number % 6 for number in range(1, 41)])

    assert answers == [number % 6 for number in range(1, 41)]


def test_plain_model_never_learns_from_the_run_it_answers() -> None:
    """Changing one run's label cannot change the answer to that run, nor to its twins of the same task."""
    traces = [trace(*LINES, number=number, task=f"question {number % 9}") for number in range(1, 28)]
    labels: list[int | None] = [number % 5 for number in range(27)]
    changed = [
        (4 - label if number % 9 == 3 else label) if label is not None else None for number, label in enumerate(labels)
    ]

    before, after = cross_validated_steps(traces, labels), cross_validated_steps(traces, changed)

    assert [before[place] for place in range(27) if place % 9 == 3] == [
        after[place] for place in range(27) if place % 9 == 3
    ]


def test_folder_without_runs_says_what_belongs_there(tmp_path: Path) -> None:
    """The message names the folders that the data should hold."""
    with pytest.raises(UnreadableInput, match="Give --data the folder that holds algorithm-generated and hand"):
        read_subset(tmp_path / "hand-crafted")
