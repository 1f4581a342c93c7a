"""What other instrumentations tell of an AutoGen team or a LangGraph graph agrees with what ours tells."""

from __future__ import annotations

from functools import cache

import pytest

import blamespan
from blamespan.rebuilding.rebuild import rebuild
from blamespan.testing import SpanRecorder
from blamespan.trace import MessageActionTrace
from tests.integrations.dialects.programs import PROGRAMS
from tests.integrations.dialects.recordings import ASPECTS, kept, runs_of, trace_of
from tests.integrations.dialects.table import KEPT_OF_AUTOGEN, KEPT_OF_LANGGRAPH

KEPT = {**KEPT_OF_AUTOGEN, **KEPT_OF_LANGGRAPH}


@cache
def ours(program: str) -> MessageActionTrace:
    """Run a program recorded by ours."""
    recorder = SpanRecorder()
    blamespan.instrument(tracer_provider=recorder.provider)
    try:
        PROGRAMS["autogen-round-robin" if program == "autogen-served" else program]()  # served, it is the same team
    finally:
        blamespan.uninstrument()
    return rebuild(recorder.spans())


@pytest.mark.parametrize("name", KEPT)
def test_run_is_told_as_ours_tells_it(name: str) -> None:
    """Each recording agrees with our own in exactly what the table of the documentation says."""
    assert kept(trace_of(name), ours(name.rpartition(".")[2])) == KEPT[name]


@pytest.mark.parametrize("peer", ["langfuse", "langsmith", "mlflow", "openinference", "openllmetry"])
@pytest.mark.parametrize("program", ["langgraph-nodes", "langgraph-agents", "langgraph-branches"])
def test_steps_are_those_of_ours(peer: str, program: str) -> None:
    """Where every node is told of, each step is the same: who, which kind, what words, after what, at what cost."""
    told, expected = trace_of(f"{peer}.{program}"), ours(program)

    assert [(s.agent, s.kind, s.content, s.inputs, s.usage) for s in told.steps] == [
        (s.agent, s.kind, s.content, s.inputs, s.usage) for s in expected.steps
    ]


def test_own_spans_without_a_span_around_them_are_a_trace_for_each_message() -> None:
    """AutoGen alone scatters a run over many traces: each holds one agent's step, none what it said."""
    told = [
        [step.content for step in blamespan.rebuild(run.spans).steps] for run in runs_of("autogen.autogen-round-robin")
    ]

    assert told == [[""], ["count_words()", ""], [""]]


def test_two_dialects_in_one_trace_tell_a_step_once() -> None:
    """OpenInference's spans beside AutoGen's own double nothing."""
    told, expected = trace_of("openinference.autogen-served"), ours("autogen-served")

    assert [(s.agent, s.kind, s.content) for s in told.steps] == [(s.agent, s.kind, s.content) for s in expected.steps]
    assert kept(told, expected) == ASPECTS
