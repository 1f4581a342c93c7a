"""What an agent was given is a source of what it says: each sound run beside its twin with one value changed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from blamespan.trace import MessageActionTrace, StepKind
from blamespan_tracer.checks import ExaminedRun
from blamespan_tracer.checks.bundled.numbers import numbers_have_a_source
from blamespan_tracer.checks.bundled.tool_calls import arguments_come_from_somewhere
from tests.tracer_model.teams import team

REPORT = "Revenue in the north was 48,250 euros, in the south 1,750. The order is X-4471."
LONG_REPORT = f"{'Nothing of note happened in the other regions. ' * 2_000}{REPORT}{' And so on.' * 2_000}"
TABLE = "\n".join(f"Region {number}: {number * 7_919 + 4} euros" for number in range(13, 60))


def trace(said: str, given: str, *, kind: StepKind = "message") -> MessageActionTrace:
    checked = ("checker", "I have read it. Fine.")
    return team(("writer", said, kind), checked, task="Write up the north.", given={0: given})


def outcomes(run: MessageActionTrace, step: int = 0) -> list[str]:
    return [finding.outcome for finding in numbers_have_a_source.examine(ExaminedRun(run)) if finding.step == step]


@pytest.mark.parametrize("given", [REPORT, LONG_REPORT, f"{TABLE}\n{REPORT}"], ids=["short", "long", "table"])
@pytest.mark.parametrize(("value", "outcome"), [("48,250", "pass"), ("48,520", "fail"), ("48,251", "fail")])
def test_number_that_was_given_has_a_source(given: str, value: str, outcome: str) -> None:
    """A number as it stands in what the agent was given is no number from nowhere; another one is.

    Where the run tells nothing of what agents were given, the number may come from there.
    """
    said = f"The revenue of the north was {value} euros."

    assert outcomes(trace(said, given)) == [outcome]
    assert outcomes(trace(said, "")) == ["inconclusive"]


@pytest.mark.parametrize(("value", "outcome"), [("50,000", "pass"), ("46,500", "pass"), ("57,310", "fail")])
def test_number_follows_from_what_was_given(value: str, outcome: str) -> None:
    """A sum or difference of two numbers that the agent was given needs no other source."""
    assert outcomes(trace(f"Together that is {value} euros.", REPORT)) == [outcome]


def test_what_another_was_given_later_is_no_source() -> None:
    """A step can only repeat what it or a step before it was given."""
    run = trace("The revenue of the north was 48,250 euros.", "")
    later = replace(run, steps=(run.steps[0], replace(run.steps[1], input_text=REPORT)))

    assert outcomes(later) == ["fail"]


@pytest.mark.parametrize(("order", "outcome"), [("X-4471", "pass"), ("X-4417", "inconclusive")])
def test_argument_that_was_given_is_known(order: str, outcome: str) -> None:
    """An identifier that a call takes from what the agent was given was mentioned; another one was not."""
    run = trace(f'look_up({{"order": "{order}"}})', REPORT, kind="tool_call")

    assert [finding.outcome for finding in arguments_come_from_somewhere.examine(ExaminedRun(run))] == [outcome]
