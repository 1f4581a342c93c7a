"""What is known of a recorded run: how it ended, what went wrong where, and whether that was verified by replay."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, TypeAlias, TypeVar, get_args

from blamespan.errors import ConfigError
from blamespan.taxonomy import mode

__all__ = ["Decisive", "FaultLabel", "Purpose", "RunLabel", "RunOutcome"]

RunOutcome: TypeAlias = Literal["success", "failure"]
Purpose: TypeAlias = Literal["clean", "faulty", "harmless", "natural", "several", "decoy"]
"""Why a run is kept: nothing went wrong; one fault that made it fail; faults that did no harm; it failed by an agent's
own mistake; several faults that made it fail; the words of a faulty run, and sources that agree with them."""

_RecordT = TypeVar("_RecordT")


@dataclass(frozen=True, slots=True)
class Decisive:
    """The earliest step whose correction alone turns the failure into a success.

    Attributes:
        agent: Whose step, by the name it has in the trace.
        step: Index in the rebuilt trace, from 0.
        span_id: 16 hex digits: the step's span.
        modes: What went wrong there, `taxonomy:code` each.
    """

    agent: str
    step: int
    span_id: str
    modes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FaultLabel:
    """Something that went wrong at one step, decisive or not.

    Attributes:
        agent: Whose step, by the name it has in the trace.
        step: Index in the rebuilt trace, from 0; None where it is in no step of its own.
        span_id: 16 hex digits: the step's span; empty where there is none.
        modes: What it is, `taxonomy:code` each.
        mechanism: `prompt`, `memory`, `response`, `tool` or `routing` for what was put in; `natural` for a mistake of
            the agent's own.
        kind: Name in the catalogue of faults, or the word for the mistake: `aegis:FM-3.2`, `misread`.
        operator: What wrote it; empty for a mistake of the agent's own.
    """

    agent: str
    step: int | None
    span_id: str
    modes: tuple[str, ...]
    mechanism: str
    kind: str
    operator: str = ""


@dataclass(frozen=True, slots=True)
class RunLabel:
    """The label of one recorded run.

    Attributes:
        trace_id: 32 hex digits.
        outcome: Whether the team's answer was right.
        purpose: Why the run is kept.
        family: Of the task.
        topology: Of the team.
        framework: That ran it.
        cast: Kind of names that the agents have.
        seed: Of the program; with the fields before, all that is needed to run it again.
        decisive: None unless the run failed and one correction alone mends it.
        faults: What was put in, or else what the agents got wrong by themselves, in the order of the steps. Not all of
            it does harm.
        carried_by: Indices of later steps that say something else because of it, ascending.
        twin: Trace id of the same run without the faults; empty where there is none.
        verified: Whether the label was confirmed by replay.
        recipe: Name of the recipe that the run was made for.

    Raises:
        ConfigError: if a field is not what it must be; the message names it.
    """

    trace_id: str
    outcome: RunOutcome
    purpose: Purpose
    family: str
    topology: str
    framework: str
    cast: str
    seed: int
    decisive: Decisive | None
    faults: tuple[FaultLabel, ...]
    carried_by: tuple[int, ...]
    twin: str
    verified: bool
    recipe: str = ""

    def __post_init__(self) -> None:
        _require(bool(re.fullmatch(r"[0-9a-f]{32}", self.trace_id)), "trace_id", "32 hex digits", self.trace_id)
        _require(bool(re.fullmatch(r"([0-9a-f]{32})?", self.twin)), "twin", "32 hex digits or nothing", self.twin)
        _require(self.outcome in get_args(RunOutcome), "outcome", f"one of {get_args(RunOutcome)}", self.outcome)
        _require(self.purpose in get_args(Purpose), "purpose", f"one of {get_args(Purpose)}", self.purpose)
        _require(
            self.decisive is None or self.outcome == "failure",
            "decisive",
            "null in a run that succeeded",
            self.decisive,
        )
        _require(list(self.carried_by) == sorted(set(self.carried_by)), "carried_by", "ascending", self.carried_by)

    def as_json(self) -> dict[str, Any]:
        """Return the label as it stands in a labels file, ready for `json.dumps`."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> RunLabel:
        """Read what `as_json` gave, from JSON.

        Raises:
            ConfigError: if a field is missing, unknown or not what it must be; the message names it.
        """
        label: RunLabel = _record(cls, document, "label")
        return label


def _record(make: Callable[..., _RecordT], document: Any, at: str) -> _RecordT:
    """Read a record of strings, whole numbers, lists and records within it."""
    _require(isinstance(document, Mapping), at, "a JSON object", document)
    names = {spec.name for spec in fields(make)}  # type: ignore[arg-type]  # one of the three records
    needed = names - {"recipe", "operator"}
    for key in sorted(str(key) for key in {*document} - names):
        raise ConfigError(f"{at} has the unknown key {key!r}. Known: {', '.join(sorted(names))}")
    for key in sorted(needed - {*document}):
        raise ConfigError(f"{at} lacks {key!r}. Write it again with this version of blamespan")
    return make(**{key: _READ[key](value, f"{at}.{key}") for key, value in document.items()})


def _text(value: Any, at: str) -> str:
    _require(isinstance(value, str), at, "a text", value)
    return str(value)


def _whole(value: Any, at: str) -> int:
    _require(type(value) is int, at, "a whole number", value)
    return int(value)


def _index(value: Any, at: str) -> int | None:
    _require(value is None or (type(value) is int and value >= 0), at, "the index of a step, from 0", value)
    return None if value is None else int(value)


def _truth(value: Any, at: str) -> bool:
    _require(type(value) is bool, at, "true or false", value)
    return bool(value)


def _modes(value: Any, at: str) -> tuple[str, ...]:
    _require(isinstance(value, list | tuple), at, "a list of taxonomy:code", value)
    return tuple(str(mode(_text(name, at))) for name in value)


def _steps(value: Any, at: str) -> tuple[int, ...]:
    _require(
        isinstance(value, list | tuple) and all(type(i) is int and i >= 0 for i in value), at, "a list of steps", value
    )
    return tuple(value)


def _decisive(value: Any, at: str) -> Decisive | None:
    if value is None:
        return None
    decisive = _record(Decisive, value, at)
    _require(decisive.step is not None, f"{at}.step", "the index of a step, from 0", decisive.step)
    return decisive


def _faults(value: Any, at: str) -> tuple[FaultLabel, ...]:
    _require(isinstance(value, list | tuple), at, "a list of faults", value)
    return tuple(_record(FaultLabel, fault, f"{at}[{index}]") for index, fault in enumerate(value))


_READ: Mapping[str, Callable[[Any, str], object]] = {
    "agent": _text,
    "carried_by": _steps,
    "cast": _text,
    "decisive": _decisive,
    "family": _text,
    "faults": _faults,
    "framework": _text,
    "kind": _text,
    "mechanism": _text,
    "modes": _modes,
    "operator": _text,
    "outcome": _text,
    "purpose": _text,
    "recipe": _text,
    "seed": _whole,
    "span_id": _text,
    "step": _index,
    "topology": _text,
    "trace_id": _text,
    "twin": _text,
    "verified": _truth,
}
"""How each field is read, by its name, which means the same in every record."""


def _require(is_so: bool, at: str, expected: str, got: object) -> None:
    if not is_so:
        raise ConfigError(f"{at} must be {expected}, got {got!r}. Write it again with this version of blamespan")
