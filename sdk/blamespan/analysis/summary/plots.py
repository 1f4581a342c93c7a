"""Plots of a summary: shapes, coloured by class.

Each plot has a name for those who cannot see it; the table behind it stands beside it on the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from blamespan.analysis.showing.html_pages import Drawing, ShapeGroup, SvgElement
from blamespan.analysis.showing.legible import counted
from blamespan.analysis.summary.change import ShareChange
from blamespan.analysis.summary.statistics import Share
from blamespan.analysis.summary.tally import Moment
from blamespan.analysis.summary.words import changed, percent, points

_WIDTH = 760
_LABEL = 260
_ROW = 26
_NAME_CHARS = 38


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of a plot: a share, with its interval as a line."""

    name: str
    share: Share


def bars(title: str, rows: Sequence[Bar]) -> Drawing:
    """Draw shares as bars from 0 to the highest end of an interval."""
    highest = max((bar.share.interval[1] for bar in rows), default=1.0) or 1.0
    room = _WIDTH - _LABEL - 70
    groups = []
    for index, bar in enumerate(rows):
        y = index * _ROW + 4
        low, high = (_LABEL + end / highest * room for end in bar.share.interval)
        value = percent(bar.share.value)
        shapes = [
            _label(bar.name, y + 14),
            SvgElement("rect", _box("bar", _LABEL, y, bar.share.value / highest * room, 18) | {"rx": 2}),
            _line("reach", low, high, y + 9),
            SvgElement("text", {"class": "value", "x": high + 6, "y": y + 14}, value),
        ]
        groups.append(ShapeGroup(shapes, f"{bar.name}: {value}"))
    return Drawing(title, _WIDTH, len(rows) * _ROW + 8, groups)


def time_plot(title: str, moments: Sequence[Moment]) -> Drawing:
    """Draw runs by when they began: all as pale columns, the failed ones of them as strong ones."""
    height, foot = 150, 20
    highest = max((moment.runs for moment in moments), default=1) or 1
    width = _WIDTH / max(1, len(moments))
    groups = []
    for index, moment in enumerate(moments):
        left = index * width + 0.5
        columns = [
            SvgElement("rect", _box(kind, left, height - tall, max(1.0, width - 1), tall))
            for kind, count in (("all", moment.runs), ("bar", moment.failed))
            for tall in [count / highest * (height - 14)]
        ]
        name = f"{moment.start:%Y-%m-%d %H:%M}: {moment.failed:,} of {moment.runs:,} failed"
        groups.append(ShapeGroup(columns, name))
    if moments:
        y = height + foot - 4
        ends = [
            SvgElement("text", {"class": "name", "x": 0, "y": y}, f"{moments[0].start:%Y-%m-%d}"),
            SvgElement("text", {"class": "name end", "x": _WIDTH, "y": y}, f"{moments[-1].start:%Y-%m-%d}"),
            SvgElement("text", {"class": "value", "x": 0, "y": 10}, counted(highest, "run")),
        ]
        groups.append(ShapeGroup(ends))
    return Drawing(title, _WIDTH, height + foot, groups)


def score_plot(title: str, counts: Sequence[int]) -> Drawing:
    """Draw how many runs have which failure score, in tenths."""
    height, foot = 110, 20
    highest, width = max(counts, default=1) or 1, _WIDTH / max(1, len(counts))
    groups = []
    for index, count in enumerate(counts):
        tall = count / highest * (height - 14)
        low, high = index / len(counts), (index + 1) / len(counts)
        left = index * width + 2
        shapes = [
            SvgElement("rect", _box("bar" if low >= 0.5 else "all", left, height - tall, width - 4, tall)),
            SvgElement("text", {"class": "name", "x": left, "y": height + foot - 4}, f"{low:.1f}"),
        ]
        groups.append(ShapeGroup(shapes, f"{low:.1f} to {high:.1f}: {counted(count, 'run')}"))
    return Drawing(title, _WIDTH, height + foot, groups)


def change_plot(title: str, rows: Sequence[ShareChange]) -> Drawing:
    """Draw differences as points with their intervals, around a line at none."""
    reach = max((abs(end) for row in rows for end in row.interval), default=1.0) or 1.0
    room = (_WIDTH - _LABEL - 20) / 2
    middle, height = _LABEL + room, len(rows) * _ROW + 8
    groups = [ShapeGroup([SvgElement("line", {"class": "axis", "x1": middle, "x2": middle, "y1": 0, "y2": height})])]
    for index, row in enumerate(rows):
        y = index * _ROW + 13
        low, high = (middle + end / reach * room for end in row.interval)
        shapes = [
            _label(changed(row), y + 5),
            _line("reach", low, high, y),
            SvgElement("circle", {"cx": middle + row.difference / reach * room, "cy": y, "r": 5}),
        ]
        kind = "sure" if row.is_significant else "unsure"
        groups.append(ShapeGroup(shapes, f"{changed(row)}: {points(row)} points", kind))
    return Drawing(title, _WIDTH, height, groups)


def _label(name: str, y: float) -> SvgElement:
    shown = name if len(name) <= _NAME_CHARS else f"{name[: _NAME_CHARS - 1]}…"
    return SvgElement("text", {"class": "name end", "x": _LABEL - 8, "y": y}, shown)


def _line(kind: str, start: float, end: float, y: float) -> SvgElement:
    return SvgElement("line", {"class": kind, "x1": start, "x2": end, "y1": y, "y2": y})


def _box(kind: str, left: float, top: float, width: float, height: float) -> dict[str, str | float]:
    return {"class": kind, "x": left, "y": top, "width": width, "height": height}
