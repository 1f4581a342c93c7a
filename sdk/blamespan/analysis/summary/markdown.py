"""A summary as Markdown, short enough for a comment on a pull request.

Names, quotes and paths come from traces: they stand in code spans, in which Markdown obeys nothing, so that a run can
neither forge a heading or a link nor mention somebody.
"""

from __future__ import annotations

import re

from blamespan.analysis.showing.legible import counted, printable
from blamespan.analysis.summary.change import SIGNIFICANT
from blamespan.analysis.summary.statistics import Share
from blamespan.analysis.summary.summary import JudgeSummary, Summary
from blamespan.analysis.summary.tally import Tally
from blamespan.analysis.summary.words import changed, date_range, interval, percent, points, remarks, usage

_ROWS = 5
_MOST_QUOTE_CHARS = 160
_MOST_NAME_CHARS = 60
_BACKTICKS = re.compile("`+")


def markdown_of(summary: Summary, *, title: str, every: bool = False) -> str:
    """Write a summary as GitHub-flavoured Markdown.

    Args:
        summary: What to write.
        title: What was summed up, as for a heading; text like any other.
        every: List all groups of failures and all changes, not the first few.
    """
    most = None if every else _ROWS
    lines = [f"### blamespan: {code_span(printable(title), _MOST_NAME_CHARS)}", ""]
    for judge in summary.judges:
        lines += _judge_lines(judge, most, is_only=len(summary.judges) == 1)
    if summary.outside:
        lines += [f"{counted(summary.outside, 'run')} in neither period.", ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def code_span(text: str, most_chars: int) -> str:
    """Write untrusted text of one line so that Markdown obeys nothing in it."""
    shortened = text if len(text) <= most_chars else f"{text[: most_chars - 1]}…"
    fence = "`" * (max((len(run) for run in _BACKTICKS.findall(shortened)), default=0) + 1)
    space = " " if shortened.startswith(("`", " ")) or shortened.endswith(("`", " ")) else ""
    return f"{fence}{space}{shortened}{space}{fence}" if shortened else "(empty)"


def _cell(text: str, most_chars: int = _MOST_NAME_CHARS) -> str:
    return code_span(text, most_chars).replace("|", "\\|")


def _judge_lines(judge: JudgeSummary, most: int | None, *, is_only: bool) -> list[str]:
    tally = judge.tally
    failed = Share(tally.failed, tally.judged)
    head = f"**{failed.count:,} of {failed.total:,} runs failed** ({percent(failed.value)}, 95 %: {interval(failed)})"
    facts = [head, f"{tally.abstained:,} without a verdict", date_range(tally)]
    lines = [] if is_only else [f"#### {code_span(str(judge.judge), _MOST_NAME_CHARS)}", ""]
    lines += [", ".join(fact for fact in facts if fact), ""]
    lines += [f"Tokens: {usage(tally)}", ""] if tally.counted else []
    lines += [f"_{remark}_  " for remark in remarks(judge)]
    lines += ["", *_alike_lines(tally, most), *_adherence_lines(tally, most), *_change_lines(judge, most)]
    return lines


def _alike_lines(tally: Tally, most: int | None) -> list[str]:
    groups = tally.ranked_alike()
    if not groups:
        return []
    lines = ["| failures | agent | error mode | for example |", "|---:|---|---|---|"]
    for group in groups[:most]:
        example = group.example
        mode = f"{_cell(example.mode_name)} ({_cell(example.mode)})" if example.mode else "-"
        where = f"{_cell(example.source)} {example.place}: {_cell(example.text, _MOST_QUOTE_CHARS)}"
        lines.append(f"| {group.runs:,} | {_cell(example.agent or example.cause)} | {mode} | {where} |")
    hidden = len(groups) - len(lines) + 2
    return [*lines, "", *([f"{hidden:,} more kinds of failures.", ""] if hidden else [])]


def _adherence_lines(tally: Tally, most: int | None) -> list[str]:
    ranked = [(name, adherence) for name, adherence in tally.ranked_adherence() if adherence.kept < adherence.conflicts]
    if not ranked:
        return []
    lines = ["| obeys lower instructions | conflicts | kept the higher (95 %) |", "|---|---:|---:|"]
    for name, adherence in ranked[:most]:
        share = adherence.share
        lines.append(f"| {_cell(name)} | {share.total:,} | {percent(share.value)} ({interval(share)}) |")
    return [*lines, ""]


def _change_lines(judge: JudgeSummary, most: int | None) -> list[str]:
    changes = judge.changes
    if not changes:
        return []
    sure = [change for change in changes if change.is_significant]
    if not sure:
        return [f"No change is significant at {SIGNIFICANT} ({len(changes)} comparisons).", ""]
    lines = [f"| changed | {_sides(judge)} | points (95 %) |", "|---|---:|---:|---:|"]
    for change in sure[:most]:
        name = changed(change) if change.part in ("failed", "abstained") else _cell(changed(change))
        lines.append(f"| {name} | {percent(change.before.value)} | {percent(change.after.value)} | {points(change)} |")
    return [*lines, ""]


def _sides(judge: JudgeSummary) -> str:
    """Name what is compared; versions come from traces, too."""
    return " | ".join(name if name in ("before", "after") else _cell(name) for name in judge.sides)
