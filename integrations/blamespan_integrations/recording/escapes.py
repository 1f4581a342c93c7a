"""Texts as they read once their escapes are undone: of JSON, URLs and HTML, wide letters, marks of no width."""

from __future__ import annotations

import re
from bisect import bisect_right
from html import unescape
from unicodedata import normalize

__all__ = ["Undone", "undo_escapes"]


class Undone:
    """A text with its escapes undone.

    Attributes:
        text: The text.
    """

    __slots__ = ("_pieces", "_starts", "text")

    def __init__(self, pieces: list[tuple[int, int, int]], text: str) -> None:
        self._pieces = pieces
        self._starts = [piece[0] for piece in pieces]
        self.text = text

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Say where in the text with its escapes stands what stands here from *start* to *end*."""
        return self._place(start, is_end=False), self._place(end - 1, is_end=True)

    def _place(self, at: int, *, is_end: bool) -> int:
        start, first, last = self._pieces[bisect_right(self._starts, at) - 1]
        is_escape = last - first != 0
        if is_escape:
            return last if is_end else first
        return first + at - start + is_end


def undo_escapes(text: str) -> Undone | None:
    """Undo one level of escapes; None where there is none.

    What is undone is only looked at, so what was no escape, as in the path of a Windows folder, does no harm.
    """
    if text.isascii():
        if "\\" not in text and "%" not in text and "&" not in text:
            return None
        matches = _ASCII.finditer(text)
    else:
        matches = _ANY.finditer(text)
    pieces: list[tuple[int, int, int]] = []
    written: list[str] = []
    size = at = 0
    for match in matches:
        start, end = match.span()
        if start > at:
            pieces.append((size, at, at))  # as it stands: no length of its own
            written.append(text[at:start])
            size += start - at
        plain = _plain(match[0])
        if plain:
            pieces.append((size, start, end))
            written.append(plain)
            size += 1
        at = end
    if at == 0:
        return None
    if at < len(text):
        pieces.append((size, at, at))
        written.append(text[at:])
    return Undone(pieces, "".join(written)) if pieces else None


_ESCAPES = (
    r"""\\(?:u[0-9a-fA-F]{4}|x[0-7][0-9a-fA-F]|["'/\\nrt])|%[2-7][0-9a-fA-F]"""
    r"""|&(?:\#[0-9]{2,4}|\#x[0-9a-fA-F]{2,4}|quot|apos|amp|lt|gt);"""
)
_NO_WIDTH = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
    "\U000e0000-\U000e007f"
)
_ASCII = re.compile(_ESCAPES)
_ANY = re.compile(rf"{_ESCAPES}|[{_NO_WIDTH}]|[\uff01-\uff5e\u3000\u00a0\U0001d400-\U0001d7ff]")
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t"}
_WIDTHLESS = re.compile(f"[{_NO_WIDTH}]")


def _plain(escape: str) -> str:
    """Undo one escape: one character, or none."""
    if escape[0] == "\\":
        code = escape[2:]
        character = chr(int(code, 16)) if code else _CONTROLS.get(escape[1], escape[1])
    elif escape[0] == "%":
        character = chr(int(escape[1:], 16))
    elif escape[0] == "&":
        character = unescape(escape)[:1]
    else:
        character = normalize("NFKC", escape)[:1]
    return "" if _WIDTHLESS.match(character) else character
