"""Labels find the agents they mean."""

from __future__ import annotations

import pytest

from blamespan.importing.recorded import Fault, RecordedRun
from blamespan.taxonomy import AEGIS
from blamespan_lab.agent_names import labelled_pairs, resolve
from tests.tracer_model.runs import trace


@pytest.mark.parametrize(
    ("label", "names", "meant"),
    [
        ("Node1", ["Node0", "Node1"], "Node1"),
        ("assistant2", ["Assistant1", "Assistant2"], "Assistant2"),
        ("ranker5", ["Ranker", "Solver"], "Ranker"),
        ("Orchestrator (thought)", ["Orchestrator"], "Orchestrator"),
        ("ranker5", ["Solver"], "ranker5"),
        ("assistant9", ["Assistant1"], "assistant9"),
        ("solver", ["SOLVER", "Solver"], "solver"),
    ],
)
def test_label_means_the_only_name_that_fits(label: str, names: list[str], meant: str) -> None:
    """Exact, then without case, then without trailing digits; an ambiguous or silent one stays as it is."""
    assert resolve(label, names) == meant


def test_pairs_are_spelled_as_the_trace_spells_them() -> None:
    """Folding rewrites the agent; without it labels stay as they are; a fault without a mode is no pair."""
    faults = (Fault("SOLVER", AEGIS["FM-1.1"]), Fault("Solver", step=1))
    run = RecordedRun("here", trace(("Solver", "x")), faults)

    assert labelled_pairs(run) == {("Solver", "FM-1.1")}
    assert labelled_pairs(run, fold=False) == {("SOLVER", "FM-1.1")}
