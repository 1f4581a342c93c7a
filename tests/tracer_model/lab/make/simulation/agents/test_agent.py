"""Agents: they know what they are told and nothing else, and err in one place without moving another."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from blamespan_lab.make.simulation.agents.actions import read_value
from blamespan_lab.make.simulation.agents.agent import AgentProfile, DecisionContext
from blamespan_lab.make.simulation.agents.knowledge import Knowledge
from blamespan_lab.make.simulation.agents.policy import InputMessage, Mistake, Reply, RequestedCall, ToolSpec
from blamespan_lab.make.simulation.agents.protocols import decide
from blamespan_lab.make.simulation.agents.team import Role, TeamMember
from blamespan_lab.make.simulation.random_stream import RandomStream
from blamespan_lab.make.simulation.statements.facts import DerivationRule, Lookup
from blamespan_lab.make.simulation.tasks.task import Builder, Task
from blamespan_lab.make.wordings import choose_alternatives
from blamespan_lab.make.wordings.banks import FAULTS


def _task() -> Task:
    """Two amounts are multiplied, a third is taken away."""
    build = Builder("word_problems", RandomStream("test").rng("words"))
    count = build.add_given("count", "number of lamps", 12.0)
    price = build.add_given("price", "price of one lamp", 30.0, "euros")
    cut = build.add_given("cut", "discount in all", 60.0, "euros")
    total = build.add_derived("total", "cost of the lamps", "product", (count, price), "euros")
    last = build.add_derived("last", "cost after the discount", "difference", (total, cut), "euros")
    return build.task(last, "A shop orders lamps.", "What is the cost after the discount?")


_TASK = _task()
_QUESTION = InputMessage("task", _TASK.question)


def _profile(role: Role, **changes: object) -> AgentProfile:
    member = TeamMember("Ada", role)
    team = (member, TeamMember("Bob", "verifier" if role == "solver" else "solver"))
    return replace(AgentProfile(member, _TASK, team, seed=1, care=1.0, pace=9), **changes)  # type: ignore[arg-type]


def _reply(profile: AgentProfile, *messages: InputMessage, index: int = 0) -> Reply:
    return decide(DecisionContext(profile, index, messages, ()))


def _answer(reply: Reply) -> object:
    return _TASK.read_answer(reply.text)


def test_a_solver_works_out_what_it_was_told() -> None:
    """From the question alone it gets the answer; without a question it asks."""
    assert _answer(_reply(_profile("solver"), _QUESTION)) == 300.0
    assert _answer(_reply(_profile("solver"), InputMessage("message", "Please go on.", "Bob"))) is None


def test_a_solver_goes_by_what_others_say_if_it_takes_no_care() -> None:
    """An altered figure changes its answer; with care it keeps to what the question says."""
    altered = InputMessage("message", "The price of one lamp is 40 euros.", "Bob")

    assert _answer(_reply(_profile("solver", care=0.0), _QUESTION, altered)) == 420.0
    assert {_answer(_reply(_profile("solver", seed=k), _QUESTION, altered)) for k in range(12)} == {300.0, 420.0}


def test_a_rule_said_otherwise_changes_what_is_worked_out() -> None:
    """A plan that takes away the wrong thing is followed by who takes no care."""
    plan = InputMessage(
        "message", "The cost after the discount is the cost of the lamps plus the discount in all.", "Bob"
    )

    assert _answer(_reply(_profile("solver", care=0.0), _QUESTION, plan)) == 420.0


def test_an_invented_requirement_is_followed_by_who_takes_no_care() -> None:
    """What somebody adds to the question shapes the answer, unless it is noticed."""
    added = InputMessage("message", "Keep in mind that the answer must be given in thousands.", "Bob")

    assert _answer(_reply(_profile("solver", care=0.0), _QUESTION, added)) == 0.3


def test_a_verifier_objects_to_what_is_wrong_and_to_nothing_else() -> None:
    """It gives the right figure for a wrong one, and approves of a right one."""
    wrong = InputMessage(
        "message", "The cost of the lamps is 350 euros. The cost after the discount is 290 euros.", "Bob"
    )
    right = InputMessage(
        "message", "The cost of the lamps is 360 euros. The cost after the discount is 300 euros.", "Bob"
    )
    verifier = _profile("verifier", closes=True)

    objection, approval = _reply(verifier, _QUESTION, wrong), _reply(verifier, _QUESTION, right)

    assert _answer(objection) == 300.0
    assert not any(mark in objection.text for mark in ("APPROVED", "TERMINATE", "DONE"))
    assert any(mark in approval.text for mark in ("APPROVED", "TERMINATE", "DONE"))


def test_a_verifier_that_is_told_to_trust_does_not_check() -> None:
    """It reads what it is told to be: told to trust, it lets a wrong figure pass."""
    wrong = InputMessage("message", "The cost after the discount is 290 euros.", "Bob")
    told = InputMessage("system", "You verify the results of the others. Trust what they report.")

    assert _answer(_reply(_profile("verifier"), told, _QUESTION, wrong)) == 290.0


@pytest.mark.parametrize("wording", [*FAULTS.trust, *FAULTS.instructions["FM-3.2"], *FAULTS.instructions["FM-3.3"]])
def test_every_wording_that_tells_to_trust_takes_all_care(wording: str) -> None:
    """However an operator words it, a verifier heeds it in spite of its duty to check."""
    duty = "You check what the others say: work it out again."
    verifier = _profile("verifier")

    assert DecisionContext(verifier, 0, [InputMessage("system", duty), _QUESTION], ()).care == 1.0
    for seed in range(8):
        told = InputMessage("system", f"{duty} {choose_alternatives(wording, Random(seed))}")
        assert DecisionContext(verifier, 0, [told, _QUESTION], ()).care == 0.0, told.text


def test_after_a_correction_what_rests_on_it_is_worked_out_again() -> None:
    """A figure that was corrected makes what was computed from it stale."""
    messages = (
        _QUESTION,
        InputMessage("own", "The cost of the lamps is 350 euros. The cost after the discount is 290 euros.", "Ada"),
        InputMessage("message", "The cost of the lamps is 360 euros, not 350.", "Bob"),
    )

    assert Knowledge(_TASK.lexicon, (), messages, "Ada").is_stale("last")
    assert _answer(_reply(_profile("solver"), *messages)) == 300.0


def test_who_asked_for_the_wrong_thing_takes_the_answer_for_the_right_one() -> None:
    """A call is understood as what its caller meant by it, by what it knew then."""
    messages = (
        _QUESTION,
        InputMessage("own", "", "Ada", (RequestedCall.of("calculate", {"expression": "12 * 31"}),)),
        InputMessage("tool_result", "372", "calculate"),
    )

    assert Knowledge(_TASK.lexicon, (), messages, "Ada").values["total"] == 372.0


def test_a_tool_that_fails_tells_nothing() -> None:
    """Numbers in an error are no answer."""
    call = InputMessage("own", "", "Ada", (RequestedCall.of("calculate", {"expression": "12 * 30"}),))
    failed = InputMessage("tool_result", "Error: timed out after 30 seconds", "calculate")

    assert "total" not in Knowledge(_TASK.lexicon, (), (_QUESTION, call, failed), "Ada").values


def test_broken_calls_and_texts_do_not_break_an_agent() -> None:
    """Arguments that are no JSON, unknown tools and control characters are heard like anything else."""
    messages = (
        _QUESTION,
        InputMessage("own", "", "Ada", (RequestedCall("nope", "{broken"), RequestedCall("run_tests", "[1]"))),
        InputMessage("tool_result", "\x00\x1b[31m 7", "nope"),
        InputMessage("message", "\ud800 The cost ``` after", "Bob"),
    )

    assert isinstance(decide(DecisionContext(_profile("solver"), 3, messages, (ToolSpec("calculate"),))), Reply)


def test_each_draw_depends_on_its_purpose_alone() -> None:
    """One more draw shifts no other; another decision draws anew."""
    stream, again = RandomStream(1, "Ada", 0), RandomStream(1, "Ada", 0)
    again.chance(0.5, "something else")

    assert [stream.chance(0.5, n) for n in range(64)] == [again.chance(0.5, n) for n in range(64)]
    assert [stream.chance(0.5, n) for n in range(64)] != [RandomStream(1, "Ada", 1).chance(0.5, n) for n in range(64)]


def test_rules_in_a_circle_come_to_an_end() -> None:
    """Rules that were stated in a circle are followed once."""
    circle = (
        InputMessage(
            "message", "The cost of the lamps is the cost after the discount plus the discount in all.", "Bob"
        ),
        InputMessage(
            "message", "The cost of the lamps is 12 euros. The discount in all is 1. The discount in all is 2.", "Bob"
        ),
    )

    known = Knowledge(
        _TASK.lexicon, (DerivationRule("last", "difference", ("total", "cut")),), (_QUESTION, *circle), "Ada"
    )

    assert known.needed[-1] == "last"
    assert set(known.needed) == {"total", "cut", "last"}
    assert not known.is_stale("last")


def test_a_mistake_hangs_on_how_often_there_was_a_chance_for_it_alone() -> None:
    """Decisions more or less, because another mistake was put right, move none; each chance has a draw of its own."""
    sloppy = _profile("solver", mistakes=0.5)
    one, other = (DecisionContext(sloppy, index, [_QUESTION], ()) for index in (0, 7))

    drawn = [one.errs("blamespan:X3", "misread", "price") for _ in range(20)]

    assert [other.errs("blamespan:X3", "misread", "price") for _ in range(20)] == drawn
    assert set(drawn) == {True, False}


def test_how_it_goes_wrong_hangs_on_the_same() -> None:
    """The same value is misread in the same way, whichever decision that comes to be in; the next time in another."""
    sloppy = _profile("solver", mistakes=1.0)
    one, other = (DecisionContext(sloppy, index, [_QUESTION], ()) for index in (0, 7))

    drawn = [[read_value(context, "price") for _ in range(5)] for context in (one, other)]

    assert drawn[0] == drawn[1]
    assert len(set(drawn[0])) > 1


def test_a_mistake_put_right_leaves_the_others() -> None:
    """What is repaired is not made at its place; what else goes wrong there goes wrong still."""
    hopeless = _profile("solver", mistakes=1.0)
    repaired = DecisionContext(hopeless, 0, [_QUESTION], (), avoided=[Mistake("blamespan:X3", "misread", "price")])

    assert not repaired.errs("blamespan:X3", "misread", "price")
    assert repaired.errs("blamespan:X3", "misread", "count")


@pytest.mark.parametrize("role", ["researcher", "solver"])
def test_what_is_claimed_without_a_source_is_said_at_once(role: Role) -> None:
    """An agent that makes up a value calls nothing in the same decision, where it would not show: it states it."""
    build = Builder("tables", RandomStream("test").rng("words"))
    lookup = Lookup("aggregate", {"column": "units"}, answer="value")
    units = build.add_lookup("units", "total of units", 250.0, lookup)
    returns = build.add_lookup("returns", "total of returns", 30.0, lookup)
    task = build.task(
        build.add_derived("net", "net result", "difference", (units, returns)), "A table.", "The net result?"
    )
    profile = _profile(role, task=task, mistakes=1.0)

    reply = decide(
        DecisionContext(profile, 0, [InputMessage("task", task.question)], [ToolSpec("aggregate", "", ("column",))])
    )

    assert not reply.calls
    assert {said.key for said in task.lexicon.read(reply.text, {}).statements} >= {"units", "returns"}
