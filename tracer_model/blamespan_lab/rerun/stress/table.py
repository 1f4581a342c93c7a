"""A campaign as tables on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from blamespan.analysis.showing.legible import counted, printable
from blamespan.analysis.summary.statistics import Share
from blamespan_lab.rerun.stress.byzantine import ByzantineStudy
from blamespan_lab.rerun.stress.campaign import StressCampaign
from blamespan_lab.rerun.stress.figures import TrialSummary, cell, cells_by, count_neutralised

_MOST_ROWS = 40
_NARROWEST = 120
"""Columns of output that goes to a file."""


def print_campaign(console: Console, done: StressCampaign, *, every: bool) -> None:
    """Print what became of a campaign: a line in all, by tier, by agent, and by kind of fault at each agent.

    Args:
        console: Where to; wide enough for the table where nobody watches.
        done: The campaign.
        every: Print every row, else those with the most harm.
    """
    if not console.is_terminal:
        console.width = max(console.width, _NARROWEST)
    whole = cell(done.trials)
    console.print(Text(printable(done.subject), style="bold"), soft_wrap=True)
    for line in _format_trials(done, whole):
        console.print(Text(printable(line)), soft_wrap=True)
    if whole.tiers:
        table = _table("tolerated by", "n", "of those tolerated %")
        for tier, rate in whole.tiers.items():
            table.add_row(tier, str(rate.count), rate_text(rate))
        console.print()
        console.print(table)
    _print(console, "agent", {key[:1]: summary for key, summary in cells_by(done.trials, "role").items()}, done, None)
    ranked = cells_by(done.trials, "kind", "role")
    rows = dict(sorted(ranked.items(), key=lambda row: (-row[1].flipped.value, -row[1].changed.value, row[0])))
    _print(console, "fault", rows, done, None if every else _MOST_ROWS)


def print_comparison(console: Console, campaigns: Sequence[StressCampaign]) -> None:
    """Print several subjects side by side, a line each; what broke the first is looked for in the others."""
    if not console.is_terminal:
        console.width = max(console.width, _NARROWEST)
    table = _table("team", "n", "flipped %", "withstood %", "noticed %", "steps", "ended %")
    first = campaigns[0]
    for campaign in campaigns:
        whole = cell(campaign.trials)
        withstood = "" if campaign is first else rate_text(count_neutralised(campaign.trials, first.trials))
        table.add_row(
            Text(printable(campaign.subject)),
            str(whole.written),
            rate_text(whole.flipped),
            withstood,
            rate_text(whole.noticed),
            _steps(whole),
            rate_text(whole.ended),
        )
    console.print(table)
    console.print(
        Text(
            f"withstood: of the faults that broke {printable(first.subject)}. noticed: of those that did no harm, how "
            "many somebody did something about. steps: from the fault to that, the middle case.",
            style="dim",
        ),
        soft_wrap=True,
    )


def rate_text(rate: Share) -> str:
    """Write a share in percent with its 95 % interval and what it is of."""
    if not rate.total:
        return "-"
    low, high = rate.interval
    return f"{100 * rate.value:.0f} ({100 * low:.0f}-{100 * high:.0f}) of {rate.total}"


def _format_trials(done: StressCampaign, whole: TrialSummary) -> list[str]:
    lines = [
        f"{done.tasks - len(done.failing)} of {done.tasks} tasks succeed without a fault; {whole.planned} runs with "
        f"one, in {whole.written} it could be written; {done.left_out} more were planned than the budget allows"
    ]
    for task, why in list(done.failing.items())[:3]:
        lines.append(f"  task {task} is left out, as it fails without a fault: {why[:200]}")
    if not done.is_verified:
        lines.append(
            "Nobody can tell right answers from wrong ones here, so nothing is verified: changed answers are counted "
            "instead of flipped outcomes. Name a check with --check module:function"
        )
    how = "flipped" if done.is_verified else "changed"
    rate = whole.flipped if done.is_verified else whole.changed
    lines.append(f"{how}: {rate_text(rate)} %; ended by themselves: {rate_text(whole.ended)} % {_ends(whole)}")
    return lines


def _print(
    console: Console, title: str, rows: Mapping[tuple[str, ...], TrialSummary], done: StressCampaign, most: int | None
) -> None:
    names = ("agent",) if title == "agent" else ("fault", "agent")
    outcome = "flipped %" if done.is_verified else "changed %"
    table = _table(*names, "n", outcome, "contained by", "by whom", "steps", "ended")
    for key, summary in list(rows.items())[:most]:
        rate = summary.flipped if done.is_verified else summary.changed
        table.add_row(
            *(Text(printable(name)) for name in key),
            str(summary.written),
            rate_text(rate),
            Text(_format_counts(summary.catches)),
            Text(printable(_format_counts(summary.catchers))),
            _steps(summary),
            f"{summary.ended.count} of {summary.ended.total}",
        )
    console.print()
    console.print(table)
    if most is not None and len(rows) > most:
        console.print(f"{len(rows) - most} more rows with less harm: --all shows them, --json gives them as data")


def _table(*names: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in names:
        is_number = name in ("n", "steps")
        table.add_column(name, justify="right" if is_number else "left", overflow="fold", no_wrap=name.endswith("%"))
    return table


def _format_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def _steps(summary: TrialSummary) -> str:
    return "" if summary.median_steps is None else f"{summary.median_steps:g}"


def _ends(whole: TrialSummary) -> str:
    others = {name: count for name, count in whole.ends.items() if name != "by itself"}
    return f"({_format_counts(others)})" if others else ""


def print_byzantine(console: Console, studies: Sequence[ByzantineStudy]) -> None:
    """Print what each team withstands, a line for each conduct and number of turned agents."""
    if not console.is_terminal:
        console.width = max(console.width, _NARROWEST)
    table = _table("team", "conduct", "k", "withstood %", "turned among the k most blamed %", "chance %", "largest k")
    for study in studies:
        for row in study.cells:
            if not row.withstood.total:
                continue
            table.add_row(
                Text(printable(study.subject)),
                row.conduct,
                str(row.k),
                rate_text(row.withstood),
                rate_text(row.blamed),
                f"{100 * row.chance:.0f}" if row.blamed.total else "",
                str(study.largest_withstood(row.conduct)) if row.k == 1 else "",
            )
    console.print(table)
    for study in studies:
        if study.missed or study.left_out:
            told = (
                f"{study.subject}: {counted(study.missed, 'run')} without an answer, {study.left_out} beyond the budget"
            )
            console.print(Text(printable(told)), soft_wrap=True)
