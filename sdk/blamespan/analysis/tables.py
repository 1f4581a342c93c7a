"""Verdicts as tables on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from blamespan.analysis.verdicts import mode_text, printable, step_rows
from blamespan.attribution import Attribution
from blamespan.trace import MessageActionTrace

__all__ = ["RunTable", "print_run"]

_MAX_STEPS = 40
"""Rows of one run that are printed without being asked for more."""
_SHARE_WORTH_A_ROW = 0.05


def print_run(console: Console, title: str, trace: MessageActionTrace, verdict: Attribution, *, every: bool) -> None:
    """Print one run, a line per step.

    Args:
        console: Where to.
        title: What the run is called.
        trace: The run.
        verdict: What the tracer says.
        every: Print every step; else, of long runs, only those with a share worth a row.
    """
    rows = step_rows(trace, verdict)
    shown = [
        row for row in rows if every or len(rows) <= _MAX_STEPS or row.score >= _SHARE_WORTH_A_ROW or row.is_decisive
    ]
    console.print(Text(_headline(title, trace, verdict), style="bold"), soft_wrap=True)
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("step", justify="right", no_wrap=True)
    table.add_column("agent", overflow="fold")
    table.add_column("kind")
    table.add_column("blame", justify="right")
    table.add_column("error mode", ratio=2)
    table.add_column("evidence, or what was said", ratio=3)
    for row in shown:
        style = "bold red" if row.is_decisive else "" if row.score >= _SHARE_WORTH_A_ROW else "dim"
        mark = ">" if row.is_decisive else ""
        said = f"“{_shortened(row.evidence, 160)}”" if row.evidence else _shortened(row.content, 80)
        cells = (f"{mark}{row.index}", row.agent, row.kind, f"{row.score:.2f}", row.mode, said)
        table.add_row(*(Text(cell) for cell in cells), style=style)
    console.print(table)
    if len(shown) < len(rows):
        console.print(f"{len(rows) - len(shown)} more steps, each below {_SHARE_WORTH_A_ROW}: --all shows them")


class RunTable:
    """Many runs, a line each, printed as they come in pages of equal columns.

    Args:
        console: Where to.
        max_rows: How many lines to print; the rest is counted.
    """

    def __init__(self, console: Console, max_rows: int | None) -> None:
        self._console = console
        self._max_rows = max_rows
        self._hidden = 0
        self._table = Table(box=None, pad_edge=False, header_style="dim")
        for name, justify in (("run", "left"), ("steps", "right"), ("failure", "right"), ("agent", "left")):
            self._table.add_column(name, justify="right" if justify == "right" else "left", overflow="fold")
        self._table.add_column("step", justify="right")
        self._table.add_column("blame", justify="right")
        self._table.add_column("error mode")

    def add(self, source: str, trace: MessageActionTrace, verdict: Attribution) -> None:
        """Add a run."""
        if self._max_rows is not None and self._table.row_count >= self._max_rows:
            self._hidden += 1
            return
        name = _shortened(printable(source), 48, from_end=True)
        if verdict.decisive_step is None:
            cells = [name, str(len(trace.steps)), "", "", "", "", f"abstained: {printable(verdict.abstained or '')}"]
        else:
            decisive = verdict.steps[verdict.decisive_step]
            cells = [
                name,
                str(len(trace.steps)),
                f"{verdict.failure_score:.2f}",
                printable(decisive.agent),
                str(decisive.index),
                f"{decisive.score:.2f}",
                mode_text(verdict, decisive.agent),
            ]
        self._table.add_row(*(Text(cell) for cell in cells))

    def print(self) -> None:
        """Print what was added."""
        self._console.print(self._table)
        if self._hidden:
            self._console.print(f"{self._hidden} more runs: --all shows them, --json gives them as data")


def _headline(title: str, trace: MessageActionTrace, verdict: Attribution) -> str:
    facts = [printable(title), f"{len(trace.steps)} steps", f"{len(trace.agents)} agents"]
    if trace.outcome != "unknown":
        facts.insert(1, trace.outcome)
    if verdict.abstained is not None:
        facts.append(f"no verdict: {printable(verdict.abstained)}")
    else:
        facts.append(f"failure {verdict.failure_score:.2f}")
    return "   ".join(facts)


def _shortened(text: str, width: int, *, from_end: bool = False) -> str:
    if len(text) <= width:
        return text
    return f"…{text[-width + 1 :]}" if from_end else f"{text[: width - 1]}…"
