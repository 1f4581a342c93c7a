"""What stands in a graph's state: copied at every node, odd, or far too large; and what of it is lost says so."""

from __future__ import annotations

import operator
import time
from collections.abc import Iterator
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import BaseModel

from blamespan import conventions as words
from blamespan.testing import SpanRecorder
from blamespan_integrations.langgraph import LangGraphInstrumentor
from blamespan_integrations.langgraph._convert import task_of
from blamespan_integrations.langgraph._memory import SeenList, are_same
from blamespan_integrations.recording import Recorder
from tests.integrations.langgraph_programs import Words, named, says, steps


class Copied(BaseModel):
    """A state of which LangGraph makes every node a copy."""

    docs: list[dict[str, Any]] = []
    plan: dict[str, Any] = {}
    notes: Annotated[list[dict[str, Any]], operator.add] = []
    count: int = 0


class Kept(TypedDict, total=False):
    """The same as a dict, whose values stay the same objects."""

    docs: list[dict[str, Any]]
    plan: dict[str, Any]
    notes: Annotated[list[dict[str, Any]], operator.add]
    count: int


def size_of_a_loop(recorder: SpanRecorder, state: Any) -> int:
    """Let two nodes take turns 20 times over a state that holds 22 KB, and add up what the spans hold."""

    def count_of(state: Any) -> int:
        return int(state["count"] if isinstance(state, dict) else state.count)

    def work(state: Any) -> Any:
        return {"count": count_of(state) + 1, "notes": [{"number": count_of(state), "text": "n" * 300}]}

    graph = StateGraph(state)
    graph.add_node("worker", work)
    graph.add_node("checker", work)
    graph.add_edge(START, "worker")
    graph.add_edge("worker", "checker")
    graph.add_conditional_edges("checker", lambda state: "worker" if count_of(state) < 40 else END)
    docs = [{"text": "d" * 500, "id": number} for number in range(40)]
    given: Any = {"docs": docs, "plan": {"steps": ["p" * 1_000]}, "notes": [], "count": 0}
    graph.compile(name="g").invoke(given, {"recursion_limit": 100})
    assert steps(recorder)[1][2] != steps(recorder)[2][2]
    return sum(len(str(value)) for span in recorder.spans() for value in span.attributes.values())


def test_copied_state_is_not_recorded_again(recorder: SpanRecorder) -> None:
    """A pydantic state takes as much room as the same state as a dict: values count, not which object holds them."""
    kept = size_of_a_loop(recorder, Kept)
    recorder.clear()

    copied = size_of_a_loop(recorder, Copied)

    assert 0.95 < copied / kept < 1.05
    assert copied < 150_000


def test_change_within_a_copied_state_is_recorded(recorder: SpanRecorder) -> None:
    """What does change in a copied state reaches the next node that has seen it before."""

    def plan(state: Copied) -> dict[str, Any]:
        return {"plan": {"steps": [*state.plan.get("steps", []), f"step {len(state.plan)}"]}}

    graph = StateGraph(Copied)
    graph.add_node("reader", lambda state: {"count": state.count + 1})
    graph.add_node("planner", plan)
    graph.add_edge(START, "reader")
    graph.add_edge("reader", "planner")
    graph.add_conditional_edges("planner", lambda state: "reader" if state.count < 2 else END)
    graph.compile(name="g").invoke({"plan": {"steps": ["begin"]}})

    _, second = named(recorder, "invoke_agent reader")
    assert "step 1" in str(second.attributes[words.INPUT_MESSAGES])


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"a": [1, {"b": "c"}]}, {"a": [1, {"b": "c"}]}, True),
        ({"a": [1, {"b": "c"}]}, {"a": [1, {"b": "d"}]}, False),
        ([1, 2], [1, 2, 3], False),
        ([1], (1,), False),
        (True, 1, False),
        (Copied(count=1), Copied(count=1), True),
        (Copied(count=1), Copied(count=2), False),
        (AIMessage("a", id="1"), AIMessage("a", id="1"), True),
        (AIMessage("a", id="1"), AIMessage("b", id="1"), False),
        (object(), object(), False),
    ],
)
def test_values_are_the_same_that_say_the_same(one: Any, other: Any, same: bool) -> None:
    """Containers, models and messages are compared by what they hold; other objects are never asked."""
    assert are_same(one, other) is same


def test_comparing_takes_no_longer_than_the_start_of_a_value_does() -> None:
    """A million numbers, copied at every step, cost milliseconds a step."""
    known = SeenList()
    known.fresh([float(number) for number in range(1_000_000)], hash, 1_024)
    copies = [[float(number) for number in range(1_000_000)] for _ in range(3)]
    start_s = time.process_time()

    found = [known.fresh(copy, hash, 1_024) for copy in copies]

    assert time.process_time() - start_s < 0.5
    assert [len(each) for each in found] == [0, 0, 0]


class Silent:
    """Cannot be shown."""

    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


class Broken(list[Any]):
    """Cannot be read."""

    def __len__(self) -> int:
        raise RuntimeError("no")

    def __iter__(self) -> Iterator[Any]:
        raise RuntimeError("no")


def nested(levels: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(levels):
        found = [found]
    return found


def a_loop() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


LOST: dict[str, tuple[Any, str]] = {
    "cannot be shown": (Silent(), "Silent: RuntimeError"),
    "cannot be read": (Broken([1]), "Broken: RuntimeError"),
    "too many digits": (10**6_000, "integer of 19932 bits"),
    "no text": (b"\xff\xfe", "2 bytes that are no text"),
    "too deep": (nested(30), "list: nested deeper than 20"),
    "holds itself": (a_loop(), "list: it holds itself"),
}


class Anything(TypedDict, total=False):
    """A state that may hold anything."""

    value: Any
    other: str


@pytest.mark.parametrize(("value", "lost"), LOST.values(), ids=LOST)
def test_what_is_lost_of_a_state_is_said(recorder: SpanRecorder, value: Any, lost: str) -> None:
    """Whoever has it on its span says what could not be written and why, and the rest of the state is there."""
    graph = StateGraph(Anything)
    graph.add_node("writer", lambda _: {"value": value, "other": "kept"})
    graph.add_node("reader", lambda _: {"other": "read"})
    graph.add_edge(START, "writer")
    graph.add_edge("writer", "reader")

    result = graph.compile(name="g").invoke({"other": "given"})

    assert result["value"] is value
    found = {span.name: set(span.attributes[words.LOST]) for span in recorder.spans() if words.LOST in span.attributes}  # type: ignore[arg-type]
    assert found == {
        "invoke_workflow g": {f"{words.OUTPUT_MESSAGES}: {lost}"},
        "invoke_agent writer": {f"{words.OUTPUT_MESSAGES}: {lost}"},
        "invoke_agent reader": {f"{words.INPUT_MESSAGES}: {lost}"},
    }
    assert "other: kept" in steps(recorder)[0][2]


class Odd(Exception):
    """Cannot be asked where it passed."""

    def __getattribute__(self, name: str) -> Any:
        if name in ("__traceback__", "__cause__", "__context__"):
            raise RuntimeError(name)
        return super().__getattribute__(name)


def test_exception_that_cannot_be_read_ends_its_span() -> None:
    """A span whose exception raises when it is asked for anything ends all the same, and says what is lost."""
    recorder = SpanRecorder()
    Recorder("test", recorder.provider).start_run("g").end(error=Odd("no"))

    [span] = recorder.spans()
    assert (span.status, span.attributes[words.ERROR_TYPE]) == ("error", "Odd")
    assert span.attributes[words.LOST] == ("exception.stacktrace: RuntimeError",)


def test_links_over_the_limit_are_said_to_be_lost() -> None:
    """A join of more branches than a span can have links builds on the last ones, and says how many are missing."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(span_limits=SpanLimits(max_links=5), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    LangGraphInstrumentor().instrument(tracer_provider=provider)
    try:
        graph = StateGraph(Words)
        graph.add_node("worker", says("done"))
        graph.add_node("joiner", says("joined"))
        graph.add_conditional_edges(START, lambda _: [Send("worker", {}) for _ in range(8)], ["worker"])
        graph.add_edge("worker", "joiner")
        graph.compile(name="g").invoke({"words": []})
    finally:
        LangGraphInstrumentor().uninstrument()

    [joiner] = [span for span in exporter.get_finished_spans() if span.name == "invoke_agent joiner"]
    assert joiner.attributes is not None
    assert len(joiner.links) == 5
    assert joiner.attributes[words.LOST] == ("links: 3 over the limit of 5",)


def test_resuming_by_interrupt_ids_asks_what_was_answered() -> None:
    """The ids by which answers are given are no part of what the run is asked."""
    tasks = [task_of(Command(resume=given)) for given in ({"ab" * 16: "yes"}, {"ab" * 16: "yes", "cd" * 16: "no"})]

    assert [message.parts[0]["content"] for [message] in tasks] == ["yes", "- yes\n- no"]
