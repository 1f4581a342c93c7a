"""One tool asked for several things in turn: sound runs are not called failed, runs that mix the answers up are."""

from __future__ import annotations

import pytest

from blamespan.trace import MessageActionTrace
from blamespan_tracer.auto.tracer import AutoTracer
from blamespan_tracer.ledger import read_ledger
from tests.tracer_model.teams import Said, team

_WHERE = 'aggregate({{"function": "sum", "column": "answered", "where": "team = {} and shift = night"}})'
_FIELDS = 'count_calls({{"team": "{}", "shift": "night", "unit": "calls"}})'


def _asked(call: str, answer: str, red: int) -> MessageActionTrace:
    """A run in which an analyst asks one tool for three teams in turn, and says *red* of the first one."""
    said: list[Said] = []
    for name, number in (("Red", 1350), ("Blue", 1420), ("Green", 980)):
        said += [("analyst", call.format(name), "tool_call"), ("analyst", answer.format(number), "tool_result")]
    said += [
        ("analyst", f"Red answered {red} calls at night.\nGreen answered 980 calls at night."),
        ("writer", f"At night Red answered {red} calls and Green 980."),
    ]
    return team(*said, task="How many calls did the teams Red, Blue and Green answer at night? Report Red and Green.")


@pytest.mark.parametrize("call", [_WHERE, _FIELDS])
@pytest.mark.parametrize("answer", ["{}", '{{"answered": {}}}'])
def test_what_is_asked_of_one_team_does_not_contradict_another(call: str, answer: str) -> None:
    """Three calls with three arguments are sound; the same run in which Blue's number is said of Red is not."""
    tracer = AutoTracer.bundled()
    sound, mistake = tracer.attribute([_asked(call, answer, 1350), _asked(call, answer, 1420)])

    assert not sound.calls_failed
    assert mistake.calls_failed
    assert mistake.decisive_step == 6
    assert "Red answered 1420" in mistake.evidence[0].quote


def _argument_of(*said: Said, task: str) -> list[str]:
    """The values by which the argument `48273` of the last step is contradicted."""
    claims = read_ledger(team(*said, task=task)).claims[len(said) - 1]
    [claim] = [claim for claim in claims if claim.mention.value.key == "48273"]
    return [one.source.value.key for one in claim.contradictions]


def test_an_argument_is_held_against_all_but_earlier_calls_of_its_tool() -> None:
    """Two orders may be looked up in turn; the one that was looked up, or that the task names, is the one to refund."""
    first = ("clerk", 'look_up({"order": 48213})', "tool_call")
    again = ("clerk", 'look_up({"order": 48273})', "tool_call")
    refund = ("clerk", 'refund({"order": 48273})', "tool_call")

    assert _argument_of(first, again, task="Look at the orders of Mrs Olsen.") == []
    assert "48213" in _argument_of(first, refund, task="Look at the order of Mrs Olsen, and refund it.")
    assert "48213" in _argument_of(first, again, task="Look at order 48213.")
    assert "48213" in _argument_of(("clerk", "It is order 48213."), first, again, task="Look at the order.")
