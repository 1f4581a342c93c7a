"""Whatever a program puts into a graph, and whatever happens to where spans go: the program's result is its own."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from blamespan import conventions as words
from blamespan import rebuild
from blamespan.testing import SpanRecorder
from blamespan_integrations.langgraph._wrap import _hook
from tests.integrations.langgraph_programs import chain, named, says

ASK: Any = {"messages": [("user", "1 + 2?")]}


class Hostile:
    """Cannot be shown, compared, counted or told true from false."""

    def __str__(self) -> str:
        raise ValueError("no")

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        raise ValueError("no")

    def __bool__(self) -> bool:
        raise ValueError("no")

    __hash__ = None  # type: ignore[assignment]


def a_loop() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


VALUES: dict[str, Any] = {
    "an object that cannot be shown": Hostile(),
    "a list that holds itself": a_loop(),
    "bytes that are no text": b"\xff\xfe\x00",
    "a lone surrogate": "\ud800",
    "an integer of thousands of digits": 10**6_000,
    "not a number": float("nan"),
    "a lock": threading.Lock(),
    "a function": len,
    "an exception": ValueError("no"),
    "a set": {1, 2},
    "keys that are no text": {1: "one", (2, 3): "two", None: "none"},
    "a key that cannot be shown": {("x", 1): Hostile()},
    "a pair that looks like a message": ([], "user"),
    "a dict that looks like a message": {"role": [], "content": "x"},
    "a message with odd contents": AIMessage([{"type": "image", "base64": "x", "mime_type": "image/png"}, "\ud800"]),
    "10 MB": "x" * 10_000_000,
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_any_value_passes_through_unchanged(recorder: SpanRecorder, value: Any) -> None:
    """A state may hold anything: nodes are given, and the program gets, the very objects; each node has its span."""
    seen: list[Any] = []

    def look(state: Any) -> dict[str, list[Any]]:
        seen.extend(state["words"])
        return {"words": [value]}

    result = chain(("one", says(value)), ("two", look), name="g").invoke({"words": [value]})  # type: ignore[arg-type]

    assert [one is value for one in [*seen, *result["words"]]] == [True] * 5
    assert [len(named(recorder, name)) for name in ("invoke_workflow g", "invoke_agent one", "invoke_agent two")] == [
        1,
        1,
        1,
    ]
    assert all(len(str(one)) < 40_000 for span in recorder.spans() for one in span.attributes.values())


def test_tool_that_returns_an_exception_has_failed(recorder: SpanRecorder) -> None:
    """An exception given back instead of raised is the tool's error, and the program gets that object."""

    @tool
    def careful() -> Any:
        """Be careful."""
        return error

    error = KeyError("nothing there")
    given: list[Any] = []
    chain(("one", lambda _: given.append(careful.invoke({})) or {"words": ["done"]}), name="g").invoke({"words": []})

    [span] = named(recorder, "execute_tool careful")
    assert given[0] is error
    assert (span.status, span.attributes[words.ERROR_TYPE]) == ("error", "KeyError")


def test_many_threads_are_not_remembered(recorder: SpanRecorder) -> None:
    """A run on a thread that is interrupted and never resumed leaves nothing behind."""
    from langgraph.types import interrupt

    graph = chain(("asker", lambda _: {"words": [interrupt("?")]}), name="g", checkpointer=InMemorySaver())
    for number in range(50):
        graph.invoke({"words": []}, {"configurable": {"thread_id": str(number)}})

    handler = _hook.handler
    assert handler is not None
    kept = {name: value for name, value in vars(handler.graphs).items() if hasattr(value, "__len__")}
    assert {name: len(value) for name, value in kept.items()} == dict.fromkeys(kept, 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_forked_process_records_its_own_runs_only(recorder: SpanRecorder) -> None:
    """A child forked in the middle of a run, while another thread holds our lock, is not stuck and not confused."""
    handler = _hook.handler
    assert handler is not None
    found: list[int] = []

    def fork(_: Any) -> dict[str, list[str]]:
        assert handler is not None
        with handler.graphs._lock:
            child = os.fork()
        if child == 0:
            recorder.clear()
            chain(("inner", says("in the child")), name="inner").invoke({"words": []})
            os._exit(len(rebuild(recorder.spans()).steps))
        found.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        return {"words": ["in the parent"]}

    chain(("forker", fork), name="g").invoke({"words": []})

    assert found == [1]
    assert [step.agent for step in rebuild(recorder.spans()).steps] == ["forker"]
