"""What tells more of spans without being one, as messages in log records do, goes through the assembler with them."""

from __future__ import annotations

from dataclasses import replace

from blamespan.spans import Span
from blamespan_collector.assembling.parts import Arrival
from tests.collector.test_assembler import LIMITS, arrival, ident, key, made, span


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
