"""Names for what agents do wrong: MAST, AEGIS and blamespan's own extension, and how they map.

Three taxonomies, never mixed silently:

- `mast`: the 14 modes of MAST (arXiv 2503.13657). Canonical here.
- `aegis`: the 14 modes that AEGIS (arXiv 2509.14295) injects. It *re-uses MAST's codes with other
  meanings*: `aegis:FM-2.1` is "repeat handled tasks", `mast:FM-2.1` is "conversation reset".
- `blamespan`: what MAST has no word for (`X1` ... `X10`) and two answers that are not an agent's
  error (`N0`, `N1`).

A mode is written `taxonomy:code` wherever one string must hold it.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import Literal, TypeAlias

from blamespan.errors import ConfigError

Taxonomy: TypeAlias = Literal["mast", "aegis", "blamespan"]
Relation: TypeAlias = Literal["same", "near", "none"]
"""How well a mode maps: the same thing; a near one (read the definitions); nothing in the target."""


@dataclass(frozen=True, slots=True)
class ErrorMode:
    """One kind of error: a code that is only unique within its taxonomy, a name and a definition."""

    taxonomy: Taxonomy
    code: str
    name: str
    definition: str

    def __str__(self) -> str:
        return f"{self.taxonomy}:{self.code}"


def _modes(taxonomy: Taxonomy, rows: dict[str, tuple[str, str]]) -> dict[str, ErrorMode]:
    return {code: ErrorMode(taxonomy, code, name, definition) for code, (name, definition) in rows.items()}


MAST = MappingProxyType(
    _modes(
        "mast",
        {
            "FM-1.1": ("Disobey task specification", "Violates constraints or requirements that the task states."),
            "FM-1.2": ("Disobey role specification", "Acts outside the role it was given."),
            "FM-1.3": ("Step repetition", "Repeats steps that were already completed, without need."),
            "FM-1.4": ("Loss of conversation history", "Loses recent context and falls back to an earlier state."),
            "FM-1.5": ("Unaware of termination conditions", "Does not recognise when to stop."),
            "FM-2.1": ("Conversation reset", "Restarts the dialogue without warrant and loses progress."),
            "FM-2.2": ("Fail to ask for clarification", "Goes on with unclear or incomplete data instead of asking."),
            "FM-2.3": ("Task derailment", "Drifts away from the objective."),
            "FM-2.4": ("Information withholding", "Has information that others need and does not share it."),
            "FM-2.5": ("Ignored other agent's input", "Disregards what another agent said or recommended."),
            "FM-2.6": ("Reasoning-action mismatch", "Acts against its own stated reasoning."),
            "FM-3.1": ("Premature termination", "Ends before the goal is met or the information is exchanged."),
            "FM-3.2": ("No or incomplete verification", "Skips or limits the checking of results."),
            "FM-3.3": ("Incorrect verification", "Checks results, but wrongly."),
        },
    )
)
"""MAST's modes by code."""

AEGIS = MappingProxyType(
    _modes(
        "aegis",
        {
            "FM-1.1": ("Task specification deviation", "Deviates from the specified task requirements."),
            "FM-1.2": ("Role specification deviation", "Acts outside its designated role."),
            "FM-1.3": ("Add redundant steps", "Inserts steps that the task does not need."),
            "FM-1.4": ("Remove conversation history", "Ignores or drops earlier parts of the conversation."),
            "FM-1.5": ("Remove termination conditions", "Goes on where the run should have stopped."),
            "FM-2.1": ("Repeat handled tasks", "Does again what was already done."),
            "FM-2.2": ("Make request ambiguous", "States requests so that others cannot know what is meant."),
            "FM-2.3": ("Deviate from main goal", "Pursues something other than the goal."),
            "FM-2.4": ("Hide important information", "Leaves out information that others need."),
            "FM-2.5": ("Ignore other agents", "Disregards other agents' messages."),
            "FM-2.6": ("Inconsistent reasoning", "Contradicts its own reasoning."),
            "FM-3.1": ("Premature termination", "Ends before the task is done."),
            "FM-3.2": ("Remove verification steps", "Leaves out the checking of results."),
            "FM-3.3": ("Incorrect verification", "Checks results, but wrongly."),
        },
    )
)
"""The modes AEGIS injects, by code. The codes are MAST's; several meanings are not."""

EXTENSION = MappingProxyType(
    _modes(
        "blamespan",
        {
            "X1": ("Unsupported claim", "States as fact what nothing in the run supports."),
            "X2": ("Tool call error", "Picks the wrong tool, wrong arguments, a wrong format or an invalid action."),
            "X3": ("Evidence misread", "Retrieves poorly, or misreads what a tool or source said."),
            "X4": ("Environment fault", "A tool, service or environment failed by itself."),
            "X5": ("Budget exhausted", "Runs out of context, steps, tokens or rate."),
            "X6": ("Message transport fault", "Messages are lost, misrouted, multiplied or cycle."),
            "X7": ("Injected input", "Follows instructions or data that an outsider planted."),
            "X8": ("Wrong branch", "Takes a branch that its own conditions do not lead to."),
            "X9": (
                "Empty or unmapped variable",
                "Passes on a variable empty or unfilled, though its source has a value.",
            ),
            "X10": ("Output mapping", "Reads or returns an output under a name that nothing was given under."),
            "N0": ("No failure", "The run did what it should."),
            "N1": ("Failure without an agent's cause", "It failed, but no agent is to blame: grader, harness, kill."),
        },
    )
)
"""What MAST lacks (`X*`) and the two answers that are not an agent's error (`N*`)."""

ORCHESTRATION = frozenset({"X8", "X9", "X10"})
"""Codes of the extension for what is built into a workflow: only runs of workflow platforms show these, found by rule.
No label taught them to a trained model, and no fault makes them."""

_BY_TAXONOMY = MappingProxyType({"mast": MAST, "aegis": AEGIS, "blamespan": EXTENSION})

_AEGIS_TO_MAST: MappingProxyType[str, tuple[str, Relation]] = MappingProxyType(
    {
        "FM-1.1": ("FM-1.1", "same"),
        "FM-1.2": ("FM-1.2", "same"),
        "FM-1.3": ("FM-1.3", "near"),  # redundant steps need not repeat an earlier one
        "FM-1.4": ("FM-1.4", "same"),
        "FM-1.5": ("FM-1.5", "near"),  # AEGIS removes the conditions, MAST's agent does not see them
        "FM-2.1": ("FM-1.3", "near"),
        "FM-2.2": ("FM-2.2", "near"),  # AEGIS blames who asks unclearly, MAST who does not ask back
        "FM-2.3": ("FM-2.3", "same"),
        "FM-2.4": ("FM-2.4", "same"),
        "FM-2.5": ("FM-2.5", "same"),
        "FM-2.6": ("FM-2.6", "near"),  # MAST wants an action against the reasoning
        "FM-3.1": ("FM-3.1", "same"),
        "FM-3.2": ("FM-3.2", "same"),
        "FM-3.3": ("FM-3.3", "same"),
    }
)
"""Not reached from AEGIS: `mast:FM-2.1` (conversation reset) and every extension code."""


def mode(name: str) -> ErrorMode:
    """Look up a mode by `taxonomy:code`, e.g. `mast:FM-1.1`.

    Raises:
        ConfigError: if there is no such taxonomy or code; the message names the nearest one.
    """
    taxonomy, _, code = name.partition(":")
    known = _BY_TAXONOMY.get(taxonomy)
    if known is not None and code in known:
        return known[code]
    every = [str(m) for modes in _BY_TAXONOMY.values() for m in modes.values()]
    near = get_close_matches(name, every, n=1, cutoff=0.0)[0]
    raise ConfigError(f"expected an error mode as taxonomy:code, got {name!r}. Nearest known: {near!r}")


def canonical(mode: ErrorMode) -> tuple[ErrorMode | None, Relation]:
    """Map a mode to its canonical one: MAST where MAST has it, else the extension.

    Returns:
        The canonical mode and how well it fits. Canonical modes map to themselves as `same`; an
        AEGIS mode that MAST lacks would give `(None, "none")`. The way back is not a function:
        `mast:FM-2.1` and the extension codes have no AEGIS counterpart, `mast:FM-1.3` has two.
    """
    if mode.taxonomy != "aegis":
        return mode, "same"
    if mode.code not in _AEGIS_TO_MAST:
        return None, "none"
    code, relation = _AEGIS_TO_MAST[mode.code]
    return MAST[code], relation
