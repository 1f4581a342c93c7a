"""A campaign as one HTML page with drawings, that needs no script, no network and trusts no text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from blamespan.analysis.showing.legible import printable
from blamespan_lab.stress.campaign import Campaign
from blamespan_lab.stress.containment import CATCHES
from blamespan_lab.stress.figures import Rate, TrialSummary, cell, cells_by

__all__ = ["page"]

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

_STYLE = """
:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:.2rem .6rem;text-align:left;border-bottom:1px solid #8884;vertical-align:top}
td.share{text-align:center;color:#000}.note{opacity:.75}svg text{font:12px system-ui,sans-serif;fill:currentColor}
.scroll{overflow-x:auto}
"""


def page(campaigns: Sequence[Campaign]) -> str:
    """Write the page; a part for each campaign."""
    parts = [part for done in campaigns for part in _parts(done)]
    title = escape(printable(", ".join(done.subject for done in campaigns[:3])))
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        "<!doctype html>\n"
        f'<html lang="en"><head><meta charset="utf-8"><title>Stress report: {title}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body>\n'
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def _parts(done: Campaign) -> Iterator[str]:
    whole = cell(done.trials)
    yield f"<h1>{_text(done.subject)}</h1>"
    yield (
        f"<p>{done.tasks - len(done.failing)} of {done.tasks} tasks succeed without a fault. {whole.planned} runs with "
        f"one; in {whole.written} it could be written. {_text(_sentence(whole, done.is_verified))}</p>"
    )
    if not done.is_verified:
        yield (
            '<p class="note">Nobody can tell right answers from wrong ones here: nothing is verified, and changed '
            "answers are counted instead of flipped outcomes.</p>"
        )
    what = "came out wrong" if done.is_verified else "came out with another answer"
    kinds = {key[0]: _harm(summary, done) for key, summary in cells_by(done.trials, "kind").items()}
    yield f"<h2>Share of runs that {what}, by kind of fault</h2>"
    yield _bars(dict(sorted(kinds.items(), key=lambda row: -row[1].share)))
    if done.is_verified:
        yield "<h2>What became of faults, by agent they were put into</h2>"
        yield _draw_stacks({key[0]: summary for key, summary in cells_by(done.trials, "role").items()})
    yield f"<h2>Share of runs that {what}, by kind and agent</h2>"
    yield _grid(done)
    yield "<h2>How runs ended</h2>"
    yield _list_items(whole.ends)
    yield '<p class="note">Bars: share, with its 95 % interval (Wilson) and the number of runs.</p>'


def _sentence(whole: TrialSummary, is_verified: bool) -> str:
    rate, what = (whole.flipped, "flipped the outcome") if is_verified else (whole.changed, "changed the answer")
    low, high = rate.interval
    return f"{100 * rate.share:.1f} % {what} (95 % interval {100 * low:.1f} to {100 * high:.1f}, n = {rate.n})."


def _harm(summary: TrialSummary, done: Campaign) -> Rate:
    return summary.flipped if done.is_verified else summary.changed


def _bars(rates: Mapping[str, Rate]) -> str:
    rows = []
    for number, (name, rate) in enumerate(rates.items()):
        y, (low, high) = number * _ROW, rate.interval
        middle = y + _ROW / 2
        rows.append(
            f'{_label(name, y)}<rect x="{_LEFT}" y="{y + 4}" width="{rate.share * _WIDTH:.1f}" height="{_BAR}" '
            f'fill="{_COLOURS["flipped"]}"/>'
            f'<line x1="{_LEFT + low * _WIDTH:.1f}" x2="{_LEFT + high * _WIDTH:.1f}" y1="{middle}" y2="{middle}" '
            'stroke="currentColor"/>'
            f'<text x="{_LEFT + _WIDTH + 8}" y="{y + 15}">{100 * rate.share:.0f} % of {rate.n}</text>'
        )
    return _drawing(rows)


def _draw_stacks(cells: Mapping[str, TrialSummary]) -> str:
    rows = []
    for number, (name, summary) in enumerate(cells.items()):
        y, x = number * _ROW, float(_LEFT)
        row = _label(name, y)
        for how, count in {"flipped": summary.flipped.hits, **summary.catches}.items():
            width = count / max(1, summary.written) * _WIDTH
            label = escape(f"{how}: {count} of {summary.written}")
            row += (
                f'<rect x="{x:.1f}" y="{y + 4}" width="{width:.1f}" height="{_BAR}" fill="{_COLOURS[how]}">'
                f"<title>{label}</title></rect>"
            )
            x += width
        rows.append(row + f'<text x="{_LEFT + _WIDTH + 8}" y="{y + 15}">n = {summary.written}</text>')
    legend = "".join(
        f'<li><svg width="12" height="12"><rect width="12" height="12" fill="{_COLOURS[how]}"/></svg> '
        f"{escape(how)}</li>"
        for how in ("flipped", *CATCHES)
    )
    return f'{_drawing(rows)}<ul style="list-style:none;padding:0">{legend}</ul>'


def _grid(done: Campaign) -> str:
    cells = cells_by(done.trials, "kind", "role")
    kinds, roles = dict.fromkeys(kind for kind, _ in cells), dict.fromkeys(role for _, role in cells)
    head = "".join(f"<th>{_text(role)}</th>" for role in roles)
    rows = []
    for kind in kinds:
        row = "".join(_square(cells.get((kind, role)), done) for role in roles)
        rows.append(f"<tr><th>{_text(kind)}</th>{row}</tr>")
    return f'<div class="scroll"><table><tr><th></th>{head}</tr>{"".join(rows)}</table></div>'


def _square(summary: TrialSummary | None, done: Campaign) -> str:
    if summary is None or not summary.written:
        return "<td></td>"
    rate = _harm(summary, done)
    low, high = rate.interval
    light = 97 - 45 * rate.share
    label = escape(f"{rate.hits} of {rate.n}, 95 % interval {100 * low:.0f} to {100 * high:.0f} %", quote=True)
    return (
        f'<td class="share" style="background:hsl(4 70% {light:.0f}%)" title="{label}">'
        f"{100 * rate.share:.0f} % <small>of {rate.n}</small></td>"
    )


def _list_items(counts: Mapping[str, int]) -> str:
    return "<ul>" + "".join(f"<li>{_text(name)}: {count}</li>" for name, count in counts.items()) + "</ul>"


def _drawing(rows: Sequence[str]) -> str:
    width, height = _LEFT + _WIDTH + 120, max(1, len(rows)) * _ROW
    return f'<div class="scroll"><svg width="{width}" height="{height}" role="img">{"".join(rows)}</svg></div>'


def _label(name: str, y: int) -> str:
    plain = printable(name)
    shown = plain if len(plain) <= _LONGEST else plain[: _LONGEST - 1] + "\u2026"
    return f'<text x="0" y="{y + 15}">{escape(shown)}<title>{escape(plain)}</title></text>'


def _text(text: str) -> str:
    return escape(printable(text))
