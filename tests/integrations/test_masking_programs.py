"""Secrets that go through real programs, wherever a program may carry them, are in no span they export."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from autogen_agentchat.teams import RoundRobinGroupChat, Swarm
from autogen_core.memory import ListMemory, MemoryContent, MemoryMimeType
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, interrupt

from tests.integrations.autogen_runs import assistant, calls
from tests.integrations.hosts import recording
from tests.integrations.langgraph_programs import asks_for, calculator

VALUE = "Zx9Kq2Lm7Rt4Vb8Nc3Wd6"
"""Made up; every secret below holds it, so that one look finds any of them."""
SECRETS = [
    f"aws_secret_access_key = {VALUE}/abcdefghijklmnopqr",
    f"db:\n  password: '{VALUE}'\n",
    f"OPENAI_API_KEY={VALUE}",
    f"X-API-Key: {VALUE}",
    f"Cookie: session={VALUE}; theme=dark",
    f"Authorization: Basic {VALUE}==",
    f"curl -u bob:{VALUE} https://ci.example.com",
    "xa" + f"pp-1-A0123456789-{VALUE}",
    f"https://b.example.com/k?sig={VALUE}%3D",
    '{"log": "{\\"client_secret\\": \\"' + VALUE + '\\"}"}',
    f"pass\u200bword: {VALUE[:8]}\u200b{VALUE[8:]}",
]


def text() -> str:
    """Write all secrets as one text."""
    return "\n".join(SECRETS)


def look(settings: dict[str, str], note: str) -> dict[str, Any]:
    """Look something up."""
    return {"userPassword": VALUE, "headers": {"x-api-key": VALUE}, "rows": [note, {"refreshToken": VALUE}]}


def fail(note: str) -> str:
    """Fail with what it was given."""
    raise LookupError(f"login failed: password={VALUE}; {note}")


ARGUMENTS = {"settings": {"API-Key": VALUE, "db_password": VALUE, "url": f"postgres://me:{VALUE}@db/x"}, "note": text()}


async def run_team(kind: str) -> None:
    memory = ListMemory(name="notes")
    await memory.add(MemoryContent(content=text(), mime_type=MemoryMimeType.TEXT))
    tools = calls(("look", ARGUMENTS), ("fail", {"note": text()}), thought=text())
    options: dict[str, Any] = {"description": text(), "system_message": text()}
    if kind == "hand-off":
        first = calls(("transfer_to_critic", {}), thought=text())
        handing = assistant("writer", first, handoffs=["critic"], **options)
        critic = assistant("critic", text(), text(), **options)
        await Swarm([handing, critic], max_turns=2).run(task=text())
        return
    writer = assistant(
        "writer", tools, text(), tools=[look, fail], memory=[memory], metadata={"note": text()}, **options
    )
    critic = assistant("critic", text(), model_client_stream=True, **options)
    await RoundRobinGroupChat([writer, critic], max_turns=2).run(task=text())


def exported(framework: str, program: Any) -> list[str]:
    """Run *program* and list its spans as JSON, as they are exported."""
    with recording(framework) as recorder, suppress(LookupError):
        program()
    return [span.to_json() for span in recorder.finished()]


def pieces_in(spans: list[str]) -> list[str]:
    """List the spans with six characters in a row of the value."""
    pieces = [VALUE[at : at + 6] for at in range(len(VALUE) - 5)]
    return [span for span in spans if any(piece in span for piece in pieces)]


@pytest.mark.parametrize("kind", ["tools and memory", "hand-off"])
def test_no_secret_leaves_an_autogen_team(kind: str) -> None:
    """In prompts, descriptions, tools' arguments and results, errors, thoughts, memory and hand-offs it is masked."""
    spans = exported("autogen", lambda: asyncio.run(run_team(kind)))

    assert len(spans) > 3
    assert pieces_in(spans) == []
    assert any("[masked]" in span for span in spans)


def use_tools() -> None:
    message = AIMessage(text(), tool_calls=asks_for("look", "1", **ARGUMENTS).tool_calls)
    tools = [tool(look), tool(fail)]
    graph = calculator(message, asks_for("fail", "2", note=text()), text(), tools=tools, handle_tool_errors=True)
    graph.invoke(
        {"messages": [SystemMessage(text()), HumanMessage(text(), additional_kwargs={"api_key": VALUE})]},
        {"metadata": {"note": text(), "apiKey": VALUE}, "tags": SECRETS, "run_name": SECRETS[2]},
    )


def carry_in_state() -> None:
    class State(MessagesState):
        credentials: dict[str, Any]

    def keep(state: State, *, store: BaseStore) -> Any:
        store.put(("notes",), "n", {"note": text(), "password": VALUE})
        answer = interrupt({"question": text(), "token": VALUE})
        return Command(goto="end", update={"messages": [("ai", f"{answer}"), ("ai", f"{store.get(('notes',), 'n')}")]})

    def end(state: State) -> Any:
        raise LookupError(f"token={VALUE} {state['credentials']}")

    graph = StateGraph(State)
    graph.add_node("keep", keep, destinations=("end",))
    graph.add_node("end", end)
    graph.add_edge(START, "keep")
    compiled = graph.compile(name="team", checkpointer=InMemorySaver(), store=InMemoryStore())
    config: Any = {"configurable": {"thread_id": "t1", "openai_api_key": VALUE}}
    compiled.invoke({"messages": [("user", text())], "credentials": {"user": "bob", "pass": VALUE}}, config)
    compiled.invoke(Command(resume=text()), config)


@pytest.mark.parametrize("program", [use_tools, carry_in_state])
def test_no_secret_leaves_a_langgraph_program(program: Any) -> None:
    """In messages, states, tools' arguments and results, errors, interrupts, stores, tags and metadata it is masked."""
    spans = exported("langgraph", program)

    assert len(spans) > 3
    assert pieces_in(spans) == []
    assert any("[masked]" in span for span in spans)
