"""What holds for the guard in both frameworks at once: names, resumed teams, examples, and models without usage."""

from __future__ import annotations

import asyncio
import runpy
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_ext.models.replay import ReplayChatCompletionClient
from langchain_core.messages import HumanMessage

import blamespan
from blamespan.errors import ConfigError
from blamespan.guarding.decisions import Decision, GuardedRun, ProposedStep
from blamespan.guarding.policy import parse_policy
from tests.integrations.autogen_runs import INFO, calls
from tests.integrations.drawing import steps_without_guard
from tests.integrations.hosts import INSTALLED
from tests.integrations.injection_laws import run_team
from tests.integrations.langgraph_programs import add, asks_for, calculator

EXAMPLES = Path(__file__).parents[2] / "examples" / "guard"

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "autogen_refunds",
            ["the team waits: May 'support' go on: refund({\"amount\": 360})?", "'rewrite': 1", "'ask': 2"],
        ),
        (
            "langgraph_refunds",
            ["the graph waits: May 'support' go on: refund({\"amount\": 360})?", "'ask': 2", "forbidden to it"],
        ),
    ],
)
def test_example_does_what_it_says(name: str, said: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The refund is paid once, after the person's yes."""
    module = runpy.run_path(str(EXAMPLES / f"{name}.py"))
    result = module["main"]()
    if asyncio.iscoroutine(result):
        asyncio.run(result)
    out = capsys.readouterr().out

    assert all(words in out for words in said)
    assert out.count("--> 360 EUR are paid back") == 1
    assert out.index("waits:") < out.index("--> 360 EUR")


def test_one_guard_holds_in_both_frameworks() -> None:
    """The same policy stops the same tool in a team and in a graph."""
    with blamespan.guard(parse_policy({"agents": {"*": {"forbidden": ["add"]}}})) as guard:
        client = ReplayChatCompletionClient([calls(("add", {"a": 1, "b": 2})), "done"], model_info=INFO)

        def plus(a: int, b: int) -> int:
            """Add."""
            return a + b

        plus.__name__ = "add"
        team = RoundRobinGroupChat([AssistantAgent("solver", client, tools=[plus])], max_turns=1)
        asyncio.run(team.run(task="1 + 2?"))
        state = calculator(asks_for("add", a=1, b=2), "It is 3.", tools=(add,)).invoke(
            {"messages": [HumanMessage("1 + 2?")]}
        )

    assert guard.counts == {"block": 2}
    assert "'add' was not called" in state["messages"][2].text


def test_names_that_are_not_there_are_refused_before_anything_runs() -> None:
    """A policy for another program is a mistake, and opens no guard."""
    policy = parse_policy({"agents": {"suport": {"tools": ["add"]}}})

    with pytest.raises(ConfigError, match=r"unknown agent 'suport'\. Nearest known: 'support'"):
        blamespan.guard(policy, agents=["support"])
    with pytest.raises(ConfigError, match="expected at least one policy"):
        blamespan.guard()
    with pytest.raises(ConfigError, match="expected fail='open' or 'closed', got 'shut'"):
        blamespan.guard(policy, fail="shut")
    wrong: Any = 5
    with pytest.raises(ConfigError, match="expected a path, a Policy or a function as policy, got int"):
        blamespan.guard(wrong)


@pytest.mark.parametrize("framework", INSTALLED)
def test_watching_alone_changes_nothing(framework: str) -> None:
    """With a guard that only observes the run and its spans are the same, but for the guard's own words."""
    observing = parse_policy(
        {
            "agents": {"*": {"forbidden": ["look"], "action": "observe"}},
            "texts": [{"forbidden_pattern": ".", "action": "observe"}],
            "budgets": [{"calls": 1, "action": "observe"}],
        }
    )
    plain = run_team(framework)
    with blamespan.guard(observing) as guard:
        watched = run_team(framework)

    assert steps_without_guard(watched) == steps_without_guard(plain)
    assert guard.counts["observe"] > 3
    assert guard.counts.keys() == {"observe"}


def test_guard_is_as_deterministic_as_the_program() -> None:
    """The same program under the same policy: the same decisions, in the same order, however often."""

    def decisions() -> list[tuple[str, str, str]]:
        policy = parse_policy(
            {
                "agents": {"solver": {"tools": ["divide"]}},
                "findings": [{"check": "*"}, {"suspicion": 0.1}, {"unsupported_reaches": 1}],
                "budgets": [{"calls": 3}],
            }
        )
        with blamespan.guard(policy) as guard:
            calculator(asks_for("add", a=17, b=25), "17 + 25 = 43, so order 7719 is done.").invoke(
                {"messages": [HumanMessage("17 + 25?")]}
            )
        return [(step.agent, step.action, step.decision.reason) for step in guard.decisions]

    first = decisions()
    assert len(first) > 3
    assert all(decisions() == first for _ in range(3))


@pytest.mark.parametrize("is_guarded", [False, True])
def test_guard_sees_a_fault_as_everybody_does_and_repairs_it(is_guarded: bool) -> None:
    """What an injection writes is judged like the agent's own words; asked again, the agent says it right."""

    def only_48(step: ProposedStep, run: GuardedRun) -> Decision | None:
        wrong = step.kind == "message" and "48" not in step.text
        return Decision(("rewrite", "block"), "the number is wrong", "only-48", "own") if wrong else None

    client = ReplayChatCompletionClient(["It is 48."] * 4, model_info=INFO)
    team = RoundRobinGroupChat([AssistantAgent("clerk", client)], max_turns=1)
    with ExitStack() as stack:
        guard = stack.enter_context(blamespan.guard(only_48)) if is_guarded else None
        injection = stack.enter_context(blamespan.inject("blamespan:X3", agent="clerk", mechanism="response"))
        result = asyncio.run(team.run(task="How many rooms?"))

    assert [fault.after for fault in injection.applied] == ["It is 84."]
    assert result.messages[-1].to_text() == ("It is 48." if is_guarded else "It is 84.")  # type: ignore[union-attr]
    assert guard is None or guard.counts == {"rewrite": 1}
