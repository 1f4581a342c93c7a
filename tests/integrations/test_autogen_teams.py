"""Every kind of AutoGen team, however it is hosted, gives one trace per run."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from autogen_agentchat.agents import (
    CodeExecutorAgent,
    MessageFilterAgent,
    MessageFilterConfig,
    PerSourceFilter,
    SocietyOfMindAgent,
    UserProxyAgent,
)
from autogen_agentchat.base import TaskResult
from autogen_agentchat.conditions import HandoffTermination, MaxMessageTermination, TextMentionTermination
from autogen_agentchat.messages import HandoffMessage
from autogen_agentchat.teams import (
    DiGraphBuilder,
    GraphFlow,
    MagenticOneGroupChat,
    RoundRobinGroupChat,
    SelectorGroupChat,
    Swarm,
)
from autogen_agentchat.tools import AgentTool, TeamTool
from autogen_core import SingleThreadedAgentRuntime
from autogen_ext.code_executors.local import LocalCommandLineCodeExecutor

from blamespan import conventions as words
from blamespan.testing import SpanRecorder
from tests.integrations.autogen_runs import (
    Echo,
    assistant,
    calls,
    named,
    only,
    read,
    replay,
    said,
    trace_of,
    tree,
)


async def test_selection_is_a_model_call_of_the_run(recorder: SpanRecorder) -> None:
    """A selector's model calls stand below the run, the manager's name on them; they are no steps."""
    chooser = replay("writer", "nobody", "critic")
    team = SelectorGroupChat(
        [assistant("writer", "a draft"), assistant("critic", "too short")],
        chooser,
        allow_repeated_speaker=True,
        termination_condition=MaxMessageTermination(3),
    )
    await team.run(task="write")

    below = tree(recorder)["invoke_workflow SelectorGroupChat"]
    assert below == [
        "chat ReplayChatCompletionClient",
        "invoke_agent writer",
        "chat ReplayChatCompletionClient",
        "chat ReplayChatCompletionClient",
        "invoke_agent critic",
    ]
    run = only(recorder, "invoke_workflow")
    choices = [span for span in named(recorder, "chat") if span.parent_id == run.span_id]
    assert [read(span, words.OUTPUT_MESSAGES)[0][2] for span in choices] == ["writer", "nobody", "critic"]
    assert {span.text(words.AGENT_NAME) for span in choices} == {"SelectorGroupChatManager"}
    assert said(trace_of(recorder)) == [("writer", "message", "a draft"), ("critic", "message", "too short")]


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


async def test_handoff_names_its_target(recorder: SpanRecorder) -> None:
    """A handoff is a step of its kind to its target, and the tool call that asked for it is shown."""
    team = Swarm(
        [
            assistant("clerk", calls(("transfer_to_expert", {})), handoffs=["expert"]),
            assistant("expert", "the answer"),
        ],
        termination_condition=TextMentionTermination("answer"),
    )
    await team.run(task="help")

    trace = trace_of(recorder)
    assert [(step.agent, step.kind, step.recipients) for step in trace.steps] == [
        ("clerk", "tool_call", ()),
        ("clerk", "tool_result", ()),
        ("clerk", "handoff", ("expert",)),
        ("expert", "message", ("clerk",)),
    ]
    assert [step.inputs for step in trace.steps] == [(), (0,), (1,), (2,)]
    assert trace.steps[0].content == "transfer_to_expert({})"


async def test_handoff_to_the_user_and_back(recorder: SpanRecorder) -> None:
    """A run stopped by a handoff to the user goes on as the next run of the same conversation."""
    team = Swarm(
        [assistant("clerk", calls(("transfer_to_user", {})), "thanks", handoffs=["user"])],
        termination_condition=HandoffTermination("user") | TextMentionTermination("thanks"),
    )
    await team.run(task="help")
    await team.run(task=HandoffMessage(source="user", target="clerk", content="my number is 7"))

    runs = named(recorder, "invoke_workflow")
    assert [run.attributes[words.RUN_COMPLETE] for run in runs] == [True, True]
    assert read(runs[1]) == [("user", "user", "my number is 7")]


async def test_branches_of_a_graph_are_siblings_that_join(recorder: SpanRecorder) -> None:
    """Agents that work in parallel both build on what came before; the one after them on both."""
    agents = {name: Echo(name) for name in ("start", "left", "right", "end")}
    graph = DiGraphBuilder()
    for agent in agents.values():
        graph.add_node(agent)
    graph.add_edge(agents["start"], agents["left"]).add_edge(agents["start"], agents["right"])
    graph.add_edge(agents["left"], agents["end"]).add_edge(agents["right"], agents["end"])
    await GraphFlow(graph.get_participants(), graph=graph.build()).run(task="go")

    steps = trace_of(recorder).steps
    assert sorted(tree(recorder)["invoke_workflow GraphFlow"]) == sorted(f"invoke_agent {name}" for name in agents)
    assert [(step.agent, step.inputs) for step in steps[:1]] == [("start", ())]
    assert {step.agent: step.inputs for step in steps[1:3]} == {"left": (0,), "right": (0,)}
    assert (steps[3].agent, steps[3].inputs) == ("end", (0, 1, 2))


async def test_filtered_agent_speaks_under_its_own_name_once(recorder: SpanRecorder) -> None:
    """An agent behind a message filter has one span per message, with the messages that the filter let through."""
    config = MessageFilterConfig(per_source=[PerSourceFilter(source="user", position="first", count=1)])
    filtered = MessageFilterAgent("picky", assistant("writer", "a draft"), config)
    await RoundRobinGroupChat([Echo(), filtered], max_turns=2).run(task="go")

    assert said(trace_of(recorder)) == [("echo", "message", "echo: go"), ("writer", "message", "a draft")]
    assert read(only(recorder, "invoke_agent writer")) == [("user", "user", "go")]
    assert [agent.name for agent in trace_of(recorder).agents] == ["echo", "writer"]


def ledger(speaker: str, instruction: str, *, done: bool = False) -> str:
    """Write MagenticOne's progress ledger."""
    answers: dict[str, Any] = {
        "is_request_satisfied": done,
        "is_progress_being_made": True,
        "is_in_loop": False,
        "instruction_or_question": instruction,
        "next_speaker": speaker,
    }
    return json.dumps({key: {"answer": answer, "reason": "because"} for key, answer in answers.items()})


async def test_orchestrator_of_magentic_one_is_an_agent(recorder: SpanRecorder) -> None:
    """MagenticOne's orchestrator plans and speaks: its messages are steps, its model calls are below them."""
    thinking = replay("the facts", "the plan", ledger("worker", "do it"), ledger("worker", "", done=True), "all done")
    await MagenticOneGroupChat([Echo("worker")], thinking).run(task="go")

    trace = trace_of(recorder)
    boss = "MagenticOneOrchestrator"
    assert [(step.agent, step.kind, step.inputs, step.recipients) for step in trace.steps] == [
        (boss, "plan", (), ("worker",)),
        (boss, "message", (0,), ("worker",)),
        ("worker", "message", (0, 1), (boss,)),
        (boss, "message", (2,), ("worker",)),
    ]
    assert [step.content for step in trace.steps[1:]] == ["do it", "worker: do it", "all done"]
    assert tree(recorder)[f"invoke_agent {boss}"] == ["chat ReplayChatCompletionClient"] * 5
    assert [(agent.name, agent.role) for agent in trace.agents] == [(boss, "agent"), ("worker", "agent")]


async def test_orchestrator_that_fails_is_an_error(recorder: SpanRecorder) -> None:
    """An orchestrator whose model gives no ledger fails on its own span."""
    thinking = replay("the facts", "the plan", '{"is_request_satisfied": 1}')
    with pytest.raises(ValueError, match="No more mock responses"):
        await MagenticOneGroupChat([Echo("worker")], thinking).run(task="go")

    failed = named(recorder, "invoke_agent MagenticOneOrchestrator")[-1]
    assert (failed.status, only(recorder, "invoke_workflow").status) == ("error", "error")


async def test_team_within_a_team_is_a_part_of_its_run(recorder: SpanRecorder) -> None:
    """A team that takes part in a team has a run span of its own below; the steps are counted together."""
    inner = RoundRobinGroupChat([Echo("a"), Echo("b")], max_turns=2, name="inner")
    outer = RoundRobinGroupChat([inner, Echo("c")], max_turns=2, name="outer")
    await outer.run(task="go")

    trace = trace_of(recorder)
    assert tree(recorder)["invoke_workflow outer"] == ["invoke_workflow inner", "invoke_agent c"]
    assert [(step.agent, step.inputs) for step in trace.steps] == [("a", ()), ("b", (0,)), ("c", (0, 1))]
    assert [agent.name for agent in trace.agents] == ["a", "b", "c"]


async def test_society_of_mind_is_above_its_team(recorder: SpanRecorder) -> None:
    """A society's inner team works inside the span of the society's message."""
    inner = RoundRobinGroupChat([Echo("a"), Echo("b")], max_turns=2, name="inner")
    society = SocietyOfMindAgent("society", inner, replay("we agree"))
    await RoundRobinGroupChat([society, Echo("c")], max_turns=2, name="outer").run(task="go")

    assert tree(recorder)["invoke_agent society"] == ["invoke_workflow inner", "chat ReplayChatCompletionClient"]
    assert said(trace_of(recorder)) == [
        ("a", "message", "a: go"),
        ("b", "message", "b: a: go"),
        ("society", "message", "we agree"),
        ("c", "message", "c: we agree"),
    ]
    assert [agent.name for agent in trace_of(recorder).agents] == ["society", "a", "b", "c"]


async def test_agent_as_a_tool_works_below_the_tool(recorder: SpanRecorder) -> None:
    """An agent used as a tool speaks inside the tool's span, on the grounds of the call, to its caller."""
    expert = AgentTool(assistant("expert", "42"), return_value_as_last_message=True)
    asker = assistant("asker", calls(("expert", {"task": "what?"})), "it is 42", tools=[expert], max_tool_iterations=2)
    await RoundRobinGroupChat([asker], max_turns=1).run(task="go")

    assert tree(recorder)["execute_tool expert"] == ["invoke_agent expert"]
    assert [(s.agent, s.kind, s.content, s.inputs, s.recipients) for s in trace_of(recorder).steps] == [
        ("asker", "tool_call", 'expert({"task": "what?"})', (), ()),
        ("expert", "message", "42", (0,), ("asker",)),
        ("asker", "tool_result", "42", (0,), ()),
        ("asker", "message", "it is 42", (2,), ()),
    ]


async def test_team_as_a_tool_works_below_the_tool(recorder: SpanRecorder) -> None:
    """A team used as a tool has its run inside the tool's span."""
    experts = RoundRobinGroupChat([Echo("a"), Echo("b")], max_turns=2, name="experts")
    tool = TeamTool(experts, "experts", "ask them", return_value_as_last_message=True)
    asker = assistant("asker", calls(("experts", {"task": "what?"})), tools=[tool])
    await RoundRobinGroupChat([asker], max_turns=1).run(task="go")

    assert tree(recorder)["execute_tool experts"] == ["invoke_workflow experts"]
    assert tree(recorder)["invoke_workflow experts"] == ["invoke_agent a", "invoke_agent b"]


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


async def test_shared_runtime_gives_one_trace_per_run(recorder: SpanRecorder) -> None:
    """Runs on a runtime that was started elsewhere, in turn and at once, are whole traces all the same."""
    with recorder.provider.get_tracer("app").start_as_current_span("start"):
        runtime = SingleThreadedAgentRuntime()
        runtime.start()
    teams = [RoundRobinGroupChat([Echo(f"a{n}"), Echo(f"b{n}")], max_turns=4, runtime=runtime) for n in range(3)]
    await teams[0].run(task="go")
    await asyncio.gather(*(team.run(task="go") for team in teams))
    await runtime.stop_when_idle()

    runs = named(recorder, "invoke_workflow")
    messages = named(recorder, "invoke_agent")
    assert len({run.trace_id for run in runs}) == 4
    assert [sum(span.parent_id == run.span_id for span in messages) for run in runs] == [4, 4, 4, 4]
    assert len(recorder.spans()) == 1 + 4 + 16


async def test_run_goes_on_in_its_trace_when_its_stream_is_left(recorder: SpanRecorder) -> None:
    """On a shared runtime a team works on when nobody listens: in the same trace."""
    runtime = SingleThreadedAgentRuntime()
    runtime.start()
    stream = RoundRobinGroupChat([Echo("a"), Echo("b")], max_turns=6, runtime=runtime).run_stream(task="go")
    async for item in stream:
        assert not isinstance(item, TaskResult)
        break
    await stream.aclose()
    await runtime.stop_when_idle()

    assert len(named(recorder, "invoke_agent")) == 6
    assert len({span.trace_id for span in recorder.spans()}) == 1
