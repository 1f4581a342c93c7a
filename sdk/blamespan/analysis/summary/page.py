"""A summary as one HTML page that needs nothing else: no script, no font, no network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from jinja2 import Environment
from markupsafe import Markup

from blamespan.analysis.showing.html_pages import Drawing, digest_source, load_templates
from blamespan.analysis.showing.legible import counted
from blamespan.analysis.summary.plots import Bar, bars, change_plot, score_plot, time_plot
from blamespan.analysis.summary.statistics import Share
from blamespan.analysis.summary.summary import JudgeSummary, Summary
from blamespan.analysis.summary.tally import AlikeFailures, Names, Tally
from blamespan.analysis.summary.words import (
    adherence_rows,
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

_FOLDER = Path(__file__).parent
_ROWS = 50
_BARS = 15
_GROUPS = 25
_MOMENTS = 90


@dataclass(frozen=True, slots=True)
class _PageTable:
    """Rows of texts under a header; the rows that *strong* marks are bold."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str
    strong: Sequence[bool] = ()


@dataclass(frozen=True, slots=True)
class _PagePart:
    """A part of what a judge says: a title, and a plot, a table or a remark below it."""

    title: str
    plot: Drawing | None = None
    table: _PageTable | None = None
    remark: str = ""


@dataclass(frozen=True, slots=True)
class _Groups:
    """Groups of alike failures, the greatest first."""

    alike: Sequence[AlikeFailures]
    failed: int
    caption: str


@dataclass(frozen=True, slots=True)
class _Section:
    """All that one judge says."""

    title: str
    dates: str
    tally: Tally
    remarks: Sequence[str]
    parts: Sequence[_PagePart]
    groups: _Groups | None
    last_parts: Sequence[_PagePart]


def page_of(summary: Summary, *, title: str) -> str:
    """Write the page; every text out of a trace is escaped, and a strict policy holds if that should ever fail.

    Args:
        summary: What to show.
        title: What it is of.
    """
    style = (_FOLDER / "page.css").read_text(encoding="utf-8")
    policy = f"default-src 'none'; style-src {digest_source(style.encode())}; base-uri 'none'; form-action 'none'"
    page = _templates().get_template("summary.html")
    return page.render(
        title=title,
        style=Markup(style),  # noqa: S704  # ours: no text of a trace comes near
        policy=policy,
        runs=summary.runs,
        notes=notes(summary),
        sections=[_describe_judge(judge) for judge in summary.judges],
    )


@cache
def _templates() -> Environment:
    templates = load_templates(_FOLDER / "templates")
    templates.filters.update(share=percent, interval=interval, usage=usage)
    templates.globals["Share"] = Share
    return templates


def _describe_judge(judge: JudgeSummary) -> _Section:
    tally = judge.tally
    first = [
        *(_show_times(tally), _show_agents(tally), _show_causes(tally), _show_modes(tally)),
        *(_show_adherence(tally), _show_scores(tally)),
    ]
    last = [_show_changes(judge), _show_reasons(tally)]
    return _Section(
        title=str(judge.judge),
        dates=date_range(tally),
        tally=tally,
        remarks=remarks(judge),
        parts=[part for part in first if part],
        groups=_group_failures(tally),
        last_parts=[part for part in last if part],
    )


def _show_agents(tally: Tally) -> _PagePart | None:
    return _show_names("Who is to blame", "Agent", tally.agents, tally)


def _show_causes(tally: Tally) -> _PagePart | None:
    return _show_names("No agent is to blame", "But", tally.causes, tally)


def _show_modes(tally: Tally) -> _PagePart | None:
    return _show_names("For what", "Error mode", tally.modes, tally)


def _show_names(title: str, column: str, names: Names, tally: Tally) -> _PagePart | None:
    rows = name_rows(names, tally)
    if not rows:
        return None
    plot = bars(f"{title}: share of the failed runs", [Bar(shown, share) for shown, share, _ in rows[:_BARS]])
    caption = f"Share of {tally.failed:,} failed runs" + _more(len(rows) - _ROWS)
    header = [column, "Failed", "Share, %", "95 %", "Confidence"]
    return _PagePart(title, plot, _PageTable(header, [cells for *_, cells in rows[:_ROWS]], caption))


def _show_adherence(tally: Tally) -> _PagePart | None:
    rows = adherence_rows(tally)
    if not rows:
        return None
    title = "Whom agents obey where instructions disagree"
    bars_of_conflicts = [Bar(name, share) for name, share, _ in rows[:_BARS]]
    plot = bars("Share of conflicts in which the higher instruction was kept", bars_of_conflicts)
    caption = "Instructions that disagree, and how often the higher one was kept" + _more(len(rows) - _ROWS)
    header = ["Agent", "Conflicts", "Kept", "Share, %", "95 %"]
    return _PagePart(title, plot, _PageTable(header, [cells for *_, cells in rows[:_ROWS]], caption))


def _show_times(tally: Tally) -> _PagePart | None:
    moments = tally.timeline.moments(_MOMENTS)
    if len(moments) < 2:
        return None
    rows = [
        [f"{moment.start:%Y-%m-%d %H:%M}", f"{moment.runs:,}", f"{moment.failed:,}", percent(moment.share.value)]
        for moment in moments
        if moment.runs
    ]
    plot = time_plot("Runs with a verdict by when they began, and the failed ones of them", moments)
    caption = f"By when runs began (UTC), {tally.timeline.width_s // 3_600:,} hours a row" + (
        f"; of {tally.untimed:,} more no clock says when" if tally.untimed else ""
    )
    return _PagePart("When", plot, _PageTable(["From", "Runs", "Failed", "Share"], rows, caption))


def _show_scores(tally: Tally) -> _PagePart | None:
    if not tally.judged:
        return None
    rows = [[f"{tenth / 10:.1f} to {(tenth + 1) / 10:.1f}", f"{count:,}"] for tenth, count in enumerate(tally.scores)]
    plot = score_plot("Runs with a verdict by failure score", tally.scores)
    caption = "How likely runs failed by an agent's fault, as the tracer says"
    return _PagePart("How surely", plot, _PageTable(["Failure score", "Runs"], rows, caption))


def _group_failures(tally: Tally) -> _Groups | None:
    ranked = tally.ranked_alike()
    groups = [group for group in ranked if group.runs > 1]
    if not ranked:
        return None
    caption = (
        f"{counted(len(groups), 'group')}, of one agent, place, error mode and kind of finding each"
        f"{_more(len(groups) - _GROUPS)}; {counted(len(ranked) - len(groups), 'failure')} like no other."
    )
    return _Groups(groups[:_GROUPS], tally.failed, caption)


def _show_changes(judge: JudgeSummary) -> _PagePart | None:
    if judge.before is None and judge.after is None:
        return None
    if not (said := tested(judge)):
        return _PagePart("Change", remark="Nothing to compare: this tracer judged runs on one side only.")
    shown = judge.changes[:_ROWS]
    caption = f"{said}; these are bold{_more(len(judge.changes) - _ROWS)}"
    header = ["Share of runs", *(side.capitalize() for side in judge.sides), "Points (95 %)", "p, corrected", "Test"]
    strong = [change.is_significant for change in shown]
    table = _PageTable(header, list(map(change_row, shown)), caption, strong)
    return _PagePart("Change", change_plot("Change of each share, in points", shown[:_BARS]), table)


def _show_reasons(tally: Tally) -> _PagePart | None:
    rows = reason_rows(tally)
    if not rows:
        return None
    caption = f"{counted(tally.abstained, 'run')} without a verdict" + _more(len(rows) - _ROWS)
    return _PagePart("Why there is no verdict", table=_PageTable(["Reason", "Runs"], rows[:_ROWS], caption))


def _more(hidden: int) -> str:
    return f"; {hidden:,} more are in the results of --json" if hidden > 0 else ""
