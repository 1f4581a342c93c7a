"""How AutoGen teams are recorded beyond what their drawings show; see `test_autogen_constructs_teams.py`."""

from __future__ import annotations

from pathlib import Path

import pytest
from autogen_agentchat.agents import CodeExecutorAgent, UserProxyAgent
from autogen_agentchat.teams import MagenticOneGroupChat, RoundRobinGroupChat, SelectorGroupChat
from autogen_ext.code_executors.local import LocalCommandLineCodeExecutor

from blamespan import conventions as words
from blamespan.testing import SpanRecorder
from tests.integrations.autogen_runs import Echo, assistant, named, only, read, replay, said, trace_of


async def test_selectors_prompt_is_recorded_without_what_it_repeats(recorder: SpanRecorder) -> None:
    """A selector sends the whole conversation each time; each part of it is recorded once."""
    turns, text = 12, "y" * 2000
    team = SelectorGroupChat(
        [assistant("writer", *[text] * turns), assistant("critic", *[text] * turns)],
        replay(*["writer", "critic"] * turns),
        allow_repeated_speaker=True,
        max_turns=turns,
    )
    await team.run(task="write")

    run = only(recorder, "invoke_workflow")
    prompts = [
        span.text(words.INPUT_MESSAGES) or "" for span in named(recorder, "chat") if span.parent_id == run.span_id
    ]
    assert len(prompts) == turns
    assert max(map(len, prompts)) < 2 * len(text)
    assert "characters as before" in prompts[-1]


async def test_orchestrator_that_fails_is_an_error(recorder: SpanRecorder) -> None:
    """An orchestrator whose model gives no ledger fails on its own span."""
    thinking = replay("the facts", "the plan", '{"is_request_satisfied": 1}')
    with pytest.raises(ValueError, match="No more mock responses"):
        await MagenticOneGroupChat([Echo("worker")], thinking).run(task="go")

    failed = named(recorder, "invoke_agent MagenticOneOrchestrator")[-1]
    assert (failed.status, only(recorder, "invoke_workflow").status) == ("error", "error")


@pytest.mark.filterwarnings("ignore::UserWarning")  # AutoGen warns of running code
async def test_roles_tell_users_and_executors_from_agents(recorder: SpanRecorder, tmp_path: Path) -> None:
    """A person is a user, an agent that only runs code is an executor; what a user says has the user's role."""
    person = UserProxyAgent("person", input_func=lambda _: "```python\nprint(6 * 7)\n```")
    runner = CodeExecutorAgent("runner", LocalCommandLineCodeExecutor(work_dir=tmp_path))
    await RoundRobinGroupChat([person, runner, Echo()], max_turns=3).run(task="go")

    trace = trace_of(recorder)
    assert [(agent.name, agent.role) for agent in trace.agents] == [
        ("person", "user"),
        ("runner", "executor"),
        ("echo", "agent"),
    ]
    assert said(trace)[2:] == [
        ("runner", "tool_result", "42\n"),
        ("runner", "message", "42\n"),
        ("echo", "message", "echo: 42\n"),
    ]
    assert [(role, name) for role, name, _ in read(only(recorder, "invoke_agent echo"))] == [
        ("user", "user"),
        ("user", "person"),
        ("assistant", "runner"),
    ]
