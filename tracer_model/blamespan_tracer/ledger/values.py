"""Values that a text states: numbers, dates, names and the like, as they are written and in one normal form."""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["OPPOSITES", "Form", "Value", "find_values"]

Form: TypeAlias = Literal["number", "date", "time", "identifier", "name", "quotation", "opposite"]
"""What a value is. A number keeps its sign; an opposite is a word such as `rose`, against which `fell` stands."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value as a text states it.

    Attributes:
        text: As it is written.
        form: What it is.
        start: Offset of its first character.
        key: The same for the same value however it is written: `1,250.50` and `1250.5` are one number.
        unit: Of a number: the unit, currency or per cent sign beside it, in the singular; else empty.
    """

    text: str
    form: Form
    start: int
    key: str
    unit: str = ""

    @property
    def stop(self) -> int:
        """Offset behind its last character."""
        return self.start + len(self.text)


_OPPOSITE_PAIRS = """
increased decreased, increase decrease, increases decreases, rose fell, rises falls, higher lower, highest lowest,
more fewer, most least, larger smaller, largest smallest, longer shorter, longest shortest, older newer, oldest newest,
cheaper dearer, cheapest dearest, earlier later, earliest latest, before after, above below, maximum minimum,
positive negative, ascending descending, enabled disabled, approved rejected, accepted declined, passed failed,
passes fails, pass fail, true false, open closed, opened closed, valid invalid, available unavailable,
eligible ineligible, refundable non-refundable, included excluded, includes excludes, buy sell, north south,
east west, won lost, hot cold, male female, present absent, possible impossible, allowed forbidden, safe unsafe,
success failure
"""
OPPOSITES: dict[str, frozenset[str]] = {}
"""Of each word the words that say the contrary."""
for _pair in _OPPOSITE_PAIRS.split(","):
    _one, _other = _pair.split()
    OPPOSITES[_one] = OPPOSITES.get(_one, frozenset()) | {_other}
    OPPOSITES[_other] = OPPOSITES.get(_other, frozenset()) | {_one}

_UNIT_WORDS = """
km kilometer kilometers kilometre kilometres mile miles meter meters metre metres foot feet kg kilogram kilograms lb
lbs pound pounds g gram grams ounce ounces oz mg mcg ml l liter liters litre litres second seconds minute minutes hour
hours day days week weeks month months year years thousand million billion trillion kb mb gb tb percent %
eur usd gbp euro euros dollar dollars celsius fahrenheit degree degrees
"""
_SINGULAR = {"feet": "foot", "%": "percent", "$": "usd", "€": "eur", "£": "gbp", "dollar": "usd", "euro": "eur"}
_SAME_UNIT = {"kilometer": "km", "kilometre": "km", "metre": "meter", "kilogram": "kg", "ounce": "oz", "litre": "l"} | {
    "liter": "l",
    "lb": "pound",
}


def _singular(unit: str) -> str:
    unit = unit.lower()
    unit = _SINGULAR.get(unit, unit)
    if len(unit) > 2 and unit.endswith("s"):
        unit = unit[:-1]
    unit = _SAME_UNIT.get(unit, unit)
    return _SINGULAR.get(unit, unit)


_UNITS = {word: _singular(word) for word in _UNIT_WORDS.split()}
_AFTER_NUMBER = re.compile(r"[ \u00a0-]?([A-Za-z]{1,12}|%)(?![A-Za-z])")

_MONTHS = {name.casefold(): number for number, name in enumerate(calendar.month_name) if name}
_MONTHS |= {name[:3]: number for name, number in _MONTHS.items()}
_MONTH = "(?:" + "|".join(sorted((name.capitalize() for name in _MONTHS), key=len, reverse=True)) + r")\b\.?"
_DAY = r"\d{1,2}(?:st|nd|rd|th)?\b"
_NUMBER = r"[-+\u2212]?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)"
_BEFORE, _AFTER = r"(?<![\w.,:/#@])", r"(?![\w/@]|[.,:]\d)"
_VALUE = re.compile(
    rf"{_BEFORE}(?:"
    rf"(?P<date>\d{{4}}-\d\d-\d\d(?=[T\s,.;)\]\"'}}]|$)|\d{{1,2}}[./]\d{{1,2}}[./]\d{{4}}|"
    rf"{_DAY} (?:of )?{_MONTH}(?:,? \d{{4}}\b)?|{_MONTH} {_DAY}(?:,? \d{{4}}\b)?)"
    r"|(?P<time>\d{1,2}:\d\d(?::\d\d)?)"
    rf"|(?P<number>{_NUMBER}(?=[a-z%]{{1,3}}\b|%|(?![\w/@]|[.,:]\d)))"
    r"|(?P<identifier>#?(?=[\w-]{0,40}\d)(?=[\w-]{0,40}[A-Za-z])\w[\w-]{3,60})"
    r"|(?P<name>[A-Z][\w'\u2019]+(?: (?:of |the |de |van |von )?[A-Z][\w'\u2019]+)+)"
    rf"|(?P<opposite>{'|'.join(sorted(OPPOSITES, key=len, reverse=True))})"
    rf")(?:{_AFTER}|(?<=\d)(?=[a-z%]))",
)
_QUOTATION = re.compile(r"[\"\u201c]([A-Za-z][^\"\u201c\u201d\n{}\[\]:]{14,120}[\w.!?])[\"\u201d]")


def find_values(text: str) -> Iterator[Value]:
    """Yield every value that *text* states, in order; quotations come last, and may hold other values."""
    for match in _VALUE.finditer(text):
        form: Form = match.lastgroup  # type: ignore[assignment]  # every alternative is named
        words = match.group()
        unit = _find_unit(text, match.start(), match.end()) if form == "number" else ""
        yield Value(words, form, match.start(), _normalize(form, words), unit)
    for match in _QUOTATION.finditer(text):
        words = match.group(1)
        yield Value(words, "quotation", match.start(1), " ".join(words.casefold().split()).rstrip(".!?"))


def _find_unit(text: str, start: int, stop: int) -> str:
    if start and text[start - 1] in "$€£":
        return _SINGULAR[text[start - 1]]
    beside = _AFTER_NUMBER.match(text, stop)
    return _UNITS.get(beside.group(1).lower(), "") if beside else ""


def _normalize(form: Form, text: str) -> str:
    if form == "number":
        number = text.replace(",", "").replace("\u2212", "-").lstrip("+")
        sign, digits = ("-", number[1:]) if number.startswith("-") else ("", number)
        digits = digits.rstrip("0").rstrip(".") if "." in digits else digits
        return sign + (digits.lstrip("0") or "0")
    if form == "date":
        return _normalize_date(text)
    if form == "time":
        return text.lstrip("0").removesuffix(":00") if text.count(":") == 2 else text.lstrip("0")
    if form == "identifier":
        return text.casefold().lstrip("#")
    return " ".join(text.split())


def _normalize_date(text: str) -> str:
    """Write a date as year, month and day, as far as it says them."""
    numbers = [int(number) for number in re.findall(r"\d+", text)]
    word = re.search(r"[A-Z][a-z]{2,}", text)
    if word is not None:
        month = _MONTHS[word.group()[:3].casefold()]
        day = next((number for number in numbers if number < 32), 0)
        year = next((number for number in numbers if number > 31), 0)
    elif text[4:5] == "-":
        year, month, day = numbers
    else:
        day, month, year = numbers
    return f"{year:04}-{month:02}-{day:02}" if year else f"{month:02}-{day:02}"
