"""Each kind of AutoGen team: the whole trace that comes of a run."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import pytest
from autogen_agentchat.agents import MessageFilterAgent, MessageFilterConfig, PerSourceFilter, SocietyOfMindAgent
from autogen_agentchat.conditions import HandoffTermination, MaxMessageTermination, TextMentionTermination
from autogen_agentchat.messages import BaseAgentEvent, BaseChatMessage, HandoffMessage
from autogen_agentchat.teams import (
    DiGraphBuilder,
    GraphFlow,
    MagenticOneGroupChat,
    RoundRobinGroupChat,
    SelectorGroupChat,
    Swarm,
)
from autogen_core import CancellationToken
from opentelemetry.instrumentation.utils import suppress_instrumentation

from blamespan import conventions as words
from blamespan.testing import SpanRecorder
from tests.integrations.autogen_runs import Echo, assistant, calls, drawn, named, only, outline, replay
from tests.integrations.drawing import literal
from tests.integrations.drawing import read_messages as read


class Later(Echo):
    """Speaks after the others, so that the order is the same in every run."""

    async def on_messages(self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken) -> Any:
        await asyncio.sleep(0.05)
        return await super().on_messages(messages, cancellation_token)


@pytest.mark.construct("AutoGen", "RoundRobinGroupChat")
async def test_round_robin(recorder: SpanRecorder) -> None:
    """One message span per turn below the run's, each with its speaker, its receivers and the message it answers."""
    team = RoundRobinGroupChat(
        [assistant("writer", "a draft", "a better draft"), assistant("critic", "too short")],
        termination_condition=MaxMessageTermination(4),
    )
    await team.run(task="write")

    assert drawn(recorder) == literal("""
        invoke_workflow RoundRobinGroupChat, complete, stopped: Maximum number of messages 4 reached, current message count: 4
        task: write
        agents: writer, critic
        0 writer: message 'a draft' to critic, 5+2 tokens
        1 critic: message 'too short' to writer after 0, 7+2 tokens
        2 writer: message 'a better draft' to critic after 1, 9+3 tokens
        """)  # noqa: E501
    assert outline(recorder) == literal("""
        invoke_workflow RoundRobinGroupChat
          invoke_agent writer
            chat replay
          invoke_agent critic
            chat replay
          invoke_agent writer
            chat replay
        """)


@pytest.mark.construct("AutoGen", "SelectorGroupChat: the model selects, and why")
async def test_selector(recorder: SpanRecorder) -> None:
    """The selector's model calls stand below the run, and its words on the message of whom it chose."""
    chooser = replay("Nothing is written: writer", "nobody", "Somebody should read it, so critic.")
    team = SelectorGroupChat(
        [assistant("writer", "a draft"), assistant("critic", "too short"), Echo()],
        chooser,
        termination_condition=MaxMessageTermination(3),
    )
    await team.run(task="write")

    assert drawn(recorder) == literal("""
        invoke_workflow SelectorGroupChat, complete, stopped: Maximum number of messages 3 reached, current message count: 3
        task: write
        agents: writer, critic, echo
        0 writer: message 'a draft' to critic, echo, 5+2 tokens, blamespan.autogen.selection.reason='Nothing is written: writer'
        1 critic: message 'too short' to writer, echo after 0, 7+2 tokens, blamespan.autogen.selection.reason='Somebody should read it, so critic.'
        """)  # noqa: E501
    assert outline(recorder) == literal("""
        invoke_workflow SelectorGroupChat
          chat replay
          invoke_agent writer
            chat replay
          chat replay
          chat replay
          invoke_agent critic
            chat replay
        """)
    run = only(recorder, "invoke_workflow")
    choices = [span for span in named(recorder, "chat") if span.parent_id == run.span_id]
    assert {span.text(words.AGENT_NAME) for span in choices} == {"SelectorGroupChatManager"}


@pytest.mark.construct("AutoGen", "SelectorGroupChat: selector function, one candidate, no valid answer")
async def test_selector_without_the_model(recorder: SpanRecorder) -> None:
    """Where no model's answer chose the speaker, the message says which rule did."""

    def choose(thread: Sequence[BaseAgentEvent | BaseChatMessage]) -> str | None:
        return "a" if len(thread) == 1 else None

    by_function = SelectorGroupChat([Echo("a"), Echo("b")], replay(), selector_func=choose, max_turns=1)
    by_rule = SelectorGroupChat([Echo("c"), Echo("d")], replay("c"), max_turns=2)
    by_default = SelectorGroupChat([Echo("e"), Echo("f")], replay("?"), max_selector_attempts=1, max_turns=1)
    for team in (by_function, by_rule, by_default):
        await team.run(task="go")

    assert drawn(recorder) == literal("""
        invoke_workflow SelectorGroupChat, complete, stopped: Maximum number of turns 1 reached.
        task: go
        agents: a, b
        0 a: message 'a: go' to b, blamespan.autogen.selection.reason='selector_func choose'
        invoke_workflow SelectorGroupChat, complete, stopped: Maximum number of turns 2 reached.
        task: go
        agents: c, d
        0 c: message 'c: go' to d, blamespan.autogen.selection.reason='c'
        1 d: message 'd: c: go' to c after 0, blamespan.autogen.selection.reason='the only candidate'
        invoke_workflow SelectorGroupChat, complete, stopped: Maximum number of turns 1 reached.
        task: go
        agents: e, f
        0 e: message 'e: go' to f, blamespan.autogen.selection.reason="nobody that could be chosen was named in '?'"
        """)


@pytest.mark.construct("AutoGen", "Swarm: handoffs")
async def test_swarm(recorder: SpanRecorder) -> None:
    """A handoff is a step addressed to its target, after the tool call that the model asked for it with."""
    team = Swarm(
        [
            assistant("clerk", calls(("transfer_to_expert", {})), handoffs=["expert"]),
            assistant("expert", calls(("transfer_to_clerk", {})), "the answer", handoffs=["clerk"]),
        ],
        termination_condition=HandoffTermination("clerk") | TextMentionTermination("answer"),
    )
    await team.run(task="help")

    assert drawn(recorder) == literal("""
        invoke_workflow Swarm, complete, stopped: Handoff to clerk from expert detected.
        task: help
        agents: clerk, expert
        0 clerk: tool_call 'transfer_to_expert({})'
        1 clerk: tool_result 'Transferred to expert, adopting the role of expert immediately.' after 0
        2 clerk: handoff 'Transferred to expert, adopting the role of expert immediately.' to expert after 1, 0+7 tokens
        3 expert: tool_call 'transfer_to_clerk({})' after 2
        4 expert: tool_result 'Transferred to clerk, adopting the role of clerk immediately.' after 3
        5 expert: handoff 'Transferred to clerk, adopting the role of clerk immediately.' to clerk after 2 4, 0+7 tokens
        """)
    assert outline(recorder) == literal("""
        invoke_workflow Swarm
          invoke_agent clerk
            chat replay
            execute_tool transfer_to_expert
          invoke_agent expert
            chat replay
            execute_tool transfer_to_clerk
        """)


@pytest.mark.construct("AutoGen", "Swarm: handoff to the user and back")
async def test_swarm_and_its_user(recorder: SpanRecorder) -> None:
    """A run that stops for the user waits; the next one, which the answer begins, goes on from it and has its task."""
    team = Swarm(
        [assistant("clerk", calls(("transfer_to_user", {})), "thanks", handoffs=["user"])],
        termination_condition=HandoffTermination("user") | TextMentionTermination("thanks"),
    )
    await team.run(task="help")
    await team.run(task=HandoffMessage(source="user", target="clerk", content="my number is 7"))

    assert drawn(recorder) == literal("""
        invoke_workflow Swarm, complete, stopped: Handoff to user from clerk detected.
        task: help
        agents: clerk
        0 clerk: tool_call 'transfer_to_user({})'
        1 clerk: tool_result 'Transferred to user, adopting the role of user immediately.' after 0
        2 clerk: handoff 'Transferred to user, adopting the role of user immediately.' to user after 1, 0+7 tokens
        invoke_workflow Swarm, complete, stopped: Text 'thanks' mentioned
        task: help
        agents: clerk
        0 clerk: message 'thanks', 9+1 tokens
        """)
    first, second = named(recorder, "invoke_workflow")
    assert (first.attributes[words.RUN_INTERRUPTED], words.RUN_INTERRUPTED in second.attributes) == (True, False)
    assert [(link.span_id, link.attributes) for link in second.links] == [
        (first.span_id, {words.LINK_RELATION: "continues"})
    ]
    assert read(second) == [("user", "user", "my number is 7")]


@pytest.mark.parametrize("is_suppressed", [False, True], ids=["recorded", "while instrumentation is suppressed"])
async def test_reset_team_goes_on_from_no_run(recorder: SpanRecorder, is_suppressed: bool) -> None:
    """After `reset()` the next run goes on from none, also where the one before it waits for its user."""
    clerk = assistant("clerk", calls(("transfer_to_user", {})), "thanks", handoffs=["user"])
    team = Swarm([clerk], termination_condition=HandoffTermination("user") | TextMentionTermination("thanks"))
    await team.run(task="help")
    with suppress_instrumentation() if is_suppressed else nullcontext():
        await team.reset()
    await team.run(task="something else")

    assert [len(run.links) for run in named(recorder, "invoke_workflow")] == [0, 0]


def ledger(speaker: str, instruction: str, *, done: bool = False, because: str = "it can") -> str:
    """Write MagenticOne's progress ledger."""
    answers: dict[str, Any] = {
        "is_request_satisfied": done,
        "is_progress_being_made": True,
        "is_in_loop": False,
        "instruction_or_question": instruction,
        "next_speaker": speaker,
    }
    return json.dumps({key: {"answer": answer, "reason": because} for key, answer in answers.items()})


@pytest.mark.construct("AutoGen", "MagenticOneGroupChat")
async def test_magentic_one(recorder: SpanRecorder) -> None:
    """The orchestrator's plan, instructions and final answer are steps of its own, its model calls below them."""
    thinking = replay("the facts", "the plan", ledger("worker", "do it"), ledger("worker", "", done=True), "all done")
    await MagenticOneGroupChat([Echo("worker"), Echo("idler")], thinking).run(task="go")

    assert drawn(recorder) == literal(r"""
        invoke_workflow MagenticOneGroupChat, complete, stopped: it can
        task: go
        agents: MagenticOneOrchestrator, worker, idler
        0 MagenticOneOrchestrator: plan '\nWe are working to address the following user request:\n\ngo\n\n\nTo answer this request we have assembled the following team:\n\nworker: the worker\nidler: the idler\n\n\nHere is an initial fact sheet to consider:\n\nthe facts\n\n\nHere is the plan to follow as best as possible:\n\nthe plan\n' to worker, idler, 469+4 tokens
        1 MagenticOneOrchestrator: message 'do it' to worker, idler after 0, 308+31 tokens
        2 worker: message 'worker: do it' to MagenticOneOrchestrator, idler after 0 1, blamespan.autogen.selection.reason='it can'
        3 MagenticOneOrchestrator: message 'all done' to worker, idler after 2, 418+32 tokens
        """)  # noqa: E501
    assert outline(recorder) == literal("""
        invoke_workflow MagenticOneGroupChat
          invoke_agent MagenticOneOrchestrator
            chat replay
            chat replay
          invoke_agent MagenticOneOrchestrator
            chat replay
          invoke_agent worker
          invoke_agent MagenticOneOrchestrator
            chat replay
            chat replay
        """)


@pytest.mark.construct("AutoGen", "GraphFlow: parallel branches")
async def test_graph_with_branches(recorder: SpanRecorder) -> None:
    """Branches build on where they part, and the agent that joins them on both."""
    start, left, right, end = Echo("start"), Echo("left"), Later("right"), Echo("end")
    graph = DiGraphBuilder()
    for agent in (start, left, right, end):
        graph.add_node(agent)
    graph.add_edge(start, left).add_edge(start, right).add_edge(left, end).add_edge(right, end)
    await GraphFlow(graph.get_participants(), graph=graph.build()).run(task="go")

    assert drawn(recorder) == literal("""
        invoke_workflow GraphFlow, complete, stopped: Digraph execution is complete
        task: go
        agents: start, left, right, end
        0 start: message 'start: go' to left, right, end
        1 left: message 'left: start: go' to start, right, end after 0
        2 right: message 'right: start: go' to start, left, end after 0
        3 end: message 'end: right: start: go' to start, left, right after 0 1 2
        """)
    assert outline(recorder) == literal("""
        invoke_workflow GraphFlow
          invoke_agent start
          invoke_agent left
          invoke_agent right
          invoke_agent end
        """)


@pytest.mark.construct("AutoGen", "GraphFlow: loop with a condition")
async def test_graph_with_a_loop(recorder: SpanRecorder) -> None:
    """Each round of a loop is steps of its own, on the grounds of the round before."""
    writer = assistant("writer", "one", "two")
    critic = assistant("critic", "again", "approved")
    end = Echo("end")
    graph = DiGraphBuilder()
    for agent in (writer, critic, end):
        graph.add_node(agent)
    graph.add_edge(writer, critic)
    graph.add_edge(critic, writer, condition="again").add_edge(critic, end, condition="approved")
    graph.set_entry_point(writer)
    await GraphFlow(graph.get_participants(), graph=graph.build(), max_turns=9).run(task="go")

    assert drawn(recorder) == literal("""
        invoke_workflow GraphFlow, complete, stopped: Digraph execution is complete
        task: go
        agents: writer, critic, end
        0 writer: message 'one' to critic, end, 5+1 tokens
        1 critic: message 'again' to writer, end after 0, 6+1 tokens
        2 writer: message 'two' to critic, end after 1, 7+1 tokens
        3 critic: message 'approved' to writer, end after 2, 8+1 tokens
        4 end: message 'end: approved' to writer, critic after 0 1 2 3
        """)


@pytest.mark.construct("AutoGen", "team as a participant")
async def test_team_in_a_team(recorder: SpanRecorder) -> None:
    """A team within a team has its own run below; what is said in one the other hears, agent by agent."""
    inner = RoundRobinGroupChat([Echo("a"), Echo("b")], max_turns=2, name="inner")
    await RoundRobinGroupChat([inner, Echo("c")], max_turns=2, name="outer").run(task="go")

    assert drawn(recorder) == literal("""
        invoke_workflow outer, complete, stopped: Maximum number of turns 2 reached.
        task: go
        agents: a, b, c
        0 a: message 'a: go' to b, c
        1 b: message 'b: a: go' to a, c after 0
        2 c: message 'c: b: a: go' to a, b after 0 1
        """)
    assert outline(recorder) == literal("""
        invoke_workflow outer
          invoke_workflow inner
            invoke_agent a
            invoke_agent b
          invoke_agent c
        """)


@pytest.mark.construct("AutoGen", "SocietyOfMindAgent")
async def test_society_of_mind(recorder: SpanRecorder) -> None:
    """The society's inner run is below the society's message, which builds on what was said last in it."""
    inner = RoundRobinGroupChat([Echo("a"), Echo("b")], max_turns=2, name="inner")
    society = SocietyOfMindAgent("society", inner, replay("we agree"))
    await RoundRobinGroupChat([Echo("c"), society], max_turns=2, name="outer").run(task="go")

    assert drawn(recorder) == literal("""
        invoke_workflow outer, complete, stopped: Maximum number of turns 2 reached.
        task: go
        agents: c, society, a, b
        0 c: message 'c: go' to society
        1 a: message 'a: c: go' to b, society after 0
        2 b: message 'b: a: c: go' to a, society after 0 1
        3 society: message 'we agree' to c after 0 2, 47+2 tokens
        """)
    assert outline(recorder) == literal("""
        invoke_workflow outer
          invoke_agent c
          invoke_agent society
            invoke_workflow inner
              invoke_agent a
              invoke_agent b
            chat replay
        """)


@pytest.mark.construct("AutoGen", "MagenticOneGroupChat inside a SocietyOfMindAgent")
async def test_magentic_one_in_a_society(recorder: SpanRecorder) -> None:
    """What the orchestrator says inside is its own, once; its last word is what the society builds on."""
    thinking = replay("the facts", "the plan", ledger("worker", "do it"), ledger("worker", "", done=True), "all done")
    society = SocietyOfMindAgent("society", MagenticOneGroupChat([Echo("worker")], thinking), replay("we agree"))
    await RoundRobinGroupChat([society], max_turns=1).run(task="go")

    assert re.sub(r"plan '[^']*'", "plan '...'", drawn(recorder)) == literal("""
        invoke_workflow RoundRobinGroupChat, complete, stopped: Maximum number of turns 1 reached.
        task: go
        agents: society, MagenticOneOrchestrator, worker
        0 MagenticOneOrchestrator: plan '...' to worker, society, 466+4 tokens
        1 MagenticOneOrchestrator: message 'do it' to worker, society after 0, 300+31 tokens
        2 worker: message 'worker: do it' to MagenticOneOrchestrator, society after 0 1, blamespan.autogen.selection.reason='it can'
        3 MagenticOneOrchestrator: message 'all done' to worker, society after 2, 407+32 tokens
        4 society: message 'we agree' after 3, 93+2 tokens
        """)  # noqa: E501


@pytest.mark.construct("AutoGen", "MessageFilterAgent")
async def test_message_filter(recorder: SpanRecorder) -> None:
    """A filter says nothing itself: the filtered agent's message is recorded once, under that agent's name."""
    config = MessageFilterConfig(per_source=[PerSourceFilter(source="user", position="first", count=1)])
    filtered = MessageFilterAgent("picky", assistant("writer", "a draft"), config)
    await RoundRobinGroupChat([Echo(), filtered], max_turns=2).run(task="go")

    assert drawn(recorder) == literal("""
        invoke_workflow RoundRobinGroupChat, complete, stopped: Maximum number of turns 2 reached.
        task: go
        agents: echo, writer
        0 echo: message 'echo: go' to writer
        1 writer: message 'a draft' to echo, 5+2 tokens
        """)
    assert read(only(recorder, "invoke_agent writer")) == [("user", "user", "go")]


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
