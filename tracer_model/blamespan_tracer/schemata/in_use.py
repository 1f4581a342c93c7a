"""Match runs against the schemata that their user keeps: what `show`, `analyze` and the page say of them."""

from __future__ import annotations

from blamespan.analysis.showing.findings import KnownFailure
from blamespan.trace import MessageActionTrace
from blamespan_tracer.schemata.file import schemata_in_use
from blamespan_tracer.schemata.matching import match_schemata
from blamespan_tracer.schemata.recurrences import Recurrences, began_at

_MAX_STEPS = 50_000


def known_failures(trace: MessageActionTrace) -> list[KnownFailure]:
    """Match a run against the schemata in use, the surest match first; the part `known_failures` of `blamespan`."""
    schemata = schemata_in_use()
    if not schemata or len(trace.steps) > _MAX_STEPS:
        return []
    recurrences, at = Recurrences(schemata), began_at(trace)
    return [
        KnownFailure(
            match.schema.name,
            match.schema.title,
            match.step,
            match.score,
            recurrences.describe(match.schema.name, trace.trace_id, at),
            match.schema.seen[0].trace_id if match.schema.seen else "",
        )
        for match in match_schemata(trace, schemata)
    ]
