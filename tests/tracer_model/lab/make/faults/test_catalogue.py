"""The catalogue holds every fault that its sources describe, each with operators that exist."""

from __future__ import annotations

import pytest

from blamespan.errors import ConfigError
from blamespan.intercepting.boundaries import PlannedFault
from blamespan.taxonomy import AEGIS, EXTENSION, ORCHESTRATION, canonical
from blamespan_lab.make.faults.catalogue import KINDS, fault_kind
from blamespan_lab.make.faults.interceptor import interceptor

MAS_FIRE = {
    *("inexecutable-plan", "critical-information-loss", "memory-loss", "context-length-violation", "hallucination"),
    *("parameter-filling-error", "tool-format-error", "tool-selection-error", "role-ambiguity"),
    *("instruction-ambiguity", "instruction-logic-conflict", "blind-trust", "message-cycle", "message-storm"),
    "broadcast-amplification",
}


def test_every_source_is_complete() -> None:
    """14 modes of AEGIS, 15 faults of MAS-FIRE, and every extension code that is an agent's error."""
    assert set(KINDS) == {
        *(f"aegis:{code}" for code in AEGIS),
        *(f"mas-fire:{name}" for name in MAS_FIRE),
        *(f"blamespan:{code}" for code in EXTENSION if code.startswith("X") and code not in ORCHESTRATION),
    }


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_carries_its_canonical_mode(name: str) -> None:
    """Whatever a source calls it, the canonical code stands beside it."""
    modes = fault_kind(name).modes

    assert modes
    assert {canonical(mode)[0] for mode in modes} <= set(modes)


@pytest.mark.parametrize("name", KINDS)
def test_every_operator_of_a_kind_works_at_its_boundary(name: str) -> None:
    """No kind names an operator that is not there."""
    for mechanism, operators in KINDS[name].writers.items():
        for operator in operators:
            found = interceptor(PlannedFault(name, mechanism=mechanism, operator=operator))

            assert (found.kind, found.mechanism) == (name, mechanism)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (PlannedFault("aegis:FM-3.9"), "got 'aegis:FM-3.9'. Nearest known: 'aegis:FM-3"),
        (PlannedFault("aegis:FM-3.2", mechanism="routing"), "got 'routing'. Nearest known: 'pr"),
        (PlannedFault("blamespan:X4", operator="tool-eror"), "got 'tool-eror'. Nearest known: 'tool-error'"),
        (PlannedFault("aegis:FM-3.2", writer="llm"), "got 'llm'. Nearest known: "),  # type: ignore[arg-type]
    ],
)
def test_unknown_word_is_answered_with_the_nearest(fault: PlannedFault, said: str) -> None:
    """A mistyped kind, mechanism, operator or writer names what was meant."""
    with pytest.raises(ConfigError) as raised:
        interceptor(fault)

    assert said in str(raised.value)
