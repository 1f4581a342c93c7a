"""Which known failures a run shows, where the user keeps schemata and the package that matches them is installed.

The tracer's part `known_failures` is called with a run. It yields a `Known` for each schema that matches.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from blamespan.analysis.showing.legible import printable
from blamespan.pipeline import ask_part
from blamespan.plugins import find_part
from blamespan.trace import MessageActionTrace

_logger = logging.getLogger("blamespan.schemata")


class Known(Protocol):
    """A step that fails as a known failure did."""

    @property
    def name(self) -> str:
        """Of the schema."""
        ...

    @property
    def title(self) -> str:
        """What goes wrong, or empty."""
        ...

    @property
    def step(self) -> int:
        """Index of the step."""
        ...

    @property
    def score(self) -> float:
        """How much of the schema's signature the step shows, 0..1."""
        ...

    @property
    def recurrence(self) -> str:
        """In which run it came first, and how often since."""
        ...

    @property
    def seen_trace_id(self) -> str:
        """Trace id of the first run that it was seen in, or empty."""
        ...


@dataclass(frozen=True, slots=True)
class KnownFailure:
    """The same, texts fit for a line."""

    name: str
    title: str
    step: int
    score: float
    recurrence: str
    seen_trace_id: str

    def __str__(self) -> str:
        title = f" ({self.title})" if self.title else ""
        return f"known failure at step {self.step}: {self.name}{title}, {self.score:.2f}, {self.recurrence}"

    def as_json(self) -> dict[str, Any]:
        """Write it as a row of results has it."""
        return {
            "schema": self.name,
            "step": self.step,
            "score": round(self.score, 6),
            "seen_trace_id": self.seen_trace_id or None,
        }


def known_failures_of(trace: MessageActionTrace) -> tuple[KnownFailure, ...]:
    """Match a run against the schemata that its user keeps, the surest match first; nothing where there are none."""
    match: Callable[[MessageActionTrace], Iterable[Known]] | None
    match = find_part("known_failures", _logger, "known failures are not looked for")
    if match is None:
        return ()

    def look() -> tuple[KnownFailure, ...]:
        return tuple(
            KnownFailure(
                printable(one.name),
                printable(one.title)[:200],
                one.step,
                one.score,
                printable(one.recurrence),
                one.seen_trace_id,
            )
            for one in match(trace)
        )

    return ask_part(look, _logger, f"known failures are not looked for in trace {trace.trace_id}") or ()
