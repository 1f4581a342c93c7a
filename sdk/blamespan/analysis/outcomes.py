"""From the runs of a piece to what is said of each: what every engine does, wherever it does it.

Nothing here knows of processes or machines. The order of the outcomes and every byte of them follow from the pieces,
the tracer and what is wanted alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from blamespan.analysis.results.atif import to_atif
from blamespan.analysis.results.datasets import example_line
from blamespan.analysis.results.rows import row_of
from blamespan.analysis.showing.findings import conflicts_of, known_failures_of
from blamespan.analysis.sources import Piece
from blamespan.annotate import without_verdict
from blamespan.attribution import Attribution
from blamespan.errors import UnreadableInput
from blamespan.importing.parts import part_ids
from blamespan.importing.recorded import PartId, RecordedRun
from blamespan.otlp import spans_to_json
from blamespan.pipeline import AttributedRun, RunNotes, attribute_parts, note_beside
from blamespan.rebuilding.continuing import part_of_verdict
from blamespan.rebuilding.emit import emit
from blamespan.rebuilding.rebuild import OWNED_KEYS
from blamespan.rebuilding.runs import Run
from blamespan.spans import Span
from blamespan.trace import MessageActionTrace
from blamespan.tracers import Tracer

BATCH_RUNS = 64
"""Runs attributed at once: enough to keep a tracer busy, few enough to hold in memory."""
_BATCH_STEPS = 4_000
"""A batch of long runs ends before."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a tracer says of one recorded run.

    Attributes:
        run: The run.
        verdict: What the tracer says; an abstention where it failed.
        error: How the tracer failed on this run, or None.
    """

    run: RecordedRun
    verdict: Attribution
    error: str | None = None

    def row(self) -> dict[str, Any]:
        """Lay the result out as plain values; see `blamespan.analysis.results.rows`."""
        trace = self.run.trace
        return row_of(self.run, self.verdict, self.error, known_failures_of(trace), conflicts_of(trace))

    def by_part(self) -> list[Result]:
        """Part the result of a run that paused, the first part first; itself alone of one that did not."""
        traces = [part.trace for part in self.run.parts]
        return [
            Result(part, part_of_verdict(self.verdict, traces, number), self.error)
            for number, part in enumerate(self.run.parts)
        ] or [self]

    def to_write_back(self) -> list[Result]:
        """Return what is said of the run's last part, and of the earlier one that is to blame, if one is."""
        *earlier, last = self.by_part()
        return [*(part for part in earlier if part.verdict.abstained is None), last]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is made of each result, beside its row.

    Attributes:
        spans: Whether its run is written as OTLP-JSON with the verdict on it.
        whole: Of how many runs of each piece the result itself is kept; None for all.
        form: `atif`, or the platform for which the run is written as an example of a dataset; empty for OTLP-JSON.
        every: Whether runs that are not called failed become examples, too.
    """

    spans: bool = False
    whole: int | None = 0
    form: str = ""
    every: bool = False


@dataclass(frozen=True, slots=True)
class AttributedOutcome:
    """A run that was attributed.

    Attributes:
        source: Where it came from.
        trace_id: Its trace.
        digest: Equal for runs that say the same and are judged the same, wherever they came from.
        line: Its row as JSON, without a line end.
        spans: The run with the verdict, as one document of its form; empty where that is not wanted.
        error: How the tracer failed on it, or None.
        result: The result itself, where that is wanted.
        parts: The parts that it is joined of; one of a run that never paused.
    """

    source: str
    trace_id: str
    digest: bytes
    line: str
    spans: str = ""
    error: str | None = None
    result: Result | None = None
    parts: tuple[PartId, ...] = ()


@dataclass(frozen=True, slots=True)
class Finished:
    """All of a piece was said."""

    piece: Piece


Outcome: TypeAlias = AttributedOutcome | UnreadableInput | Finished | RecordedRun
"""What is said of pieces. A run among it is a part, to be judged with those that may stand in other pieces."""
Found: TypeAlias = RecordedRun | UnreadableInput | Finished
"""What pieces hold, before it is attributed."""


def outcomes_of(pieces: Iterable[Piece], tracer: Tracer, wanted: Wanted) -> Iterator[list[Outcome]]:
    """Read pieces one after the other and attribute their runs in batches, which may span pieces.

    Yields:
        Outcomes in the order of the pieces: after those of each its `Finished`.
    """
    before = 0
    for batch in batches(found_in(pieces, with_spans=wanted.spans), batch_runs_of(tracer)):
        yield made(batch, tracer, wanted, before)
        before = runs_of_piece(batch, before)


def batches(found: Iterable[Found], most: int) -> Iterator[list[Found]]:
    """Cut what was found into lists of at most *most* runs, fewer where they are long."""
    held: list[Found] = []
    runs = steps = 0
    for item in found:
        held.append(item)
        if isinstance(item, RecordedRun):
            runs += 1
            steps += len(item.trace.steps)
        if runs >= most or steps >= _BATCH_STEPS or len(held) >= 16 * most:
            yield held
            held, runs, steps = [], 0, 0
    if held:
        yield held


def made(batch: Sequence[Found], tracer: Tracer, wanted: Wanted, before: int = 0) -> list[Outcome]:
    """Attribute the runs of a batch; the rest of it stays where it stands.

    Args:
        batch: What was found.
        tracer: Who attributes.
        wanted: What is made of each.
        before: How many runs of the first piece stand in batches before.
    """
    return [
        done(item, wanted, number) if isinstance(item, Result) else item
        for item, number in _numbered(results_among(batch, tracer), before)
    ]


def results_among(batch: Sequence[Found], tracer: Tracer) -> list[Result | UnreadableInput | Finished | RecordedRun]:
    """Put results in the places of runs, but for parts that may go on in another piece."""
    whole = [item for item in batch if isinstance(item, RecordedRun) and not item.may_go_on_elsewhere]
    results = iter(attribute_recorded(whole, tracer))
    return [next(results) if isinstance(item, RecordedRun) and not item.may_go_on_elsewhere else item for item in batch]


def runs_of_piece(batch: Sequence[object], before: int) -> int:
    """Say how many runs of the last piece were found by the end of a batch."""
    for item in batch:
        before = 0 if isinstance(item, Finished) else before + (not isinstance(item, UnreadableInput))
    return before


def attribute_recorded(runs: Sequence[RecordedRun], tracer: Tracer) -> list[Result]:
    """Attribute runs in one batch; same order. A run that the tracer fails on has an abstention with the error."""
    results: list[Result] = []
    for run, verdicts in zip(runs, attribute_parts(runs, tracer), strict=True):
        if isinstance(verdicts, Exception):
            reason = f"tracer {tracer.identity.name!r} raised {type(verdicts).__name__}: {verdicts}"
            results.append(failed(run, tracer, reason))
        else:
            results.append(Result(run, verdicts[-1]))
    return results


def failed(run: RecordedRun, tracer: Tracer, reason: str) -> Result:
    """Make the result of a run that there is no verdict on, and should be."""
    return Result(run, Attribution.abstain(run.trace, reason, tracer.identity), reason)


def batch_runs_of(tracer: Tracer) -> int:
    """Say how many runs a tracer wants at once: its `batch_runs`, where it has one."""
    said = getattr(tracer, "batch_runs", BATCH_RUNS)
    return said if isinstance(said, int) and said > 0 else BATCH_RUNS


def annotated_spans(result: Result) -> list[Span]:
    """Give a run's spans with the verdict on them in place of an earlier one, and what is said beside it.

    They are those of its source; where that has none, the ones that `blamespan.emit` makes.
    """
    notes = note_beside(result.run, result.verdict)
    spans: list[Span] = []
    offset = 0
    for part in result.by_part():
        own = range(offset, offset := offset + len(part.run.trace.steps))
        steps = {index - own.start: notes.steps[index] for index in own if index in notes.steps}
        is_last = offset == len(result.run.trace.steps)
        spans += _annotate_part(part, RunNotes(notes.run if is_last else {}, steps))
    return spans


def _annotate_part(part: Result, notes: RunNotes) -> list[Span]:
    told = part.run.spans
    spans = [without_verdict(span) for span in told or emit(_emittable(part.run.trace))]
    root = next((span for span in spans if span.span_id == part.run.root_id), None) if told else spans[0]
    by_span = AttributedRun(Run(root, tuple(spans)), part.run.trace, part.verdict, notes=notes).annotations()
    return [span.with_attributes(by_span.get(span.span_id, {})) for span in spans]


def found_in(pieces: Iterable[Piece], *, with_spans: bool) -> Iterator[Found]:
    """Read pieces one after the other; after what each holds comes its `Finished`."""
    for piece in pieces:
        yield from piece.read(with_spans=with_spans)
        yield Finished(piece)


def _numbered(
    items: Iterable[Result | UnreadableInput | Finished | RecordedRun], before: int
) -> Iterator[tuple[Result | UnreadableInput | Finished | RecordedRun, int]]:
    for item in items:
        yield item, before
        before = runs_of_piece([item], before)


def done(result: Result, wanted: Wanted, number: int) -> AttributedOutcome:
    """Make of a result what is wanted.

    Args:
        result: The result.
        wanted: What is made of it.
        number: How many results of its piece stand before it.
    """
    row = result.row()
    source = row.pop("source")
    rest = json.dumps(row)
    return AttributedOutcome(
        source=source,
        trace_id=result.run.trace.trace_id,
        digest=digest_of(rest),
        line=f'{{"source": {json.dumps(source)}, {rest[1:]}',
        spans=_document(result, row, wanted) if wanted.spans else "",
        error=result.error,
        result=result if wanted.whole is None or number < wanted.whole else None,
        parts=part_ids(result.run),
    )


def digest_of(rest: str) -> bytes:
    """Digest a row's JSON without its source."""
    return hashlib.blake2b(rest.encode(), digest_size=16).digest()


def _document(result: Result, row: Mapping[str, Any], wanted: Wanted) -> str:
    if wanted.form == "atif":
        return json.dumps(to_atif(result.run.trace, row), ensure_ascii=False)
    if wanted.form:
        return example_line(result.run, row, wanted.form, every=wanted.every)
    return spans_to_json(annotated_spans(result))


def _emittable(trace: MessageActionTrace) -> MessageActionTrace:
    """Leave out attributes that a step's own fields stand for: an importer may have kept them."""
    if not any(OWNED_KEYS & step.attributes.keys() for step in trace.steps):
        return trace
    steps = (
        replace(step, attributes={key: value for key, value in step.attributes.items() if key not in OWNED_KEYS})
        for step in trace.steps
    )
    return replace(trace, steps=tuple(steps))
