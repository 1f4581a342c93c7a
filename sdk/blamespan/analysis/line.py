"""The offline line: from what sources name to what is said of each run, once each. Command and Python alike use it."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import chain
from typing import Any, Protocol

from blamespan.analysis.engines.local import LocalEngine, tracer_for_others
from blamespan.analysis.outcomes import (
    AttributedOutcome,
    Outcome,
    Wanted,
    attribute_recorded,
    batch_runs_of,
    batches,
    done,
)
from blamespan.analysis.results.journal import Journal
from blamespan.analysis.results.repeats import Repeats, without_repeats
from blamespan.analysis.sources import Piece, pieces
from blamespan.analysis.spending import prices_in_use
from blamespan.errors import ConfigError
from blamespan.importing.backends import is_backend
from blamespan.importing.parts import SeparateParts
from blamespan.importing.recorded import RecordedRun
from blamespan.importing.selection import Selection
from blamespan.tracers import Tracer


class Engine(Protocol):
    """Reads pieces and attributes their runs."""

    def outcomes(self, pieces: Iterable[Piece], wanted: Wanted) -> Generator[Outcome, None, None]:
        """Yield outcomes in the order of the pieces: after those of each its `Finished`."""
        ...


def engine_for(engine: str, tracer: Tracer, name: str, processes: int | None) -> Engine:
    """Get an engine.

    Raises:
        ConfigError: if there is none of that name, it cannot do what is asked, or the table of prices is wrong.
        MissingExtra: if its package is not installed.
    """
    prices_in_use()  # a wrong table is said once, before anything is read
    sent = tracer_for_others(tracer, name)
    if engine == "local":
        return LocalEngine(tracer, sent, processes)
    if engine == "ray":
        from blamespan.analysis.engines.on_ray import RayEngine

        return RayEngine(tracer, sent, processes)
    raise ConfigError(f"expected the engine 'local' or 'ray', got {engine!r}")


def new_outcomes(
    engine: Engine,
    tracer: Tracer,
    pieces: Iterable[Piece],
    wanted: Wanted,
    selection: Selection,
    journal: Journal | None = None,
) -> Generator[Outcome, None, None]:
    """Attribute pieces, once what is in several of them, and no more runs than wanted.

    Args:
        engine: Who does it.
        tracer: Who judges runs whose parts stood in several pieces.
        pieces: What is read.
        wanted: What is made of each result.
        selection: Of runs in several pieces; stop after so many runs as its limit says, the journal's among them: the
            piece that stands there counts as finished.
        journal: What was done before.

    Yields:
        Outcomes in the order of the pieces; at last, those of runs whose parts stood in several.
    """
    with (
        closing(Repeats()) as repeats,
        closing(SeparateParts()) as parts,
        closing(engine.outcomes(pieces, wanted)) as outcomes,
    ):
        left = selection.limit
        for entry in journal.kept() if journal else ():
            if entry.row:
                repeats.add_row(entry.row)
                left = None if left is None else left - 1
            if entry.part is not None:
                parts.add(entry.part)
        every = chain(_without_parts(outcomes, parts), _joined(parts, tracer, wanted, selection))
        for outcome in without_repeats(every, repeats) if left is None or left > 0 else ():
            yield outcome
            if left is not None and isinstance(outcome, AttributedOutcome):
                left -= 1
                if left == 0:
                    return


def _without_parts(outcomes: Iterable[Outcome], parts: SeparateParts) -> Iterator[Outcome]:
    """Pass outcomes on; parts of runs are held, too."""
    for outcome in outcomes:
        if isinstance(outcome, RecordedRun):
            parts.add(outcome)
        elif isinstance(outcome, AttributedOutcome):
            parts.note_told(outcome.parts)
        yield outcome


def _joined(parts: SeparateParts, tracer: Tracer, wanted: Wanted, selection: Selection) -> Iterator[Outcome]:
    """Judge the runs whose parts stood in several pieces."""
    runs = (replace(run, goes_on_from=None, spans=run.spans if wanted.spans else ()) for run in parts.join())
    chosen = (run for run in runs if selection.takes(run))
    number = 0
    for batch in batches(chosen, batch_runs_of(tracer)):
        for result in attribute_recorded([run for run in batch if isinstance(run, RecordedRun)], tracer):
            yield done(result, wanted, number)
            number += 1


def listed(sources: Sequence[str], format_name: str | None, selection: Selection) -> Iterable[Piece]:
    """Find the pieces: all of them where they are files, so that the work can be shared out and its end foreseen.

    Raises:
        ConfigError: if a source or the format is wrong.
        MissingExtra: if a source needs a package that is not installed.
    """
    all_pieces = pieces(sources, format_name=format_name, selection=selection)
    return all_pieces if any(map(is_backend, sources)) else _Listed(all_pieces)


class _Listed(Sequence[Piece]):
    """A list that is made when it is first asked for."""

    def __init__(self, all_pieces: Iterable[Piece]) -> None:
        self._found = all_pieces
        self._pieces: list[Piece] | None = None

    def __len__(self) -> int:
        return len(self._all())

    def __getitem__(self, index: Any) -> Any:
        return self._all()[index]

    def _all(self) -> list[Piece]:
        if self._pieces is None:
            self._pieces = list(self._found)
        return self._pieces
