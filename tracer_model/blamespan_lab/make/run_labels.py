"""What is known of a recorded run: how it ended, what went wrong where, and whether that was verified by replay."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from blamespan.errors import ConfigError
from blamespan.taxonomy import mode

RunOutcome: TypeAlias = Literal["success", "failure"]
Purpose: TypeAlias = Literal["clean", "faulty", "harmless", "natural", "several", "decoy"]
"""Why a run is kept: nothing went wrong; one fault that made it fail; faults that did no harm; it failed by an agent's
own mistake; several faults that made it fail; the words of a faulty run, and sources that agree with them."""


def _check_mode(name: str) -> str:
    return str(mode(name))


Step: TypeAlias = Annotated[int, Field(ge=0)]
"""Index of a step in the rebuilt trace."""
Modes: TypeAlias = tuple[Annotated[str, AfterValidator(_check_mode)], ...]
"""What went wrong, `taxonomy:code` each."""


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
    step: Step
    span_id: str
    modes: Modes


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
    step: Step | None
    span_id: str
    modes: Modes
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

    trace_id: Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
    outcome: RunOutcome
    purpose: Purpose
    family: str
    topology: str
    framework: str
    cast: str
    seed: int
    decisive: Decisive | None
    faults: tuple[FaultLabel, ...]
    carried_by: tuple[Step, ...]
    twin: Annotated[str, Field(pattern="^([0-9a-f]{32})?$")]
    verified: bool
    recipe: str = ""

    def __post_init__(self) -> None:
        if self.decisive is not None and self.outcome != "failure":
            raise ConfigError(f"decisive must be null in a run that succeeded, got {self.decisive!r}")
        if list(self.carried_by) != sorted(set(self.carried_by)):
            raise ConfigError(f"carried_by must be ascending, got {self.carried_by!r}")

    def as_json(self) -> dict[str, Any]:
        """Return the label as it stands in a labels file, ready for `json.dumps`."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> RunLabel:
        """Read what `as_json` gave, from JSON.

        Raises:
            ConfigError: if a field is missing, unknown or not what it must be; the message names it.
        """
        try:  # as JSON: strict, but a list stands for a tuple
            return _LABEL.validate_json(json.dumps(document), strict=True, extra="forbid")
        except ValidationError as error:
            mismatch = error.errors()[0]
            at = ".".join(["label", *map(str, mismatch["loc"])])
            raise ConfigError(
                f"{at}: {mismatch['msg']}, got {mismatch['input']!r}. Write it again with this version of blamespan"
            ) from error


_LABEL: TypeAdapter[RunLabel] = TypeAdapter(RunLabel)
