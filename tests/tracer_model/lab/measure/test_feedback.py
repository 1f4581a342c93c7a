"""Simulated teams that read feedback, and the measure of what it does to them."""

from __future__ import annotations

import pytest

from blamespan_lab.make.simulation.agents.policy import InputMessage
from blamespan_lab.make.simulation.program import Program
from blamespan_lab.make.simulation.simulated_run import SimulatedPolicy
from blamespan_lab.measure.feedback import ARMS, HeedfulPolicy, Suite, SuiteTrial, measure
from blamespan_lab.rerun.feedback.writing import Feedback, with_feedback
from blamespan_tracer.alternatives.lexical import LexicalTracer

pytest.importorskip("autogen_agentchat")
pytest.importorskip("langgraph")

CHAIN = Program("word_problems", "chain", "langgraph", seed=3, mistakes=0.5, care=0.0)


def blaming(agent: str | None) -> str:
    return Feedback("1" * 32, agent, 2 if agent else None, None, "the total is 7", "Work it out again.").text


def erring(told: str, heed: float) -> dict[str, int]:
    """Run a team that errs a lot; counts each agent's mistakes."""
    trial = SuiteTrial(CHAIN, heed, stubborn=1.0)
    trial.run(with_feedback(CHAIN.task().question, told))
    counts: dict[str, int] = {}
    for decision in trial.outcomes[0].decisions:
        counts[decision.agent] = counts.get(decision.agent, 0) + len(decision.mistakes)
    return counts


def test_who_is_named_in_feedback_heeds_it() -> None:
    """It goes through the framework as part of the task, and only the one it names errs no more."""
    before, after = erring("", 1.0), erring(blaming("solver"), 1.0)

    assert before["solver"] > 0
    assert after["solver"] == 0
    assert after["planner"] == before["planner"]


def test_feedback_is_no_statement_of_the_task() -> None:
    """Unheeded feedback changes nothing at all: what it quotes is not believed."""
    assert erring(blaming("solver"), 0.0) == erring("", 0.0)


def test_agent_that_is_told_nothing_is_a_plain_simulated_one() -> None:
    """Without feedback, what is said is what the simulation says."""
    profile = next(iter(CHAIN.prepare().policies.values())).profile  # type: ignore[union-attr]
    messages = [InputMessage("task", CHAIN.task().question)]

    assert HeedfulPolicy(profile, heed=0.7).reply(messages, ()) == SimulatedPolicy(profile).reply(messages, ())


def test_unheeded_feedback_is_no_feedback() -> None:
    """With nobody listening all arms are the same: attempts differ in nothing but in what is told."""
    suite = Suite(tasks=2, rounds=2, mistakes=0.4, heed=0.0)

    arms = measure(suite, LexicalTracer.bundled())["arms"]

    assert {tuple(figures["solved"]) for figures in arms.values()} == {tuple(arms["feedback"]["solved"])}
    assert arms["feedback"]["won"] == arms["feedback"]["lost"] == [0, 0]
    assert set(arms) == set(ARMS)


@pytest.mark.slow
def test_measure_is_repeatable_and_later_rounds_solve_no_less() -> None:
    """Same seed, same figures; what was solved stays solved."""
    suite = Suite(tasks=2, rounds=2, mistakes=0.4)

    one, other = (measure(suite, LexicalTracer.bundled()) for _ in range(2))

    assert one == other
    assert all(figures["solved"] == sorted(figures["solved"]) for figures in one["arms"].values())
    assert one["tasks"] == 2
