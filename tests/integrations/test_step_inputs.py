"""What agents were given stands on their steps, in both frameworks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypedDict

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core.memory import ListMemory, MemoryContent, MemoryMimeType
from autogen_ext.models.replay import ReplayChatCompletionClient
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langgraph.graph import START, StateGraph
from langgraph.types import Send

from blamespan.rebuilding.rebuild import rebuild
from blamespan.testing import SpanRecorder
from tests.integrations.hosts import recording

DOCUMENT = "Revenue in the north was 48,250 euros."


class Report(TypedDict, total=False):
    question: str
    plan: str
    note: str


@pytest.fixture(name="recorder", params=[True, False], ids=["captured", "withheld"])
def recorder_of_both(request: pytest.FixtureRequest) -> Iterator[SpanRecorder]:
    with recording("autogen", "langgraph", capture_content=request.param) as recorder:
        recorder.captured = request.param  # type: ignore[attr-defined]
        yield recorder


def inputs(recorder: Any) -> list[tuple[str, str]]:
    """List the agents of the rebuilt run with what each step was given."""
    return [(step.agent, step.input_text) for step in rebuild(recorder.spans()).steps]


def expected(recorder: Any, *rows: tuple[str, str]) -> list[tuple[str, str]]:
    """Give *rows* as they are expected: where contents are withheld nobody was given anything that can be read."""
    return [(agent, text if recorder.captured else "") for agent, text in rows]


def test_prompt_and_packet_of_a_graph(recorder: SpanRecorder) -> None:
    """A prompt with its document is the input of the step whose model got it, a packet of the node it was sent to."""
    model = GenericFakeChatModel(messages=iter([AIMessage("Ask the north.")]))

    def planner(state: Report) -> Report:
        said = model.invoke([SystemMessage("You plan."), HumanMessage(f"{DOCUMENT}\n{state['question']}")])
        return {"plan": str(said.content)}

    graph = StateGraph(Report)
    graph.add_node("planner", planner)
    graph.add_node("reader", lambda packet: {"note": "read"})
    graph.add_edge(START, "planner")
    graph.add_conditional_edges("planner", lambda _: [Send("reader", {"page": "Only 1,750 in the south."})], ["reader"])
    graph.compile().invoke({"question": "How much is it?"})

    assert inputs(recorder) == expected(
        recorder,
        ("planner", f"You plan.\n\n{DOCUMENT}\nHow much is it?"),
        ("reader", "page: Only 1,750 in the south."),
    )


async def test_instructions_and_memory_of_a_team(recorder: SpanRecorder) -> None:
    """Instructions and what a memory brings are given once per agent; what others said in the run is not repeated."""
    info: Any = {
        "vision": False,
        "function_calling": True,
        "json_output": True,
        "family": "x",
        "structured_output": True,
    }
    memory = ListMemory()
    await memory.add(MemoryContent(content=DOCUMENT, mime_type=MemoryMimeType.TEXT))
    writer = AssistantAgent(
        "writer",
        ReplayChatCompletionClient(["A draft.", "A better one."], model_info=info),
        memory=[memory],
        system_message="You write.",
    )
    critic = AssistantAgent(
        "critic", ReplayChatCompletionClient(["Too short."], model_info=info), system_message="You criticise."
    )
    await RoundRobinGroupChat([writer, critic], max_turns=3).run(task="How much is it?")

    remembered = f"\n\nRelevant memory content (in chronological order):\n1. {DOCUMENT}\n"
    rows = (("writer", f"You write.\n\n{remembered[1:]}"), ("critic", "You criticise."), ("writer", ""))
    assert inputs(recorder) == expected(recorder, *rows)
