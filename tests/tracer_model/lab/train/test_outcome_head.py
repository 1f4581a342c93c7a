"""A head for outcomes learns how a user's own runs fail, and is used only where that helps."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from blamespan.attribution import check_verdict
from blamespan.cli import cli
from blamespan.errors import TracerUnavailable, UnreadableInput
from blamespan.labels.file import LabelsFile
from blamespan.labels.people import PersonLabel
from blamespan.otlp import request_to_json
from blamespan.rebuilding.emit import emit
from blamespan.trace import Agent, MessageActionTrace, Step
from blamespan_collector.store import RunWriter
from blamespan_lab.train.outcome_head import (
    FEWEST,
    OutcomeFigures,
    apply_labels,
    choose_alarm,
    cross_fit,
    learn_head,
    read_outcomes,
)
from blamespan_tracer.auto.tracer import AutoTracer
from blamespan_tracer.auto.weights import BUNDLED, AutoWeights
from blamespan_tracer.outcome_head import HABITS, OutcomeHead, outcome_features, outcome_heads_in_use
from tests.collector.fakes import request

CLOSINGS = {
    "failed": "I am sorry, I could not change booking {0}. I transfer you to a colleague.",
    "succeeded": "All done: booking {0} is changed, and you have a mail with the new times.",
}


def _run(number: int, outcome: str, *, says: str = "") -> MessageActionTrace:
    texts = (f"Please change booking {number * 7 + 31}.", (says or CLOSINGS[outcome]).format(number * 7 + 31))
    names = ("Desk", "Clerk")
    steps = tuple(Step(i, f"{i + 1:016x}", names[i], "message", text) for i, text in enumerate(texts))
    task = f"Change booking {number * 7 + 31} to the morning."
    return MessageActionTrace(f"{number + 1:032x}", task, steps, tuple(map(Agent, names)), outcome=outcome)  # type: ignore[arg-type]


def _runs(count: int = 30, *, is_told: bool = True) -> list[MessageActionTrace]:
    """Make runs whose closing message tells how they ended, or tells nothing."""
    outcomes = ("failed", "succeeded")
    return [_run(n, outcomes[n % 2], says="" if is_told else "That was it for {0}.") for n in range(2 * count)]


@pytest.fixture(scope="module")
def learnt(tracer: AutoTracer) -> tuple[OutcomeHead, OutcomeFigures]:
    """A head that learnt from runs whose closing message tells how they ended, and its figures."""
    return learn_head(read_outcomes(_runs(), tracer))


def test_head_learns_what_tells_failures(learnt: tuple[OutcomeHead, OutcomeFigures], tmp_path: Path) -> None:
    """Where the closing message tells, the head is better than the tracer, survives its file, and knows new runs."""
    head, figures = learnt
    head.save(tmp_path / "outcomes.safetensors")
    again = OutcomeHead.load(tmp_path / "outcomes.safetensors")

    assert figures.head > 0.95
    assert figures.is_better
    assert (again.is_better, again.figures) == (True, head.figures)
    assert again.probability(_run(500, "failed"), 0.5) > 0.5 > again.probability(_run(500, "succeeded"), 0.5)
    assert again.probability(_run(500, "failed"), 0.5) == head.probability(_run(500, "failed"), 0.5)


@pytest.mark.slow
def test_head_that_learns_nothing_is_not_used(
    tracer: AutoTracer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where failed and sound runs end alike, the head is no better than the tracer: it is kept, and left alone."""
    head, figures = learn_head(read_outcomes(_runs(is_told=False), tracer))
    path = tmp_path / "outcomes.safetensors"
    head.save(path)
    monkeypatch.setenv("BLAMESPAN_LEARNT", str(path))

    assert not figures.is_better
    assert outcome_heads_in_use() == ()


def test_verdicts_take_the_score_of_the_head(tracer: AutoTracer, learnt: tuple[OutcomeHead, OutcomeFigures]) -> None:
    """With a head the failure score follows how the user's runs fail; shares of the blame stay as they are."""
    head, _ = learnt
    taught = AutoTracer(AutoWeights.load(BUNDLED), (head,))
    runs = [replace(_run(77, outcome), outcome="unknown") for outcome in ("failed", "succeeded")]

    failed, sound = taught.attribute(runs)
    without = tracer.attribute(runs)

    assert failed.calls_failed
    assert not sound.calls_failed
    assert [verdict.steps for verdict in (failed, sound)] == [verdict.steps for verdict in without]
    assert taught.settings != tracer.settings


def test_known_outcome_is_not_given_back_as_a_finding(
    tracer: AutoTracer, learnt: tuple[OutcomeHead, OutcomeFigures]
) -> None:
    """What the tracer says by itself is the same whether it is told how the run ended or not."""
    head, _ = learnt
    taught = AutoTracer(AutoWeights.load(BUNDLED), (head,))
    run = _run(78, "failed", says=CLOSINGS["succeeded"])

    told, untold = taught.attribute([run, replace(run, outcome="unknown")])

    assert check_verdict(told, run).failure_score == 1.0
    assert told.unaided_score == untold.failure_score
    assert not untold.calls_failed


def test_runs_of_a_task_are_on_one_side(tracer: AutoTracer) -> None:
    """A head is never asked about a task that it learnt from: copies of a run tell it nothing."""
    copies = [replace(run, trace_id=f"{number + 900:032x}") for number, run in enumerate(_runs(is_told=False) * 2)]
    known = read_outcomes(copies, tracer)

    assert len(set(known.task.tolist())) == len(copies) // 2
    assert abs(np.corrcoef(cross_fit(known, seed=0), known.has_failed)[0, 1]) < 0.35


def test_too_few_outcomes_are_refused(tracer: AutoTracer) -> None:
    """Below twenty of either nothing can be said, and the message says how many there are."""
    with pytest.raises(UnreadableInput, match=f"{FEWEST} failed and {FEWEST} sound runs to learn from, got 19"):
        read_outcomes(_runs(19), tracer)


def test_file_with_too_few_outcomes_is_named(tmp_path: Path) -> None:
    """Of several files it is said which one cannot be measured on."""
    path = tmp_path / "few.jsonl"
    path.write_text("".join(f"{request_to_json(request(emit(run)))}\n" for run in _runs(2)))

    result = CliRunner().invoke(cli, ["lab", "evaluate", "outcomes", str(path)])
    assert f"{path}: expected at least {FEWEST} failed" in str(result.exception)


def test_people_know_better_than_the_program() -> None:
    """The label of a person is the outcome; one who is unsure changes nothing."""
    run = _run(1, "succeeded")
    failed = PersonLabel.of(run, "no_agent", "ada")
    unsure = PersonLabel.of(run, "unsure", "bob")

    assert apply_labels(run, [failed, unsure]).outcome == "failed"
    assert apply_labels(run, [unsure]).outcome == "succeeded"
    assert apply_labels(run, [PersonLabel.of(_run(2, "failed"), "no_agent", "ada")]) is run


@pytest.mark.parametrize("content", [b"", b"\0" * 100, b"{}"])
def test_damaged_head_is_named(content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is no head is refused with its path and what to do."""
    path = tmp_path / "outcomes.safetensors"
    path.write_bytes(content)
    monkeypatch.setenv("BLAMESPAN_LEARNT", str(path))

    with pytest.raises(TracerUnavailable, match=r"outcomes\.safetensors.*train --outcomes"):
        outcome_heads_in_use()


@pytest.mark.parametrize("steps", [0, 1])
def test_odd_runs_have_features(steps: int) -> None:
    """A run of nothing, or of one empty step, has finite features."""
    run = replace(_run(1, "failed"), steps=(Step(0, "1" * 16, "Desk", "message", ""),)[:steps])

    assert np.isfinite(outcome_features(run, 0.5)).all()
    assert len(HABITS) == len(set(HABITS))


def test_command_asks_for_data_or_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without data the store is read; where there is none, the message says how to get one."""
    monkeypatch.setenv("BLAMESPAN_STORE", str(tmp_path / "runs.db"))
    result = CliRunner().invoke(cli, ["lab", "train", "--outcomes"])

    assert "expected a store of runs" in str(result.exception)


@pytest.mark.slow
def test_store_teaches_the_collector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a store and the labels beside it say is learnt, kept beside the store, and told by `blamespan status`."""
    store = tmp_path / "runs.db"
    writer = RunWriter(store)
    runs = _runs(22)
    labelled = [replace(run, outcome="unknown") for run in runs[:4]]
    writer.put(request(emit(run)).SerializeToString() for run in (*labelled, *runs[4:]))
    writer.close()
    monkeypatch.setenv("BLAMESPAN_STORE", str(store))
    for run in labelled:
        answer = "no_failure" if CLOSINGS["succeeded"][:8] in run.steps[1].content else "no_agent"
        LabelsFile(tmp_path / "labels.jsonl").add(PersonLabel.of(run, answer, "ada"))  # type: ignore[arg-type]

    before = CliRunner().invoke(cli, ["status"]).output
    learnt = CliRunner().invoke(cli, ["lab", "train", "--outcomes"])
    after = json.loads(CliRunner().invoke(cli, ["status", "--json"]).output)

    assert "outcome head  none" in before
    assert "22 failed and 22 sound" in learnt.output
    assert after["runs"] == {"succeeded": 20, "failed": 20, "unknown": 4}
    assert after["labels"] == 4
    assert after["outcome_heads"][0]["is_in_use"]
    (tmp_path / "outcomes.safetensors").write_bytes(b"damaged")
    assert "Learn it again" in CliRunner().invoke(cli, ["status"]).output


def test_alarm_counts_runs_of_a_task_that_are_alike_as_fewer() -> None:
    """Of 400 sound runs some may be called failed; none where they are 20 tasks, 20 like runs of each."""
    draws = np.random.default_rng(0)
    of_runs = draws.uniform(0.05, 0.95, 400)
    of_tasks = np.repeat(draws.uniform(0.1, 0.9, 20), 20) + draws.uniform(-0.001, 0.001, 400)
    tasks = np.repeat(np.arange(20), 20)

    assert 0 < (of_runs > choose_alarm(of_runs, tasks)).sum() <= 12
    assert choose_alarm(of_tasks, tasks) == of_tasks.max()
    assert choose_alarm(of_runs, np.arange(400)) == choose_alarm(of_runs, np.arange(400)[::-1])
