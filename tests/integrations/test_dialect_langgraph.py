"""What other instrumentations tell of a LangGraph graph agrees with what ours tells."""

from __future__ import annotations

import pytest

import blamespan
from blamespan.rebuilding.rebuild import rebuild
from blamespan.testing import SpanRecorder
from blamespan.trace import MessageActionTrace
from tests.integrations.dialects.programs import PROGRAMS
from tests.integrations.dialects.recordings import kept, trace_of
from tests.integrations.dialects.table import KEPT_OF_LANGGRAPH


@pytest.fixture(scope="module")
def ours() -> dict[str, MessageActionTrace]:
    recorder = SpanRecorder()
    found: dict[str, MessageActionTrace] = {}
    blamespan.instrument(tracer_provider=recorder.provider)
    try:
        for program in ("langgraph-nodes", "langgraph-agents", "langgraph-branches"):
            PROGRAMS[program]()
            found[program] = rebuild(recorder.spans())
            recorder.clear()
    finally:
        blamespan.uninstrument()
    return found


@pytest.mark.parametrize("name", KEPT_OF_LANGGRAPH)
def test_graph_is_told_as_ours_tells_it(name: str, ours: dict[str, MessageActionTrace]) -> None:
    """Each recording of a graph agrees with our own in exactly what the table of the documentation says."""
    assert kept(trace_of(name), ours[name.rpartition(".")[2]]) == KEPT_OF_LANGGRAPH[name]


@pytest.mark.parametrize("peer", ["langfuse", "langsmith", "mlflow", "openinference", "openllmetry"])
@pytest.mark.parametrize("program", ["langgraph-nodes", "langgraph-agents", "langgraph-branches"])
def test_steps_are_those_of_ours(peer: str, program: str, ours: dict[str, MessageActionTrace]) -> None:
    """Where every node is told of, each step is the same: who, which kind, what words, after what, at what cost."""
    told, expected = trace_of(f"{peer}.{program}"), ours[program]

    assert [(s.agent, s.kind, s.content, s.inputs, s.usage) for s in told.steps] == [
        (s.agent, s.kind, s.content, s.inputs, s.usage) for s in expected.steps
    ]
