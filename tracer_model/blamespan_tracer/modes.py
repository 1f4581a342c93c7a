"""The error modes that tracers name, which kind of finding is which, and the names that other taxonomies give them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from blamespan.taxonomy import AEGIS, EXTENSION, MAST, ORCHESTRATION, ErrorMode
from blamespan.trace import MessageActionTrace, Step

FindingKind: TypeAlias = Literal[
    "contradicts-tool",
    "contradicts-task",
    "contradicts-agent",
    "contradicts-itself",
    "wrong-argument",
    "leaves-out",
    "no-source",
]
"""What a finding is, by what the step had to go by: a tool's answer, the task, another's word, its own, or nothing."""

MODE_OF: Final[Mapping[FindingKind, ErrorMode]] = MappingProxyType(
    {
        "contradicts-tool": EXTENSION["X3"],
        "contradicts-task": MAST["FM-1.1"],
        "contradicts-agent": MAST["FM-2.5"],
        "contradicts-itself": MAST["FM-2.6"],
        "wrong-argument": EXTENSION["X2"],
        "leaves-out": MAST["FM-1.1"],
        "no-source": EXTENSION["X1"],
    }
)
"""The mode of each kind of finding, of the ledger and of checks that do not say their own."""

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


def mode_of(trace: MessageActionTrace, step: int, source: int | None) -> ErrorMode:
    """Return the mode of a step that contradicts its source, whatever the values are.

    Who contradicts the task and had another source right before it did not heed that one either; which mode people name
    then is that of the nearer source.

    Args:
        trace: The run.
        step: Index of the step that contradicts.
        source: Index of the step whose words it contradicts; None, or less than 0, for the task.
    """
    own = trace.steps[step]
    if source is not None and source >= 0:
        return MODE_OF[_kind_of(trace, own, trace.steps[source])]
    return MODE_OF["wrong-argument"] if own.kind == "tool_call" else mode_of_step(trace, step)


def mode_of_step(trace: MessageActionTrace, step: int) -> ErrorMode:
    """Return the mode of a mistake whose source is not known, by what the step had right before it.

    Who draws a wrong conclusion from what it asked for itself acts against what it knows; who had the words of another
    agent did not heed these; who had the task alone did not keep to it.
    """
    own = trace.steps[step]
    before = next((one for one in reversed(trace.steps[:step]) if not _is_passed_over(trace, one)), None)
    kind = _kind_of(trace, own, before)
    if kind in ("wrong-argument", "contradicts-tool"):
        kind = "leaves-out" if own.kind == "tool_call" else "contradicts-itself"
    return MODE_OF[kind]


def _kind_of(trace: MessageActionTrace, step: Step, source: Step | None) -> FindingKind:
    """Return what it is to contradict a source: the task where that is None."""
    teller = None if source is None else _teller_of(trace, source)
    if teller is not None and teller != step.agent:
        return "contradicts-agent"
    if step.kind == "tool_call":
        return "wrong-argument"
    if source is None:
        return "contradicts-task"
    return "contradicts-itself" if trace.can_be_blamed(source) and source.index != step.index else "contradicts-tool"


def _teller_of(trace: MessageActionTrace, source: Step) -> str | None:
    """Return the agent whose word, or whose tool's answer, a step is; None for what no agent asked for."""
    if source.kind == "tool_result" and source.inputs:
        source = trace.steps[source.inputs[-1]]
    return source.agent if trace.can_be_blamed(source) else None


def _is_passed_over(trace: MessageActionTrace, step: Step) -> bool:
    """Check whether a step only says whose turn it is."""
    call = trace.steps[step.inputs[-1]] if step.kind == "tool_result" and step.inputs else step
    return step.kind in ("handoff", "termination") or call.kind == "handoff" or call.content.startswith("transfer_to_")


def can_show(trace: MessageActionTrace, mode: ErrorMode) -> bool:
    """Check whether the team of *trace* can err like that: some modes need two agents."""
    if mode not in _NEEDS_ANOTHER_AGENT:
        return True
    return len({step.agent for step in trace.steps if trace.can_be_blamed(step)}) > 1
