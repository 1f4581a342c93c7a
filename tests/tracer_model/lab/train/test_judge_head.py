"""A combination that is fitted to labels: never worse than the better of both opinions, and used where it is better."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest
from click.testing import CliRunner

from blamespan.attribution import Attribution, TracerIdentity
from blamespan.cli import cli
from blamespan.errors import TracerUnavailable, UnreadableInput
from blamespan.trace import MessageActionTrace
from blamespan_lab.train.judge_head import AskedRun, fit_combination, learn_combination
from blamespan_tracer.alternatives.llm_judge.answers import Diagnosis, Suspect
from blamespan_tracer.alternatives.llm_judge.combination import (
    STATED,
    Combination,
    chance_right,
    combinations_in_use,
    gain_of_asking,
)
from tests.benchmarks.judge_simulated import JUDGES, LabelledFailure, answers_of
from tests.tracer_model.alternatives.llm_judge.serving import WRONG, judge, run, served, served_as_judge, write_file

N_STEPS = 12


def failure(number: int, *, is_right: bool) -> LabelledFailure:
    """Make a failed run with an embedded verdict that is right or not."""
    random = Random(number)
    texts = [("user", f"Task {number}.")] + [(f"agent{n % 3}", f"number {number} step {n}") for n in range(1, N_STEPS)]
    trace = run(texts, number=number + 1, task=f"Task {number}.")
    step = random.randrange(1, N_STEPS)
    named = step if is_right else random.choice([n for n in range(1, N_STEPS) if n != step])
    shares = [0.0] + [0.5 if n == named else 0.05 for n in range(1, N_STEPS)]
    verdict = Attribution.of(trace, shares, failure_score=0.9, tracer=TracerIdentity("fixed", "1"))
    return LabelledFailure(trace, verdict, step)


FAILURES = [failure(number, is_right=number % 3 == 0) for number in range(90)]
"""The embedded tracer is right in a third of them."""


@pytest.mark.parametrize("name", JUDGES)
@pytest.mark.parametrize("n_labels", [20, 60])
def test_fitted_combination_is_never_worse_than_the_better_of_both(name: str, n_labels: int) -> None:
    """Whether the judge is mostly right, nearly right, or never: of the runs that were not labelled, by two errors."""
    asked = answers_of(JUDGES[name], FAILURES, 1)
    combination = fit_combination(asked[:n_labels])
    others = asked[n_labels:] + answers_of(JUDGES[name], FAILURES, 2)
    alone = [each.diagnosis.suspects[0].step == each.step for each in others]
    embedded = [each.verdict.decisive_step == each.step for each in others]
    together = [
        int(combination.share(each.trace, each.verdict, each.diagnosis).argmax()) == each.step for each in others
    ]
    difference = np.array(together, float) - np.array(max(alone, embedded, key=sum), float)

    assert difference.mean() >= -2 * difference.std() / len(difference) ** 0.5 - 1e-9


def test_two_opinions_that_know_different_things_gain() -> None:
    """A judge that is right where the embedded verdict is unsure of itself makes the two better than either."""
    sure = [failure(number, is_right=True) for number in range(200, 240)]
    for each in sure:
        shares = [0.0] + [0.9 if n == each.step else 0.01 for n in range(1, N_STEPS)]
        object.__setattr__(each, "verdict", Attribution.of(each.trace, shares, failure_score=0.9, tracer=_FIXED))
    unsure = [failure(number, is_right=False) for number in range(300, 340)]
    asked = answers_of(JUDGES["always another step"], sure, 0) + answers_of(lambda _, __, right: right, unsure, 0)
    combination = fit_combination(asked)
    right = [int(combination.share(each.trace, each.verdict, each.diagnosis).argmax()) == each.step for each in asked]

    assert sum(right) >= 76  # each alone has 40 of 80


_FIXED = TracerIdentity("fixed", "1")


def test_fitting_takes_twenty_labels() -> None:
    """Of fewer nobody can tell whom to believe."""
    with pytest.raises(UnreadableInput, match="expected 20 labelled failures with an answer of the judge, got 19"):
        learn_combination(answers_of(JUDGES["oracle, 40 % errors"], FAILURES[:19], 0))


def test_contrary_judge_is_measured_to_be_worth_nothing() -> None:
    """Its labels make a combination that is better than the stated one, as it no longer believes it."""
    head, figures = learn_combination(answers_of(JUDGES["always another step"], FAILURES, 0))

    assert (figures.judge, figures.n, head.is_better) == (0.0, 90, True)
    assert figures.fitted >= figures.embedded - 2
    assert head.accuracy < 0.05


def test_file_is_read_back_and_used_where_it_is_better(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Named by a variable; one that is not better is left alone, and one that is damaged says so."""
    head, _ = learn_combination(answers_of(JUDGES["always another step"], FAILURES, 0))
    path = tmp_path / "judge.safetensors"
    digest = head.save(path)
    monkeypatch.setenv("BLAMESPAN_LEARNT", str(path))

    [read] = combinations_in_use()
    assert (read.digest, read.weights.tolist(), read.accuracy) == (digest, head.weights.tolist(), head.accuracy)
    Combination(head.weights, head.accuracy, is_better=False).save(path)
    assert combinations_in_use() == ()
    path.write_bytes(b"something else")
    with pytest.raises(TracerUnavailable, match="expected a head for the judge"):
        combinations_in_use()


def test_fitted_combination_decides_the_verdict_and_who_is_asked() -> None:
    """A judge whose labels say that it is always wrong is not believed, and not even asked."""
    head, _ = learn_combination(answers_of(JUDGES["always another step"], FAILURES, 0))
    trace, verdict = FAILURES[1].trace, FAILURES[1].verdict

    class Embedded:
        identity = _FIXED

        def attribute(self, traces: list[MessageActionTrace]) -> list[Attribution]:
            return [verdict for _ in traces]

    with served({"find": "step 3"}) as server:
        for least, combinations in ((0.0, (head,)), (0.1, (head,))):
            tracer = judge(server.url, tracer=Embedded(), combinations=combinations, least_gain=least)
            [found] = tracer.attribute([trace])
            assert found.decisive_step == verdict.decisive_step
        n_asked = len(server.asked())

    assert n_asked == 1


def test_chance_and_gain_follow_the_share_and_the_length() -> None:
    """The surer the step and the fewer the decisions, the likelier it is right, and the less asking gains."""

    def chance(share: float, steps: int) -> float:
        trace = run([("user", "?"), *((f"agent{n}", "x") for n in range(steps))])
        rest = (1 - share) / (steps - 1)
        shares = [0.0, share, *[rest] * (steps - 1)]
        return chance_right(trace, Attribution.of(trace, shares, failure_score=1.0, tracer=_FIXED))

    assert chance(0.8, 5) > chance(0.5, 5) > chance(0.5, 50)
    assert gain_of_asking(0.2, 0.5) == pytest.approx(0.3)
    assert gain_of_asking(0.7, 0.5) == 0.0


def test_answer_that_names_nobody_leaves_the_shares() -> None:
    """Nothing is mixed in where nothing is said."""
    asked = AskedRun(FAILURES[0].trace, FAILURES[0].verdict, Diagnosis(0.2), FAILURES[0].step)

    assert STATED.share(asked.trace, asked.verdict, asked.diagnosis).tolist() == [
        step.score for step in asked.verdict.steps
    ]


def test_second_suspects_get_little() -> None:
    """Of what an answer gives out, nine tenths are its first suspect's; the shares add up to 1."""
    each = FAILURES[1]
    suspects = (Suspect(3, 0.6), Suspect(5, 0.5), Suspect(7, 0.3))
    shares = STATED.share(each.trace, each.verdict, Diagnosis(0.9, suspects))

    assert shares.sum() == pytest.approx(1.0)
    assert shares[5] > shares[7]


def test_labels_fit_the_judge_where_one_is_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`blamespan lab train --labels` asks about the labelled failures, says what it cost, and writes the file."""
    traces, labels = tmp_path / "traces", tmp_path / "labels.jsonl"
    traces.mkdir()
    for number in range(24):
        step = 1 + number % 3
        said = [f"I pass on {number}.", f"The sum is {number + 7}.", "Looks fine.", "Done."]
        said[step - 1] += f" {WRONG}."
        names = ["planner", "solver", "checker", "writer"]
        texts = [("user", f"Task {number}?"), *zip(names, said, strict=True)]
        path = write_file(traces / f"{number:02}.json", run(texts, task=f"Task {number}?"), step)
        annotate = ["annotate", str(path), "--by", "ann", "--labels", str(labels)]
        done = CliRunner().invoke(cli, annotate, input=f"s {step}\n-\n-\nq\n")
        assert done.exit_code == 0, done.output
    with served_as_judge(monkeypatch, {"find": WRONG}):
        train = ["lab", "train", "--labels", str(labels), "--data", str(traces), "--out", str(tmp_path / "learnt")]
        done = CliRunner().invoke(cli, train, catch_exceptions=False)

    assert "judge     24 questions to small" in done.stdout, done.stdout
    assert "the judge alone 100.0 %" in done.stdout
    assert Combination.load(tmp_path / "learnt" / "judge.safetensors").accuracy > 0.9
