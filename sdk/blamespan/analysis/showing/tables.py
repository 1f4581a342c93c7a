"""Verdicts as tables on a terminal."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

from blamespan.analysis.showing.legible import counted, dollars, printable
from blamespan.analysis.showing.run_view import StepView, view_of
from blamespan.analysis.showing.verdicts import (
    MOST_STEPS,
    SHARE_WORTH_A_LINE,
    cause_text,
    mode_text,
)
from blamespan.analysis.spending import spending_of
from blamespan.attribution import NO_EVIDENCE, Attribution
from blamespan.trace import MessageActionTrace

_AGENT, _DIGITS_OF_ID = 24, 8
_HEX_ID = re.compile(r"[0-9a-f]{16,}")
_UNNAMED_SERVICE = "unknown_service"
"""What OpenTelemetry calls a service that nobody has named."""


def print_run(console: Console, title: str, trace: MessageActionTrace, verdict: Attribution, *, every: bool) -> None:
    """Print one run, a line per step.

    Args:
        console: Where to.
        title: What the run is called.
        trace: The run.
        verdict: What the tracer says.
        every: Print every step; else, of long runs, only those with a share worth a row.
    """
    steps = view_of(trace, verdict, with_idle_suspects=verdict.cause is None).steps
    is_whole = every or len(steps) <= MOST_STEPS
    shown = [item for item in steps if is_whole or item.score >= SHARE_WORTH_A_LINE or item.is_decisive]
    console.print(Text(_headline(title, trace, verdict), style="bold"), soft_wrap=True)
    agent_width = min(_AGENT, max(len(text) for text in ("agent", *(printable(item.agent) for item in shown))))
    header = f"{'step':>5}  {'agent':{agent_width}}  {'kind':11}  {'blame':>5}  "
    console.print(Text(header + "error mode and evidence, or what was said", style="dim"), no_wrap=True)
    for item in shown:
        mode = mode_text(verdict, item.step.agent) if item.is_suspect else ""
        _print_step(console, item, mode, agent_width, indent=len(header))
    if len(shown) < len(steps):
        console.print(
            f"{counted(len(steps) - len(shown), 'more step')}, each below {SHARE_WORTH_A_LINE}: --all shows them"
        )


def _print_step(console: Console, item: StepView, mode: str, agent_width: int, *, indent: int) -> None:
    """Print one line for a step, and for a suspect, whose mode is given, one more with its evidence."""
    style = "bold red" if item.is_decisive else "" if item.score >= SHARE_WORTH_A_LINE else "dim"
    room = max(20, console.width - indent)
    agent, content = _shorten(printable(item.agent), agent_width), printable(item.step.content)
    label = f"{'>' if item.is_decisive else ''}{item.step.index}"
    facts = f"{label:>5}  {agent:{agent_width}}  {item.step.kind:11}  {item.score:5.2f}  "
    console.print(Text(facts + _shorten(mode or content, room), style=style), no_wrap=True, crop=False)
    if mode:
        words = printable(item.quotes[0]) if item.quotes else content
        quote = textwrap.wrap(f"“{words}”", room, max_lines=3, placeholder="…")
        lines = "\n".join(" " * indent + line for line in quote)
        console.print(Text(lines, style="red" if item.is_decisive else "dim"), no_wrap=True, crop=False)


@dataclass(frozen=True, slots=True)
class _Column:
    """One column of a table of runs.

    Attributes:
        name: Its header.
        shortest: Narrower than this, its cells say nothing: rather leave the column out.
        widest: Cells are cut beyond it, however wide the terminal.
        rank: Where the terminal is too narrow, the column of the highest rank goes first; 0: it never goes.
        is_number: Set at the right.
        is_cut_at_start: Of a cell that is too long the end is kept: of a path it says more.
    """

    name: str
    shortest: int
    widest: int
    rank: int = 0
    is_number: bool = False
    is_cut_at_start: bool = False


_COLUMNS = (
    _Column("run", 18, 44, is_cut_at_start=True),
    _Column("task", 10, 60, rank=1),
    _Column("service", 8, 24, rank=4),
    _Column("outcome", 9, 9),
    _Column("cost", 7, 10, rank=5, is_number=True),
    _Column("failure", 7, 7, rank=2, is_number=True),
    _Column("agent", 8, _AGENT),
    _Column("step", 11, 11, is_number=True),
    _Column("blame", 5, 5, rank=3, is_number=True),
    _Column("error mode", 12, 60),
)
_GAP = 2


class RunTable:
    """Many runs, a line each, at any width of the terminal.

    Columns that nothing is in are left out. Where the terminal is too narrow, long cells are cut, and columns that can
    be done without go; the last line names them.

    Args:
        console: Where to.
        max_rows: How many lines to print; the rest is counted.
    """

    def __init__(self, console: Console, max_rows: int | None) -> None:
        self._console = console
        self._max_rows = max_rows
        self._hidden = 0
        self._rows: list[tuple[str, ...]] = []

    def add(self, source: str, trace: MessageActionTrace, verdict: Attribution) -> None:
        """Add a run."""
        if self._max_rows is not None and len(self._rows) >= self._max_rows:
            self._hidden += 1
            return
        service, spent = trace.resource.get("service.name"), spending_of(trace.steps)
        facts = (
            printable(source),
            printable(trace.task),
            printable(service) if isinstance(service, str) and not service.startswith(_UNNAMED_SERVICE) else "",
            "" if trace.outcome == "unknown" else trace.outcome,
            "" if spent is None or spent.usd is None else dollars(spent.usd),
        )
        if verdict.abstained is not None:
            reason = f"abstained: {printable(verdict.abstained)}"
            self._rows.append((*facts, "", "", f"-/{len(trace.steps)}", "", reason))
            return
        if verdict.cause is not None:
            mode = f"{verdict.cause.mode.name} ({verdict.cause.mode})"
            title = printable(verdict.cause.title)
            self._rows.append((*facts, f"{verdict.failure_score:.2f}", title, f"-/{len(trace.steps)}", "", mode))
            return
        if verdict.decisive_step is None:
            self._rows.append((*facts, f"{verdict.failure_score:.2f}", "", f"-/{len(trace.steps)}", "", verdict.word))
            return
        decisive = verdict.steps[verdict.decisive_step]
        self._rows.append(
            (
                *facts,
                f"{verdict.failure_score:.2f}",
                printable(decisive.agent),
                f"{decisive.index}/{len(trace.steps)}",
                f"{decisive.score:.2f}",
                mode_text(verdict, decisive.agent) if verdict.has_evidence else f"suspects, {NO_EVIDENCE}",
            )
        )

    def print(self) -> None:
        """Print what was added."""
        rows = self._named_rows()
        widths, omitted = _fit(rows, self._console.width)
        table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim")
        for index, width in widths.items():
            table.add_column(
                _COLUMNS[index].name,
                justify="right" if _COLUMNS[index].is_number else "left",
                no_wrap=True,
                width=width,
            )
        for row in rows:
            table.add_row(*(Text(_cut_cell(row[index], width, _COLUMNS[index])) for index, width in widths.items()))
        self._console.print(table)
        if omitted:
            self._console.print(
                f"left out at this width: {', '.join(omitted)}; --json gives all", style="dim", soft_wrap=True
            )
        if self._hidden:
            self._console.print(f"{counted(self._hidden, 'more run')}: --all shows them, --json gives them as data")

    def _named_rows(self) -> list[tuple[str, ...]]:
        """Name each run by its id alone where all are of one file, which is then printed once, above the table."""
        files = {row[0].rpartition(":")[0] for row in self._rows}
        if len(files) == 1 and (file := files.pop()):
            self._console.print(Text(f"runs of {file}", style="dim"), soft_wrap=True)
            return [(_cut_id(row[0].rpartition(":")[2]), *row[1:]) for row in self._rows]
        folder = _common_folder([row[0] for row in self._rows])
        return [(_cut_run(row[0][folder:]), *row[1:]) for row in self._rows]


def _fit(rows: Sequence[tuple[str, ...]], room: int) -> tuple[dict[int, int], list[str]]:
    """Choose the columns that fit into *room*, each with its width, and name those that had to go."""
    longest = [max((cell_len(row[index]) for row in rows), default=0) for index in range(len(_COLUMNS))]
    widths = {
        index: min(column.widest, max(longest[index], len(column.name)))
        for index, column in enumerate(_COLUMNS)
        if longest[index]
    }
    shortest = {index: min(width, _COLUMNS[index].shortest) for index, width in widths.items()}
    omitted = []
    while sum(shortest.values()) + _GAP * len(shortest) > room + _GAP and any(
        _COLUMNS[index].rank for index in shortest
    ):
        least = max(shortest, key=lambda index: _COLUMNS[index].rank)
        omitted.append(_COLUMNS[least].name)
        del shortest[least], widths[least]
    while sum(widths.values()) + _GAP * (len(widths) - 1) > room:
        index = max(widths, key=lambda index: widths[index] - shortest[index])
        if widths[index] <= shortest[index]:
            break  # narrower than any table: the terminal wraps the lines
        widths[index] -= 1
    return widths, omitted


def _cut_cell(text: str, width: int, column: _Column) -> str:
    """Cut a cell to *width* columns of the terminal; wide characters take two."""
    if cell_len(text) <= width:
        return text
    if column.is_cut_at_start:
        kept = set_cell_size(text[::-1], width - 1)[::-1].lstrip()
        return f"…{kept}"
    return f"{set_cell_size(text, width - 1).rstrip()}…"


def _cut_run(source: str) -> str:
    """Keep of a long run id the first digits, by which `blamespan show` finds it."""
    file, colon, run_id = source.rpartition(":")
    return f"{file}{colon}{_cut_id(run_id)}" if colon else source


def _cut_id(run_id: str) -> str:
    return f"{run_id[:_DIGITS_OF_ID]}…" if _HEX_ID.fullmatch(run_id) else run_id


def _common_folder(sources: Sequence[str]) -> int:
    """Count the characters of the folder that all sources share."""
    levels = zip(*(source.split("/")[:-1] for source in sources), strict=False)
    return sum(len(names[0]) + 1 for names in takewhile(lambda names: len(set(names)) == 1, levels))


def _headline(title: str, trace: MessageActionTrace, verdict: Attribution) -> str:
    facts = [printable(title), counted(len(trace.steps), "step"), counted(len(trace.agents), "agent")]
    if trace.outcome != "unknown":
        facts.insert(1, trace.outcome)
    if (spent := spending_of(trace.steps)) is not None:
        facts.append(spent.text())
    if verdict.abstained is not None:
        facts.append(f"no verdict: {printable(verdict.abstained)}")
    else:
        facts.append(f"failure {verdict.failure_score:.2f}")
        if verdict.cause is not None:
            facts.append(cause_text(verdict.cause))
        elif verdict.decisive_step is None:
            facts.append(verdict.word)
        elif not verdict.has_evidence:
            facts.append(f"suspects, {NO_EVIDENCE}")
    return "   ".join(facts)


def _shorten(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"
