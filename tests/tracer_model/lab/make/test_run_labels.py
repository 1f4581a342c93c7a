"""Labels as they stand in a file: what is written is read again, and nothing else is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from blamespan.errors import ConfigError
from blamespan_lab.make.run_labels import Decisive, FaultLabel, RunLabel

_LABEL = RunLabel(
    trace_id="a" * 32,
    outcome="failure",
    purpose="faulty",
    family="lookup",
    topology="chain",
    framework="autogen",
    cast="roles",
    seed=7,
    decisive=Decisive("planner", 3, "b" * 16, ("mast:FM-1.1",)),
    faults=(
        FaultLabel("planner", 3, "b" * 16, ("mast:FM-1.1",), "response", "aegis:FM-1.1", "change-number"),
        FaultLabel("manager", None, "", ("mast:FM-1.3",), "natural", "repeats"),
    ),
    carried_by=(4, 6),
    twin="c" * 32,
    verified=True,
    recipe="small",
)


def _changed(**values: object) -> dict[str, Any]:
    return {**json.loads(json.dumps(_LABEL.as_json())), **values}


def test_a_label_is_read_as_it_was_written() -> None:
    """Through JSON it comes back the same."""
    assert RunLabel.from_json(_changed()) == _LABEL


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "label must be a JSON object"),
        (_changed(colour="red"), "label has the unknown key 'colour'"),
        ({"trace_id": "a" * 32}, "label lacks 'carried_by'"),
        (_changed(trace_id="A" * 32), "trace_id must be 32 hex digits"),
        (_changed(seed=True), "label.seed must be a whole number"),
        (_changed(outcome="maybe"), "outcome must be one of"),
        (_changed(purpose="fun"), "purpose must be one of"),
        (_changed(outcome="success"), "decisive must be null in a run that succeeded"),
        (_changed(carried_by=[6, 4]), "carried_by must be ascending"),
        (_changed(carried_by=[-1]), "label.carried_by must be a list of steps"),
        (_changed(decisive={**_changed()["decisive"], "step": None}), "label.decisive.step must be the index"),
        (_changed(faults=[{**_changed()["faults"][0], "modes": ["mast:FM-9.9"]}]), "Nearest known"),
        (_changed(faults={}), "label.faults must be a list"),
        (_changed(verified=1), "label.verified must be true or false"),
    ],
)
def test_what_is_no_label_is_refused_by_name(given: Any, said: str) -> None:
    """The field that is wrong is named, with what was expected."""
    with pytest.raises(ConfigError, match=said):
        RunLabel.from_json(given)
