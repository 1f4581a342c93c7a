"""Each kind of edit puts one mistake into one step, and its decoy says the same words rightly."""

from __future__ import annotations

import random

import pytest

from blamespan.trace import Agent, MessageActionTrace, Step
from blamespan_lab.make.edits.kinds import KINDS, EditableRun, find_edits, find_moves
from blamespan_lab.make.edits.pairs import Pair, make_pair

AGENTS = (Agent("planner"), Agent("clerk"), Agent("tester"))


def run(
    *steps: tuple[str, str, str], task: str = "Book order #W2378156 by 14 days. You must not pay over 450."
) -> MessageActionTrace:
    rows = []
    for index, (agent, kind, content) in enumerate(steps):
        inputs = (index - 1,) if index else ()
        rows.append(Step(index, f"{index + 1:016x}", agent, kind, content, inputs=inputs))  # type: ignore[arg-type]
    return MessageActionTrace("1" * 32, task, tuple(rows), AGENTS)


TEAM = run(
    ("planner", "message", "We must not pay over 450. The order is #W2378156."),
    ("clerk", "tool_call", 'get_order({"id": "#W2378156"})'),
    ("clerk", "tool_result", "Mei Kovacs, item 8812 at 231.40; Yusuf Rossi, item 4417 at 199.90; due 2026-03-12"),
    (
        "clerk",
        "message",
        'Yusuf Rossi ordered item 4417, due 2026-03-12, within 14 days; I note "due by the agreed day".',
    ),
    ("tester", "tool_call", "run_tests()"),
    ("tester", "tool_result", "4 passed in 0.31 s"),
    ("tester", "message", 'All tests pass. It rose: 17 + 25 = 42. He said "due by the agreed day".'),
    ("planner", "message", "Item 4417 goes to Yusuf Rossi, 42 in all."),
)


def pairs(kind: str, trace: MessageActionTrace = TEAM) -> list[Pair]:
    editable = EditableRun(trace, ["Anna Silva", "Ivan Petrov"])
    edits = find_edits(editable, kind, random.Random(3))
    return [pair for edit in edits if (pair := make_pair(trace, edit, "test")) is not None]


def changed(before: MessageActionTrace, after: MessageActionTrace) -> list[int]:
    return [a.index for a, b in zip(after.steps, before.steps, strict=True) if a.content != b.content]


@pytest.mark.parametrize("kind", ["number", "date", "name", "unit", "argument", "quotation", "neighbour"])
def test_claim_and_source_disagree_from_one_step_on(kind: str) -> None:
    """The step that is labelled, or all that stands before it, is changed: never both, never a step in between."""
    for pair in pairs(kind):
        indices = changed(pair.untouched, pair.edited)
        step = pair.edit.step
        is_source_changed = pair.edited.task != pair.untouched.task or any(index < step for index in indices)

        assert is_source_changed != (step in indices)
        assert pair.edited.outcome == "failed"


@pytest.mark.parametrize("kind", ["number", "date", "name", "unit", "argument", "quotation", "neighbour", "condition"])
def test_decoy_says_the_same_words_and_is_sound(kind: str) -> None:
    """In the decoy, claim and source change together, so that no word tells it from the mistake."""
    for pair in pairs(kind):
        assert pair.decoy is not None
        step = pair.edit.step
        if pair.edit.after:
            assert pair.decoy.steps[step].content == pair.edited.steps[step].content
        assert pair.decoy.outcome == "succeeded"


@pytest.mark.parametrize("kind", sorted({*KINDS} - {"identifier", "sign", "direction"}))
def test_every_kind_finds_a_place(kind: str) -> None:
    """A run with something of everything allows every kind of edit."""
    assert pairs(kind)


def test_same_draws_give_the_same_edits() -> None:
    """What comes out depends on the run and the seed alone."""
    assert pairs("number") == pairs("number")


def test_number_that_others_follow_from_is_left_alone() -> None:
    """A changed operand would make a sum wrong that nobody is labelled for."""
    trace = run(
        ("planner", "message", "There are 125 chairs and 75 tables."),
        ("clerk", "message", "So 125 chairs and 75 tables."),
        ("planner", "message", "Together 200 pieces."),
    )

    assert pairs("number", trace) == []


def test_wrong_result_follows_into_later_steps() -> None:
    """Who repeats a wrong result repeats it; who worked it out is to blame, and the decoy's sum is right."""
    (pair, *_) = pairs("arithmetic")
    result = pair.edit.after[0].new

    assert pair.edit.step == 6
    assert f"= {result}" in pair.edited.steps[6].content
    assert f"{result} in all" in pair.edited.steps[7].content


def test_failed_test_is_the_fault_of_who_reports_a_pass() -> None:
    """The report says that one failed, and the step after it that all pass; one more pass is no fault."""
    (pair,) = pairs("test-result")

    assert pair.edit.step == 6
    assert pair.edited.steps[5].content == "1 failed, 3 passed in 0.31 s"
    assert pair.edited.steps[6] == pair.untouched.steps[6]
    assert pair.decoy is not None
    assert pair.decoy.steps[5].content == "5 passed in 0.31 s"


def test_dropped_condition_is_the_fault_of_who_passed_the_task_on() -> None:
    """The task still names it; in the decoy it does not."""
    (pair,) = pairs("condition")

    assert pair.edit.step == 0
    assert "450" not in pair.edited.steps[0].content
    assert "450" in pair.edited.task
    assert pair.decoy is not None
    assert "450" not in pair.decoy.task


def test_repeated_step_stands_after_the_first() -> None:
    """A call is repeated with its answer, and later steps keep what they build on."""
    (pair,) = pairs("repeat")
    steps = pair.edited.steps

    assert steps[pair.edit.step].content in [step.content for step in steps[: pair.edit.step]]
    assert [step.index for step in steps] == list(range(len(steps)))
    assert [step.inputs for step in steps[-1:]] == [(len(steps) - 2,)]


def test_early_finish_claims_what_nobody_found() -> None:
    """The last step is as it was; what it rests on is gone."""
    (pair,) = pairs("early-finish")

    assert pair.edited.steps[-1].content == TEAM.steps[-1].content
    assert pair.edit.step == len(pair.edited.steps) - 1 < len(TEAM.steps) - 1


def test_a_moved_mistake_is_made_by_one_agent_and_then_by_another() -> None:
    """In the first run the earlier step is wrong and all after it follow; in the second the earlier step is right."""
    moves = list(find_moves(EditableRun(TEAM, ["Anna Silva", "Ivan Petrov"]), random.Random(3)))

    assert moves
    for first, second in moves:
        one, other = make_pair(TEAM, first, "test"), make_pair(TEAM, second, "test")
        assert one is not None
        assert other is not None
        assert first.after == second.after
        assert TEAM.steps[first.step].agent != TEAM.steps[second.step].agent
        assert min(changed(TEAM, one.edited)) == first.step
        assert min(changed(TEAM, other.edited)) == second.step > first.step


def test_a_value_that_one_agent_alone_states_is_not_moved() -> None:
    """A mistake that nobody else could make has nowhere to move."""
    alone = run(("planner", "message", "We start."), ("clerk", "message", "Order #W2378156 it is."))

    assert not list(find_moves(EditableRun(alone), random.Random(3)))
