"""How a summary says its figures, in the terminal and on the page alike."""

from __future__ import annotations

from blamespan.analysis.showing.legible import dollars
from blamespan.analysis.summary.change import ShareChange
from blamespan.analysis.summary.statistics import Share
from blamespan.analysis.summary.summary import JudgeSummary
from blamespan.analysis.summary.tally import AlikeFailures, Tally

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


def test(change: ShareChange) -> str:
    """Name the test in a word."""
    return "Fisher" if change.method.startswith("Fisher") else "z"


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
        notes.append(f"Only {tally.failed} failed runs: read the intervals, not the order.")
    if tally.repeated:
        notes.append(f"{tally.repeated:,} failures occur more than once: give each result once.")
    if others := max(tally.agents.others, tally.modes.others, tally.others):
        notes.append(f"{others:,} failures have names too many to count; left out below.")
    return notes


def alike(group: AlikeFailures) -> str:
    """Name what failures have in common, and what that is called."""
    fact = group.example
    return f"{fact.alike}   {fact.mode_name}".rstrip()


def usage(tally: Tally) -> str:
    """Say what the models of the runs read, wrote and cost; empty where nobody counted tokens."""
    if not tally.counted:
        return ""
    parts = [f"{tally.input_tokens:,} read, {tally.output_tokens:,} written in {tally.counted:,} runs"]
    if tally.priced:
        parts.append(f"{dollars(tally.usd)}, {dollars(tally.usd_of_failed)} of it in failed runs")
    if tally.unpriced:
        parts.append(f"{tally.unpriced:,} runs with a model of no known price")
    return "; ".join(parts)
