"""Untrusted text made fit to be read, and numbers in people's words. What markup means is the caller's matter."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ufeff]")
_DIRECTION = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""They turn the text around them: a reader would see other words than stand there."""
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
"""Control and direction characters: text of a trace is untrusted, and a terminal obeys them."""
_QUOTE_JOINT = " … "
"""What stands between quotes where a span holds several."""
_MOST_QUOTES = 20
_SHORTEST_QUOTE = 2


@dataclass(frozen=True, slots=True)
class Passage:
    """Text of a step, and whether it is evidence."""

    text: str
    is_evidence: bool = False


def clean(text: str) -> str:
    """Make what cannot be seen visible: control characters, those that turn the direction, broken Unicode."""
    whole = text.replace("\r\n", "\n").encode("utf-8", "replace").decode()
    return _DIRECTION.sub(lambda match: f"[U+{ord(match[0]):04X}]", _CONTROL.sub("\N{REPLACEMENT CHARACTER}", whole))


def printable(text: str) -> str:
    """Make untrusted text fit for one line of a terminal: no control characters, no line ends, no half characters."""
    return " ".join(_UNPRINTABLE.sub("", text.encode("utf-8", "replace").decode()).split())


def passages(text: str, quotes: Iterable[str]) -> tuple[Passage, ...]:
    """Part cleaned *text* so that what *quotes* say stands by itself; a quote that is not in it is left out."""
    spans: list[tuple[int, int]] = []
    for quote in _split_quotes(quotes):
        at = text.find(quote)
        if at >= 0:
            spans.append((at, at + len(quote)))
    matches: list[Passage] = []
    done = 0
    for start, end in sorted(spans):
        if start > done:
            matches.append(Passage(text[done:start]))
        if end > done:
            matches.append(Passage(text[max(start, done) : end], is_evidence=True))
            done = end
    if done < len(text):
        matches.append(Passage(text[done:]))
    return tuple(matches)


def duration(nanoseconds: int) -> str:
    """Format a duration with two or three figures: `850 ms`, `3.2 s`, `2 min 5 s`."""
    seconds = max(0, nanoseconds) / 1e9
    if seconds < 0.0005:
        return f"{seconds * 1e6:.0f} µs" if seconds else "0 s"
    if seconds < 0.9995:
        return f"{seconds * 1e3:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"


def percent(share: float | None) -> str:
    """Format a share of 1 in percent; tiny ones as such."""
    if share is None:
        return ""
    return "<1\N{NO-BREAK SPACE}%" if 0 < share < 0.01 else f"{share:.0%}".replace("%", "\N{NO-BREAK SPACE}%")


def number(count: int) -> str:
    """Write a whole number with its thousands apart."""
    return f"{count:,}"


def counted(count: int, noun: str, plural: str = "") -> str:
    """Write how many there are of something: `1 step`, `1,204 steps`; *plural* where it is not *noun* and an s."""
    return f"{number(count)} {noun if count == 1 else plural or f'{noun}s'}"


def dollars(usd: float) -> str:
    """Write an amount of money with what is worth reading: `$1.24`, `$0.0031`."""
    if usd >= 1 or usd < 1e-9:
        return f"${usd:,.2f}"
    return f"${usd:.{1 - math.floor(math.log10(usd))}f}"


def size(size_bytes: int) -> str:
    """Format an amount of text or data."""
    if size_bytes < 1_000:
        return f"{size_bytes} B"
    return f"{size_bytes / 1e3:.0f} KB" if size_bytes < 1e6 else f"{size_bytes / 1e6:.1f} MB"


def when(time_ns: int) -> str:
    """Write Unix time for people; empty where the source has no clock, or a broken one."""
    moment = _moment(time_ns)
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S}"


def iso_time(time_ns: int) -> str:
    """Write Unix time for `<time>`; empty where there is none."""
    moment = _moment(time_ns)
    return "" if moment is None else moment.isoformat(timespec="milliseconds")


def _moment(time_ns: int) -> datetime | None:
    try:
        return datetime.fromtimestamp(time_ns / 1e9, UTC) if time_ns >= 10**15 else None  # else no Unix time
    except (ValueError, OverflowError, OSError):
        return None


def _split_quotes(quotes: Iterable[str]) -> Sequence[str]:
    parts = [part.strip().removesuffix("…").strip() for quote in quotes for part in clean(quote).split(_QUOTE_JOINT)]
    return [part for part in dict.fromkeys(parts) if len(part) >= _SHORTEST_QUOTE][:_MOST_QUOTES]
