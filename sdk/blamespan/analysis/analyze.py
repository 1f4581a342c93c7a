"""`blamespan.analyze`: the offline line for programs and notebooks."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal

from blamespan.analysis.line import engine_for, listed, new_outcomes
from blamespan.analysis.outcomes import AttributedOutcome, Outcome, Result, Wanted
from blamespan.analysis.results.rows import as_arrow
from blamespan.errors import MissingExtra, UnreadableInput
from blamespan.importing.selection import Selection, time_of
from blamespan.tracers import DEFAULT_TRACER, Tracer, load_tracer

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
        source: A file, folder, pattern, URL of a file or of a back end, or the name of a stored run (its id or task,
            or their beginning, or `last`); or several of these; none for all runs of this machine's store.
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
    listed_pieces = listed([str(item) for item in given], format, selection)
    return Results(new_outcomes(chosen, loaded, listed_pieces, Wanted(whole=None), selection))


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
            elif isinstance(outcome, AttributedOutcome) and outcome.result is not None:
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
        """Take the results that are left as a `pyarrow.Table`; see `blamespan.analysis.results.rows` for its columns.

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


def _time(moment: str | datetime | None) -> datetime | None:
    return time_of(moment, datetime.now(UTC)) if isinstance(moment, str) else moment
