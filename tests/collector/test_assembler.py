"""The assembler loses no span, gives none twice, and knows when a trace is complete."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blamespan import conventions
from blamespan.errors import ConfigError
from blamespan.spans import Span
from blamespan_collector.assembling.assembler import Assembler
from blamespan_collector.assembling.parts import Arrival, RecentTraces, TracePart
from blamespan_collector.journal.entries import PARENT_IS_REMOTE, REMOTE_IS_KNOWN, RUN_COMPLETE, STEP, SpanKey
from blamespan_collector.settings import Limits

LIMITS = Limits(quiet_s=1, idle_s=30, max_age_s=100, max_traces=100, max_bytes=100_000)


def span(
    name: str, *, trace: int = 1, parent: str | None = None, is_run: bool = False, operation: str | None = None
) -> Span:
    attributes = {conventions.RUN_COMPLETE: True} if is_run else {}
    if operation:
        attributes = {**attributes, conventions.OPERATION: operation}
    return Span(f"{trace:032x}", _id(name), _id(parent) if parent else None, name, attributes=attributes)


def _id(name: str) -> str:
    return name.encode().hex().rjust(16, "0")


def key(one: Span, remote: bool | None = None) -> SpanKey:
    flags = RUN_COMPLETE * (one.attributes.get(conventions.RUN_COMPLETE) is True)
    flags += STEP * (conventions.OPERATION in one.attributes)
    flags += 0 if remote is None else REMOTE_IS_KNOWN + PARENT_IS_REMOTE * remote
    return SpanKey(bytes.fromhex(one.span_id), bytes.fromhex(one.parent_id or "0" * 16), flags)


def ident(name: str) -> bytes:
    return bytes.fromhex(_id(name))


def start(assembler: Assembler[Span], one: Span, now_s: float) -> list[TracePart[Span]]:
    parent = bytes.fromhex(one.parent_id) if one.parent_id else None
    return assembler.start(bytes.fromhex(one.trace_id), bytes.fromhex(one.span_id), parent, now_s)


def arrival(one: Span, *, remote: bool | None = None, size_bytes: int = 10) -> Arrival[Span]:
    return Arrival(bytes.fromhex(one.trace_id), [key(one, remote)], one, size_bytes)


def made(limits: Limits = LIMITS, *, sees_starts: bool = False, follows: bool = False) -> Assembler[Span]:
    return Assembler(limits, RecentTraces(), sees_starts=sees_starts, follows=follows)


def trace_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


def told(parts: list[TracePart[Span]]) -> list[tuple[str, list[str]]]:
    return [(part.reason, [one.name for one in part.items]) for part in parts]


def test_trace_is_complete_when_its_root_ended_and_it_was_quiet() -> None:
    """A root, its children, and a second of silence make a complete trace."""
    assembler = made()
    assembler.add([arrival(span("child", parent="root"))], 0)
    assembler.add([arrival(span("root"))], 5)

    assert told(assembler.due(5.9)) == []
    assert told(assembler.due(6)) == [("complete", ["child", "root"])]
    assert assembler.next_due_s() is None


def test_new_span_starts_the_quiet_time_again() -> None:
    """While spans come, the trace is not complete."""
    assembler = made()
    assembler.add([arrival(span("root"))], 0)
    assembler.add([arrival(span("child", parent="root"))], 0.9)

    assert told(assembler.due(1.5)) == []
    assert told(assembler.due(1.9)) == [("complete", ["root", "child"])]


def test_trace_with_an_open_child_waits_for_it() -> None:
    """A span that others name as their parent has not ended: the trace is not complete without it."""
    assembler = made()
    assembler.add([arrival(span("root")), arrival(span("leaf", parent="child"))], 0)

    assert told(assembler.due(20)) == []
    assembler.add([arrival(span("child", parent="root"))], 20)
    assert told(assembler.due(21)) == [("complete", ["root", "leaf", "child"])]


def test_silent_trace_is_let_go_without_its_root() -> None:
    """A program that was killed never ends its root: its spans come out after the idle time."""
    assembler = made()
    assembler.add([arrival(span("leaf", parent="root"))], 0)

    assert told(assembler.due(29.9)) == []
    assert told(assembler.due(30)) == [("idle", ["leaf"])]


def test_old_trace_is_let_go_though_spans_still_come() -> None:
    """No trace is held longer than the maximum age."""
    assembler = made()
    for second in range(100):
        assembler.add([arrival(span(f"{second}", parent="root"))], second)
        assert told(assembler.due(second)) == []

    assert [part.reason for part in assembler.due(100)] == ["aged"]


@pytest.mark.parametrize("remote", [True, None])
def test_run_under_a_caller_elsewhere_is_complete(remote: bool | None) -> None:
    """A run that ended in order need not wait for a parent in another process."""
    assembler = made()
    assembler.add([arrival(span("step", parent="run"), remote=False)], 0)
    assembler.add([arrival(span("run", parent="caller", is_run=True), remote=remote)], 0)

    assert told(assembler.due(1)) == [("complete", ["step", "run"])]


def test_run_under_a_local_span_waits_for_it() -> None:
    """A parent in the same process will come: more runs may follow below it."""
    assembler = made()
    assembler.add([arrival(span("run", parent="server", is_run=True), remote=False)], 0)

    assert told(assembler.due(20)) == []
    assembler.add([arrival(span("server", parent="caller"), remote=True)], 20)
    assert told(assembler.due(21)) == [("complete", ["run", "server"])]


def test_step_under_a_run_elsewhere_is_no_complete_trace() -> None:
    """A worker's step ends long before the run that it belongs to."""
    assembler = made()
    assembler.add([arrival(span("step", parent="run"), remote=True)], 0)

    assert told(assembler.due(29)) == []
    assert told(assembler.due(30)) == [("idle", ["step"])]


def test_second_run_of_a_caller_elsewhere_is_a_trace_of_its_own() -> None:
    """One remote caller may start run after run under one trace id: each gets its verdict."""
    assembler = made()
    assembler.add([arrival(span("run1", parent="caller", is_run=True), remote=True)], 0)
    assert told(assembler.due(1)) == [("complete", ["run1"])]
    assert told(assembler.add([arrival(span("tardy", parent="run1"))], 2)) == [("late", ["tardy"])]
    assembler.add([arrival(span("step2", parent="run2"), remote=False)], 3)
    assembler.add([arrival(span("run2", parent="caller", is_run=True), remote=True)], 4)

    assert told(assembler.due(5)) == [("complete", ["step2", "run2"])]


def test_late_spans_come_as_a_late_part() -> None:
    """What comes after its trace was let go comes out at once."""
    assembler = made()
    assembler.add([arrival(span("root"))], 0)
    assembler.due(1)

    late = assembler.add([arrival(span("a", parent="root")), arrival(span("b", parent="a"))], 2)

    assert told(late) == [("late", ["a"]), ("late", ["b"])]
    assert not late[0].is_worth_a_verdict


def test_duplicate_span_comes_out_once() -> None:
    """An exporter that sends a batch again adds nothing, before and after the trace is let go."""
    assembler = made()
    for second in range(3):
        assembler.add([arrival(span("root")), arrival(span("child", parent="root"))], second / 10)

    assert told(assembler.due(10)) == [("complete", ["root", "child"])]
    assert assembler.add([arrival(span("child", parent="root"))], 11) == []
    assert assembler.duplicates == 5


def test_oldest_trace_makes_room_by_count() -> None:
    """Past the number of traces the oldest comes out without a verdict; none is dropped."""
    assembler = made(replace(LIMITS, max_traces=2))
    for trace in (1, 2):
        assembler.add([arrival(span("x", trace=trace, parent="root"))], trace)

    released = assembler.add([arrival(span("x", trace=3, parent="root"))], 3)

    assert [(part.trace_id, part.reason) for part in released] == [(trace_id(1), "overflow")]
    assert not released[0].is_worth_a_verdict


def test_oldest_trace_makes_room_by_bytes() -> None:
    """Past the number of bytes the oldest traces come out, as many as it takes."""
    assembler = made(replace(LIMITS, max_bytes=100))
    for trace in (1, 2):
        assembler.add([arrival(span("x", trace=trace, parent="root"), size_bytes=40)], trace)

    released = assembler.add([arrival(span("x", trace=3, parent="root"), size_bytes=90)], 3)

    assert [part.trace_id for part in released] == [trace_id(1), trace_id(2)]
    assert assembler.held_bytes == 90


def test_trace_larger_than_all_room_still_comes_out() -> None:
    """One trace beyond every limit is let go, and what follows of it is late."""
    assembler = made(replace(LIMITS, max_bytes=100))

    assert told(assembler.add([arrival(span("x", parent="root"), size_bytes=101)], 0)) == [("overflow", ["x"])]
    assert told(assembler.add([arrival(span("root"))], 0)) == [("late", ["root"])]


def test_cycle_is_let_go_after_silence() -> None:
    """Spans that are each other's parents have no root; they do not stay for ever."""
    assembler = made()
    assembler.add([arrival(span("a", parent="b")), arrival(span("b", parent="a")), arrival(span("c", parent="c"))], 0)

    assert told(assembler.due(30)) == [("idle", ["a", "b", "c"])]


def test_flush_lets_everything_go() -> None:
    """At the end what is complete but for the silence counts as complete, the rest as far as it came."""
    assembler = made()
    assembler.add([arrival(span("root")), arrival(span("leaf", trace=2, parent="root"))], 0)

    assert told(assembler.flush()) == [("complete", ["root"]), ("flush", ["leaf"])]
    assert (assembler.held_traces, assembler.held_bytes, assembler.next_due_s()) == (0, 0, None)


def test_open_span_is_waited_for_where_starts_are_seen() -> None:
    """In process no silence is too long while a span is open, and none is needed when all have ended."""
    assembler = made(replace(LIMITS, quiet_s=0), sees_starts=True)
    one = trace_id(1)
    assembler.start(one, ident("root"), None, 0)
    assembler.start(one, ident("child"), ident("root"), 0)
    assembler.add([arrival(span("child", parent="root"))], 1)

    assert told(assembler.due(99)) == []
    assembler.add([arrival(span("root"))], 99)
    assert told(assembler.due(99)) == [("complete", ["child", "root"])]


def test_step_of_a_run_elsewhere_waits_for_silence_where_starts_are_seen() -> None:
    """In a worker's process a step whose run is elsewhere is not a run of its own."""
    assembler = made(replace(LIMITS, quiet_s=0), sees_starts=True)
    step = span("step", parent="run", operation=conventions.OPERATION_AGENT)
    other = span("request", trace=2, parent="caller")
    for one in (step, other):
        start(assembler, one, 0)
        assembler.add([arrival(one)], 1)

    assert told(assembler.due(1)) == [("complete", ["request"])]
    assert told(assembler.due(31)) == [("idle", ["step"])]


def test_verdict_on_an_aged_trace_is_asked_for_when_it_ends() -> None:
    """A run that waits for a person for hours goes on at the maximum age, and gets its verdict at its end."""
    assembler = made(follows=True)
    assembler.add([arrival(span("ask", parent="root"))], 0)
    for second in (25, 50, 75):
        assembler.add([arrival(span(f"{second}", parent="root"))], second)
    aged = assembler.due(100)
    assert told(aged) == [("aged", ["ask", "25", "50", "75"])]
    assert not aged[0].is_worth_a_verdict
    assert told(assembler.add([arrival(span("answer", parent="root"))], 150)) == [("late", ["answer"])]
    assert told(assembler.due(199)) == []
    assert told(assembler.add([arrival(span("root"))], 200)) == [("late", ["root"])]

    assert told(assembler.due(201)) == [("revised", ["ask", "25", "50", "75", "answer", "root"])]
    assert assembler.next_due_s() is None


def test_aged_trace_that_never_ends_gets_its_verdict_after_as_long_again() -> None:
    """A program killed while a person was asked: its trace is judged as far as it came."""
    assembler = made(follows=True)
    for second in range(0, 100, 20):
        assembler.add([arrival(span(f"{second}", parent="root"))], second)
    assembler.due(100)

    assert told(assembler.due(199)) == []
    assert [(part.reason, part.is_complete) for part in assembler.due(200)] == [("revised", False)]


def test_late_spans_ask_for_another_verdict_once_they_pause() -> None:
    """Spans that come after the verdict change it: one new verdict for all of them, on all there is."""
    assembler = made(follows=True)
    assembler.add([arrival(span("root"))], 0)
    assembler.due(1)
    for second in (2.0, 2.5):
        assert told(assembler.add([arrival(span(f"{second}", parent="root"))], second)) == [("late", [f"{second}"])]

    assert told(assembler.due(3)) == []
    revised = assembler.due(3.5)
    assert told(revised) == [("revised", ["2.0", "2.5"])]  # this memory keeps ids alone
    assert revised[0].span_ids == {ident("root"), ident("2.0"), ident("2.5")}


def test_overflowed_trace_gets_its_verdict_when_it_ends() -> None:
    """What had to make room without a verdict is owed one."""
    assembler = made(replace(LIMITS, max_traces=1), follows=True)
    assembler.add([arrival(span("step", parent="root"))], 0)
    assert told(assembler.add([arrival(span("x", trace=2, parent="root"))], 1)) == [("overflow", ["step"])]
    assembler.add([arrival(span("root"))], 2)

    assert told(assembler.due(3)) == [("revised", ["step", "root"])]


def test_part_names_the_spans_it_lets_go_where_some_came_before() -> None:
    """A request that holds spans sent before lets only the others go, and says so."""
    assembler = made()
    root, child = key(span("root")), key(span("child", parent="root"))
    both = Arrival(trace_id(1), [root, child, child], span("root"), 10)
    assembler.add([both], 0)
    parts = assembler.due(1)
    late = assembler.add([Arrival(trace_id(1), [child, key(span("new", parent="root"))], span("new"), 10)], 2)

    assert [(part.is_whole, part.span_ids) for part in (*parts, *late)] == [
        (False, {ident("root"), ident("child")}),
        (False, {ident("new")}),
    ]
    assert assembler.duplicates == 2


def told_of(one: Span, item: Span) -> Arrival[Span]:
    return Arrival(bytes.fromhex(one.trace_id), [key(one)], item, 10)


def test_events_come_out_with_the_spans_they_tell_of() -> None:
    """What tells more of a span is held with its trace, before or after it, and is no span of it."""
    assembler = made()
    root, events = span("root"), span("events")
    assembler.attach(told_of(root, events), 0)
    assembler.add([arrival(root)], 1)
    (part,) = assembler.due(2)

    assert (part.items, part.span_ids, part.reason) == ((events, root), {ident("root")}, "complete")
    assert (assembler.held_bytes, assembler.held_traces) == (0, 0)


def test_events_of_spans_that_never_come_are_forgotten() -> None:
    """Silence lets them go as nothing; where there is no room they go first if they are oldest."""
    assembler = made(replace(LIMITS, max_traces=2))
    for number in range(1, 6):
        assembler.attach(told_of(span("root", trace=number), span("events", trace=number)), number)
    held = assembler.held_traces

    assert held == 2
    assert assembler.due(100) == []
    assert (assembler.held_traces, assembler.held_bytes) == (0, 0)


def test_late_events_let_no_span_go_and_ask_for_another_verdict() -> None:
    """After its trace was let go, what tells more of it comes out alone; then all of it is judged again."""
    assembler = made(follows=True)
    root, events = span("root"), span("events")
    assembler.add([arrival(root)], 0)
    assembler.due(2)
    (late,) = assembler.attach(told_of(root, events), 3)
    (revised,) = assembler.due(5)

    assert (late.reason, late.span_ids, late.items) == ("late", frozenset(), (events,))
    assert (revised.reason, revised.span_ids) == ("revised", {ident("root")})
    assert events in revised.items


def test_events_of_the_next_run_of_a_caller_elsewhere_wait_for_it() -> None:
    """They name spans that nobody has seen: they are no news of the run that was let go."""
    assembler = made(follows=True)
    first, second = (span(name, parent="caller", is_run=True) for name in ("first", "second"))
    assembler.add([arrival(first)], 0)
    assembler.due(2)
    at_once = assembler.attach(told_of(second, span("events")), 3)
    assembler.add([arrival(second)], 4)
    (part,) = assembler.due(6)

    assert at_once == []
    assert (part.reason, part.span_ids, len(part.items)) == ("complete", {ident("second")}, 2)


def test_limits_must_be_positive() -> None:
    """A limit of nothing is a mistake, and the message names it."""
    with pytest.raises(ConfigError, match=r"idle_s must be above 0, got 0\. Leave it out for the default, 300\.0"):
        Limits(idle_s=0)


def test_limits_read_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment variable wins over a default, and a wrong one is named."""
    monkeypatch.setenv("BLAMESPAN_MAX_TRACES", "7")

    assert Limits.of_environment(quiet_s=0) == Limits(quiet_s=0, max_traces=7)
    monkeypatch.setenv("BLAMESPAN_IDLE_S", "soon")
    with pytest.raises(ConfigError, match="BLAMESPAN_IDLE_S must be a number, got 'soon'"):
        Limits.of_environment()


@dataclass(frozen=True)
class Arrived:
    """One span's arrival, any time after the one before."""

    span: Span
    remote: bool | None
    size_bytes: int
    pause_s: float


@st.composite
def arrivals(draw: st.DrawFn) -> list[Arrived]:
    """Spans of few traces with any parents (missing, cyclic, remote), some of them twice, in any order."""
    names = st.sampled_from([f"{n}" for n in range(6)])
    spans = draw(
        st.lists(
            st.builds(
                span,
                names,
                trace=st.integers(1, 4),
                parent=st.none() | names,
                is_run=st.booleans(),
                operation=st.none(),
            ),
            max_size=25,
        )
    )
    pauses = st.sampled_from([0.0, 0.0, 0.5, 1.0, 31.0])
    return [
        Arrived(one, draw(st.sampled_from([True, False, None])), draw(st.integers(1, 50)), draw(pauses))
        for one in spans
    ]


@given(arrivals(), st.integers(1, 5), st.booleans())
@settings(max_examples=400, deadline=None)
def test_span_that_comes_again_never_comes_out_again(
    arrived: list[Arrived], max_traces: int, awaits_verdicts: bool
) -> None:
    """Whatever of its trace was let go since, late or judged or not: a span that came out is known."""
    assembler = made(replace(LIMITS, max_traces=max_traces), follows=True)
    out: list[str] = []

    def note(parts: list[TracePart[Span]], now_s: float) -> None:
        for part in parts:
            if part.reason != "revised":
                out.extend(f"{part.trace_id.hex()} {one.span_id}" for one in part.items)
                if awaits_verdicts and part.is_worth_a_verdict:
                    assembler.follow(part.trace_id, replace(part.released, awaits_verdict=True), now_s)

    now_s = 0.0
    for number, item in enumerate(arrived):
        now_s += item.pause_s
        note(assembler.due(now_s), now_s)
        for again in (item, arrived[number // 2]):
            note(assembler.add([arrival(again.span, remote=again.remote)], now_s), now_s)
    note(assembler.due(now_s + 1000), now_s + 1000)

    assert sorted(out) == sorted({f"{item.span.trace_id} {item.span.span_id}" for item in arrived})


@given(arrivals(), st.integers(1, 5), st.integers(20, 300), st.booleans(), st.booleans())
@settings(max_examples=400, deadline=None)
def test_every_span_comes_out_exactly_once(
    arrived: list[Arrived], max_traces: int, max_bytes: int, sees_starts: bool, starts_first: bool
) -> None:
    """Whatever comes in whatever order, and however little room there is: nothing is lost, nothing doubled."""
    limits = replace(LIMITS, max_traces=max_traces, max_bytes=max_bytes)
    assembler = made(limits, sees_starts=sees_starts)
    parts: list[TracePart[Span]] = []
    now_s = 0.0
    if sees_starts and starts_first:
        for item in arrived:
            parts += start(assembler, item.span, now_s)
    for item in arrived:
        now_s += item.pause_s
        parts += assembler.due(now_s)
        if sees_starts and not starts_first:
            parts += start(assembler, item.span, now_s)
        parts += assembler.add([arrival(item.span, remote=item.remote, size_bytes=item.size_bytes)], now_s)
        assert assembler.held_traces <= max_traces
        assert assembler.held_bytes <= max_bytes
    parts += assembler.due(now_s + 1000)

    came = Counter((part.trace_id.hex(), one.span_id) for part in parts for one in part.items)
    assert came == Counter({(item.span.trace_id, item.span.span_id): 1 for item in arrived})
    assert (assembler.held_traces, assembler.held_bytes, assembler.next_due_s()) == (0, 0, None)


@given(st.permutations([("root", None), ("a", "root"), ("b", "a"), ("c", "b"), ("d", "root")]))
def test_order_of_arrival_does_not_matter(order: list[tuple[str, str | None]]) -> None:
    """A trace is complete a quiet time after its last span, whichever that is."""
    assembler = made()
    for second, (name, parent) in enumerate(order):
        assembler.add([arrival(span(name, parent=parent))], second * 0.9)
        assert assembler.due(second * 0.9) == []

    parts = assembler.due(4 * 0.9 + 1)
    assert [part.reason for part in parts] == ["complete"]
    assert {one.name for one in parts[0].items} == {"root", "a", "b", "c", "d"}
