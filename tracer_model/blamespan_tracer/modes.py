"""The error modes that tracers name, and the names that other taxonomies give them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from blamespan.taxonomy import AEGIS, EXTENSION, MAST, ORCHESTRATION, ErrorMode
from blamespan.trace import MessageActionTrace

__all__ = ["MAS_FIRE", "MODES", "can_show"]

MODES: tuple[ErrorMode, ...] = (
    *(mode for code, mode in MAST.items() if code != "FM-2.1"),  # nothing that is labelled maps to it
    *(mode for code, mode in EXTENSION.items() if code.startswith("X") and code not in ORCHESTRATION),
)
"""The modes that trained models know, by column: canonical ones, since labels of several taxonomies teach them."""

MAS_FIRE: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "inexecutable-plan": ("Inexecutable Plan", "mast:FM-1.1"),
        "critical-information-loss": ("Critical Information Loss", "mast:FM-2.4"),
        "memory-loss": ("Memory Loss", "mast:FM-1.4"),
        "context-length-violation": ("Context Length Violation", "mast:FM-1.4 blamespan:X5"),
        "hallucination": ("Hallucination", "blamespan:X1"),
        "parameter-filling-error": ("Parameter Filling Error", "blamespan:X2"),
        "tool-format-error": ("Tool Format Error", "blamespan:X2"),
        "tool-selection-error": ("Tool Selection Error", "blamespan:X2"),
        "role-ambiguity": ("Role Ambiguity", "mast:FM-1.2"),
        "instruction-ambiguity": ("Instruction Ambiguity", "mast:FM-2.2"),
        "instruction-logic-conflict": ("Instruction Logic Conflict", "mast:FM-1.1"),
        "blind-trust": ("Blind Trust", "mast:FM-3.2 mast:FM-3.3"),
        "message-cycle": ("Message Cycle", "blamespan:X6 mast:FM-1.3 mast:FM-1.5"),
        "message-storm": ("Message Storm", "blamespan:X6"),
        "broadcast-amplification": ("Message Broadcast Amplification", "blamespan:X6"),
    }
)
"""Faults of MAS-FIRE (arXiv 2602.19843) by name: their titles there, and the codes of the modes that they are here."""

_NEEDS_ANOTHER_AGENT = frozenset(taxonomy[code] for taxonomy in (MAST, AEGIS) for code in ("FM-2.4", "FM-2.5"))
"""Withholding what other agents need, and ignoring what they said: a run of one agent can show neither."""


def can_show(trace: MessageActionTrace, mode: ErrorMode) -> bool:
    """Check whether the team of *trace* can err like that: some modes need two agents."""
    if mode not in _NEEDS_ANOTHER_AGENT:
        return True
    return len({step.agent for step in trace.steps if trace.can_be_blamed(step)}) > 1
