"""No span of any dialect, whatever its values, breaks what reads it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blamespan.dialects import in_our_words, translation
from blamespan.rebuilding.rebuild import rebuild_run
from blamespan.rebuilding.runs import split_runs
from blamespan.spans import Span, SpanLink
from blamespan.trace import MessageActionTrace
from tests.integrations.dialects.recordings import NAMES, traces_of
from tests.sdk.builders import span as a_span

DEEP = "[" * 50_000
DEEP_MESSAGES = '{"messages":' * 400 + "[]" + "}" * 400
HOSTILE: list[Any] = [
    "",
    "not json",
    '{"messages": [{"type": "ai", "content":',
    DEEP,
    DEEP_MESSAGES,
    "x" * 1_000_000,
    json.dumps({"messages": [{"type": "ai", "content": "y" * 1_000_000}]}),
    '{"messages": [{"role": 7, "content": {"a": 1}, "tool_calls": [1, {"name": 2}, {"function": "f"}]}]}',
    '{"messages": {"messages": {"messages": 3}}}',
    '[null, true, 1e999, "\\ud800", {"parts": 5}, {"parts": [5]}]',
    "source='user' " * 5_000,
    "content='" + "' name=" * 5_000,
    "(" * 10_000,
    '"just text"',
    "NaN",
    "\x00\x1b[31m",
    None,
    True,
    -1,
    2**63,
    float("nan"),
    b"\xff\x00",
    (),
    (1, ("a", ())),
    {"messages": ({"type": "constructor", "kwargs": {"type": "ai", "content": 3}},)},
    {"a": {"b": {"c": ()}}},
]


@cache
def recorded(name: str) -> tuple[tuple[Span, ...], ...]:
    return tuple(tuple(spans) for spans in traces_of(name))


@pytest.fixture(autouse=True)
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is caught so that it costs no trace is an error here."""

    def fail(message: str, *arguments: object) -> None:
        raise AssertionError(message % arguments)

    monkeypatch.setattr(translation._logger, "exception", fail)


def read(spans: list[Span]) -> list[MessageActionTrace]:
    return [rebuild_run(run) for run in split_runs(spans)]


class Mutated(list[Span]):
    """Changed spans; shown by what was changed, as whole traces are too long to show."""

    def __init__(self, spans: Iterable[Span], what: Sequence[str]) -> None:
        super().__init__(spans)
        self._what = what

    def __repr__(self) -> str:
        return f"Mutated({', '.join(self._what)})"


@st.composite
def mutated(draw: st.DrawFn) -> Mutated:
    """A recorded trace with some of its spans changed, in any order."""
    name = draw(st.sampled_from(NAMES))
    spans = list(draw(st.sampled_from(recorded(name))))
    what = [name]
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(spans) - 1))
        change = draw(st.sampled_from([_value, _attribute, _parent, _time, _link, _name]))
        what.append(f"{change.__name__} of {at}")
        spans[at] = change(draw, spans, spans[at])
    if draw(st.booleans()) and len(spans) > 1:
        del spans[draw(st.integers(0, len(spans) - 1))]
    return Mutated(draw(st.permutations(spans)) if draw(st.booleans()) else spans, what)


def _value(draw: st.DrawFn, spans: list[Span], span: Span) -> Span:
    if not span.attributes:
        return span
    key = draw(st.sampled_from(sorted(span.attributes)))
    return span.with_attributes({key: draw(st.sampled_from(HOSTILE))})


def _attribute(draw: st.DrawFn, spans: list[Span], span: Span) -> Span:
    """Give it another span's attribute."""
    other = draw(st.sampled_from(spans))
    if not other.attributes:
        return span
    key = draw(st.sampled_from(sorted(other.attributes)))
    return span.with_attributes({key: other.attributes[key]})


def _parent(draw: st.DrawFn, spans: list[Span], span: Span) -> Span:
    return replace(span, parent_id=draw(st.sampled_from([*(s.span_id for s in spans), f"{7:016x}", None])))


def _time(draw: st.DrawFn, spans: list[Span], span: Span) -> Span:
    times = st.sampled_from([0, 1, span.start_ns, span.end_ns, 2**63 - 1])
    return replace(span, start_ns=draw(times), end_ns=draw(times))


def _link(draw: st.DrawFn, spans: list[Span], span: Span) -> Span:
    return replace(span, links=(*span.links, SpanLink(span.trace_id, draw(st.sampled_from(spans)).span_id)))


def _name(draw: st.DrawFn, spans: list[Span], span: Span) -> Span:
    return replace(
        span, name=draw(st.sampled_from(["", "invoke_agent ", "executor.process", draw(st.sampled_from(spans)).name]))
    )


@given(mutated())
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
def test_mutated_recordings_are_read(spans: Mutated) -> None:
    """A recording with hostile values, circles, lost spans and broken clocks gives runs, or none, but no error."""
    told = read(spans)

    ids = {span.span_id for span in spans}
    assert all(step.span_id in ids and step.content.encode() is not None for trace in told for step in trace.steps)


@pytest.mark.parametrize("name", [name for name in NAMES if "." in name and len(name) < 32])
def test_every_attribute_may_hold_anything(name: str) -> None:
    """A value in each attribute of each span of a dialect that is not what it should be costs that value at most."""
    for value in HOSTILE:
        read([replace(span, attributes=dict.fromkeys(span.attributes, value)) for span in recorded(name)[-1]])


@given(mutated())
@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
def test_reading_changes_no_span(spans: Mutated) -> None:
    """What spans mean is told beside them: runs hold the given objects."""
    before = {id(span) for span in spans}

    assert all(id(span) in before for run in split_runs(spans) for span in run.spans)
    assert [span.span_id for span in in_our_words(spans)] == [span.span_id for span in spans]


def test_clock_that_runs_backwards_keeps_an_answer_behind_its_call() -> None:
    """A tool's span that ends before it begins is still a call and then its answer."""
    tool = {"openinference.span.kind": "TOOL", "tool.name": "t", "output.value": "hi"}

    [told] = read([a_span(1, "t", at_s=5, end_ns=0, attributes=tool)])

    assert [(step.kind, step.inputs) for step in told.steps] == [("tool_call", ()), ("tool_result", (0,))]


@pytest.mark.parametrize("shape", ["deep", "wide", "circle", "at once"])
def test_large_traces_are_read_in_linear_time(shape: str) -> None:
    """Thousands of spans below, beside or after each other take seconds at most, whatever their shape."""
    many = 3_000
    agent = {"openinference.span.kind": "AGENT", "agent.name": "a", "output.value": "hi"}
    tool = {"openinference.span.kind": "TOOL", "tool.name": "t", "output.value": "hi"}
    spans = []
    for number in range(1, many + 1):
        parent = {"deep": number - 1 or None, "wide": 1 if number > 1 else None, "circle": number % many + 1}.get(shape)
        at_s = 0 if shape == "at once" else number
        spans.append(a_span(number, "x", parent=parent, at_s=at_s, attributes=agent if number % 2 else tool))
    began = time.perf_counter()

    [told] = read(spans)

    assert told.steps
    assert time.perf_counter() - began < 10
