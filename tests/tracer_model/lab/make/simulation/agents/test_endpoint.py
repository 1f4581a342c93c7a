"""Bundled teams spoken for by an LLM: a real HTTP server in a process of its own plays it, well or badly."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from blamespan.errors import ConfigError
from blamespan_lab.make.simulation.agents.endpoint import EndpointPolicy, policy_from_environment
from blamespan_lab.make.simulation.agents.policy import AsyncPolicy, InputMessage, RequestedCall, ToolSpec
from blamespan_lab.make.simulation.program import Outcome, PolicyFor, Program
from blamespan_tracer.alternatives.endpoint import Endpoint
from tests.tracer_model.lab.make.faults.test_manipulator import served

pytest.importorskip("autogen_agentchat")
pytest.importorskip("langgraph")

CHAIN = Program("word_problems", "chain", "autogen", seed=1, size=3, pace=3)


def policies(url: str, *, timeout_s: float = 5.0) -> PolicyFor:
    return lambda profile: EndpointPolicy(profile, Endpoint(url, "small", "secret", timeout_s), pause_s=0.01)


def answered(program: Program, *answers: str | int | dict[str, Any], timeout_s: float = 5.0) -> Outcome:
    with served(*answers) as endpoint:
        return program.run(policy_for=policies(endpoint.url, timeout_s=timeout_s))


def right_answer(program: Program) -> str:
    task = program.task()
    fact = task.lexicon.facts[task.lexicon.target]
    return f"The {fact.phrase} is {task.truth[fact.key]:g} {fact.unit}. APPROVED"


@pytest.mark.parametrize("framework", ["autogen", "langgraph"])
def test_the_suite_runs_on_an_llm(framework: str) -> None:
    """Teams, tools, tasks and checks stay as they are; what is answered comes from the endpoint."""
    program = Program("word_problems", "chain", framework, seed=1, size=3, pace=3)  # type: ignore[arg-type]

    right, wrong = answered(program, right_answer(program)), answered(program, "I do not know.")

    assert (right.succeeded, right.is_void, right.error) == (True, False, "")
    assert (wrong.succeeded, wrong.is_void, wrong.error) == (False, False, "")
    assert {decision.reply.text for decision in wrong.decisions} == {"I do not know."}


def test_endpoint_is_told_the_duties_the_conversation_and_the_tools() -> None:
    """It gets the team's own messages, who said them, every call with its answer, and the tools on offer."""
    call = {"id": "x", "type": "function", "function": {"name": "search_documents", "arguments": '{"query": "fee"}'}}
    messages = [
        InputMessage("system", "You are the clerk."),
        InputMessage("task", "What is the fee?"),
        InputMessage("message", "Look it up.", "planner"),
        InputMessage(
            "own", "", "clerk", (RequestedCall("search_documents", '{"query": "fee"}'), RequestedCall("other", "{}"))
        ),
        InputMessage("tool_result", "12 euros", "search_documents"),
    ]
    with served({"role": "assistant", "content": None, "tool_calls": [call]}) as endpoint:
        policy = policies(endpoint.url)(next(iter(CHAIN.prepare().policies.values())).profile)  # type: ignore[union-attr]
        assert isinstance(policy, AsyncPolicy)
        reply = asyncio.run(policy.areply(messages, [ToolSpec("search_documents", "Searches.", ("query",))]))
        ((path, key, body),) = endpoint.asked()

    assert reply.calls == (RequestedCall("search_documents", '{"query": "fee"}'),)
    assert (path, key) == ("/v1/chat/completions", "Bearer secret")
    assert [message["role"] for message in body["messages"]] == ["system", "user", "user", "assistant", "tool", "tool"]
    assert body["messages"][2]["content"] == "planner: Look it up."
    labels = [call["id"] for call in body["messages"][3]["tool_calls"]]
    assert [message["tool_call_id"] for message in body["messages"][4:]] == labels
    assert body["tools"][0]["function"]["parameters"]["required"] == ["query"]


@pytest.mark.parametrize("trouble", [429, 500, "", "not-json-message"])
def test_trouble_that_passes_is_waited_for(trouble: str | int) -> None:
    """A refusal, a broken server and nonsense are asked again."""
    first: Any = {"role": "assistant", "content": ["?"]} if trouble == "not-json-message" else trouble

    found = answered(CHAIN, first, right_answer(CHAIN))

    assert (found.succeeded, found.is_void) == (True, False)


@pytest.mark.parametrize(
    ("answer", "said"),
    [(500, "HTTP 500 3 times"), (401, "HTTP 401 1 times"), ("", "nonsense 3 times"), ("slow", "timeout 3 times")],
)
@pytest.mark.parametrize("framework", ["autogen", "langgraph"])
def test_trouble_that_stays_voids_the_run(answer: str | int, said: str, framework: str) -> None:
    """The run is told from one that the team has failed: it says nothing of the team."""
    program = Program("word_problems", "chain", framework, seed=1, size=3, pace=3)  # type: ignore[arg-type]

    found = answered(program, answer, timeout_s=0.3)

    assert (found.is_void, found.succeeded) == (True, False)
    assert said in found.error
    assert "secret" not in found.error


def test_waiting_for_an_answer_keeps_nobody_else() -> None:
    """While an endpoint thinks, the event loop goes on: branches ask side by side."""
    program = Program("word_problems", "debate", "langgraph", seed=1, size=3, pace=3)
    debaters = len(program.prepare().names_of("debater"))

    async def run(url: str) -> tuple[int, Outcome]:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.05)
                ticks += 1

        ticking = asyncio.ensure_future(tick())
        found = await program.arun(policy_for=policies(url, timeout_s=20))
        ticking.cancel()
        return ticks, found

    with served("slow") as endpoint:
        ticks, found = asyncio.run(run(endpoint.url))

    rounds = (len(found.decisions) - 1) // debaters
    slept_s = 1.5 * (rounds + 1)
    assert not found.is_void
    assert ticks >= 0.6 * slept_s / 0.05  # loosely: the machine may be busy


def test_no_variable_no_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one configured the agents are simulated."""
    monkeypatch.delenv("BLAMESPAN_SUITE_URL", raising=False)

    assert policy_from_environment() is None


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"URL": "localhost:8000"}, "BLAMESPAN_SUITE_URL must be an http"),
        ({"URL": "http://x/v1"}, "BLAMESPAN_SUITE_MODEL must name a model"),
        ({"URL": "http://x/v1", "MODEL": "m", "TIMEOUT_S": "soon"}, "BLAMESPAN_SUITE_TIMEOUT_S must be seconds"),
    ],
)
def test_wrong_settings_are_named(monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], said: str) -> None:
    """The message names the variable and what it must be."""
    for key, value in settings.items():
        monkeypatch.setenv(f"BLAMESPAN_SUITE_{key}", value)

    with pytest.raises(ConfigError, match=said):
        policy_from_environment()


def test_half_characters_can_be_sent() -> None:
    """What cannot be written as UTF-8 does not break the question."""
    with served("Noted.") as endpoint:
        policy = policies(endpoint.url)(next(iter(CHAIN.prepare().policies.values())).profile)  # type: ignore[union-attr]
        assert isinstance(policy, AsyncPolicy)
        reply = asyncio.run(policy.areply([InputMessage("task", "a\ud800b")], []))
        ((_, _, body),) = endpoint.asked()

    assert reply.text == "Noted."
    assert json.dumps(body).count("a?b") == 1
