"""The offline line: from what sources name to what is said of each run, once each. Command and Python alike use it."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from typing import Any, Protocol

from blamespan.analysis.engines.local import LocalEngine, tracer_for_others
from blamespan.analysis.engines.outcomes import Done, Outcome, Wanted
from blamespan.analysis.results.journal import Journal
from blamespan.analysis.results.repeats import Repeats, without_repeats
from blamespan.analysis.sources import Piece, pieces
from blamespan.errors import ConfigError
from blamespan.importing.backends import is_backend
from blamespan.importing.selection import Selection
from blamespan.tracers import Tracer

__all__ = ["Engine", "engine_for", "listed", "new_outcomes"]


class Engine(Protocol):
    """Reads pieces and attributes their runs."""

    def outcomes(self, pieces: Iterable[Piece], wanted: Wanted) -> Generator[Outcome, None, None]:
        """Yield outcomes in the order of the pieces: after those of each its `Finished`."""
        ...


def engine_for(engine: str, tracer: Tracer, name: str, processes: int | None) -> Engine:
    """Get an engine.

    Raises:
        ConfigError: if there is none of that name, or it cannot do what is asked.
        MissingExtra: if its package is not installed.
    """
    sent = tracer_for_others(tracer, name)
    if engine == "local":
        return LocalEngine(tracer, sent, processes)
    if engine == "ray":
        from blamespan.analysis.engines.on_ray import RayEngine

        return RayEngine(tracer, sent, processes)
    raise ConfigError(f"expected the engine 'local' or 'ray', got {engine!r}")


def new_outcomes(
    engine: Engine, pieces: Iterable[Piece], wanted: Wanted, limit: int | None, journal: Journal | None = None
) -> Generator[Outcome, None, None]:
    """Attribute pieces, once what is in several of them, and no more runs than wanted.

    Args:
        engine: Who does it.
        pieces: What is read.
        wanted: What is made of each result.
        limit: Stop after so many runs, the journal's among them; the piece that stands there counts as finished.
        journal: What was done before.

    Yields:
        Outcomes in the order of the pieces.
    """
    with closing(Repeats()) as repeats, closing(engine.outcomes(pieces, wanted)) as outcomes:
        left = limit
        for entry in journal.kept() if journal else ():
            if entry.row:
                repeats.add_row(entry.row)
                left = None if left is None else left - 1
        for outcome in without_repeats(outcomes, repeats) if left is None or left > 0 else ():
            yield outcome
            if left is not None and isinstance(outcome, Done):
                left -= 1
                if left == 0:
                    return


def listed(sources: Sequence[str], format_name: str | None, selection: Selection) -> Iterable[Piece]:
    """Find the pieces: all of them where they are files, so that the work can be shared out and its end foreseen.

    Raises:
        ConfigError: if a source or the format is wrong.
        MissingExtra: if a source needs a package that is not installed.
    """
    if not sources:
        raise ConfigError("expected files, folders or URLs to analyze, got none. Name one")
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
