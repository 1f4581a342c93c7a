"""A summary on a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from blamespan.analysis.showing.legible import counted
from blamespan.analysis.summary.statistics import Share
from blamespan.analysis.summary.summary import JudgeSummary, Summary
from blamespan.analysis.summary.tally import Names, Tally
from blamespan.analysis.summary.words import (
    adherence_rows,
    alike,
    change_row,
    date_range,
    interval,
    name_rows,
    notes,
    percent,
    reason_rows,
    remarks,
    tested,
    usage,
)
from blamespan.guarding.decisions import ACTIONS

_ROWS = 10


def print_summary(console: Console, summary: Summary, *, every: bool) -> None:
    """Print a summary.

    Args:
        console: Where to.
        summary: What.
        every: Leave nothing out of the tables.
    """
    most = None if every else _ROWS
    for judge_summary in summary.judges:
        _print_judge(console, judge_summary, most)
    for note in notes(summary):
        console.print(Text(note))


def _print_judge(console: Console, judge: JudgeSummary, most: int | None) -> None:
    tally = judge.tally
    dates = date_range(tally)
    head = f"{judge.judge}   {counted(tally.runs, 'run')}{f'   {dates}' if dates else ''}"
    console.print(Text(head, style="bold"), soft_wrap=True)
    for title, share in (
        ("failed", Share(tally.failed, tally.judged)),
        ("no verdict", Share(tally.abstained, tally.runs)),
    ):
        console.print(f"{title:10}  {percent(share.value):>7}  ({interval(share)})  {share.count:,} of {share.total:,}")
    if tally.guarded:
        done = ", ".join(f"{tally.guard[action]:,} {action}" for action in reversed(ACTIONS) if tally.guard[action])
        console.print(f"{'guard':10}  {done} in {counted(tally.guarded, 'run')}")
    if tally.counted:
        console.print(f"{'tokens':10}  {usage(tally)}")
    if tally.verified:
        tried = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(tally.verified.items()))
        console.print(f"{'suspects':10}  put to the test: {tried}")
    for remark in remarks(judge):
        console.print(Text(remark, style="yellow"))
    _print_names(console, "agent", tally.agents, tally, most)
    _print_names(console, "no agent, but", tally.causes, tally, most)
    _print_names(console, "error mode", tally.modes, tally, most)
    header = ("instructions disagree", "conflicts", "kept the higher", "share", "95 %")
    _print_rows(console, header, [cells for *_, cells in adherence_rows(tally)], most)
    _print_rows(console, ("why there is no verdict", "runs"), reason_rows(tally), most)
    _print_alike(console, tally, most)
    _print_changes(console, judge, most)
    console.print()


def _print_names(console: Console, title: str, names: Names, tally: Tally, most: int | None) -> None:
    rows = [cells for *_, cells in name_rows(names, tally)]
    _print_rows(console, (title, "failed", "share", "95 %", "confidence"), rows, most)


def _print_alike(console: Console, tally: Tally, most: int | None) -> None:
    ranked = tally.ranked_alike()
    groups = [group for group in ranked if group.runs > 1]
    if not ranked:
        return
    single = len(ranked) - len(groups)
    console.print(
        f"\nalike failures: {counted(len(groups), 'group')}; {counted(single, 'failure')} like no other", style="dim"
    )
    for group in groups[:most]:
        console.print(Text(f"{group.runs:>6,}  {alike(group)}"), soft_wrap=True)
        example, week = group.example, group.count_of_week(tally.last)
        when = f", {week:,} in the last 7 days" if week else ""
        first = f"        first {example.trace_id[:8]}, {example.source} {example.place}{when}"
        console.print(Text(first, style="dim"), soft_wrap=True)
        if example.text:
            room = max(30, console.width - 8)
            quote = textwrap.wrap(f"“{example.text}”", room, max_lines=2, placeholder="…”")
            console.print(Text("\n".join(" " * 8 + line for line in quote), style="dim"), no_wrap=True, crop=False)
    if most is not None and len(groups) > most:
        console.print(f"{len(groups) - most} more groups: --all shows them", style="dim")


def _print_changes(console: Console, judge: JudgeSummary, most: int | None) -> None:
    if judge.before is None and judge.after is None:
        return
    if not (said := tested(judge)):
        side = "earlier" if judge.before is None else "later"
        console.print(f"\nnothing to compare: this tracer judged no {side} run", style="yellow")
        return
    console.print(Text(f"\nchange, {said}", style="dim"), soft_wrap=True)
    header = ("share of runs", *judge.sides, "points (95 %)", "p corrected", "test")
    strong = [change.is_significant for change in judge.changes]
    _print_rows(console, header, list(map(change_row, judge.changes)), most, strong)


def _print_rows(
    console: Console,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    most: int | None,
    strong: Sequence[bool] = (),
) -> None:
    """Print the first rows as a table, those that *strong* marks in bold; nothing where there are none."""
    if not rows:
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column(header[0], overflow="fold")
    for name in header[1:]:
        table.add_column(Text(name), justify="right", no_wrap=True)
    for index, (first, *others) in enumerate(rows[:most]):
        table.add_row(Text(first), *others, style="bold" if strong and strong[index] else "")
    console.print()
    console.print(table)
    if len(rows) > table.row_count:
        console.print(f"{len(rows) - table.row_count:,} more: --all shows them", style="dim")
