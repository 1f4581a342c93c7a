"""Faults injected into teams of every framework: each kind shows in a rebuilt trace, and nothing in it says so."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, partial
from typing import Any

import pytest

import blamespan
from blamespan import rebuild
from blamespan.intercepting.boundaries import Applied, Mechanism
from blamespan.spans import Span
from blamespan.trace import MessageActionTrace
from tests.integrations.hosts import INSTALLED, recording
from tests.integrations.injection_laws import drawn, every_fault, faulty, record, run, run_team


def faults() -> Iterator[Any]:
    """Yield every kind by each of its mechanisms in every framework; each in one of them, in turn, is no slow test."""
    for number, (kind, mechanism) in enumerate(every_fault()):
        # who hears a message is not hooked in Agent Framework
        hooked = [name for name in INSTALLED if name != "agent_framework" or mechanism != "routing"]
        for place, framework in enumerate(hooked):
            marks = () if place == number % len(hooked) else pytest.mark.slow
            yield pytest.param(framework, kind, mechanism, marks=marks)


every_framework = pytest.mark.parametrize("framework", INSTALLED)
clean = cache(run_team)


@pytest.mark.filterwarnings("ignore::UserWarning")  # AutoGen's, where a model has asked for no tool there is
@pytest.mark.parametrize(("framework", "kind", "mechanism"), list(faults()))
def test_every_kind_shows_in_a_rebuilt_trace(framework: str, kind: str, mechanism: Mechanism) -> None:
    """Whatever the fault, its step is where the label says, and the trace is another one than without it."""
    quoting = mechanism in ("prompt", "memory")

    trace, injection = faulty(lambda: run_team(framework, quoting=quoting), kind, mechanism)

    assert injection.missed == []
    for applied in injection.applied:
        check_is_shown(clean(framework, quoting=quoting), trace, applied)


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


@pytest.mark.parametrize("kind", ["aegis:FM-3.2", "blamespan:X4", "blamespan:X2", "mas-fire:message-cycle"])
@every_framework
def test_order_of_activation_does_not_matter(framework: str, kind: str) -> None:
    """Recording first or injecting first: the spans show the faulty text."""
    with blamespan.inject(kind, seed=4):
        inside = run_team(framework)
    with recording(framework) as recorder, blamespan.inject(kind, seed=4):
        run(framework)

    assert drawn(rebuild(recorder.spans())) == drawn(inside)


@pytest.mark.parametrize(("kind", "operator"), [("blamespan:X4", "tool-timeout"), ("aegis:FM-3.2", None)])
@every_framework
def test_spans_say_nothing_of_the_injection(framework: str, kind: str, operator: str | None) -> None:
    """Apart from the faulty content no word is in the spans that is not in a clean run's; stacks show no hook."""
    without = words_of(record(framework).spans())
    with blamespan.inject(kind, operator=operator) as injection:
        recorder = record(framework)

    (applied,) = injection.applied
    new = {word for word in words_of(recorder.spans()) - without if word not in applied.after}
    assert {word for word in new if re.search("inject|fault|splice|boundar|hook|asking", word, re.IGNORECASE)} == set()
    assert operator is not None or new == set()  # an exception brings the framework's own stack


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


@every_framework
def test_same_seed_same_fault(framework: str) -> None:
    """Two runs with one seed say the same; another seed says something else somewhere."""
    once = partial(run_team, framework)
    first, second = (faulty(once, "aegis:FM-3.2", "response", seed=5)[0] for _ in range(2))
    others = {drawn(faulty(once, "aegis:FM-3.2", "response", seed=seed)[0]) for seed in range(4)}

    assert drawn(first) == drawn(second)
    assert len(others) > 1


@every_framework
def test_clean_runs_pass_through_hooks_unchanged(framework: str) -> None:
    """A block whose fault is never written leaves the run as it is, and says what it reached."""
    with blamespan.inject("aegis:FM-3.2", agent="nobody") as injection:
        trace = run_team(framework)

    assert drawn(trace) == drawn(clean(framework))
    assert "never reached agent='nobody'; reached at response boundaries: agent 'planner'" in injection.missed[0].reason
