"""What says that something is wrong is silent where nothing is: teams that err in nothing, in every family of tasks."""

from __future__ import annotations

import pytest
from blamespan_lab.simulation.program import Program
from blamespan_lab.simulation.tasks import FAMILIES

import blamespan
from blamespan.testing import SpanRecorder
from blamespan_tracer.alternatives.network.representation import analyse
from blamespan_tracer.alternatives.network.step_features import STEP_FEATURES, step_features

pytest.importorskip("autogen_agentchat")
pytest.importorskip("langgraph")

_EVIDENCE = (
    *("sum is wrong", "contradicts the task", "contradicts a result", "contradicts another", "contradicts itself"),
    *("contradicted by a result", "a number nothing explains", "a mistakable number", "unknown arguments"),
    *("same call, other result", "refutes what is right", "a wrong sum stands", "alters another's code"),
    *("drops what is lacked later", "picks a wrong one", "picks what was refused", "ends on another answer"),
    *("breaks off", "its code breaks", "its code lacks a number", "its code has a new number"),
    *("turns a comparison round", "a digit slips", "its result is told of another", "tells a result of another"),
    *("has another tool's arguments", "says the task without a name"),
)


@pytest.mark.parametrize(
    ("topology", "framework"),
    [("chain", "autogen"), ("relay", "langgraph"), ("swarm", "autogen"), ("parallel", "langgraph")],
)
@pytest.mark.parametrize("family", FAMILIES)
def test_sound_runs_give_no_evidence(family: str, topology: str, framework: str, recorder: SpanRecorder) -> None:
    """However the agents put it, and whichever tools they ask."""
    found = []
    for seed in range(4):
        recorder.clear()
        Program(family, topology, framework, cast="people", seed=seed, size=4).run()  # type: ignore[arg-type]
        run = analyse(blamespan.rebuild(recorder.spans()))
        features = step_features(run)
        for name in _EVIDENCE:
            places = features[:, STEP_FEATURES.index(name)].nonzero()[0].tolist()
            found += [(seed, name, run.steps[place].origins[0].content[:300]) for place in places]

    assert found == []
