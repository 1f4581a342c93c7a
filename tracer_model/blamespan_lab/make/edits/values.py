"""Values that a text states, as the ledger reads them, and other values of the same form."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final, Literal, TypeAlias

from blamespan_tracer.ledger.values import OPPOSITES, Value, find_values

EditableForm: TypeAlias = Literal[
    "number", "date", "time", "identifier", "name", "unit", "sign", "direction", "quotation"
]
"""What is changed of a value; of a number its digits, its `unit` or its `sign`."""


@dataclass(frozen=True, slots=True)
class EditableValue:
    """A value as a text states it.

    Attributes:
        text: As it is written, a unit and its number together.
        form: What of it is changed.
        start: Offset of its first character.
    """

    text: str
    form: EditableForm
    start: int


@dataclass(frozen=True, slots=True)
class Substitution:
    """One text in place of another, wherever it stands as a whole word."""

    old: str
    new: str


_UNIT_PAIRS: Final = (
    "km miles, kg lb, grams ounces, mg g, ml l, minutes hours, days weeks, months years, meters feet, MB GB, "
    "million billion, thousand million"
)
_UNITS: dict[str, str] = {}
"""Of each unit another one of the same kind, written alike."""
for _pair in _UNIT_PAIRS.split(", "):
    _one, _other = _pair.split()
    _UNITS.setdefault(_one, _other)
    _UNITS.setdefault(_other, _one)
_UNIT = re.compile(rf" (?:{'|'.join(sorted(_UNITS, key=len, reverse=True))})(?!\w)")
_DIRECTION_WORDS: Final = (
    "increased decreased rose fell higher lower cheapest dearest oldest newest largest smallest longest shortest "
    "ascending descending maximum minimum positive negative enabled disabled approved rejected"
)
_DIRECTIONS: Final = frozenset(_DIRECTION_WORDS.split())
"""Words for which their opposite can stand in any sentence."""
_PERSON = re.compile(r"[A-Z][a-z]{2,}(?: [A-Z][a-z]{2,})+")


def find_editable_values(text: str) -> Iterator[EditableValue]:
    """Yield every value of *text* that can be changed: none inside a longer word, and no single digit."""
    for value in find_values(text):
        beside = text[max(0, value.start - 1) : value.start] + text[value.stop : value.stop + 1]
        if not any(map(str.isalnum, beside)):
            yield from _find_editable(text, value)


def _find_editable(text: str, value: Value) -> Iterator[EditableValue]:
    written, start = value.text, value.start
    if value.form == "name":
        written = " ".join(written.split(" ")[-len(value.key.split()) :])  # without "Dear"
        if _PERSON.fullmatch(written):
            yield EditableValue(written, "name", value.stop - len(written))
    elif value.form == "opposite":
        if written in _DIRECTIONS:
            yield EditableValue(written, "direction", start)
    elif value.form != "number":
        yield EditableValue(written, value.form, start)
    elif (unit := _UNIT.match(text, value.stop)) and written[-1].isdigit():
        yield EditableValue(written + unit.group(), "unit", start)
    elif written[0] in "+-":
        yield EditableValue(written + ("%" if text.startswith("%", value.stop) else ""), "sign", start)
    elif sum(map(str.isdigit, written)) > 1:
        yield EditableValue(written, "number", start)


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
            return next(iter(OPPOSITES[value.text] & _DIRECTIONS))
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
    """Check whether a changed text is a value of the same form, that there is, and begins with a zero where it did."""
    found = find_values(changed)
    if [one.form for one in found] != [value.form] or found[0].text != changed:
        return False
    if value.form != "identifier" and any((a == "0") != (b == "0") for a, b in _pair_first_digits(changed, value.text)):
        return False
    if value.form == "time":
        return int(found[0].key.partition(":")[0]) < 24
    if value.form == "date":
        try:
            return 1900 <= date.fromisoformat(f"2000-{found[0].key}"[-10:]).year <= 2100
        except ValueError:
            return False
    return True


def _pair_first_digits(changed: str, text: str) -> Iterator[tuple[str, str]]:
    yield from zip(re.findall(r"(?<!\d)\d", changed), re.findall(r"(?<!\d)\d", text), strict=True)


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
