"""Match runs against the schemata that their user keeps: what `show`, `analyze` and the page say of them."""

from __future__ import annotations

from dataclasses import dataclass

from blamespan.trace import MessageActionTrace
from blamespan_tracer.schemata.file import schemata_in_use
from blamespan_tracer.schemata.matching import match_schemata
from blamespan_tracer.schemata.recurrences import Recurrences, began_at

_MAX_STEPS = 50_000


@dataclass(frozen=True, slots=True)
class MatchedFailure:
    """A step that fails as a known failure did.

    Attributes:
        name: Of the schema.
        title: What goes wrong, or empty.
        step: Index of the step.
        score: How much of the schema's signature the step shows, 0..1.
        recurrence: In which run it came first, and how often since, by what the file of schemata has.
        seen_trace_id: Trace id of the first run that it was seen in, or empty.
    """

    name: str
    title: str
    step: int
    score: float
    recurrence: str
    seen_trace_id: str


def known_failures(trace: MessageActionTrace) -> list[MatchedFailure]:
    """Match a run against the schemata in use, the surest match first; the part `known_failures` of `blamespan`."""
    schemata = schemata_in_use()
    if not schemata or len(trace.steps) > _MAX_STEPS:
        return []
    recurrences, at = Recurrences(schemata), began_at(trace)
    return [
        MatchedFailure(
            match.schema.name,
            match.schema.title,
            match.step,
            match.score,
            recurrences.describe(match.schema.name, trace.trace_id, at),
            match.schema.seen[0].trace_id if match.schema.seen else "",
        )
        for match in match_schemata(trace, schemata)
    ]
