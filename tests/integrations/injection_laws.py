"""What holds for every kind of fault in every framework; the tests of each framework bring a team."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from blamespan.injecting.injection import Injection, inject
from blamespan.intercepting.boundaries import Applied, Mechanism
from blamespan.spans import Span
from blamespan.trace import MessageActionTrace
from blamespan_lab.make.faults.catalogue import KINDS
from tests.integrations.drawing import draw

HIDDEN = ("blamespan.message.id", "blamespan.agent.id", "gen_ai.conversation.id")
"""What is random."""

Run = Callable[[], MessageActionTrace]


def every_fault() -> list[tuple[str, Mechanism]]:
    """List every kind with each of its mechanisms."""
    return [(kind.name, mechanism) for kind in KINDS.values() for mechanism in kind.mechanisms]


def faulty(run: Run, kind: str, mechanism: Mechanism, *, seed: int = 1) -> tuple[MessageActionTrace, Injection]:
    """Run once with a fault."""
    with inject(kind, mechanism=mechanism, seed=seed) as injection:
        trace = run()
    return trace, injection


def drawn(trace: MessageActionTrace) -> str:
    """Draw a trace without what is random."""
    return draw(trace, hide=HIDDEN)


def check_is_shown(clean: MessageActionTrace, trace: MessageActionTrace, applied: Applied) -> None:
    """Hold the label against the trace: the step is the agent's, and says what the label says."""
    assert applied.step is not None
    step = trace.steps[applied.step]

    assert step.agent == applied.agent
    assert drawn(trace) != drawn(clean)
    if applied.mechanism == "response" and applied.after[:1] != "{":
        assert step.content == applied.after
    if applied.mechanism == "tool":
        assert step.content in (applied.after, applied.after.partition(": ")[2])
        assert step.kind == "tool_result"


def words_of(spans: list[Span]) -> set[str]:
    """List the words that spans carry in names, keys, values and events, without random ids."""
    return {
        word
        for span in spans
        for text in _texts(span)
        for word in re.findall(r"[A-Za-z]{3,}", re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "", text))
    }


def _texts(span: Span) -> Iterator[str]:
    yield span.name
    yield from span.attributes
    yield from map(str, span.attributes.values())
    for event in span.events:
        yield event.name
        yield from event.attributes
        yield from map(str, event.attributes.values())
