"""Values that a text states, and other values of the same form."""

from __future__ import annotations

import calendar
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from blamespan_lab.data_files import read_data_file

__all__ = ["EditableValue", "Form", "Substitution", "find_values", "substitute", "vary"]

Form: TypeAlias = Literal["number", "date", "time", "identifier", "name", "unit", "sign", "direction", "quotation"]


@dataclass(frozen=True, slots=True)
class EditableValue:
    """A value as a text states it.

    Attributes:
        text: As it is written.
        form: What it is.
        start: Offset of its first character.
    """

    text: str
    form: Form
    start: int


@dataclass(frozen=True, slots=True)
class Substitution:
    """One text in place of another, wherever it stands as a whole word."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class _Substitutes:
    units: Mapping[str, str]
    opposites: Mapping[str, str]


_SUBSTITUTES = read_data_file(_Substitutes, Path(__file__).with_name("substitutes.toml"))
_UNITS, _OPPOSITES = _SUBSTITUTES.units, _SUBSTITUTES.opposites
_UNIT = "|".join(sorted(_UNITS, key=len, reverse=True))
_MONTH = "|".join(calendar.month_name[1:])

_PATTERNS: Sequence[tuple[Form, re.Pattern[str]]] = (
    ("quotation", re.compile(r"[\"“](?P<value>[A-Za-z][^\"“”\n{}\[\]:]{14,90}[\w.!?])[\"”]")),
    (
        "date",
        re.compile(rf"\d{{4}}-\d\d-\d\d|\d{{1,2}} (?:{_MONTH})(?: \d{{4}})?|(?:{_MONTH}) \d{{1,2}}(?:, \d{{4}})?"),
    ),
    ("time", re.compile(r"\d{1,2}:\d\d(?::\d\d)?")),
    ("identifier", re.compile(r"#?(?=\w*\d)(?=\w*[A-Za-z])\w{5,}")),
    ("unit", re.compile(rf"\d[\d,.]*\d? (?:{_UNIT})")),
    ("sign", re.compile(r"[-+]\d[\d,]*(?:\.\d+)?%?")),
    ("number", re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+\.\d+|\d{2,}")),
    ("name", re.compile(r"[A-Z][a-z]{2,}(?: [A-Z][a-z]{2,})+")),
    ("direction", re.compile("|".join(_OPPOSITES))),
)
_EDGE_BEFORE, _EDGE_AFTER = r"(?<![\w.,:/#@-])", r"(?![\w/@]|[.,:-]\w)"


def find_values(text: str) -> Iterator[EditableValue]:
    """Yield every value that *text* states, form by form; a longer form hides the shorter ones inside it."""
    taken: list[range] = []
    for form, pattern in _PATTERNS:
        for match in re.finditer(f"{_EDGE_BEFORE}(?:{pattern.pattern}){_EDGE_AFTER}", text):
            group = "value" if form == "quotation" else 0
            start, stop = match.span(group)
            if any(start < other.stop and other.start < stop for other in taken):
                continue
            value = EditableValue(match.group(group), form, start)
            if not _keeps_form(value.text, value):
                continue
            if form != "quotation":  # what a quotation says may be a value, too
                taken.append(range(start, stop))
            yield value


def substitute(text: str, substitutions: Sequence[Substitution]) -> str:
    """Replace every old text that stands alone, not inside a longer word or number, all at once."""
    if not substitutions or not any(pair.old in text for pair in substitutions):
        return text
    new = {pair.old: pair.new for pair in substitutions}
    olds = "|".join(re.escape(old) for old in sorted(new, key=len, reverse=True))
    pattern = rf"(?<![\w#@])(?<!\d[.,])(?:{olds})(?![\w@]|[.,]\d)"
    return re.sub(pattern, lambda match: new[match.group()], text)


def vary(value: EditableValue, draws: random.Random, others: Sequence[str] = ()) -> str | None:
    """Make another value of the same form, or None where there is none.

    Args:
        value: What is to be changed.
        draws: Decides how.
        others: Texts of the same form from elsewhere; names are taken from these.
    """
    match value.form:
        case "number" | "identifier" | "time" | "date":
            return _with_other_digit(value, draws)
        case "sign":
            return {"-": "+", "+": "-"}[value.text[0]] + value.text[1:]
        case "unit":
            amount, unit = value.text.rsplit(" ", 1)
            return f"{amount} {_UNITS[unit]}"
        case "direction":
            return _OPPOSITES[value.text]
        case "name":
            alike = [name for name in others if name.count(" ") == value.text.count(" ") and name != value.text]
            return draws.choice(alike) if alike else None
        case "quotation":
            return _with_other_word(value.text, draws, others)


def _with_other_digit(value: EditableValue, draws: random.Random) -> str | None:
    """Change one digit so that the value keeps its form: a day stays a day, an hour an hour."""
    places = [index for index, letter in enumerate(value.text) if letter.isdigit()]
    draws.shuffle(places)
    for index in places:
        digits = [digit for digit in "0123456789" if digit != value.text[index]]
        draws.shuffle(digits)
        for digit in digits:
            changed = value.text[:index] + digit + value.text[index + 1 :]
            if _keeps_form(changed, value):
                return changed
    return None


def _keeps_form(changed: str, value: EditableValue) -> bool:
    if value.form == "number":
        return changed[0] != "0" or value.text[0] == "0"
    if value.form == "time":
        hour, minute, *_ = (int(part) for part in changed.split(":"))
        return hour < 24 and minute < 60
    if value.form == "date":
        numbers = [int(part) for part in re.findall(r"\d+", changed)]
        if re.fullmatch(r"\d{4}-\d\d-\d\d", changed):
            year, month, day = numbers
            return 1900 <= year <= 2100 and 1 <= month <= 12 and 1 <= day <= 28
        day = next((number for number in numbers if number < 100), 1)
        year = next((number for number in numbers if number >= 100), 2000)
        return 1 <= day <= 28 and 1900 <= year <= 2100 and not re.search(r"(?<!\d)0\d", changed)
    return True


def _with_other_word(quotation: str, draws: random.Random, others: Sequence[str]) -> str | None:
    """Change one word of a quotation for a word of another one."""
    words: list[str] = sorted(
        {word for other in others for word in re.findall(r"[a-z]{4,}", other)} - set(quotation.split())
    )
    places = [match.span() for match in re.finditer(r"(?<![\w-])[a-z]{4,}(?![\w-])", quotation)]
    if not words or not places:
        return None
    start, stop = draws.choice(places)
    return quotation[:start] + draws.choice(words) + quotation[stop:]
