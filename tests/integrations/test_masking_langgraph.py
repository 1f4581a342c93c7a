"""What a LangGraph program says leaves the process only as it was allowed to."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, Send, interrupt
from opentelemetry.instrumentation.utils import suppress_instrumentation

from blamespan.testing import SpanRecorder
from blamespan_integrations.langgraph import LangGraphInstrumentor
from tests.integrations.langgraph_programs import asks_for, calculator, chain, says

CANARY = "canary-7f3a"


@tool
def look(page: str) -> str:
    """Find canary-7f3a."""
    raise LookupError(f"no {page}")


@tool
def read(page: str) -> dict[str, str]:
    """Read canary-7f3a."""
    return {"canary-7f3a": page}


def use_tools() -> None:
    message = AIMessage(CANARY, tool_calls=[*asks_for("look", "1", page=CANARY).tool_calls])
    graph = calculator(message, asks_for("read", "2", page=CANARY), CANARY, tools=[look, read], handle_tool_errors=True)
    graph.invoke({"messages": [("system", CANARY), HumanMessage(CANARY)]})


def fail() -> None:
    def broken(_: Any) -> Any:
        raise ValueError("canary-7f3a")

    chain(("one", says(CANARY)), ("two", broken)).invoke({"words": [CANARY]})


def ask_and_go_on() -> None:
    graph = chain(("asker", lambda _: {"words": [interrupt({"question": CANARY})]}), checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t1"}}
    graph.invoke({"words": [CANARY]}, config)
    graph.invoke(Command(resume=CANARY), config)


def fan_out() -> None:
    graph = StateGraph(MessagesState)
    graph.add_node(
        "boss", lambda _: Command(goto=[Send("worker", {"x": CANARY})], update={"messages": [("ai", CANARY)]})
    )
    graph.add_node("worker", lambda given: {"messages": [("ai", f"{given}")]})
    graph.add_edge(START, "boss")
    graph.compile(name="team").invoke(
        {"messages": [("user", CANARY)]}, {"metadata": {"note": CANARY}, "tags": [CANARY]}
    )


PROGRAMS = [use_tools, fail, ask_and_go_on, fan_out]


def exported(program: Any, **content: Any) -> list[str]:
    recorder = SpanRecorder()
    LangGraphInstrumentor().instrument(tracer_provider=recorder.provider, **content)
    try:
        program()
    except ValueError:
        assert program is fail
    finally:
        LangGraphInstrumentor().uninstrument()
    return [span.to_json() for span in recorder.finished()]


@pytest.mark.parametrize("program", PROGRAMS)
def test_no_content_leaves_a_langgraph_program(program: Any) -> None:
    """A word in state, messages, arguments, results, errors, interrupts, packets, tags and metadata is in no span."""
    spans = exported(program, capture_content=False)

    assert len(spans) > 1
    assert [text for text in spans if CANARY in text] == []


@pytest.mark.parametrize("program", PROGRAMS)
def test_own_mask_sees_all_a_langgraph_program_says(program: Any) -> None:
    """What the program's own function takes out is in no span either, and without it the word is."""
    masked = exported(program, mask=lambda text: text.replace(CANARY, "*"))

    assert [text for text in masked if CANARY in text] == []
    assert any(CANARY in text for text in exported(program))


def test_suppressed_graph_is_not_recorded() -> None:
    """Within `suppress_instrumentation()` a graph works and leaves no span."""
    recorder = SpanRecorder()
    LangGraphInstrumentor().instrument(tracer_provider=recorder.provider)
    try:
        with suppress_instrumentation():
            use_tools()
    finally:
        LangGraphInstrumentor().uninstrument()

    assert recorder.spans() == []


@pytest.mark.parametrize(
    "written",
    [
        {"password": "zebra-41x\nyak-77q"},
        {"password": ["zebra-41x", "yak-77q"]},
        {"login": {"password": "zebra-41x", "user": "ann"}},
        {"logins": [{"client_secret": "zebra-41x"}, {"api_key": "yak-77q"}]},
    ],
)
def test_secret_of_a_state_is_masked_by_its_key(written: dict[str, Any]) -> None:
    """What its key says is secret is masked before a state becomes text, however it is nested and written."""
    recorder = SpanRecorder()
    LangGraphInstrumentor().instrument(tracer_provider=recorder.provider)
    try:
        graph = StateGraph(dict)
        graph.add_node("clerk", lambda _: {"note": "kept", **written})
        graph.add_edge(START, "clerk")
        graph.compile().invoke({"task": "Log in.", **written})
    finally:
        LangGraphInstrumentor().uninstrument()

    said = " ".join(str(value) for span in recorder.spans() for value in span.attributes.values())
    assert not any(secret in said for secret in ("zebra", "yak"))
    assert all(text in said for text in ("note: kept", "Log in."))
