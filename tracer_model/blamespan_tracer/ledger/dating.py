"""Moments that are nobody's to check: by which a message dates itself, or says when it speaks next."""

from __future__ import annotations

import re
from typing import Final

from blamespan_tracer.ledger.values import Value

_MAX_CHARS: Final = 120
"""A heading, and the words of an appointment, stand so near to the moment."""

_PAPER = (
    r"update|report|status|bulletin|notice|memo|minutes|log|summary|briefing|newsletter|digest|announcement|statement|"
    r"handover|changelog"
)
_MARK = r"[\s#*_>\[(|\u2022-]*"
_HEADING = re.compile(
    rf"(?i)^{_MARK}(?:(?!the\b|an?\b|in\b|per\b)[\w'#&/-]+\s+){{0,5}}(?:{_PAPER})s?(?:\s+(?:#?\d+|no\.?\s?\d+))?"
    r"[*_]*(?:\s*[,:(|\u2013\u2014-]|\s+(?=as of|at|on))[\s*_]*(?:(?:as of|at|on)\s+)?\Z"
)
"""A line that names what it is before the moment: `Incident update, `, `Status report - `."""
_STAMP = re.compile(
    r"(?i)(?:^|[\n.;|(,])\s*[\[(*_#>\s-]*(?:date|dated|time|timestamp|as of|at the time of writing|(?:report |last )?"
    r"(?:generated|updated|published|posted|written|issued|sent|compiled|prepared)(?:\s+(?:on|at|as of))?)"
    r"\s*[:*_]*\s*(?:[\d-]{8,10}[T ,]{1,2})?\Z"
)
_BRACKET = re.compile(r"^\s*[*_]*\[(?:[\d-]{8,10}[T ,]{1,2})?\Z")
_AFTER_HEADING = re.compile(
    r"(?:[\s,]*(?:at\s+)?\d{1,2}:\d\d(?::\d\d)?)?\s*(?:[A-Z]{1,4}T|UTC|Z|Uhr|hrs)?[\s*_]*(?:$|[\n.;:,)\]|\u2013\u2014-])"
)
"""Behind the moment of a heading it ends, or what it heads begins: no word goes on."""
_NEXT = re.compile(
    r"(?i)(?:\bnext\s+(?:status\s+|scheduled\s+|regular\s+)?"
    r"(?:update|report|check(?:-?\s?in)?|bulletin|status|briefing|summary|follow-?\s?up|checkpoint)s?"
    r"|\b(?:i|we)(?:'ll|\u2019ll|\s+will|\s+shall|\s+plan\s+to)\s+(?:\w+\s+)?"
    r"(?:report|update|follow\s+up|check|post|get\s+back|be\s+back|write|send\s+(?:an?|another|the\s+next)\s+update)"
    r"(?:\s+(?:back|again|in|an?|another|you|the|next|everyone|here|update|status)){0,4})"
    r"[\s:,*_(~\u2013\u2014-]*(?:(?:is|will|be|due|expected|planned|scheduled|follows|for|at|by|on|before|around)"
    r"[\s:*_~]*){0,5}(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day,?\s+)?(?:[\d-]{8,10}[T ,]{1,2})?\Z"
)
"""Words by which a message announces the next one: `Next update `, `We will report back at `."""


def dates_itself(text: str, value: Value) -> bool:
    """Check whether a message dates itself by a date or time that it states, or announces its own next one by it."""
    before = text[max(0, value.start - _MAX_CHARS) : value.start]
    if _NEXT.search(before) is not None:
        return True
    after = text[value.stop : value.stop + 40]
    if _AFTER_HEADING.match(after) is None:
        return False
    if _STAMP.search(before) is not None:
        return True
    head = text[: value.start].lstrip() if value.start <= 2 * _MAX_CHARS else ""
    is_first_line = 0 < len(head) <= _MAX_CHARS and "\n" not in head
    return is_first_line and (_HEADING.search(head) is not None or _BRACKET.search(head) is not None)
