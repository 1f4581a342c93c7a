"""Verdicts as tables on a terminal."""

from __future__ import annotations

import textwrap

from rich.console import Console
from rich.table import Table
from rich.text import Text

from blamespan.analysis.verdicts import StepRow, mode_text, printable, step_rows
from blamespan.attribution import Attribution
from blamespan.trace import MessageActionTrace

__all__ = ["MORE_LIKELY_THAN_NOT", "RunTable", "print_run"]

_MAX_STEPS = 40
"""Rows of one run that are printed without being asked for more."""
_SHARE_WORTH_A_ROW = 0.05
MORE_LIKELY_THAN_NOT = 0.5
"""Below this likelihood of a failure a run is called sound, and its verdict an if."""


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
    agent_width = min(24, max((len(row.agent) for row in shown), default=0))
    header = f"{'step':>5}  {'agent':{agent_width}}  {'kind':11}  {'blame':>5}  "
    console.print(Text(header + "error mode and evidence, or what was said", style="dim"), no_wrap=True)
    for row in shown:
        _print_step(console, row, agent_width, indent=len(header))
    if len(shown) < len(rows):
        console.print(f"{len(rows) - len(shown)} more steps, each below {_SHARE_WORTH_A_ROW}: --all shows them")


def _print_step(console: Console, row: StepRow, agent_width: int, *, indent: int) -> None:
    """Print one line for a step, and for a suspect one more with its evidence."""
    style = "bold red" if row.is_decisive else "" if row.score >= _SHARE_WORTH_A_ROW else "dim"
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
        if verdict.failure_score < MORE_LIKELY_THAN_NOT:
            facts.append("more likely sound; if it failed:")
    return "   ".join(facts)


def _shortened(text: str, width: int, *, from_end: bool = False) -> str:
    if len(text) <= width:
        return text
    return f"…{text[-width + 1 :]}" if from_end else f"{text[: width - 1]}…"
