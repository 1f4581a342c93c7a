"""Trees over claims learn which claims were changed, and judge runs of sources that they have not seen."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from blamespan.importing.recorded import RecordedRun
from blamespan.trace import Agent, MessageActionTrace, Step
from blamespan_lab.make.edits.generate import LabelledPair
from blamespan_lab.train.auto import JudgedRuns, find_changed, judge_pairs
from blamespan_tracer.auto.claim_model import name_form
from blamespan_tracer.auto.observed_run import ObservedRun, observe


def _run(name: str, order: int, said: int, price: str = "24.90") -> RecordedRun:
    task = f"Refund order {order} of {price} EUR."
    contents = (f"Order {said} was paid.", f"I refund order {said}: {price} EUR.", f"Done, order {said} is refunded.")
    steps = tuple(Step(i, f"{i + 1:016x}", f"agent_{i}", "message", text) for i, text in enumerate(contents))
    trace = MessageActionTrace(name.ljust(32, "0"), task, steps, tuple(Agent(step.agent) for step in steps))
    return RecordedRun(name, trace, ())


@pytest.fixture(scope="module")
def pairs() -> list[LabelledPair]:
    draws = random.Random(0)  # draws numbers, no secrets
    made = []
    for index in range(160):
        order = draws.randrange(10_000, 90_000)
        untouched, edited = _run(f"a{index}", order, order), _run(f"b{index}", order, order + draws.choice((10, 300)))
        made.append(LabelledPair(f"kind {index % 3}", f"source {index % 8}", 0, untouched, edited, None))
    return made


@pytest.fixture(scope="module")
def observed(pairs: list[LabelledPair]) -> dict[str, ObservedRun]:
    runs = [run.trace for pair in pairs for run in (pair.untouched, pair.edited)]
    return {trace.trace_id: observe(trace, []) for trace in runs}


@pytest.fixture(scope="module")
def judged(pairs: list[LabelledPair], observed: dict[str, ObservedRun]) -> JudgedRuns:
    return judge_pairs(pairs, observed, 0)


def test_the_changed_claim_is_the_first_that_differs(
    pairs: list[LabelledPair], observed: dict[str, ObservedRun]
) -> None:
    """Of an edited run the claim of the edited step is wrong, not those that repeat it."""
    claims = observed[pairs[0].edited.trace.trace_id].claims

    changed = find_changed(pairs[0], observed[pairs[0].edited.trace.trace_id])

    assert claims.steps[changed].tolist() == [0]


def test_a_step_whose_source_was_changed_is_the_wrong_one(observed: dict[str, ObservedRun]) -> None:
    """Where the step says what it said and the task was changed, the value that the task no longer has is wrong."""
    pair = LabelledPair("number", "source", 0, _run("c", 48213, 48213), _run("d", 48273, 48213), None)
    run = observe(pair.edited.trace, [])

    assert run.claims.steps[find_changed(pair, run)].tolist() == [0]
    assert observed


def test_a_number_whose_unit_was_changed_is_wrong() -> None:
    """The digits are the same; the unit makes the claim."""
    untouched, edited = _run("e", 48213, 48213), _run("f", 48213, 48213)
    contents = [replace(step, content=step.content.replace("EUR", "kg")) for step in edited.trace.steps]
    edited = replace(edited, trace=replace(edited.trace, steps=tuple(contents)))
    run = observe(edited.trace, [])

    changed = find_changed(LabelledPair("unit", "source", 1, untouched, edited, None), run)

    assert [name_form(run.claims.claims[index]) for index in np.flatnonzero(changed)] == ["short number"]
    assert run.claims.steps[changed].tolist() == [1]


def test_runs_are_judged_by_trees_of_other_sources(pairs: list[LabelledPair], judged: JudgedRuns) -> None:
    """The changed claim stands out in a source that the trees have not seen; the untouched run shows no such claim."""

    def strongest(trace_id: str) -> tuple[float, int]:
        run = judged.observed[trace_id]
        return max(zip(run.scores.tolist(), run.claims.steps.tolist(), strict=True))

    edited = [strongest(pair.edited.trace.trace_id) for pair in pairs]
    untouched = [strongest(pair.untouched.trace.trace_id) for pair in pairs]

    assert np.mean([step == 0 for _, step in edited]) > 0.9
    assert np.mean([one[0] > other[0] for one, other in zip(edited, untouched, strict=True)]) > 0.9


def test_the_same_pairs_give_the_same_trees(
    pairs: list[LabelledPair], observed: dict[str, ObservedRun], judged: JudgedRuns
) -> None:
    """Two trainings come to the same bits."""
    again = judge_pairs(pairs, observed, 0)

    for name, tensor in judged.model.tensors().items():
        assert (again.model.tensors()[name] == tensor).all(), name
