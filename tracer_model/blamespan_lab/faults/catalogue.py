"""Every kind of fault that can be put into a run, by name, with its mechanisms and what it is called elsewhere.

Three sources: the 14 modes that AEGIS injects (arXiv 2509.14295), the 15 faults of MAS-FIRE (arXiv
2602.19843) and blamespan's extension codes. MAS-FIRE names its faults in text and their mechanisms only in
a figure: which mechanism writes which of them is our reading.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import Literal, TypeAlias

from blamespan.errors import ConfigError
from blamespan.injecting.boundaries import Mechanism
from blamespan.taxonomy import ErrorMode, mode
from blamespan_tracer.modes import MAS_FIRE

__all__ = ["KINDS", "FaultKind", "Source", "fault_kind"]

Source: TypeAlias = Literal["aegis", "mas-fire", "blamespan"]


@dataclass(frozen=True, slots=True)
class FaultKind:
    """One kind of fault.

    Attributes:
        name: Its name here, unique: `aegis:FM-3.2`, `mas-fire:blind-trust`, `blamespan:X1`.
        source: Who describes it.
        title: Its name there.
        modes: What it is in the taxonomies, its own first; the canonical one is among them.
        writers: For each mechanism by which it can be written, the operators that do it; the first is meant where
            none is asked for.
        times: How often it is written in one run: a cycle is none until it goes round more than once.
    """

    name: str
    source: Source
    title: str
    modes: tuple[ErrorMode, ...]
    writers: Mapping[Mechanism, tuple[str, ...]]
    times: int = 1

    @property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        """List the mechanisms by which it can be written."""
        return tuple(self.writers)


def fault_kind(name: str) -> FaultKind:
    """Look up a kind by its name.

    Raises:
        ConfigError: if there is none; the message names the nearest one.
    """
    if name in KINDS:
        return KINDS[name]
    near = get_close_matches(name, KINDS, n=1, cutoff=0.0)[0]
    raise ConfigError(f"expected the name of a kind of fault, got {name!r}. Nearest known: {near!r}")


def _kinds(source: Source, rows: Mapping[str, tuple[str, str, Mapping[Mechanism, tuple[str, ...]]]]) -> list[FaultKind]:
    return [
        FaultKind(
            f"{source}:{code}",
            source,
            title,
            tuple(mode(each) for each in modes.split()),
            MappingProxyType(writers),
            times=_ROUNDS if code == "message-cycle" else 1,
        )
        for code, (title, modes, writers) in rows.items()
    ]


_ROUNDS = 3
"""How often the message of a cycle is sent back."""

_AEGIS: Mapping[str, tuple[str, str, Mapping[Mechanism, tuple[str, ...]]]] = {
    "FM-1.1": (
        "Task specification deviation",
        "aegis:FM-1.1 mast:FM-1.1",
        {
            "response": ("invent-constraint", "flip-comparison", "change-unit", "change-number"),
            "prompt": ("drop-constraint", "flip-comparison", "invent-constraint", "told-FM-1.1"),
        },
    ),
    "FM-1.2": (
        "Role specification deviation",
        "aegis:FM-1.2 mast:FM-1.2",
        {
            "response": ("other-role",),
            "prompt": ("told-FM-1.2",),
        },
    ),
    "FM-1.3": (
        "Add redundant steps",
        "aegis:FM-1.3 mast:FM-1.3",
        {
            "response": ("redundant-steps",),
            "prompt": ("told-FM-1.3",),
        },
    ),
    "FM-1.4": (
        "Remove conversation history",
        "aegis:FM-1.4 mast:FM-1.4",
        {
            "memory": ("forget-early", "forget-others"),
            "response": ("lose-history", "stale-context"),
            "prompt": ("told-FM-1.4",),
        },
    ),
    "FM-1.5": (
        "Remove termination conditions",
        "aegis:FM-1.5 mast:FM-1.5",
        {
            "response": ("never-end",),
            "prompt": ("told-FM-1.5",),
        },
    ),
    "FM-2.1": (
        "Repeat handled tasks",
        "aegis:FM-2.1 mast:FM-1.3",
        {
            "response": ("repeat-itself",),
            "prompt": ("told-FM-2.1",),
        },
    ),
    "FM-2.2": (
        "Make request ambiguous",
        "aegis:FM-2.2 mast:FM-2.2",
        {
            "response": ("vague",),
            "prompt": ("vague", "told-FM-2.2"),
        },
    ),
    "FM-2.3": (
        "Deviate from main goal",
        "aegis:FM-2.3 mast:FM-2.3",
        {
            "response": ("derail",),
            "prompt": ("told-FM-2.3",),
        },
    ),
    "FM-2.4": (
        "Hide important information",
        "aegis:FM-2.4 mast:FM-2.4",
        {
            "response": ("drop-fact", "withhold", "truncate"),
            "prompt": ("told-FM-2.4",),
        },
    ),
    "FM-2.5": (
        "Ignore other agents",
        "aegis:FM-2.5 mast:FM-2.5",
        {
            "response": ("ignore-others", "own-view"),
            "memory": ("forget-others",),
            "prompt": ("told-FM-2.5",),
        },
    ),
    "FM-2.6": (
        "Inconsistent reasoning",
        "aegis:FM-2.6 mast:FM-2.6",
        {
            "response": ("contradict-itself", "flip-negation", "turn-round"),
            "prompt": ("told-FM-2.6",),
        },
    ),
    "FM-3.1": (
        "Premature termination",
        "aegis:FM-3.1 mast:FM-3.1",
        {
            "response": ("end-early",),
            "prompt": ("told-FM-3.1",),
        },
    ),
    "FM-3.2": (
        "Remove verification steps",
        "aegis:FM-3.2 mast:FM-3.2",
        {
            "response": ("skip-verification",),
            "prompt": ("told-FM-3.2",),
        },
    ),
    "FM-3.3": (
        "Incorrect verification",
        "aegis:FM-3.3 mast:FM-3.3",
        {
            "response": ("verify-wrongly", "approve-wrongly"),
            "prompt": ("told-FM-3.3",),
        },
    ),
}

_MAS_FIRE_WRITERS: Mapping[str, Mapping[Mechanism, tuple[str, ...]]] = {
    "inexecutable-plan": {"response": ("flip-comparison", "impossible-step", "swap-name", "drop-fact")},
    "critical-information-loss": {"response": ("drop-fact", "withhold", "truncate"), "prompt": ("drop-fact",)},
    "memory-loss": {"memory": ("forget-early", "forget-others")},
    "context-length-violation": {"memory": ("cut-context",), "response": ("truncate", "out-of-room")},
    "hallucination": {"response": ("unsupported-claim", "invent-source", "swap-name", "change-number")},
    "parameter-filling-error": {"response": ("wrong-argument",)},
    "tool-format-error": {"response": ("malformed-arguments",)},
    "tool-selection-error": {"response": ("wrong-tool", "no-tool")},
    "role-ambiguity": {"prompt": ("blur-role",), "response": ("other-role",)},
    "instruction-ambiguity": {"prompt": ("vague",), "response": ("vague",)},
    "instruction-logic-conflict": {"prompt": ("invent-constraint", "flip-comparison", "flip-negation")},
    "blind-trust": {"prompt": ("trust-blindly",), "response": ("skip-verification",)},
    "message-cycle": {"routing": ("send-back",)},
    "message-storm": {"routing": ("send-many",)},
    "broadcast-amplification": {"routing": ("send-to-all",)},
}

_EXTENSION: Mapping[str, tuple[str, str, Mapping[Mechanism, tuple[str, ...]]]] = {
    "X1": ("Unsupported claim", "blamespan:X1", {"response": ("unsupported-claim", "invent-source")}),
    "X2": (
        "Tool call error",
        "blamespan:X2",
        {"response": ("wrong-argument", "wrong-tool", "malformed-arguments", "no-tool")},
    ),
    "X3": ("Evidence misread", "blamespan:X3", {"response": ("misread-result", "swap-name", "change-number")}),
    "X4": (
        "Environment fault",
        "blamespan:X4",
        {"tool": ("tool-error", "tool-timeout", "tool-empty", "tool-stale", "tool-partial")},
    ),
    "X5": ("Budget exhausted", "blamespan:X5", {"response": ("truncate", "out-of-room"), "memory": ("cut-context",)}),
    "X6": ("Message transport fault", "blamespan:X6", {"routing": ("lose-message", "misroute", "send-many")}),
    "X7": ("Injected input", "blamespan:X7", {"tool": ("tool-poisoned",)}),
}

KINDS: Mapping[str, FaultKind] = MappingProxyType(
    {
        kind.name: kind
        for kind in [
            *_kinds("aegis", _AEGIS),
            *_kinds("mas-fire", {name: (*row, _MAS_FIRE_WRITERS[name]) for name, row in MAS_FIRE.items()}),
            *_kinds("blamespan", _EXTENSION),
        ]
    }
)
"""Every kind by its name."""
