"""How a summary says its figures and fills its tables, in the terminal and on the page alike."""

from __future__ import annotations

from blamespan.analysis.showing.legible import counted, dollars
from blamespan.analysis.summary.change import CORRECTION, METHODS, SIGNIFICANT, ShareChange
from blamespan.analysis.summary.statistics import Share
from blamespan.analysis.summary.summary import JudgeSummary, Summary
from blamespan.analysis.summary.tally import AlikeFailures, Names, Tally

_FEW = 30
"""Below that many failed runs the ranking of agents and modes is mostly chance."""


def percent(value: float) -> str:
    """Format a share of 1 in percent."""
    return f"{100 * value:.1f} %"


def interval(share: Share) -> str:
    """Format the 95 % interval of a share."""
    low, high = share.interval
    return f"{100 * low:.1f} to {100 * high:.1f}"


def points(change: ShareChange) -> str:
    """Format a difference in percentage points, with its interval."""
    low, high = change.interval
    return f"{100 * change.difference:+.1f} ({100 * low:+.1f} to {100 * high:+.1f})"


def chance(value: float) -> str:
    """Format a p value."""
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def changed(change: ShareChange) -> str:
    """Name what is compared."""
    if change.part == "failed":
        return "failed"
    if change.part == "alike":
        return f"{change.name}: {change.title}" if change.title else change.name
    if change.part == "abstained":
        return "without a verdict"
    return f"{change.title} ({change.name})" if change.title else change.name


def date_range(tally: Tally) -> str:
    """Format the dates between which the runs began; empty where no clock says so."""
    if tally.first is None or tally.last is None:
        return ""
    first, last = f"{tally.first:%Y-%m-%d}", f"{tally.last:%Y-%m-%d}"
    return first if first == last else f"{first} to {last}"


def remarks(judge: JudgeSummary) -> list[str]:
    """List what a reader must know before reading the figures."""
    tally, notes = judge.tally, []
    if tally.failed < _FEW:
        notes.append(f"Only {counted(tally.failed, 'failed run')}: read the intervals, not the order.")
    if tally.repeated:
        notes.append(f"{counted(tally.repeated, 'failure')} given more than once: give each result once.")
    if others := max(tally.agents.others, tally.modes.others, tally.others):
        notes.append(f"{counted(others, 'failure')} of names too many to count left out below.")
    return notes


def alike(group: AlikeFailures) -> str:
    """Name what failures have in common, and what that is called."""
    fact = group.example
    return f"{fact.alike}   {fact.mode_name}".rstrip()


def usage(tally: Tally) -> str:
    """Say what the models of the runs read, wrote and cost; empty where nobody counted tokens."""
    if not tally.counted:
        return ""
    parts = [f"{tally.input_tokens:,} read, {tally.output_tokens:,} written in {counted(tally.counted, 'run')}"]
    if tally.priced:
        parts.append(f"{dollars(tally.usd)}, {dollars(tally.usd_of_failed)} of it in failed runs")
    if tally.unpriced:
        parts.append(f"{counted(tally.unpriced, 'run')} with a model of no known price")
    return "; ".join(parts)


def notes(summary: Summary) -> list[str]:
    """List what concerns all of a summary."""
    said = []
    if len(summary.judges) > 1:
        said.append(f"{len(summary.judges)} tracers or revisions: each is counted by itself.")
    if summary.outside:
        said.append(f"{counted(summary.outside, 'run')} in neither period, or without a clock that says when it began.")
    said += [f"{judge} speaks in the older results alone: compared with nobody." for judge in summary.only_before]
    if summary.left_out:
        said.append(f"{counted(summary.left_out, 'result')} of further tracers left out: summarize fewer at a time.")
    return said


def name_rows(names: Names, tally: Tally) -> list[tuple[str, Share, list[str]]]:
    """List names, most first: each with its share of the failed runs, and as a row with its confidence."""
    rows = []
    for name, count in names.ranked():
        shown, share = f"{count.title} ({name})" if count.title else name, Share(count.failed, tally.failed)
        cells = [shown, f"{share.count:,}", percent(share.value), interval(share), f"{count.confidence:.2f}"]
        rows.append((shown, share, cells))
    return rows


def adherence_rows(tally: Tally) -> list[tuple[str, Share, list[str]]]:
    """List whom agents obey where instructions disagree: each with how often it was the higher, and as a row."""
    shares = [(name, adherence.share) for name, adherence in tally.ranked_adherence()]
    return [
        (name, share, [name, f"{share.total:,}", f"{share.count:,}", percent(share.value), interval(share)])
        for name, share in shares
    ]


def reason_rows(tally: Tally) -> list[list[str]]:
    """List why there was no verdict, and how often."""
    return [[reason, f"{count.failed:,}"] for reason, count in tally.reasons.ranked()]


def change_row(change: ShareChange) -> list[str]:
    """Return a change as a row: what, both shares, their difference, its p value and the test."""
    test = "Fisher" if change.method.startswith("Fisher") else "z"
    shares = (percent(change.before.value), percent(change.after.value))
    return [changed(change), *shares, points(change), chance(change.corrected), test]


def tested(judge: JudgeSummary) -> str:
    """Say what was compared, how, and how much of it is sure; empty where nothing can be compared."""
    if judge.before is None or judge.after is None or not judge.changes:
        return ""
    sure = sum(change.is_significant for change in judge.changes)
    return (
        f"{counted(judge.before.runs, 'run')} {judge.sides[0]} and {judge.after.runs:,} {judge.sides[1]}: {sure} of "
        f"{len(judge.changes)} comparisons significant at {SIGNIFICANT}: {METHODS}, corrected by {CORRECTION}"
    )
