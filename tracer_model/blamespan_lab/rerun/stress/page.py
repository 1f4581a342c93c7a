"""A campaign as one HTML page with drawings, that needs no script, no network and trusts no text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from jinja2 import Environment

from blamespan.analysis.showing.html_pages import Drawing, ShapeGroup, SvgElement, load_templates
from blamespan.analysis.showing.legible import printable
from blamespan.analysis.summary.statistics import Share
from blamespan_lab.rerun.stress.campaign import StressCampaign
from blamespan_lab.rerun.stress.containment import CATCHES
from blamespan_lab.rerun.stress.figures import TrialSummary, cell, cells_by

_COLOURS: Mapping[str, str] = {
    "flipped": "#b3261e",
    "objection": "#1b5e20",
    "tool re-check": "#2e7d5b",
    "majority": "#00796b",
    "re-derivation": "#4f9a94",
    "self-correction": "#7cb0a8",
    "ignored": "#c8ccd0",
}
_ROW, _BAR, _LEFT, _WIDTH = 22, 14, 260, 460
"""Of a drawing: height of a row, of its bar, where bars begin and how long they may be, in pixels."""
_LONGEST = 34


@dataclass(frozen=True, slots=True)
class _Square:
    """The share of one kind of fault in one agent, and how light it is painted, in percent."""

    rate: Share
    lightness: float


@dataclass(frozen=True, slots=True)
class _Report:
    """What the page says of a campaign.

    Attributes:
        campaign: What was done.
        whole: All trials together.
        by_kind: The share of runs that came out otherwise, by kind of fault.
        by_role: What became of faults, by agent; only where outcomes are verified.
        roles: The columns of the table.
        rows: Of the table, by kind; nothing where no fault was written.
    """

    campaign: StressCampaign
    whole: TrialSummary
    by_kind: Drawing
    by_role: Drawing | None
    roles: Sequence[str]
    rows: Mapping[str, Sequence[_Square | None]]


def page(campaigns: Sequence[StressCampaign]) -> str:
    """Write the page; a part for each campaign."""
    return (
        _templates()
        .get_template("stress.html")
        .render(
            title=", ".join(campaign.subject for campaign in campaigns[:3]),
            reports=[_report_on(campaign) for campaign in campaigns],
            colours={name: _COLOURS[name] for name in ("flipped", *CATCHES)},
        )
    )


@cache
def _templates() -> Environment:
    return load_templates(Path(__file__).parent / "templates")


def _report_on(campaign: StressCampaign) -> _Report:
    kinds = {key[0]: _harm(summary, campaign) for key, summary in cells_by(campaign.trials, "kind").items()}
    cells = cells_by(campaign.trials, "kind", "role")
    roles = list(dict.fromkeys(role for _, role in cells))
    return _Report(
        campaign=campaign,
        whole=cell(campaign.trials),
        by_kind=_draw_bars(dict(sorted(kinds.items(), key=lambda row: -row[1].value))),
        by_role=_draw_stacks({key[0]: summary for key, summary in cells_by(campaign.trials, "role").items()})
        if campaign.is_verified
        else None,
        roles=roles,
        rows={
            kind: [_paint(cells.get((kind, role)), campaign) for role in roles]
            for kind in dict.fromkeys(kind for kind, _ in cells)
        },
    )


def _harm(summary: TrialSummary, campaign: StressCampaign) -> Share:
    return summary.flipped if campaign.is_verified else summary.changed


def _paint(summary: TrialSummary | None, campaign: StressCampaign) -> _Square | None:
    if summary is None or not summary.written:
        return None
    rate = _harm(summary, campaign)
    return _Square(rate, 97 - 45 * rate.value)


def _draw_bars(rates: Mapping[str, Share]) -> Drawing:
    groups = []
    for number, (name, rate) in enumerate(rates.items()):
        y, (low, high) = number * _ROW, rate.interval
        middle = y + _ROW / 2
        ends = {"x1": _LEFT + low * _WIDTH, "x2": _LEFT + high * _WIDTH, "y1": middle, "y2": middle}
        shapes = [
            _label(name, y),
            SvgElement("rect", _box(_LEFT, y, rate.value * _WIDTH, "flipped")),
            SvgElement("line", {**ends, "stroke": "currentColor"}),
            _remark(f"{100 * rate.value:.0f} % of {rate.total}", y),
        ]
        groups.append(ShapeGroup(shapes))
    return _drawing("Share of runs by kind of fault", groups)


def _draw_stacks(cells: Mapping[str, TrialSummary]) -> Drawing:
    groups = []
    for number, (name, summary) in enumerate(cells.items()):
        y, x = number * _ROW, float(_LEFT)
        shapes = [_label(name, y)]
        for how, count in {"flipped": summary.flipped.count, **summary.catches}.items():
            width = count / max(1, summary.written) * _WIDTH
            shapes.append(SvgElement("rect", _box(x, y, width, how), title=f"{how}: {count} of {summary.written}"))
            x += width
        groups.append(ShapeGroup([*shapes, _remark(f"n = {summary.written}", y)]))
    return _drawing("What became of faults by agent", groups)


def _drawing(title: str, groups: Sequence[ShapeGroup]) -> Drawing:
    return Drawing(title, _LEFT + _WIDTH + 120, max(1, len(groups)) * _ROW, groups)


def _label(name: str, y: int) -> SvgElement:
    plain = printable(name)
    shown = plain if len(plain) <= _LONGEST else plain[: _LONGEST - 1] + "\u2026"
    return SvgElement("text", {"x": 0, "y": y + 15}, shown, plain)


def _remark(text: str, y: int) -> SvgElement:
    return SvgElement("text", {"x": _LEFT + _WIDTH + 8, "y": y + 15}, text)


def _box(left: float, y: int, width: float, how: str) -> dict[str, str | float]:
    return {"x": left, "y": y + 4, "width": width, "height": _BAR, "fill": _COLOURS[how]}
