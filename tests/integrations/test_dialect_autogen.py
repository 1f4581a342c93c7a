"""What other instrumentations tell of an AutoGen team agrees with what ours tells."""

from __future__ import annotations

import pytest

import blamespan
from blamespan.rebuilding.rebuild import rebuild
from blamespan.testing import SpanRecorder
from blamespan.trace import MessageActionTrace
from tests.integrations.dialects.programs import PROGRAMS
from tests.integrations.dialects.recordings import ASPECTS, kept, runs_of, trace_of
from tests.integrations.dialects.table import KEPT_OF_AUTOGEN


@pytest.fixture(scope="module")
def ours() -> dict[str, MessageActionTrace]:
    recorder = SpanRecorder()
    found: dict[str, MessageActionTrace] = {}
    blamespan.instrument(tracer_provider=recorder.provider)
    try:
        for program in ("autogen-round-robin", "autogen-swarm"):
            PROGRAMS[program]()
            found[program] = rebuild(recorder.spans())
            recorder.clear()
    finally:
        blamespan.uninstrument()
    found["autogen-served"] = found["autogen-round-robin"]  # the same team
    return found


@pytest.mark.parametrize("name", KEPT_OF_AUTOGEN)
def test_team_is_told_as_ours_tells_it(name: str, ours: dict[str, MessageActionTrace]) -> None:
    """Each recording of a team agrees with our own in exactly what the table of the documentation says."""
    assert kept(trace_of(name), ours[name.rpartition(".")[2]]) == KEPT_OF_AUTOGEN[name]


def test_own_spans_without_a_span_around_them_are_a_trace_for_each_message() -> None:
    """AutoGen alone scatters a run over many traces: each holds one agent's step, none what it said."""
    told = [
        [step.content for step in blamespan.rebuild(run.spans).steps] for run in runs_of("autogen.autogen-round-robin")
    ]

    assert told == [[""], ["count_words()", ""], [""]]


def test_two_dialects_in_one_trace_tell_a_step_once(ours: dict[str, MessageActionTrace]) -> None:
    """OpenInference's spans beside AutoGen's own double nothing."""
    told, expected = trace_of("openinference.autogen-served"), ours["autogen-served"]

    assert [(s.agent, s.kind, s.content) for s in told.steps] == [(s.agent, s.kind, s.content) for s in expected.steps]
    assert kept(told, expected) == ASPECTS
