"""Whatever a program hands around, recording neither raises nor runs on, and says what it could not keep."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from blamespan import conventions as words
from blamespan.genai_messages import Message, load_messages
from blamespan.instrumenting.settings import ContentSettings
from blamespan.spans import Span
from blamespan.testing import SpanRecorder
from blamespan_integrations.recording import Recorder


class Hostile:
    """Raises whenever anybody looks."""

    def __str__(self) -> str:
        raise RuntimeError("secret of __str__")

    __repr__ = __str__


class HostileModel(BaseModel):
    field: str = "x"

    def model_dump(self, **_: Any) -> dict[str, Any]:
        raise RuntimeError("no dump")


class HostileText(str):
    __slots__ = ()

    def __str__(self) -> str:
        raise RuntimeError("no text")


class HostileMapping(Mapping[str, int]):
    def __getitem__(self, key: str) -> int:
        raise RuntimeError("no item")

    def __iter__(self) -> Iterator[str]:
        yield "a"

    def __len__(self) -> int:
        return 1


class Endless(Mapping[str, int]):
    def __getitem__(self, key: str) -> int:
        return 1

    def __iter__(self) -> Iterator[str]:
        place = 0
        while True:
            yield str(place)
            place += 1

    def __len__(self) -> int:
        return 1


def recursive() -> list[Any]:
    found: list[Any] = [1]
    found.append(found)
    return found


def bushy(depth: int = 40) -> list[Any]:
    """Two to the *depth* leaves, in *depth* lists."""
    found: list[Any] = ["leaf"]
    for _ in range(depth):
        found = [found, found]
    return found


def tool_span(arguments: object, result: object = "ok", **content: Any) -> Span:
    spans = SpanRecorder()
    recorder = Recorder("blamespan.test", spans.provider, content=ContentSettings(**content))
    recorder.start_tool("t", arguments=arguments).end(result=result)
    return spans.spans()[0]


@pytest.mark.parametrize(
    ("value", "written", "lost"),
    [
        ({"a": Hostile()}, '{"a": "<Hostile>"}', "Hostile: RuntimeError"),
        ({"a": HostileModel()}, '{"a": {"field": "x"}}', None),
        ({"a": HostileText("text")}, '{"a": "text"}', None),
        ({"a": HostileMapping()}, '{"a": "<HostileMapping>"}', "HostileMapping: RuntimeError"),
        (recursive(), '[1, "<list>"]', "list: it holds itself"),
        ({"a": float("nan"), "b": float("-inf")}, '{"a": "nan", "b": "-inf"}', None),
        ({"a": b"text", "b": bytearray(b"\xff\xfe")}, '{"a": "text", "b": "<2 bytes>"}', "2 bytes that are no text"),
        ({"a": "\ud800"}, '{"a": "?"}', None),
        ({1: 2, None: 3, (4, 5): 6}, '{"1": 2, "None": 3, "[4, 5]": 6}', None),
        ({"a": 1 << 20_000}, '{"a": "<integer of 20001 bits>"}', None),
        ({"a": {3}, "b": (1, 2), "c": object()}, '{"a": [3], "b": [1, 2], "c": "<object>"}', None),
        ({"a": ValueError}, '{"a": "<ValueError>"}', None),
    ],
)
def test_objects_become_json(value: object, written: str, lost: str | None) -> None:
    """What JSON cannot hold is shown as far as it goes; what could not be read is named."""
    span = tool_span(value)

    assert span.attributes[words.TOOL_ARGUMENTS] == written
    assert span.attributes.get(words.LOST) == ((f"{words.TOOL_ARGUMENTS}: {lost}",) if lost else None)


@pytest.mark.parametrize("make", [bushy, Endless, lambda: {str(n): "x" * 100 for n in range(300_000)}])
def test_endless_structures_are_cut_in_time(make: Any) -> None:
    """A structure without an end, or with a million leaves, costs what the limit costs, and is still JSON."""
    value = make()
    start_s = time.process_time()
    span = tool_span(value)

    assert time.process_time() - start_s < 2
    assert len(str(span.attributes[words.TOOL_ARGUMENTS]).encode()) <= words.DEFAULT_MAX_CONTENT_BYTES
    assert json.loads(str(span.attributes[words.TOOL_ARGUMENTS]))
    assert span.attributes[words.TRUNCATED] == (words.TOOL_ARGUMENTS,)


@pytest.mark.parametrize("text", ["x" * 10_000_000, "\ud800" * 3_000_000, "a@" * 5_000_000, '{"password": "' * 700_000])
def test_ten_megabytes_take_no_time(text: str) -> None:
    """However long and hostile a text is: the limit bounds what recording it costs."""
    spans = SpanRecorder()
    recorder = Recorder("blamespan.test", spans.provider)
    start_s = time.process_time()
    agent = recorder.start_agent("a", received=[Message.of_text("user", text)] * 3, description=text)
    recorder.start_tool("t", arguments=text, parent=agent.context).end(result={"page": text})
    agent.end(output=[Message.of_text("assistant", text)], error=RuntimeError(text))

    assert time.process_time() - start_s < 5
    assert all(len(str(value).encode()) <= 40_000 for span in spans.spans() for value in span.attributes.values())
    assert all(span.attributes[words.TRUNCATED] for span in spans.spans())


def test_many_messages_take_no_time() -> None:
    """A hundred thousand messages cost what the few of them cost that are kept."""
    spans = SpanRecorder()
    messages = [Message.of_text("user", f"{place} {'x' * 90}") for place in range(100_000)]
    start_s = time.process_time()
    Recorder("blamespan.test", spans.provider).start_agent("a", received=messages).end()

    assert time.process_time() - start_s < 2
    kept = load_messages(spans.spans()[0].attributes[words.INPUT_MESSAGES]) or ()
    assert kept[-1].parts[0]["content"].startswith("99999")


def test_names_of_any_kind_are_written() -> None:
    """No name, a name that is no text and a name of megabytes make spans that can be told apart and stored."""
    spans = SpanRecorder()
    recorder = Recorder("blamespan.test", spans.provider)
    for name in ("", None, Hostile(), "x" * 1_000_000, "\ud800"):
        recorder.start_agent(name).end()  # type: ignore[arg-type]  # what a program does all the same

    names = [str(span.attributes[words.AGENT_NAME]) for span in spans.spans()]

    assert names == ["", "None", "<Hostile>", "x" * 512, "?"]


def test_exception_that_cannot_be_read_is_named() -> None:
    """An exception whose message raises is an error all the same."""
    spans = SpanRecorder()
    Recorder("blamespan.test", spans.provider).start_run("r").end(error=type("Bad", (Hostile, Exception), {})())
    [span] = spans.spans()

    assert (span.status, span.status_message, span.attributes[words.ERROR_TYPE]) == ("error", "Bad", "Bad")
    assert span.attributes[words.LOST] == ("Bad: RuntimeError",)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.builds(Hostile),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4) | st.integers(), inner, max_size=4),
    max_leaves=30,
)


@given(value=anything, limit=st.integers(64, 400))
@settings(max_examples=200, deadline=None)
def test_any_value_is_recorded_within_the_limit(value: object, limit: int) -> None:
    """Arguments, results and messages of any shape fit, and all but plain texts are JSON."""
    span = tool_span(value, result=value, max_bytes=limit)

    for key in (words.TOOL_ARGUMENTS, words.TOOL_RESULT):
        text = str(span.attributes.get(key, ""))
        assert len(text.encode()) <= limit
        if isinstance(value, list | dict):
            json.loads(text)
