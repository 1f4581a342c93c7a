"""Verdicts as tables on a terminal."""

from __future__ import annotations

import textwrap

from rich.console import Console
from rich.table import Table
from rich.text import Text

from blamespan.analysis.showing.legible import printable
from blamespan.analysis.showing.verdicts import (
    MOST_STEPS,
    SHARE_WORTH_A_LINE,
    StepRow,
    doubt_of,
    mode_text,
    step_rows,
)
from blamespan.attribution import Attribution
from blamespan.trace import MessageActionTrace

__all__ = ["RunTable", "print_run"]

_AGENT, _NAME, _SHORTEST_NAME, _DIGITS_OF_ID = 24, 48, 20, 8
_OTHER_COLUMNS = 56
"""Of a table of runs: what agents, numbers and error modes need to be read."""


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
        row for row in rows if every or len(rows) <= MOST_STEPS or row.score >= SHARE_WORTH_A_LINE or row.is_decisive
    ]
    console.print(Text(_headline(title, trace, verdict), style="bold"), soft_wrap=True)
    agent_width = min(_AGENT, max((len(row.agent) for row in shown), default=0))
    header = f"{'step':>5}  {'agent':{agent_width}}  {'kind':11}  {'blame':>5}  "
    console.print(Text(header + "error mode and evidence, or what was said", style="dim"), no_wrap=True)
    for row in shown:
        _print_step(console, row, agent_width, indent=len(header))
    if len(shown) < len(rows):
        console.print(f"{len(rows) - len(shown)} more steps, each below {SHARE_WORTH_A_LINE}: --all shows them")


def _print_step(console: Console, row: StepRow, agent_width: int, *, indent: int) -> None:
    """Print one line for a step, and for a suspect one more with its evidence."""
    style = "bold red" if row.is_decisive else "" if row.score >= SHARE_WORTH_A_LINE else "dim"
    room = max(20, console.width - indent)
    agent = _shortened(row.agent, agent_width)
    place = f"{'>' if row.is_decisive else ''}{row.index}"
    facts = f"{place:>5}  {agent:{agent_width}}  {row.kind:11}  {row.score:5.2f}  "
    said = _shortened(row.mode or row.content, room)
    console.print(Text(facts + said, style=style), no_wrap=True, crop=False)
    if row.mode:
        quote = textwrap.wrap(f"“{row.evidence or row.content}”", room, max_lines=3, placeholder="…”")
        lines = "\n".join(" " * indent + line for line in quote)
        console.print(Text(lines, style="red" if row.is_decisive else "dim"), no_wrap=True, crop=False)


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
            self._table.add_column(
                name, justify="right" if justify == "right" else "left", overflow="fold", no_wrap=name == "run"
            )
        self._table.add_column("step", justify="right")
        self._table.add_column("blame", justify="right")
        self._table.add_column("error mode")

    def add(self, source: str, trace: MessageActionTrace, verdict: Attribution) -> None:
        """Add a run."""
        if self._max_rows is not None and self._table.row_count >= self._max_rows:
            self._hidden += 1
            return
        name = _named(printable(source), min(_NAME, max(_SHORTEST_NAME, self._console.width - _OTHER_COLUMNS)))
        if verdict.decisive_step is None:
            cells = [name, str(len(trace.steps)), "", "", "", "", f"abstained: {printable(verdict.abstained or '')}"]
        else:
            decisive = verdict.steps[verdict.decisive_step]
            cells = [
                name,
                str(len(trace.steps)),
                f"{verdict.failure_score:.2f}",
                _shortened(printable(decisive.agent), _AGENT),
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
        if doubt := doubt_of(verdict, trace.outcome):
            facts.append(doubt)
    return "   ".join(facts)


def _named(source: str, room: int) -> str:
    """Name a run in *room* columns: the end of its file's path, and of a long id the first digits, which find it."""
    file, colon, run_id = source.rpartition(":")
    if len(source) <= room or len(run_id) <= _DIGITS_OF_ID:
        return _shortened(source, room, from_end=True)
    return f"{_shortened(file, room - _DIGITS_OF_ID - 2, from_end=True)}{colon}{run_id[:_DIGITS_OF_ID]}…"


def _shortened(text: str, width: int, *, from_end: bool = False) -> str:
    if len(text) <= width:
        return text
    return f"…{text[-width + 1 :]}" if from_end else f"{text[: width - 1]}…"
