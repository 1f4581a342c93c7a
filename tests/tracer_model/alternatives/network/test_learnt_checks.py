"""Networks are given what they learnt under a name: each check breaks, and its sound twin keeps it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from blamespan.trace import MessageActionTrace
from blamespan_tracer.alternatives.network.inputs import feature_names
from blamespan_tracer.alternatives.network.learnt_checks import LEARNT_CHECKS
from blamespan_tracer.alternatives.network.tracer import NetworkTracer
from blamespan_tracer.checks import CHECKS, ExaminedRun
from tests.tracer_model.teams import Said, team

BY_NAME = {check.name: check for check in LEARNT_CHECKS}
CALL: tuple[Said, Said] = (
    ("a", 'ask({"item": "kettle"})', "tool_call"),
    ("a", "The red kettle costs 48 euros.", "tool_result"),
)


def given(run: MessageActionTrace) -> MessageActionTrace:
    """Tell of a run what its agents were given."""
    return replace(run, steps=tuple(replace(step, input_text="You count boxes.") for step in run.steps))


def weights(first: int, second: int, lead: str = "The") -> MessageActionTrace:
    return team(
        ("a", f"The parcel weight is {first} grams."), ("b", "go on"), ("a", f"{lead} parcel weight is {second} grams.")
    )


def priced(price: int) -> MessageActionTrace:
    return team(*CALL, ("a", f"The red kettle costs {price} euros."), ("b", "ok"))


def budgeted(budget: int) -> MessageActionTrace:
    return team(("a", f"The delivery budget is {budget} euros."), ("b", "ok"), task="The delivery budget is 590 euros.")


def counted(boxes: int) -> MessageActionTrace:
    return given(team(("a", f"There are {boxes} boxes."), ("b", "I see."), task="Count 31 and 40."))


def asked(order: str) -> MessageActionTrace:
    return team(("a", f'look_up({{"order": "{order}"}})', "tool_call"), ("b", "ok"), task="Find RK_7719.")


def ended(said: str) -> MessageActionTrace:
    return team(("a", "It is 48."), ("b", said))


@pytest.mark.parametrize(
    ("name", "broken", "step", "sound"),
    [
        ("result-believed", priced(84), 2, priced(48)),
        ("task-kept", budgeted(950), 0, budgeted(590)),
        ("own-words-stand", weights(410, 470), 2, weights(410, 410)),
        ("own-words-stand", weights(410, 470), 2, weights(410, 470, "Correction: the")),
        ("number-has-source", counted(7_723), 0, counted(71)),
        ("arguments-known", asked("RK_7791"), 0, asked("RK_7719")),
        ("answer-given", ended("Sorry, we cannot say."), 1, ended("Sorry, we cannot say more than 48.")),
    ],
)
def test_learnt_contract_breaks_and_its_twin_keeps_it(
    name: str, broken: MessageActionTrace, step: int, sound: MessageActionTrace
) -> None:
    """The step that breaks it is told or left open; the twin has nothing of the kind."""
    found, kept = (
        [one.step for one in BY_NAME[name].apply(ExaminedRun(run)) if one.step is not None] for run in (broken, sound)
    )

    assert found == [step]
    assert kept == []


def test_every_name_that_the_weights_know_is_a_contract() -> None:
    """What the bundled network was trained with can be read, and a check of today can be learnt from."""
    network = NetworkTracer.bundled().network

    assert {name.removesuffix(": broken") for name in network.features if name.endswith(": broken")} <= {*BY_NAME}
    assert {check.name for check in CHECKS} <= {*BY_NAME}
    assert set(network.features) <= set(feature_names(NetworkTracer.bundled().lexicon))
