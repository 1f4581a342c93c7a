"""A run as one text that a language model reads, and where each claim of the ledger stands in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from blamespan.trace import MessageActionTrace
from blamespan_tracer.ledger import Claim, Ledger

__all__ = ["ClaimReader", "Expectation", "PlacedClaim", "RunText", "lay_out_run"]


@dataclass(frozen=True, slots=True)
class PlacedClaim:
    """A claim, and where a text states it.

    Attributes:
        claim: The claim.
        start: Offset of its first character.
        stop: Offset behind its last character.
    """

    claim: Claim
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class RunText:
    """A run as a language model reads it.

    Attributes:
        text: The task, and each step behind the name of who takes it.
        task_chars: How many characters the task takes up.
        claims: In the order of the text.
    """

    text: str
    task_chars: int
    claims: tuple[PlacedClaim, ...]


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a language model expected in the place of a claim.

    Attributes:
        claim: The claim.
        doubt: How sure the model was of something else, in nats; 0 where it expected just this, or nothing.
    """

    claim: Claim
    doubt: float


class ClaimReader(Protocol):
    """Reads runs, and says what it expected in the place of claims."""

    @property
    def digest(self) -> str:
        """Tells one model from others."""
        ...

    def read(self, run: RunText, shares: Sequence[float] = ()) -> list[Expectation]:
        """Return what is expected in the place of each claim that the reader came to, in the order of the text.

        Args:
            run: The run.
            shares: Of the blame, for each of its steps: of a run too long to be read whole, the most blamed are read.
        """
        ...


def lay_out_run(trace: MessageActionTrace, ledger: Ledger) -> RunText:
    """Lay out a run; what a step was given stands right before it."""
    parts = [f"Task: {trace.task.strip()}\n\n"]
    task_chars = length = len(parts[0])
    placed: list[PlacedClaim] = []
    for step, claims in zip(trace.steps, ledger.claims, strict=True):
        given = f"{step.input_text.strip()}\n\n" if step.input_text.strip() else ""
        before = f"{given}{step.agent}: "
        placed += _place(claims, length + len(before))
        parts.append(f"{before}{step.content}\n\n")
        length += len(parts[-1])
    return RunText("".join(parts), task_chars, tuple(placed))


def _place(claims: Sequence[Claim], offset: int) -> Iterator[PlacedClaim]:
    for claim in sorted(claims, key=lambda claim: claim.mention.value.start):
        value = claim.mention.value
        yield PlacedClaim(claim, offset + value.start, offset + value.stop)
