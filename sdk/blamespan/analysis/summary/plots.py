"""Plots as SVG, drawn for one page: nothing in them but shapes and escaped text, colours by class.

Each plot has a name for those who cannot see it; the table behind it stands beside it on the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from blamespan.analysis.summary.change import Change
from blamespan.analysis.summary.statistics import Share
from blamespan.analysis.summary.tally import Moment
from blamespan.analysis.summary.words import changed, percent, points

__all__ = ["Bar", "bars", "change_plot", "score_plot", "time_plot"]

_WIDTH = 760
_LABEL = 260
_ROW = 26
_NAME_CHARS = 38


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of a plot: a share, with its interval as a line."""

    name: str
    share: Share


def bars(title: str, rows: Sequence[Bar]) -> str:
    """Draw shares as bars from 0 to the highest end of an interval."""
    highest = max((bar.share.interval[1] for bar in rows), default=1.0) or 1.0
    room = _WIDTH - _LABEL - 70
    parts = []
    for index, bar in enumerate(rows):
        y = index * _ROW + 4
        low, high = (_LABEL + end / highest * room for end in bar.share.interval)
        end = bar.share.value / highest * room
        parts += [
            f"<g><title>{_text(bar.name)}: {percent(bar.share.value)}</title>",
            _label(bar.name, y + 14),
            f'<rect class="bar" x="{_LABEL}" y="{y}" width="{end:.1f}" height="18" rx="2"/>',
            f'<line class="reach" x1="{low:.1f}" x2="{high:.1f}" y1="{y + 9}" y2="{y + 9}"/>',
            f'<text class="value" x="{high + 6:.1f}" y="{y + 14}">{percent(bar.share.value)}</text></g>',
        ]
    return _svg(title, _WIDTH, len(rows) * _ROW + 8, parts)


def time_plot(title: str, moments: Sequence[Moment]) -> str:
    """Draw runs by when they began: all as pale columns, the failed ones of them as strong ones."""
    height, foot = 150, 20
    highest = max((moment.runs for moment in moments), default=1) or 1
    width = _WIDTH / max(1, len(moments))
    parts = []
    for index, moment in enumerate(moments):
        x = index * width
        name = f"{moment.start:%Y-%m-%d %H:%M}: {moment.failed:,} of {moment.runs:,} failed"
        parts.append(f"<g><title>{name}</title>")
        for kind, count in (("all", moment.runs), ("bar", moment.failed)):
            tall = count / highest * (height - 14)
            parts.append(
                f'<rect class="{kind}" x="{x + 0.5:.1f}" y="{height - tall:.1f}" '
                f'width="{max(1.0, width - 1):.1f}" height="{tall:.1f}"/>'
            )
        parts.append("</g>")
    if moments:
        first, last = moments[0].start, moments[-1].start
        parts += [
            f'<text class="name" x="0" y="{height + foot - 4}">{first:%Y-%m-%d}</text>',
            f'<text class="name end" x="{_WIDTH}" y="{height + foot - 4}">{last:%Y-%m-%d}</text>',
            f'<text class="value" x="0" y="10">{highest:,} runs</text>',
        ]
    return _svg(title, _WIDTH, height + foot, parts)


def score_plot(title: str, counts: Sequence[int]) -> str:
    """Draw how many runs have which failure score, in tenths."""
    height, foot = 110, 20
    highest, width = max(counts, default=1) or 1, _WIDTH / max(1, len(counts))
    parts = []
    for index, count in enumerate(counts):
        tall = count / highest * (height - 14)
        low, high = index / len(counts), (index + 1) / len(counts)
        kind = "bar" if low >= 0.5 else "all"
        parts += [
            f"<g><title>{low:.1f} to {high:.1f}: {count:,} runs</title>",
            f'<rect class="{kind}" x="{index * width + 2:.1f}" y="{height - tall:.1f}" width="{width - 4:.1f}" '
            f'height="{tall:.1f}"/>',
            f'<text class="name" x="{index * width + 2:.1f}" y="{height + foot - 4}">{low:.1f}</text></g>',
        ]
    return _svg(title, _WIDTH, height + foot, parts)


def change_plot(title: str, rows: Sequence[Change]) -> str:
    """Draw differences as points with their intervals, around a line at none."""
    reach = max((abs(end) for row in rows for end in row.interval), default=1.0) or 1.0
    room = (_WIDTH - _LABEL - 20) / 2
    middle = _LABEL + room
    parts = [f'<line class="axis" x1="{middle}" x2="{middle}" y1="0" y2="{len(rows) * _ROW + 8}"/>']
    for index, row in enumerate(rows):
        y = index * _ROW + 13
        low, high = (middle + end / reach * room for end in row.interval)
        kind = "sure" if row.is_significant else "unsure"
        parts += [
            f'<g class="{kind}"><title>{_text(changed(row))}: {points(row)} points</title>',
            _label(changed(row), y + 5),
            f'<line class="reach" x1="{low:.1f}" x2="{high:.1f}" y1="{y}" y2="{y}"/>',
            f'<circle cx="{middle + row.difference / reach * room:.1f}" cy="{y}" r="5"/></g>',
        ]
    return _svg(title, _WIDTH, len(rows) * _ROW + 8, parts)


def _svg(title: str, width: int, height: int, parts: Sequence[str]) -> str:
    return (
        f'<svg role="img" aria-label="{_text(title)}" viewBox="0 0 {width} {height}" width="{width}">{"".join(parts)}'
        "</svg>"
    )


def _label(name: str, y: float) -> str:
    shown = name if len(name) <= _NAME_CHARS else f"{name[: _NAME_CHARS - 1]}…"
    return f'<text class="name end" x="{_LABEL - 8}" y="{y}">{_text(shown)}</text>'


def _text(text: str) -> str:
    return escape(text, quote=True)
