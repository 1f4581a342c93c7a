"""What holds for the guard in every framework: what each action does, what it is told, and what it leaves alone."""

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
from blamespan.guarding.policy import Policy, parse_policy
from tests.integrations.autogen_runs import INFO
from tests.integrations.drawing import steps_without_guard
from tests.integrations.guarded import pay, talk
from tests.integrations.hosts import INSTALLED
from tests.integrations.injection_laws import run_team
from tests.integrations.langgraph_programs import asks_for, calculator

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


def policy(**tables: Any) -> Policy:
    return parse_policy(tables)


every_framework = pytest.mark.parametrize("framework", INSTALLED)
WRONG = "the message says what a pattern forbids"
WARNING = f"The guard says of 'writer': {WRONG}."


def about_secrets(*action: str) -> dict[str, Any]:
    return {"texts": [{"forbidden_pattern": "secret", "action": list(action)}]}


@every_framework
def test_agent_is_asked_again_with_what_is_wrong(framework: str) -> None:
    """The same agent answers anew; nobody hears the answer that did not stand, and a sound one is left alone."""
    with blamespan.guard(policy(**about_secrets("rewrite"))) as guard:
        heard = talk(framework, writer=["a secret", "nothing"], reader=["read"])

    first, again = heard["writer"]
    assert WRONG not in first
    assert f"{WRONG}. It was: <<a secret>>" in again
    assert "nothing" in heard["reader"][0]
    assert "secret" not in heard["reader"][0]
    assert guard.counts == {"rewrite": 1}


@pytest.mark.parametrize(
    ("actions", "counts", "told"),
    [
        (["rewrite"], {"rewrite": 2, "block": 1}, f"[A message of 'writer' was not passed on: {WRONG}"),
        (["rewrite", "warn"], {"rewrite": 2, "warn": 1}, WARNING),
    ],
)
@every_framework
def test_agent_that_never_complies_meets_the_next_action(
    framework: str, actions: list[str], counts: dict[str, int], told: str
) -> None:
    """After as many tries as the policy allows the next action is taken, which is to block where none is named."""
    with blamespan.guard(policy(rewrites=2, **about_secrets(*actions))) as guard:
        heard = talk(framework, writer=["a secret"] * 5, reader=["read"])

    assert len(heard["writer"]) == 3
    assert told in heard["reader"][0]
    assert ("a secret" in heard["reader"][0]) is ("warn" in actions)
    assert guard.counts == counts


@every_framework
def test_next_agent_is_told_in_one_sentence(framework: str) -> None:
    """A warning stands in what the next model is sent, once; the message itself goes on."""
    with blamespan.guard(policy(**about_secrets("warn"))) as guard:
        heard = talk(framework, writer=["a secret"], reader=["read"], last=["end"])

    assert "a secret" in heard["reader"][0]
    assert heard["reader"][0].endswith(WARNING)
    assert WARNING not in heard["last"][0]
    assert guard.counts == {"warn": 1}


@every_framework
def test_blocked_message_reaches_nobody(framework: str) -> None:
    """In place of it stands that it was blocked; a sound one is heard."""
    with blamespan.guard(policy(**about_secrets("block"))) as guard:
        heard = talk(framework, writer=["a secret"], reader=["a plan"], last=["end"])

    assert "[A message of 'writer' was not passed on" in heard["reader"][0]
    assert "a secret" not in str(heard)
    assert "a plan" in heard["last"][0]
    assert guard.counts == {"block": 1}


@every_framework
def test_forbidden_tool_is_not_called(framework: str) -> None:
    """A tool, or a call of one, that a policy forbids does nothing; another is made."""
    with blamespan.guard(policy(arguments=[{"tool": "pay", "argument": "amount", "at_most": 10}])) as guard:
        some = pay(framework, 900, 9)
    with blamespan.guard(policy(agents={"clerk": {"forbidden": ["pay"]}, "boss": {"forbidden": ["look"]}})):
        none = pay(framework, 9)

    assert (some, none) == ([9], [])
    assert guard.counts == {"block": 1}


def raises(question: str) -> bool:
    raise LookupError("nobody there")


@pytest.mark.parametrize(
    ("ask", "paid", "errors"),
    [(lambda _: True, [900], 0), (lambda _: False, [], 0), (raises, [], 1), (None, [], 0)],
    ids=["yes", "no", "raises", "nobody"],
)
@every_framework
def test_function_of_the_program_asks_a_person(framework: str, ask: Any, paid: list[int], errors: int) -> None:
    """With `ask=` the run waits for what the program's function returns; one that raises has not said yes."""
    asks = {"tool": "pay", "argument": "amount", "at_most": 10, "action": "ask"}
    with blamespan.guard(policy(arguments=[asks]), ask=ask) as guard:
        found = pay(framework, 900)

    assert found == paid
    assert guard.counts["ask"] + guard.counts["block"] == 1  # where nobody can be asked it is blocked
    assert guard.counts["error"] == errors


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
