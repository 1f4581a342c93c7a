"""Programs: teams that run in the real frameworks, the same each time, and right when nobody errs."""

from __future__ import annotations

import pytest

import blamespan
from blamespan.errors import ConfigError
from blamespan.testing import SpanRecorder
from blamespan.trace import MessageActionTrace
from blamespan_lab.make.simulation.agents.policy import InputMessage, Reply
from blamespan_lab.make.simulation.program import Outcome, Program
from blamespan_lab.make.simulation.tasks import FAMILIES
from blamespan_lab.make.simulation.topologies import TOPOLOGIES

pytest.importorskip("autogen_agentchat")
pytest.importorskip("langgraph")

_BUILT = [(name, framework) for name, topology in TOPOLOGIES.items() for framework in topology.frameworks]


def _drawn(trace: MessageActionTrace) -> list[tuple[object, ...]]:
    return [(step.agent, step.kind, step.content, step.recipients, step.inputs) for step in trace.steps]


def _recorded(program: Program, recorder: SpanRecorder) -> tuple[Outcome, MessageActionTrace]:
    recorder.clear()
    outcome = program.run()
    return outcome, blamespan.rebuild(recorder.spans())


@pytest.mark.parametrize(("topology", "framework"), _BUILT)
def test_a_team_that_errs_in_nothing_succeeds(topology: str, framework: str) -> None:
    """Every family is solved by every topology in every framework that builds it."""
    failed = [
        (family, seed)
        for seed, family in enumerate(FAMILIES)
        if not Program(family, topology, framework, cast="people", seed=seed).run().succeeded  # type: ignore[arg-type]
    ]

    assert failed == []


@pytest.mark.parametrize(("topology", "framework"), _BUILT)
def test_the_same_program_gives_the_same_trace(topology: str, framework: str, recorder: SpanRecorder) -> None:
    """Run twice, a program gives the same rebuilt trace, mistakes and all; each of its agents is in it."""
    program = Program("tables", topology, framework, cast="neutral", seed=4, mistakes=0.1, size=5)  # type: ignore[arg-type]

    first, trace = _recorded(program, recorder)
    second, again = _recorded(program, recorder)

    assert _drawn(trace) == _drawn(again)
    assert (first.final_text, first.succeeded) == (second.final_text, second.succeeded)
    assert {d.reply for d in first.decisions} == {d.reply for d in second.decisions}
    members = {member.name for member in program.prepare().team}
    assert {agent.name for agent in trace.agents} <= members | {"user"}


@pytest.mark.parametrize("framework", ["autogen", "langgraph"])
def test_decisions_name_the_span_they_were_made_in(framework: str, recorder: SpanRecorder) -> None:
    """Each decision of a recorded run has a span that is a step of the rebuilt trace, or its child."""
    outcome, trace = _recorded(Program("planning", "chain", framework, seed=1), recorder)  # type: ignore[arg-type]
    steps = {step.span_id: step for step in trace.steps}
    texts = [d for d in outcome.decisions if d.reply.text]

    found = [next((steps[span] for span in d.span_ids if span in steps), None) for d in texts]

    assert [step.agent if step else None for step in found] == [d.agent for d in texts]
    assert {d.trace_id for d in outcome.decisions} == {trace.trace_id}


@pytest.mark.parametrize("framework", ["autogen", "langgraph"])
def test_both_frameworks_let_a_team_say_the_same(framework: str) -> None:
    """What agents decide depends on what they hear, not on who runs them."""
    program = Program("lookup", "chain", framework, seed=7, mistakes=0.05)  # type: ignore[arg-type]
    other = Program("lookup", "chain", "autogen", seed=7, mistakes=0.05)

    assert [(d.agent, d.reply) for d in program.run().decisions] == [(d.agent, d.reply) for d in other.run().decisions]


@pytest.mark.parametrize("framework", ["autogen", "langgraph"])
def test_a_reply_replaced_changes_only_what_follows(framework: str) -> None:
    """An override stands where it was put; decisions before it are as they were; a wrong figure costs the run."""
    program = Program("tables", "relay", framework, seed=3, size=4)  # type: ignore[arg-type]
    clean = program.run()
    place, spoken = next((n, d) for n, d in enumerate(clean.decisions) if "solver" in d.agent and d.reply.text)
    wrong = Reply(" ".join(_spoilt(word) for word in spoken.reply.text.split(" ")))

    faulty = program.run(overrides={(spoken.agent, spoken.index): wrong})

    assert clean.succeeded
    assert not faulty.succeeded
    assert [d.reply for d in faulty.decisions[:place]] == [d.reply for d in clean.decisions[:place]]
    assert faulty.decisions[place].reply == wrong


def _spoilt(word: str) -> str:
    return "7" + word if word[:1].isdigit() else word


def test_a_hook_sees_every_decision_and_may_replace_it() -> None:
    """`on_reply` is called with agent, number, what was heard and what would be said."""
    seen: list[tuple[str, int]] = []

    def silence_the_planner(agent: str, index: int, messages: tuple[InputMessage, ...], reply: Reply) -> Reply:
        seen.append((agent, index))
        assert messages[0].kind == "system"
        return Reply("Nothing to plan.") if agent == "planner" else reply

    outcome = Program("planning", "chain", "langgraph", seed=2).run(on_reply=silence_the_planner)

    assert seen == [(d.agent, d.index) for d in outcome.decisions]
    assert outcome.decisions[0].reply == Reply("Nothing to plan.")


def test_mistakes_not_made_in_one_decision_repair_the_run() -> None:
    """Some run that failed by natural mistakes succeeds when just one decision is made without its own."""
    flips = 0
    for seed in range(12):
        program = Program("planning", "chain", "langgraph", seed=seed, mistakes=0.04, care=0.2)
        failed = program.run()
        erring = [d for d in failed.decisions if d.mistakes]
        if not failed.succeeded:
            flips += any(program.run(repairs={(d.agent, d.index): d.mistakes}).succeeded for d in erring)

    assert flips >= 2


def test_closed_loops_contain_more_than_a_relay() -> None:
    """The same spoilt message costs a relay the run far more often than a team that checks and comes round again."""
    assert _flips("relay") >= _flips("round_robin") + 4


def _flips(topology: str) -> int:
    """Count the runs, of ten, that fail when the first solver's figures are spoilt."""
    count = 0
    for seed in range(10):
        program = Program("tables", topology, "langgraph", seed=seed, size=5, care=1.0)
        first = next(d for d in program.run().decisions if "solver" in d.agent and d.reply.text)
        wrong = Reply(" ".join(_spoilt(word) for word in first.reply.text.split(" ")))
        count += not program.run(overrides={(first.agent, first.index): wrong}).succeeded
    return count


def test_names_carry_no_knowledge() -> None:
    """Whatever the agents are called, the run's course is the same; neutral names say nothing of a role."""
    outcomes = [
        Program("planning", "round_robin", "langgraph", cast=cast, seed=5).run() for cast in ("roles", "neutral")
    ]

    assert [o.succeeded for o in outcomes] == [True, True]
    members = Program("planning", "round_robin", "langgraph", cast="neutral", seed=5).prepare().team
    assert all(member.name.startswith("Agent_") for member in members)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("table", "chain", "autogen"), "got 'table'. Nearest known: 'tables'"),
        (("lookup", "chains", "autogen"), "got 'chains'. Nearest known: 'chain'"),
        (("lookup", "chain", "autogen", "role"), "got 'role'. Nearest known: 'roles'"),
        (("lookup", "debate", "autogen"), "got 'debate'. Ask for it in langgraph"),
    ],
)
def test_a_wrong_name_is_refused_with_the_nearest(arguments: tuple[str, ...], message: str) -> None:
    """What does not exist is refused before anything runs."""
    with pytest.raises(ConfigError, match=message):
        Program(*arguments).run()  # type: ignore[arg-type]


@pytest.mark.parametrize(("topology", "framework"), _BUILT)
def test_what_an_agent_claims_to_know_is_said(topology: str, framework: str) -> None:
    """Whoever claims a value instead of looking it up states one, and calls no tool in the same breath."""
    programs = [
        Program(family, topology, framework, cast="neutral", seed=seed, mistakes=0.25, size=3)  # type: ignore[arg-type]
        for family in ("tables", "lookup")
        for seed in range(3)
    ]
    decisions = [decision for program in programs for decision in program.run().decisions]
    claiming = [each.reply for each in decisions if any(mistake.kind == "claims" for mistake in each.mistakes)]

    assert claiming
    assert [reply for reply in claiming if reply.calls or not any(char.isdigit() for char in reply.text)] == []
