"""Values that a text states: numbers, dates, names and the like, as they are written and in one normal form."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

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
eur usd gbp chf nok sek dkk pln czk huf jpy cny inr aud cad euro euros dollar dollars celsius fahrenheit degree degrees
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

_MONTH_NAMES: Final = """
january jan janvier januar jänner enero gennaio januari janeiro
february feb février fevrier februar febrero febbraio februari fevereiro
march mar mars märz marz marzo maart março marco
april apr avril abril aprile
may mai mayo maggio mei maio
june jun juin juni junio giugno junho
july jul juillet juli julio luglio julho
august aug août aout agosto augustus
september sept sep septembre septiembre settembre setembro
october oct octobre oktober okt octubre ottobre outubro
november nov novembre noviembre novembro
december dec décembre decembre dezember dez diciembre dicembre dezembro
"""
_MONTHS = {name: number for number, line in enumerate(_MONTH_NAMES.strip().splitlines(), 1) for name in line.split()}
_CAPITALISED_ONLY = frozenset(
    ["may", "mar", "mars", "mai", "mei", "sep", "dec", "dez", "jan", "marz", "marco", "march"]
)
"""Months that are words of their own, or parts of some, where they begin with a small letter."""

_ABBREVIATIONS = frozenset(
    ["jan", "feb", "mar", "apr", "jun", "jul", "aug", "sep", "sept", "oct", "okt", "nov", "dec", "dez"]
)
"""Months that may end with a full stop."""


def _month_pattern(name: str) -> str:
    first = name[0].upper() if name in _CAPITALISED_ONLY else f"[{name[0].upper()}{name[0]}]"
    return first + name[1:] + (r"\b\.?" if name in _ABBREVIATIONS else r"\b")


_MONTH = f"(?:{'|'.join(map(_month_pattern, sorted(_MONTHS, key=len, reverse=True)))})"
_DAY = r"\d{1,2}(?:st|nd|rd|th|er|\.|º)?"
_YEAR = r"(?:,? (?:of |de |del )?\d{4}\b)?"
_DIGITS = (
    r"(?:\d{1,3}(?:\.\d{3})+,\d+|\d{1,3}(?:[\u00a0\u202f]\d{3})+(?:[.,]\d+)?|\d{1,3}(?:\.\d{3}){2,}"
    r"|\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+\.\d+|\d+,\d{1,2}(?![\d,)\]])|\d+)"
)
_NUMBER = rf"[-+\u2212]?{_DIGITS}"
_MAX_DIGITS = 100
"""Products of three numbers of so many digits are finite."""
_UNITS_OF_TEN = "one two three four five six seven eight nine"
_TEENS = "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_WORD_VALUES: dict[str, int] = {
    **{word: number for number, word in enumerate(f"{_UNITS_OF_TEN} {_TEENS}".split(), 1)},
    **{word: 10 * number for number, word in enumerate(_TENS.split(), 2)},
    "dozen": 12,
}
_SCALES = {"hundred": 100, "thousand": 1_000, "million": 1_000_000, "billion": 1_000_000_000}
_SMALL = "|".join(_UNITS_OF_TEN.split())
_NUMBER_WORDS = (
    rf"(?:(?:{'|'.join(_TENS.split())})(?:[- ](?:{_SMALL}))?|{'|'.join(_TEENS.split())}|{_SMALL}|dozen)"
    rf"(?: (?:{'|'.join(_SCALES)}))?"
)
_HALF = r"(?:[AaPp]\.[Mm]\.|[AaPp][Mm]\b)"
_BEFORE, _AFTER = r"(?<![\w./@])(?<!\d,)(?<!\d:)(?<!:\d)", r"(?![\w/@]|[.,]\d|:\d)"
_VALUE = re.compile(
    rf"(?:{_BEFORE}|(?<=\dT)(?=\d\d:))(?:"
    rf"(?P<date>\d{{4}}[-/]\d\d?[-/]\d\d?(?=[T\s,.;:)\]\"'}}]|$)|\d{{1,2}}[./]\d{{1,2}}[./]\d{{4}}\b|"
    rf"{_DAY} (?:of |de )?{_MONTH}{_YEAR}|{_MONTH} {_DAY}\b(?!:\d){_YEAR})"
    rf"|(?P<time>\d{{1,2}}:\d\d(?::\d\d)?(?: ?{_HALF})?|\d{{1,2}} ?{_HALF})"
    rf"|(?P<number>#?{_NUMBER}(?=[a-z%]{{1,3}}\b|%|(?![\w/@]|[.,:]\d))|\b(?:{_NUMBER_WORDS})\b)"
    r"|(?P<identifier>#?(?=[\w-]{0,40}\d)(?=[\w-]{0,40}[A-Za-z])\w[\w-]{3,60})"
    r"|(?P<name>[A-Z][\w'\u2019]+(?: (?:of |the |de |van |von )?[A-Z][\w'\u2019]+(?![\w'\u2019]|-\d))+)"
    rf"|(?P<opposite>{'|'.join(sorted(OPPOSITES, key=len, reverse=True))})"
    rf")(?:{_AFTER}|(?<=\d)(?=[a-z%]|T\d\d:|Z\b))",
)
_SENTENCE_OPENERS = """
A After Also An And As At Because Before Both But By Das Dear Dem Den Der Did Die Do Does During Ein Eine El Find For
From Has Have Hello Here Hi How However If Il In Into Is La Le Les Let Los My No Not Now Of On Once Or Our Please
Since So Some Take That The Their Then There These They This Those Through To Under Until Use Using Was We Were What
When Where Which While Who Why With Yes You Your
"""
_OPENERS = frozenset(_SENTENCE_OPENERS.split())
"""Words that are written large where a sentence begins, and then look like part of a name."""

_GENITIVE = re.compile(r"['\u2019]s?$")
_QUOTATION = re.compile(r"[\"\u201c]([A-Za-z][^\"\u201c\u201d\n{}\[\]:]{14,120}[\w.!?])[\"\u201d]")

_ROWS = re.compile(r"(?:^[^,\n]+(?:,[^ \n][^,\n]*)+\n?){2,}", re.MULTILINE)
"""Lines of cells with commas between them, and no blank behind these."""


def find_values(text: str) -> Iterator[Value]:
    """Yield every value that *text* states, in order; quotations come last, and may hold other values."""
    for match in _VALUE.finditer(_part_cells(text)):
        form: Form = match.lastgroup  # type: ignore[assignment]  # every alternative is named
        words = match.group()
        key = _normalize(form, words)
        if not key:
            continue
        unit = _find_unit(text, match.start(), match.end()) if form == "number" else ""
        yield Value(words, form, match.start(), key, unit)
    for match in _QUOTATION.finditer(text):
        words = match.group(1)
        yield Value(words, "quotation", match.start(1), " ".join(words.casefold().split()).rstrip(".!?"))


def _part_cells(text: str) -> str:
    """Return the text with semicolons, which are part of no number, between the cells of tables."""
    if text.count(",") < 2 or "\n" not in text:
        return text

    def part(rows: re.Match[str]) -> str:
        lines = rows.group().splitlines()
        has_heading = not any(char.isdigit() for char in lines[0]) and len({line.count(",") for line in lines}) == 1
        return rows.group().replace(",", ";") if has_heading else rows.group()

    return _ROWS.sub(part, text)


def _find_unit(text: str, start: int, stop: int) -> str:
    if start and text[start - 1] in "$€£":
        return _SINGULAR[text[start - 1]]
    beside = _AFTER_NUMBER.match(text, stop)
    return _UNITS.get(beside.group(1).lower(), "") if beside else ""


def _normalize(form: Form, text: str) -> str:
    """Return the same key for the same value however it is written; empty for what is none."""
    if form == "number":
        return _normalize_number(text)
    if form == "date":
        return _normalize_date(text)
    if form == "time":
        return _normalize_time(text)
    if form == "identifier":
        return text.casefold().lstrip("#")
    if form == "name":
        return _normalize_name(text)
    return " ".join(text.split())


def _normalize_name(text: str) -> str:
    """Return a name without the word that opens its sentence and without its genitive; empty for one word."""
    words = text.split()
    while words and words[0] in _OPENERS:
        words.pop(0)
    if len(words) < 2:
        return ""
    words[-1] = _GENITIVE.sub("", words[-1])
    return " ".join(words).casefold()


def _normalize_number(text: str) -> str:
    """Return the digits of a number; empty for more of them than anybody calculates with."""
    if text[0].isalpha():
        return _read_number_words(text)
    number = text.lstrip("#").replace("\u2212", "-").replace("\u00a0", "").replace("\u202f", "").lstrip("+")
    sign, digits = ("-", number[1:]) if number.startswith("-") else ("", number)
    if re.fullmatch(r"\d{1,3}(?:\.\d{3})+,\d+|\d{1,3}(?:\.\d{3}){2,}", digits):
        digits = digits.replace(".", "").replace(",", ".")
    elif re.fullmatch(r"\d+,\d{1,2}", digits):
        digits = digits.replace(",", ".")
    else:
        digits = digits.replace(",", "")
    digits = digits.rstrip("0").rstrip(".") if "." in digits else digits
    digits = digits.lstrip("0")
    if len(digits) > _MAX_DIGITS:
        return ""
    return sign + (f"0{digits}" if digits.startswith(".") else digits or "0")


def _read_number_words(text: str) -> str:
    """Return the digits of a number in words; empty for a bare "one", which is a pronoun more often than a number."""
    words = re.split(r"[- ]", text)
    number = sum(_WORD_VALUES.get(word, 0) for word in words)
    scale = _SCALES.get(words[-1], 1)
    return "" if number == 1 and scale == 1 else str(number * scale)


def _normalize_time(text: str) -> str:
    """Write a time of day by 24 hours, without seconds that are none."""
    hour, *rest = re.findall(r"\d+", text)
    number, half = int(hour), re.search(r"([AaPp])\.?[Mm]", text)
    if half is not None:
        if number > 12:
            return ""
        number = number % 12 + (12 if half.group(1) in "Pp" else 0)
    if rest[1:] == ["00"]:
        rest = rest[:1]
    return ":".join([str(number), *(rest or ["00"])])


def _normalize_date(text: str) -> str:
    """Write a date as year, month and day, as far as it says them; empty for what is no date."""
    numbers = [int(number) for number in re.findall(r"\d+", text)]
    word = re.search(r"[^\W\d_]{3,}", text)
    if word is not None:
        month = _MONTHS[word.group().casefold()]
        day = next((number for number in numbers if number < 32), 0)
        year = next((number for number in numbers if number > 31), 0)
    elif text[:4].isdigit():
        year, month, day = numbers
    else:
        day, month, year = numbers
        if month > 12 >= day:
            day, month = month, day
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return ""
    return f"{year:04}-{month:02}-{day:02}" if year else f"{month:02}-{day:02}"
