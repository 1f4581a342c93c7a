"""AEGIS figures against values worked out by hand, and on the published data."""

from __future__ import annotations

from pathlib import Path

import pytest

from blamespan.attribution import Attribution, ModeBlame, TracerIdentity
from blamespan.importing.recorded import Fault, RecordedRun
from blamespan.taxonomy import AEGIS, EXTENSION, MAST
from blamespan_lab.measure.aegis import evaluate_aegis, tfidf_answers
from blamespan_lab.recorded_runs import read_runs
from blamespan_tracer.alternatives.lexical import LexicalTracer
from tests.tracer_model.runs import trace

WHO = TracerIdentity("fixed", "1")


def run(number: int, *faults: tuple[str, str]) -> RecordedRun:
    found = trace(("Solver", "x"), ("Critic", "y"), number=number, task=f"question {number}")
    return RecordedRun(f"here:{number}", found, tuple(Fault(agent, AEGIS[code]) for agent, code in faults))


def verdict(recorded: RecordedRun, *pairs: tuple[str, str]) -> Attribution:
    modes = [ModeBlame(AEGIS[code], agent, 0.5) for agent, code in pairs]
    return Attribution.of(recorded.trace, [1, 1], failure_score=0.5, tracer=WHO, modes=modes)


RUNS = [run(1, ("solver", "FM-1.1"), ("Critic", "FM-2.1")), run(2, ("ranker5", "FM-1.1")), run(3, ("Solver", "FM-3.3"))]
VERDICTS = [
    verdict(RUNS[0], ("Solver", "FM-1.1"), ("Critic", "FM-3.3")),
    verdict(RUNS[1], ("Solver", "FM-1.1")),
    Attribution.abstain(RUNS[2].trace, "because", WHO),
]


def test_pairs_agents_and_modes_are_counted_apart() -> None:
    """One of four pairs found with three reported; two of four agents; two of four modes."""
    found = evaluate_aegis(RUNS, VERDICTS, tracer=WHO)

    assert found["pair"]["micro_f1"] == pytest.approx(200 / 7)
    assert found["agent"]["micro_f1"] == pytest.approx(400 / 7)
    assert found["mode"]["micro_f1"] == pytest.approx(400 / 7)
    assert (found["n"], found["abstained"], found["tracer"]["name"]) == (3, 1, "fixed")


def test_exact_names_do_not_forgive_spelling() -> None:
    """`solver` is not `Solver` there: nothing of the pairs is left, and one agent."""
    exact = evaluate_aegis(RUNS, VERDICTS, tracer=WHO)["exact_names"]

    assert exact["pair"]["micro_f1"] == 0
    assert exact["agent"]["micro_f1"] == pytest.approx(200 / 7)


def test_modes_of_other_taxonomies_answer_what_maps_to_them() -> None:
    """A canonical mode stands for AEGIS's codes of that meaning; one without such names an agent, and no mode."""
    blamed = [ModeBlame(MAST["FM-1.3"], "Critic", 0.5), ModeBlame(EXTENSION["X2"], "Solver", 0.5)]
    found = Attribution.of(RUNS[0].trace, [1, 1], failure_score=0.5, tracer=WHO, modes=blamed)

    scores = evaluate_aegis(RUNS[:1], [found], tracer=WHO)

    assert scores["pair"]["micro_f1"] == pytest.approx(
        40
    )  # FM-1.3 and FM-2.1 of the critic, and X2: one of three, of two
    assert scores["agent"]["micro_f1"] == 100


def test_unseen_questions_are_scored_by_themselves() -> None:
    """Only runs whose question was not trained on count; unknown training gives no figure at all."""
    unseen = evaluate_aegis(RUNS, VERDICTS, tracer=WHO, is_seen=[False, True, True])["unseen_questions"]

    assert unseen is not None
    assert (unseen["n"], unseen["pair"]) == (1, {"micro_f1": 50.0, "macro_f1": pytest.approx(100 / 3)})
    assert evaluate_aegis(RUNS, VERDICTS, tracer=WHO)["unseen_questions"] is None


def test_constant_baseline_is_what_it_says() -> None:
    """The commonest mode here is FM-1.1: on every agent it is right once in six."""
    baselines = evaluate_aegis(RUNS, VERDICTS, tracer=WHO)["baselines"]

    assert baselines["every_agent_commonest_mode"]["pair"]["micro_f1"] == pytest.approx(20)


def test_baseline_of_words_learns_what_they_say() -> None:
    """Who says in training what the culprit says is answered with its mode; who says nothing of that is not."""
    words = {"FM-1.1": "I skip the second part", "FM-3.3": "Verified without looking"}
    training = [
        RecordedRun(
            f"t:{number}",
            trace(("Solver", words[code]), ("Critic", "fine so far"), number=number + 1, task=f"question {number}"),
            (Fault("Solver", AEGIS[code]),),
        )
        for number in range(60)
        for code in (list(words)[number % 2],)
    ]

    assert tfidf_answers(training, training[:2]) == [{("Solver", "FM-1.1")}, {("Solver", "FM-3.3")}]


@pytest.mark.data
def test_bundled_tracer_clears_the_bar_on_validation(recorded_runs: Path) -> None:
    """Pair micro-F1 of the shipped weights on every twelfth run; the best language model of 14B parameters has 16.6."""
    runs = list(read_runs("aegis", recorded_runs / "aegis" / "validation.jsonl.xz"))[::12]
    tracer = LexicalTracer.bundled()

    found = evaluate_aegis(runs, tracer.attribute([run.trace for run in runs]), tracer=tracer.identity)

    assert found["pair"]["micro_f1"] > 33
