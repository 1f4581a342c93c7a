"""A summary as one HTML page that needs nothing else: no script, no font, no network."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from pathlib import Path

from blamespan._version import __version__
from blamespan.analysis.showing.legible import printable
from blamespan.analysis.summary.change import CORRECTION, METHODS, SIGNIFICANT
from blamespan.analysis.summary.clusters import Cluster
from blamespan.analysis.summary.plots import Bar, bars, change_plot, score_plot, time_plot
from blamespan.analysis.summary.statistics import Share
from blamespan.analysis.summary.summary import JudgeSummary, Summary
from blamespan.analysis.summary.tally import Names, Tally
from blamespan.analysis.summary.words import chance, changed, date_range, interval, percent, points, remarks, test

__all__ = ["page_of"]

_ROWS = 50
_BARS = 15
_CLUSTERS = 25
_MOMENTS = 90


def page_of(summary: Summary, *, title: str) -> str:
    """Write the page; every text out of a trace is escaped, and a strict policy holds if that should ever fail.

    Args:
        summary: What to show.
        title: What it is of.
    """
    name = _safe(printable(title))
    notes = [f"{summary.outside:,} runs belong to neither period, or no clock says when they began."] * bool(
        summary.outside
    )
    notes += [f"{judge} speaks in the older results alone: compared with nobody." for judge in summary.only_before]
    notes += [f"{summary.left_out:,} results of further tracers are left out."] * bool(summary.left_out)
    if len(summary.judges) > 1:
        notes.insert(0, f"{len(summary.judges)} tracers or revisions: each is counted by itself.")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy()}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{name} · blamespan summary</title><style>{_style()}</style></head>"
        f"<body><main><h1>{name}</h1>"
        f'<p class="faint">{summary.runs:,} runs. Intervals are 95 %: Wilson for shares, Newcombe for '
        f"differences. Made by blamespan {_safe(__version__)}.</p>"
        f"{_notes(notes)}{''.join(map(_judge, summary.judges))}</main></body></html>\n"
    )


def _judge(judge: JudgeSummary) -> str:
    tally = judge.tally
    failed, abstained = Share(tally.failed, tally.judged), Share(tally.abstained, tally.runs)
    return "".join(
        (
            f"<section><h2>{_safe(str(judge.judge))}</h2>",
            f'<p class="faint">{tally.runs:,} runs {_safe(date_range(tally))}</p>',
            f"<p><b>{percent(failed.value)}</b> ({interval(failed)}) of {failed.total:,} runs with a verdict failed. ",
            f"<b>{percent(abstained.value)}</b> ({interval(abstained)}) of {abstained.total:,} got no verdict.</p>",
            _notes(remarks(judge)),
            _times(tally),
            _names("Who is to blame", "Agent", tally.agents, tally),
            _names("For what", "Error mode", tally.modes, tally),
            _scores(tally),
            _clusters(judge),
            _changes(judge),
            _reasons(tally),
            "</section>",
        )
    )


def _names(title: str, column: str, names: Names, tally: Tally) -> str:
    ranked = names.ranked()
    if not ranked:
        return ""
    titled = [
        (f"{count.title} ({name})" if count.title else name, Share(count.failed, tally.failed), count)
        for name, count in ranked[:_ROWS]
    ]
    rows = [
        [shown, f"{share.count:,}", percent(share.value), interval(share), f"{count.confidence:.2f}"]
        for shown, share, count in titled
    ]
    plot = bars(f"{title}: share of the failed runs", [Bar(shown, share) for shown, share, _ in titled[:_BARS]])
    caption = f"Share of {tally.failed:,} failed runs" + _more(len(ranked) - len(rows))
    return f"<h3>{title}</h3>{plot}" + _table([column, "Failed", "Share, %", "95 %", "Confidence"], rows, caption)


def _times(tally: Tally) -> str:
    moments = tally.timeline.moments(_MOMENTS)
    if len(moments) < 2:
        return ""
    rows = [
        [f"{moment.start:%Y-%m-%d %H:%M}", f"{moment.runs:,}", f"{moment.failed:,}", percent(moment.share.value)]
        for moment in moments
        if moment.runs
    ]
    plot = time_plot("Runs with a verdict by when they began, and the failed ones of them", moments)
    caption = f"By when runs began (UTC), {tally.timeline.width_s // 3_600:,} hours a row" + (
        f"; of {tally.untimed:,} more no clock says when" if tally.untimed else ""
    )
    return f"<h3>When</h3>{plot}" + _table(["From", "Runs", "Failed", "Share"], rows, caption)


def _scores(tally: Tally) -> str:
    if not tally.judged:
        return ""
    rows = [[f"{tenth / 10:.1f} to {(tenth + 1) / 10:.1f}", f"{count:,}"] for tenth, count in enumerate(tally.scores)]
    plot = score_plot("Runs with a verdict by failure score", tally.scores)
    caption = "How likely runs failed by an agent's fault, as the tracer says"
    return f"<h3>How surely</h3>{plot}" + _table(["Failure score", "Runs"], rows, caption)


def _clusters(judge: JudgeSummary) -> str:
    groups = [cluster for cluster in judge.clusters if cluster.count > 1]
    if not judge.clusters:
        return ""
    items = "".join(_cluster(cluster, judge.sampled) for cluster in groups[:_CLUSTERS])
    single = len(judge.clusters) - len(groups)
    return (
        f'<h3>Alike failures</h3><p class="faint">{len(groups)} groups, of one agent and error mode and like words '
        f"each{_more(len(groups) - _CLUSTERS)}; {single:,} failures are like no other.</p>"
        f'<ol class="clusters">{items}</ol>'
    )


def _cluster(cluster: Cluster, sampled: int) -> str:
    mode = f"{cluster.mode_name} ({cluster.mode})" if cluster.mode else "no mode"
    words = f" <small>{_safe(', '.join(cluster.words))}</small>" if cluster.words else ""
    example = cluster.example
    quote = f'<blockquote dir="auto">{_safe(example.text[:400])}</blockquote>' if example.text else ""
    return (
        f"<li><b>{cluster.count:,}</b> of {sampled:,}: "
        f"<b><bdi>{_safe(cluster.agent)}</bdi></b>, {_safe(mode)}{words}{quote}"
        f"<small>for example step {example.step} of <bdi>{_safe(example.source)}</bdi>, trace "
        f"{_safe(example.trace_id)}</small></li>"
    )


def _changes(judge: JudgeSummary) -> str:
    if judge.before is None and judge.after is None:
        return ""
    if not judge.changes or judge.before is None or judge.after is None:
        return '<h3>Change</h3><p class="note">Nothing to compare: this tracer judged runs on one side only.</p>'
    shown = judge.changes[:_ROWS]
    rows = [
        [
            changed(change),
            percent(change.before.value),
            percent(change.after.value),
            points(change),
            chance(change.corrected),
            test(change),
        ]
        for change in shown
    ]
    sure = sum(change.is_significant for change in judge.changes)
    caption = (
        f"{judge.before.runs:,} runs before, {judge.after.runs:,} after. {sure} of {len(judge.changes)} comparisons "
        f"are significant at {SIGNIFICANT} ({METHODS}, corrected by {CORRECTION}); these are bold"
        + _more(len(judge.changes) - _ROWS)
    )
    header = ["Share of runs", "Before", "After", "Points (95 %)", "p, corrected", "Test"]
    strong = [change.is_significant for change in shown]
    return f"<h3>Change</h3>{change_plot('Change of each share, in points', shown[:_BARS])}" + _table(
        header, rows, caption, strong
    )


def _reasons(tally: Tally) -> str:
    ranked = tally.reasons.ranked()
    if not ranked:
        return ""
    rows = [[reason, f"{count.failed:,}"] for reason, count in ranked[:_ROWS]]
    caption = f"{tally.abstained:,} runs without a verdict" + _more(len(ranked) - len(rows))
    return "<h3>Why there is no verdict</h3>" + _table(["Reason", "Runs"], rows, caption)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], caption: str, strong: Sequence[bool] = ()) -> str:
    heads = "".join(
        f'<th scope="col"{" class=" + chr(34) + "figure" + chr(34) if column else ""}>{_safe(cell)}</th>'
        for column, cell in enumerate(header)
    )
    lines = []
    for number, (first, *rest) in enumerate(rows):
        cells = "".join(f'<td class="figure">{_safe(cell)}</td>' for cell in rest)
        kind = ' class="sure"' if strong and strong[number] else ""
        lines.append(f'<tr{kind}><th scope="row"><bdi>{_safe(first)}</bdi></th>{cells}</tr>')
    return (
        '<details open><summary>As a table</summary><div class="scroll" role="group" tabindex="0" '
        f'aria-label="{_safe(caption)}"><table><caption>{_safe(caption)}</caption><thead><tr>{heads}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div></details>"
    )


def _notes(notes: Iterable[str]) -> str:
    return "".join(f'<p class="note">{_safe(note)}</p>' for note in notes)


def _more(hidden: int) -> str:
    return f"; {hidden:,} more are in the results of --json" if hidden > 0 else ""


def _safe(text: str) -> str:
    return escape(printable(text), quote=True)


@cache
def _style() -> str:
    return (Path(__file__).parent / "page.css").read_text(encoding="utf-8")


def _policy() -> str:
    digest = base64.b64encode(hashlib.sha256(_style().encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
