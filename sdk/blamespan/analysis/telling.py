"""What `blamespan analyze` tells while it works: errors at once, runs as a table, verdicts to where they came from."""

from __future__ import annotations

import json
from types import TracebackType
from typing import Final

import click
from rich.console import Console
from rich.text import Text

from blamespan.analysis.outcomes import AttributedOutcome, Finished, Outcome, Result
from blamespan.analysis.results.journal import Journal
from blamespan.analysis.results.repeats import RepeatedRun
from blamespan.analysis.showing.legible import counted, printable
from blamespan.analysis.showing.notices import notice
from blamespan.analysis.showing.tables import RunTable, print_run
from blamespan.analysis.showing.verdicts import without_idle_suspects
from blamespan.attribution import Attribution
from blamespan.errors import BlamespanError, UnreadableInput
from blamespan.importing.backends import open_writer

TABLE_ROWS = 50
_WRITTEN_AT_ONCE = 64


class ReadTally:
    """Counts what was read and what could not be, naming the latter at once.

    Attributes:
        runs: Attributed.
        failed: That the tracer failed on.
        unreadable: Errors of reading.
        repeated: Runs and traces that came before.
        unwritten: Verdicts that a back end did not take.
        skipped: Pieces that were done before.
        is_kept: Whether finished pieces are kept for later.
    """

    is_kept = False

    def __init__(self) -> None:
        self.runs = self.failed = self.unreadable = self.repeated = self.unwritten = self.skipped = 0

    def __enter__(self) -> ReadTally:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            hint = ". Finished files are kept: go on with --resume" if self.is_kept else ""
            click.echo(f"\nblamespan: interrupted after {counted(self.runs, 'run')}{hint}", err=True)

    def saw(self, outcome: Outcome) -> None:
        """Count an outcome."""
        if isinstance(outcome, RepeatedRun):
            self.repeated += 1
            notice(outcome)
        elif isinstance(outcome, UnreadableInput):
            self.refuse(outcome)
        elif isinstance(outcome, AttributedOutcome) and outcome.error is not None:
            self.failed += 1
            notice(f"{outcome.source}: {outcome.error}")
        elif isinstance(outcome, AttributedOutcome):
            self.runs += 1

    def refuse(self, error: UnreadableInput) -> None:
        """Count and name what could not be read."""
        self.unreadable += 1
        notice(error)

    def not_written(self, error: BlamespanError) -> None:
        """Count and name what a back end did not take."""
        self.unwritten += 1
        notice(error)

    def take_over(self, journal: Journal) -> None:
        """Count what was done before."""
        for entry in journal.kept():
            self.unreadable += bool(entry.error)
            self.repeated += bool(entry.repeated)
            if entry.row:
                is_failed = json.loads(entry.row)["error"] is not None
                self.failed += is_failed
                self.runs += not is_failed

    def print_json(self, outcome: Outcome) -> None:
        """Print a run as JSON."""
        if isinstance(outcome, AttributedOutcome):
            click.echo(outcome.line)

    def told(self) -> int:
        """Print what went wrong, if something did, and return the exit code."""
        if self.skipped:
            notice(f"{counted(self.skipped, 'piece was', 'pieces were')} done before; the results are in the output")
        troubles = (
            (self.unreadable, "could not be read"),
            (self.repeated, "stood in several places"),
            (self.failed, "made the tracer fail"),
            (self.unwritten, "could not be written back"),
        )
        if not any(count for count, _ in troubles):
            return 0
        notice(
            ", ".join(
                [f"{counted(self.runs, 'run')} attributed", *(f"{count} {what}" for count, what in troubles if count)]
            )
        )
        return 1


_NO_KNOWN_FAILURE: Final = '"known_failures": []}'
"""How the row of most runs ends."""
_ID_DIGITS: Final = 8


class Tables:
    """Prints a run by its steps if it is the only one, else a line per run.

    Args:
        every: Leave nothing out.
        suspects: Name suspects also where there is no sign of failure.
    """

    def __init__(self, *, every: bool, suspects: bool = False) -> None:
        self._console = Console()
        self._every = every
        self._suspects = suspects
        self._first: Result | None = None
        self._table: RunTable | None = None
        self._known: dict[str, list[str]] = {}

    def saw(self, outcome: Outcome) -> None:
        """Take a run."""
        if not isinstance(outcome, AttributedOutcome):
            return
        if not outcome.line.endswith(_NO_KNOWN_FAILURE):
            for known in json.loads(outcome.line)["known_failures"]:
                self._known.setdefault(known["schema"], []).append(known["seen_trace_id"] or outcome.trace_id)
        if self._first is None:
            self._first = outcome.result
            return
        if self._table is None:
            self._table = RunTable(self._console, None if self._every else TABLE_ROWS)
            self._add(self._first, self._first.run.source)
        self._add(outcome.result or self._first, outcome.source)  # beyond the table's rows, they are but counted

    def print(self) -> None:
        """Print what was taken."""
        if self._table is not None:
            self._table.print()
        elif self._first is not None:
            run = self._first.run
            print_run(self._console, run.source, run.trace, self._shown(self._first), every=self._every)
        for name, seen in sorted(self._known.items(), key=lambda item: (-len(item[1]), item[0])):
            runs = counted(len(seen), "run")
            text = f"known failure {printable(name)} in {runs}: the same as in run {seen[0][:_ID_DIGITS]}"
            self._console.print(Text(text, style="yellow"), soft_wrap=True)

    def _add(self, result: Result, source: str) -> None:
        assert self._table is not None
        self._table.add(source, result.run.trace, self._shown(result))

    def _shown(self, result: Result) -> Attribution:
        return result.verdict if self._suspects else without_idle_suspects(result.verdict)


class WrittenBack:
    """Writes verdicts to a back end, some at a time.

    Args:
        url: Of the back end.
        tally: Told of what it does not take.
    """

    def __init__(self, url: str, tally: ReadTally) -> None:
        self._writer = open_writer(url, on_failure=tally.not_written)
        self._tally = tally
        self._waiting: list[Result] = []

    def __enter__(self) -> WrittenBack:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._write()
                for note in getattr(self._writer, "notes", ()):
                    click.echo(f"note: {note}", err=True)
        finally:
            self._writer.close()

    def saw(self, outcome: Outcome) -> None:
        """Take a verdict; before a piece counts as done, its verdicts are out."""
        if isinstance(outcome, AttributedOutcome) and outcome.result is not None and outcome.error is None:
            self._waiting.append(outcome.result)
        if len(self._waiting) >= _WRITTEN_AT_ONCE or isinstance(outcome, Finished):
            self._write()

    def _write(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._writer.write((part.run, part.verdict) for result in waiting for part in result.to_write_back())
