"""`blamespan.analyze`: the offline line for programs and notebooks."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Protocol

from blamespan.analysis.engines.local import LocalEngine, tracer_for_others
from blamespan.analysis.engines.outcomes import Done, Outcome, Result, Wanted
from blamespan.analysis.journal import Journal
from blamespan.analysis.repeats import Repeats, without_repeats
from blamespan.analysis.rows import as_arrow
from blamespan.analysis.selection import Selection, time_of
from blamespan.analysis.sources import Piece, pieces
from blamespan.backends import is_backend
from blamespan.errors import ConfigError, MissingExtra, UnreadableInput
from blamespan.tracers import DEFAULT_TRACER, Tracer, load_tracer

__all__ = ["Result", "Results", "analyze", "engine_for", "listed", "new_outcomes"]

MAX_UNREADABLE: Final = 1_000
"""So many errors are kept; all are counted."""
_ARROW_ROWS = 1_000


def analyze(
    source: str | Path | Sequence[str | Path],
    *,
    tracer: str | Tracer = DEFAULT_TRACER,
    format: str | None = None,  # noqa: A002  # the word of the command line
    since: str | datetime | None = None,
    until: str | datetime | None = None,
    filters: Mapping[str, str] | None = None,
    limit: int | None = None,
    engine: Literal["local", "ray"] = "local",
    processes: int | None = None,
) -> Results:
    """Say of each recorded run of *source* who is to blame, at which step and how.

    Nothing is read before the first result is asked for; then all cores work ahead, a little.

    Args:
        source: A file, folder, pattern, URL of a file or of a back end; or several.
        tracer: A tracer, or the name of an installed one.
        format: Read every file in this format instead of telling by its content.
        since: Runs that began before are left out: `2026-11-21`, `7d` for so long ago, or a time, UTC without a zone.
        until: Runs that began then or later are left out.
        filters: What must be so: `agent`, `outcome`, `trace_id`, or an attribute of the process or of a step.
        limit: Stop after so many runs.
        engine: `local`, or `ray` for a Ray cluster.
        processes: How many on this machine, 1 for this one alone; workers of the cluster with Ray. None for all.

    Returns:
        The results, in the order of the sources; see `Results` for what could not be read.

    Raises:
        ConfigError: if an argument is wrong; before anything is read.
        MissingExtra: if a source, the tracer or the engine needs a package that is not installed.
        TracerUnavailable: if the tracer cannot be loaded.
    """
    name = tracer if isinstance(tracer, str) else ""
    loaded = load_tracer(tracer) if isinstance(tracer, str) else tracer
    chosen = engine_for(engine, loaded, name, processes)
    given = [source] if isinstance(source, str | Path) else list(source)
    selection = Selection(since=_time(since), until=_time(until), filters=dict(filters or {}), limit=limit)
    found = listed([str(one) for one in given], format, selection)
    return Results(new_outcomes(chosen, found, Wanted(whole=None), limit))


class Results(Iterator[Result]):
    """The results of an analysis, one after the other, as they come.

    Worker processes end with the last result, with `close()`, at the end of a `with` block, or when nobody holds this
    any more. What could not be read, runs left out because they came before, and runs that the tracer failed on are
    no exceptions: see `unreadable`.

    Attributes:
        unreadable: What could not be read, the first `MAX_UNREADABLE` of it.
        unreadable_count: How much that was in all.
    """

    def __init__(self, outcomes: Generator[Outcome, None, None]) -> None:
        self.unreadable: list[UnreadableInput] = []
        self.unreadable_count = 0
        self._outcomes = outcomes

    def __iter__(self) -> Results:
        return self

    def __next__(self) -> Result:
        for outcome in self._outcomes:
            if isinstance(outcome, UnreadableInput):
                self._refuse(outcome)
            elif isinstance(outcome, Done) and outcome.result is not None:
                if outcome.error is not None:
                    self._refuse(UnreadableInput(f"{outcome.source}: {outcome.error}"))
                return outcome.result
        raise StopIteration

    def __enter__(self) -> Results:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the analysis; there are no more results."""
        self._outcomes.close()

    def to_arrow(self) -> Any:
        """Take the results that are left as a `pyarrow.Table`; see `blamespan.analysis.rows` for its columns.

        Raises:
            MissingExtra: if pyarrow is not installed.
        """
        tables = []
        rows: list[dict[str, Any]] = []
        for result in self:
            rows.append(result.row())
            if len(rows) == _ARROW_ROWS:
                tables.append(as_arrow(rows))
                rows = []
        tables.append(as_arrow(rows))
        import pyarrow as pa

        return pa.concat_tables(tables)

    def to_pandas(self) -> Any:
        """Take the results that are left as a `pandas.DataFrame`, a run in each row.

        Raises:
            MissingExtra: if pyarrow or pandas is not installed.
        """
        try:
            import pandas  # noqa: F401  # pyarrow's own error does not say what to install
        except ModuleNotFoundError as error:
            raise MissingExtra(
                "to_pandas() needs the package 'pandas', which is not installed. Install it with: pip install pandas"
            ) from error
        return self.to_arrow().to_pandas()

    def _refuse(self, error: UnreadableInput) -> None:
        self.unreadable_count += 1
        if len(self.unreadable) < MAX_UNREADABLE:
            self.unreadable.append(error)


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
    found = pieces(sources, format_name=format_name, selection=selection)
    return found if any(map(is_backend, sources)) else _Listed(found)


class _Listed(Sequence[Piece]):
    """A list that is made when it is first asked for."""

    def __init__(self, found: Iterable[Piece]) -> None:
        self._found = found
        self._pieces: list[Piece] | None = None

    def __len__(self) -> int:
        return len(self._all())

    def __getitem__(self, index: Any) -> Any:
        return self._all()[index]

    def _all(self) -> list[Piece]:
        if self._pieces is None:
            self._pieces = list(self._found)
        return self._pieces


def _time(said: str | datetime | None) -> datetime | None:
    return time_of(said, datetime.now(UTC)) if isinstance(said, str) else said
