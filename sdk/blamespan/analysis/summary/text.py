"""A summary on a terminal."""

from __future__ import annotations

import textwrap

from rich.console import Console
from rich.table import Table
from rich.text import Text

from blamespan.analysis.summary.change import CORRECTION, METHODS, SIGNIFICANT
from blamespan.analysis.summary.statistics import Share
from blamespan.analysis.summary.summary import JudgeSummary, Summary
from blamespan.analysis.summary.tally import Names, Tally
from blamespan.analysis.summary.words import (
    alike,
    chance,
    changed,
    date_range,
    interval,
    percent,
    points,
    remarks,
    test,
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
    if len(summary.judges) > 1:
        console.print(f"{len(summary.judges)} tracers or revisions; each is counted by itself\n", style="bold")
    for judge_summary in summary.judges:
        _print_judge(console, judge_summary, most)
    for judge in summary.only_before:
        console.print(Text(f"{judge} speaks in the older results alone: compared with nobody"))
    if summary.outside:
        console.print(f"{summary.outside:,} runs belong to neither period, or no clock says when they began")
    if summary.left_out:
        console.print(f"{summary.left_out:,} results of further tracers are left out: summarize fewer at a time")


def _print_judge(console: Console, judge: JudgeSummary, most: int | None) -> None:
    tally = judge.tally
    dates = date_range(tally)
    head = f"{judge.judge}   {tally.runs:,} runs{f'   {dates}' if dates else ''}"
    console.print(Text(head, style="bold"), soft_wrap=True)
    for title, share in (
        ("failed", Share(tally.failed, tally.judged)),
        ("no verdict", Share(tally.abstained, tally.runs)),
    ):
        console.print(f"{title:10}  {percent(share.value):>7}  ({interval(share)})  {share.count:,} of {share.total:,}")
    if tally.guarded:
        done = ", ".join(f"{tally.guard[action]:,} {action}" for action in reversed(ACTIONS) if tally.guard[action])
        console.print(f"{'guard':10}  {done} in {tally.guarded:,} runs")
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
    _print_adherence(console, tally, most)
    _print_reasons(console, tally, most)
    _print_alike(console, tally, most)
    _print_changes(console, judge, most)
    console.print()


def _print_names(console: Console, title: str, names: Names, tally: Tally, most: int | None) -> None:
    ranked = names.ranked()
    if not ranked:
        return
    table = _table(title, "failed", "share", "95 %", "confidence")
    for name, count in ranked[:most]:
        share = Share(count.failed, tally.failed)
        shown = f"{count.title} ({name})" if count.title else name
        cells = (f"{count.failed:,}", percent(share.value), interval(share), f"{count.confidence:.2f}")
        table.add_row(Text(shown), *cells)
    _print_table(console, table, len(ranked) - table.row_count)


def _print_adherence(console: Console, tally: Tally, most: int | None) -> None:
    ranked = tally.ranked_adherence()
    if not ranked:
        return
    table = _table("instructions disagree", "conflicts", "kept the higher", "share", "95 %")
    for name, adherence in ranked[:most]:
        share = adherence.share
        cells = (f"{adherence.conflicts:,}", f"{adherence.kept:,}", percent(share.value), interval(share))
        table.add_row(Text(name), *cells)
    _print_table(console, table, len(ranked) - table.row_count)


def _print_reasons(console: Console, tally: Tally, most: int | None) -> None:
    ranked = tally.reasons.ranked()
    if not ranked:
        return
    table = _table("why there is no verdict", "runs")
    for reason, count in ranked[:most]:
        table.add_row(Text(reason), f"{count.failed:,}")
    _print_table(console, table, len(ranked) - table.row_count)


def _print_alike(console: Console, tally: Tally, most: int | None) -> None:
    ranked = tally.ranked_alike()
    groups = [group for group in ranked if group.runs > 1]
    if not ranked:
        return
    single = len(ranked) - len(groups)
    console.print(f"\nalike failures: {len(groups):,} groups; {single:,} failures are like no other", style="dim")
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
    if judge.before is None or judge.after is None or not judge.changes:
        side = "earlier" if judge.before is None else "later"
        console.print(f"\nnothing to compare: this tracer judged no {side} run", style="yellow")
        return
    sure = sum(change.is_significant for change in judge.changes)
    sides = f"{judge.before.runs:,} runs {judge.sides[0]} and {judge.after.runs:,} {judge.sides[1]}"
    tested = (
        f"{sure} of {len(judge.changes)} comparisons significant at {SIGNIFICANT}: {METHODS}, corrected by {CORRECTION}"
    )
    console.print(Text(f"\nchange, {sides}: {tested}", style="dim"), soft_wrap=True)
    table = _table("share of runs", *judge.sides, "points (95 %)", "p corrected", "test")
    for change in judge.changes[:most]:
        style = "bold" if change.is_significant else ""
        cells = (
            percent(change.before.value),
            percent(change.after.value),
            points(change),
            chance(change.corrected),
            test(change),
        )
        table.add_row(Text(changed(change)), *cells, style=style)
    _print_table(console, table, len(judge.changes) - table.row_count)


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column(first, overflow="fold")
    for name in others:
        table.add_column(Text(name), justify="right", no_wrap=True)
    return table


def _print_table(console: Console, table: Table, hidden: int) -> None:
    console.print()
    console.print(table)
    if hidden > 0:
        console.print(f"{hidden:,} more: --all shows them", style="dim")
