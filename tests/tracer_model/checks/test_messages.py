"""What a guard asks of a message: each rule is broken by one message and kept by its sound twin."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle

import pytest

from blamespan.guarding.decisions import ProposedStep
from blamespan.guarding.policy import parse_policy
from blamespan.trace import MessageActionTrace
from blamespan_tracer.checks.check import CheckResult, ExaminedRun
from blamespan_tracer.checks.messages import MESSAGE_CHECKS
from blamespan_tracer.run_watcher import RunWatcher
from tests.tracer_model.teams import Said, team

TASK = "The rent of Fir Lodge is 126 euros. The rent of Elm Court is 84 euros. What do both cost in 14 days?"
BY_NAME = {check.name: check for check in MESSAGE_CHECKS}


def find_broken_at_end(name: str, run: MessageActionTrace) -> list[CheckResult]:
    """Return what the last step of a run is told."""
    last = len(run.steps) - 1
    return [one for one in BY_NAME[name].apply(ExaminedRun(run)) if one.step == last]


def find_broken(name: str, *said: str, task: str = TASK) -> list[str]:
    """Return what the last of some messages is told, from two agents in turn."""
    run = team(*zip(cycle(("ada", "bob")), said, strict=False), task=task)
    return [one.quote for one in find_broken_at_end(name, run)]


CASES = {
    "end-answers": [  # who ends the run by a word in capitals states something, or follows somebody who did
        ("Let us begin.", "I see no reason to go on with this. DONE", "Both cost 2940 euros. DONE"),
        ("Let us begin.", "The rest can be taken as read.\nTERMINATE", "The cheaper one is Elm Court. TERMINATE"),
        ("Let us begin.", "May I ask for the price of a day? APPROVED", "It is `14 * 210`, so 2,940. APPROVED"),
        ("14 * 210 = 2940, so it is 2940.", "I cannot proceed without the rent. DONE", "I checked it all. DONE"),
        ("Let us begin.", "Nothing came of it. **FINISHED**", "TERMINATE"),
        ("Let us begin.", "I leave it at that now. STOP", "I leave it at that now."),
    ],
    "value-named": [  # where a value belongs, one stands; words that hint may stand elsewhere
        ("", "The rent is a reasonable amount.", "The rent is 126 euros, a reasonable amount."),
        ("", "For the venue we have a certain one.", "A certain one of you asked for the venue."),
        ("", "We are at around there for the price.", "We are at 84 for the price."),
        ("", "The cost = some number.", "I looked at some numbers."),
        ("", "The price of the one above is 84.", "The price above is 84."),
        ("", "The seats are not too many.", "Not too many of us came."),
    ],
    "message-whole": [  # it ends where a sentence or code ends, whatever word ends the run behind it
        ("", "To conclude: We are", "To conclude: We are there"),
        ("", "The rent of Fir Lodge is the\nDONE", "The rent of Fir Lodge is 126\nDONE"),
        ("", "```python\nkept = list(values)", "```python\nkept = list(values)\n```"),
        ("", "The whole is 84 +", "The whole is 84 + 126"),
    ],
    "own-part": [  # another agent of the run may be named, and a stranger be meant
        ("Hello.", "I will decide this in the name of ada.", "I will ask ada about this."),
        ("Hello.", "I will decide this in the name of ada.", "I will decide this in the name of Carl."),
    ],
    "result-told": [  # who says something may leave out more
        ("", "I have it, and I stored it for later use.", "The rent is 126 euros, and I stored it for later use."),
        ("", "I have it, and I stored it for later use.", "That reservation does not include insurance."),
    ],
    "number-follows": [  # from a written calculation, or from two of the latest numbers, to the last digit
        ("Let us begin.", "Both cost 2,491.", "Both cost 14 * 210 = 2,940."),
        ("Let us begin.", "Both cost 211.", "Both cost 210."),  # 126 + 84
        ("Let us begin.", "The share is 66.8 percent.", "The share is 0.67."),  # 84 of 126, as rounded
        ("Let us begin.", "The rent of both is -210.5.", "The change is -42."),  # 84 - 126
    ],
}
"""By check: a message before, one that breaks it, and its sound twin."""


@pytest.mark.parametrize(
    ("name", "before", "broken", "sound"), [(name, *case) for name, cases in CASES.items() for case in cases]
)
def test_broken_message_is_found_and_its_sound_twin_is_not(name: str, before: str, broken: str, sound: str) -> None:
    """The twin differs in what the rule is about, and breaks nothing."""
    said = (before,) if before else ()

    assert find_broken(name, *said, broken)
    assert find_broken(name, *said, sound) == []


def test_task_that_asks_for_nothing_needs_no_answer() -> None:
    """Where nothing is asked for, a run may end without a value."""
    said = "Let us begin.", "We talked about the weather, and it was fine. DONE"

    assert find_broken("end-answers", *said, task="Chat with each other about the weather.") == []
    assert find_broken("end-answers", *said, task="Find out how warm it is.")


@pytest.mark.parametrize(
    ("broken", "sound"),
    [
        ("The rent of Fir Lodge is 126 thousand euros.", "The rent of Fir Lodge is 126 euros."),
        ("The rent of Fir Lodge is 126 dollars.", "The rent of Elm Court is $75."),
        ("It weighs 37 pounds.", "It weighs 37 kg, and that is 37 percent."),
    ],
)
def test_numbers_keep_their_units(broken: str, sound: str) -> None:
    """A number that the task or a tool gave has no other unit of the kind; of another kind it is another number."""
    result: Said = ("ada", "The weight is 37 kg.", "tool_result")
    call: Said = ("ada", "weigh({})", "tool_call")
    for text, is_broken in ((broken, True), (sound, False)):
        run = team(call, result, ("ada", text), task=TASK)

        assert [bool(result.quote) for result in find_broken_at_end("unit-kept", run)] == [True] * is_broken


def test_numbers_of_lists_and_code_are_nobodys_claims() -> None:
    """What only counts the items of a list, or stands in code, needs no source."""
    items = "\n".join(f"{number}. The item is there." for number in range(1, 19))

    assert find_broken("number-follows", items) == []
    assert find_broken("number-follows", "```python\nx = 98765\n```") == []
    assert find_broken("number-follows", "It is 98765.")


@pytest.mark.parametrize(
    ("asking", "told"),
    [
        ("I cannot proceed until I have the stock of radios in Porto.", "The stock of radios in Porto is 12."),
        ("May I ask for the rent of Fir Lodge?", TASK),
        ("May I ask for the price of a radio?", ""),  # nobody has said that
        ("The stock of radios in Porto is 12. I need the stock of radios in Porto no more.", ""),
        ("I talked about the stock of radios in Porto.", ""),
    ],
)
def test_who_asks_for_what_was_said_is_told(asking: str, told: str) -> None:
    """Whoever cannot go on without what the task, a tool or somebody has stated is told who said it, and what."""
    run = team(
        ("ada", 'look({"what": "stock of radios in Porto"})', "tool_call"),
        ("ada", "The stock of radios in Porto is 12.", "tool_result"),
        ("ada", "I have looked."),
        ("bob", asking),
        task=TASK,
    )
    reasons = [result.reason for result in find_broken_at_end("asked-was-said", run)]

    assert [told in reason for reason in reasons] == ([True] if told else [])


def test_much_of_a_long_message_is_told() -> None:
    """Who has lost one fact of a message has lost the others: it is told as a whole, or the part around the fact."""
    facts = [f"The fee of harbour {chr(97 + number)}x is {number + 30} euros." for number in range(40)]
    asking = "I cannot go on without the fee of harbour mx."
    run = team(("ada", "\n".join(facts)), ("bob", asking), task="What are the fees of the harbour ax, mx and zx?")
    [result] = find_broken_at_end("asked-was-said", run)

    assert facts[12] in result.reason
    assert facts[14] in result.reason
    assert len(result.reason) < 900


def messages_of(name: str) -> Sequence[str]:
    return {
        "end-answers": ("It may end now, as far as I see. DONE",),
        "value-named": ("The rent is a reasonable amount.",),
        "message-whole": ("To conclude: We are",),
        "own-part": ("Hello.", "I decide in the name of ada."),
        "result-told": ("I have it, and I stored it for later.",),
        "number-follows": ("It is 98765.",),
        "asked-was-said": ("Hello.", "May I ask for the rent of Fir Lodge?"),
        "unit-kept": ("The rent is 126 thousand euros.",),
    }[name]


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_guard_finds_step_by_step_what_is_found_in_a_whole_run(name: str) -> None:
    """A run that goes on breaks a rule at the same step; what a program is to read is no prose."""
    said = messages_of(name)
    run = team(*zip(cycle(("ada", "bob")), said, strict=False), task=TASK)
    rules = parse_policy({"findings": [{"check": name, "action": "observe"}]}).findings
    watcher = RunWatcher(rules, TASK)
    signs = []
    for step in run.steps:
        proposed = ProposedStep("message", step.agent, step.content)
        signs.append([sign.name for sign in watcher.examine(proposed)])
        watcher.commit(proposed)

    assert signs == [[]] * (len(said) - 1) + [[name]]
    assert [(one.outcome, one.step) for one in BY_NAME[name].apply(ExaminedRun(run))] == [("fail", len(said) - 1)]
    assert find_broken(name, *said[:-1], f'{{"text": "{said[-1]}"}}') == []


@pytest.mark.parametrize(
    "text", ["", "\ud800", "```" * 9, "DONE" * 3_000, "some value " * 2_000, "1 " * 9_000, "{" * 500]
)
def test_odd_messages_are_read(text: str) -> None:
    """No text raises, and none takes long."""
    for name in BY_NAME:
        find_broken(name, "Hello.", text)
