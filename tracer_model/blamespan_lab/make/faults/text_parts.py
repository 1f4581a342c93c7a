"""Finding the parts of a text that an operator can change: sentences, numbers, names, units."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_BOUNDARY = re.compile(r"(?<=[.!?])[^\S\n]+|\n+")
_NUMBER = re.compile(r"(?<![\w.,])-?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?(?![\w]|[.,][0-9])")
_LIST_MARK = re.compile(r"^[^\S\n]*\(?([0-9]{1,2})[.)](?=\s|$)", re.MULTILINE)
_MOST_MARK = 8
"""Characters of the longest mark of a list, blanks aside."""
_OPENS_ITEM = re.compile(r"(?:[-*+#>:]|\d[.)])[ \t*]*\Z|\n\s*\Z")
"""What stands before the first word of a list's item, of a heading, or after a colon."""

_NAME = re.compile(r"\b[A-Z][a-z]+(?:[ -][A-Z][a-z]+)*\b|`[^`\n]{1,60}`|\"[^\"\n]{1,60}\"")


@dataclass(frozen=True, slots=True)
class TextPart:
    """A part of a text: `text[start:end]`."""

    start: int
    end: int
    text: str


def split_sentences(text: str) -> list[TextPart]:
    """Split *text* into its sentences and lines; joined again they are the text, but for blanks at its end."""
    parts: list[TextPart] = []
    start = before = 0
    is_blank = True
    for end in [*(m.end() for m in _BOUNDARY.finditer(text)), len(text)]:
        is_blank = is_blank and not text[before:end].strip()  # only what is new: blank lines may be many
        before = end
        if not is_blank and not (end - start <= _MOST_MARK and _is_mark(text[start:end])):
            parts.append(TextPart(start, end, text[start:end]))
            start, is_blank = end, True
    return parts


def find_numbers(text: str) -> list[TextPart]:
    """Find the amounts in *text*, without the marks of numbered lists."""
    marks = {m.start(1) for m in _LIST_MARK.finditer(text)}
    return [TextPart(m.start(), m.end(), m.group()) for m in _NUMBER.finditer(text) if m.start() not in marks]


def find_names(text: str) -> list[TextPart]:
    """Find names, code identifiers and quotations; a capitalised word that opens a sentence or an item is no name."""
    opens = {sentence.start for sentence in split_sentences(text)}
    parts = [TextPart(m.start(), m.end(), m.group()) for m in _NAME.finditer(text)]
    return [
        name
        for name in parts
        if " " in name.text
        or name.text[0] in '`"'
        or not (name.start in opens or _OPENS_ITEM.search(text, max(0, name.start - 12), name.start))
    ]


def replace_parts(text: str, changes: Sequence[tuple[TextPart, str]]) -> str:
    """Write *text* with some of its parts replaced; the parts must not overlap."""
    pieces, at = [], 0
    for part, new in sorted(changes, key=lambda change: change[0].start):
        pieces += [text[at : part.start], new]
        at = part.end
    return "".join([*pieces, text[at:]])


def _is_mark(text: str) -> bool:
    mark = _LIST_MARK.match(text)
    return mark is not None and not text[mark.end() :].strip()
