"""Values that a text states: numbers, dates, names and the like, as they are written and in one normal form.

What the values of a list or range share stands beside one of them: "14, 15 and 16 July" are three dates, "5 to 7 kg"
two weights. Each is read with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from threading import Lock
from typing import Final, Literal, TypeAlias

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
        quantity: Of a number with a unit or a word such as `million`: what it measures and how much of it, the same in
            every unit. `90 minutes`, `1.5 h` and each number of `1 h 30 min` are `s 5400`, `3 million` is `# 3000000`;
            else empty.
    """

    text: str
    form: Form
    start: int
    key: str
    unit: str = ""
    quantity: str = ""

    @property
    def stop(self) -> int:
        """Offset behind its last character."""
        return self.start + len(self.text)

    @property
    def plain(self) -> str:
        """The same number without a unit, where it may be written so: `3000000` for `3 million euros`; else empty."""
        dimension, _, amount = self.quantity.partition(" ")
        is_plain = dimension == "#" or dimension in _CURRENCIES or (dimension == "percent" and "." in amount)
        return amount if is_plain else ""

    @property
    def amount(self) -> float:
        """Of a number how much it is, of money with its magnitude: 3000000 for `3 million euros`."""
        dimension, _, amount = self.quantity.partition(" ")
        return float(amount if dimension in _CURRENCIES else self.key)

    def equals(self, other: Value) -> bool:
        """Check whether another value of this form is the same; a date without a year is that day of any year."""
        if self.key == other.key:
            return True
        if self.form == "date" and len(self.key) != len(other.key):
            return self.key[-LENGTH_WITHOUT_YEAR:] == other.key[-LENGTH_WITHOUT_YEAR:]
        return self.restates(other)

    def restates(self, other: Value) -> bool:
        """Check whether a number is another one in the same or another unit, which one of them at least names."""
        if self.quantity and other.quantity:
            has_no_unit = "#" in (self.quantity[0], other.quantity[0])
            return self.quantity == other.quantity or (has_no_unit and self.plain == other.plain != "")
        return bool(self.quantity or other.quantity) and (self.plain or self.key) == (other.plain or other.key)


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

LENGTH_WITHOUT_YEAR = 5
"""Characters of a date without its year, `05-15`."""

_CURRENCY_WORDS: Final = {
    **dict.fromkeys(("chf", "nok", "sek", "dkk", "pln", "czk", "huf", "aud", "cad"), ""),
    "eur": "euro \u20ac",
    "usd": "dollar $",
    "gbp": "\u00a3",
    "jpy": "yen \u00a5 \u5186",
    "cny": "yuan \u5143",
    "inr": "rupee \u20b9",
}
"""Of each currency other words, and the mark that stands before or behind an amount of it."""
_MEASURES_OF: Final = {
    "s": "ms .001 millisecond|second 1 s sec|minute 60 min|hour 3600 h hr|day 86400|week 604800",
    "months": "month 1|year 12",
    "m": "mm .001 millimeter millimetre|cm .01 centimeter centimetre|meter 1 metre|km 1000 kilometer kilometre"
    "|mile 1609.344|foot .3048 feet|inch .0254 inches",
    "g": "mcg .000001|mg .001 milligram|g 1 gram|kg 1000 kilogram|tonne 1000000|pound 453.59237 lb"
    "|oz 28.349523125 ounce",
    "l": "ml .001 milliliter millilitre|cl .01|l 1 liter litre|gallon 3.785411784",
    "b": "byte 1|kb 1000|mb 1000000|gb 1000000000|tb 1000000000000"
    "|kib 1024|mib 1048576|gib 1073741824|tib 1099511627776",
    "#": "dozen 12|hundred 100|thousand 1000 k|million 1000000 mn mio|billion 1000000000 bn|trillion 1000000000000"
    "|\u4e07 10000 \u842c \ub9cc|\u4ebf 100000000 \u5104 \uc5b5",
    "percent": "percent .01 % pct",
    **{name: f"{name} 1 {words}" for name, words in _CURRENCY_WORDS.items()},
    "celsius": "celsius 1 \u00b0c",
    "fahrenheit": "fahrenheit 1 \u00b0f",
    "degree": "degree 1 \u00b0",
}
"""Of what is measured the units, in the singular: each with its size and with other words for it."""

_MEASURES: dict[str, tuple[str, float]] = {}
"""By unit: what it measures, and how much of it."""
_UNITS: dict[str, str] = {}
"""By word, in the singular and in the plural: the unit."""
for _dimension, _units in _MEASURES_OF.items():
    for _name, _size, *_words in map(str.split, _units.split("|")):
        _MEASURES[_name] = _dimension, float(_size)
        for _word in (_name, *_words):
            _UNITS[_word] = _name
            if len(_word) > 1 and not _word.endswith("s"):
                _UNITS[f"{_word}s"] = _name
_CURRENCIES = frozenset(_CURRENCY_WORDS)
_NOT_PARTED = _CURRENCIES | {""}
"""Nothing of these is told by two amounts, as `1 h 30 min` is."""
_MARKS: Final = "$\u20ac\u00a3\u00a5\u20b9"
"""Marks of currencies; behind a number the first one is the end of a formula more often."""
_AFTER_MONEY = {"m": "million", "b": "billion"}
"""What these letters mean behind an amount of money."""
_AROUND_UNIT: Final = " \u00a0\u202f-"
_AFTER_NUMBER = re.compile(
    rf"[ \u00a0\u202f-]?([A-Za-z]{{1,12}}|%|\u00b0[CFcf]?|[{_MARKS[1:]}](?!\d))(?![A-Za-z])"
    r"|([\u4e07\u842c\ub9cc\u4ebf\u5104\uc5b5\u5143\u5186])"
)
_BEFORE_NUMBER = re.compile(
    rf"(?P<minus>(?<![\w{_MARKS}])[-\u2212])?"
    rf"(?P<currency>(?<![A-Za-z\d])(?<!\d )[A-Z]{{3}}[ \u00a0\u202f]?"
    rf"|(?<!\d)(?<!\d )[{_MARKS}][ \u00a0\u202f]|[{_MARKS}])\Z"
)
"""A currency before its amount, and the sign that stands before both."""

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
_UNSPACED = r"\u0e00-\u0e4f\u2e80-\u9fff\uac00-\ud7af"
"""Letters of scripts without blanks: a number may stand right beside them."""
_WORD_CHAR = rf"[^\W{_UNSPACED}]"
_ID_OTHERS = r"\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u0dff\u1000-\u1fff"
_ID_LETTERS = rf"A-Za-z_{_ID_OTHERS}"
"""Letters of identifiers, digits of other scripts among them."""
_DIGITS = (
    r"(?:\d{1,3}(?:\.\d{3})+,\d+|\d{1,3}(?:[\u00a0\u202f\u2009'\u2019]\d{3})+(?:[.,]\d+)?|\d{1,3}(?:\.\d{3}){2,}"
    r"|\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+\.\d+|\d+,\d{1,2}(?![\d,)\]])|\d+"
    r"|(?<![^\s(\[=<>~|,;+-])\.\d+)(?:[eE][-+]?\d{1,2}(?![\w-]|\.\d))?"
)
_BLANKS: Final = str.maketrans("\u2212", "-", "#+ \u00a0\u202f\u2009'\u2019")
_BIG_UNIT = r"(?:[KMGT]i?B\b)"
"""Units in large letters that may follow a number without a blank."""
_NUMBER = (
    rf"[-+\u2212]?(?:\d{{1,3}}(?: \d{{3}})+(?:[.,]\d\d?)?"
    rf"(?= ?(?:[{_MARKS}]|(?:{'|'.join(_CURRENCY_WORDS).upper()}|euros?|kr)\b))|{_DIGITS})"
)
"""Blanks part the thousands of an amount of money; between other numbers a blank parts two."""
_MAX_DIGITS = 100
"""Products of three numbers of so many digits are finite."""
_ONES = "one two three four five six seven eight nine"
_TEENS = "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_WORD_VALUES: dict[str, int] = {
    **{word: number for number, word in enumerate(f"{_ONES} {_TEENS}".split(), 1)},
    **{word: 10 * number for number, word in enumerate(_TENS.split(), 2)},
}
_SCALES = {"dozen": 12, "hundred": 100, "thousand": 1_000, "million": 1_000_000, "billion": 1_000_000_000}
_HALVED = ("hour", "day", "year", "mile", "dozen", "million", "billion")
_ONE, _TEEN, _TEN = (f"(?:{words.replace(' ', '|')})" for words in (_ONES, _TEENS, _TENS))
_BELOW_100 = f"(?:{_TEN}(?:[- ]{_ONE})?|{_TEEN}|{_ONE})"
_BELOW_1000 = f"(?:{_BELOW_100}(?: (?:hundred|dozen)(?: (?:and )?{_BELOW_100})?)?|dozen)"
_NUMBER_WORDS = f"{_BELOW_1000}(?: (?:thousand|million|billion)(?: (?:and )?{_BELOW_1000})?){{0,3}}"
_HALF_LETTER, _DIGIT_RUN = re.compile(r"([AaPp])\.?[Mm]"), re.compile(r"\d+")
_HALF = r"(?:[AaPp]\.[Mm]\.|[AaPp][Mm]\b)"
_DAY_FOLLOWS = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}\.? \d"
"""A month and its day, no part of a name: `On July 14`."""
_BEFORE = rf"(?<!{_WORD_CHAR})(?<![./@])(?<!\d,)(?<!\d:)(?<!:\d)"
_AFTER = rf"(?!{_WORD_CHAR}|[/@]|[.,:]\d)"
_BY_LETTER: dict[str, list[str]] = {}
for _word in sorted(OPPOSITES, key=len, reverse=True):
    _BY_LETTER.setdefault(_word[0], []).append(_word[1:])
_OPPOSITE = "|".join(f"{letter}(?:{'|'.join(rest)})" for letter, rest in _BY_LETTER.items())
# What a look-ahead says first here costs a word that is no value one look instead of a hundred.
_VALUE = re.compile(
    rf"(?:{_BEFORE}|(?=\d)(?:(?<=\dT)(?=\d\d:)|(?<=\d{{4}}:)(?=\d\d:\d\d:\d\d)))(?:"
    rf"(?P<date>(?=\d)(?:\d{{4}}[-/]\d\d?[-/]\d\d?(?=[T\s,.;:)\]\"'}}]|$)|\d{{1,2}}[./]\d{{1,2}}[./]\d{{4}}\b|"
    rf"\d{{4}}\u5e74\d\d?\u6708\d\d?\u65e5|\d\d?([-/]){_MONTH}\2\d{{4}}\b|{_DAY} (?:of |de )?{_MONTH}{_YEAR})"
    rf"|(?=[^\W\d_]{{3,10}}\.? \d){_MONTH} {_DAY}\b(?!:\d){_YEAR})"
    rf"|(?P<time>(?=\d)(?:\d\d?:\d\d(?::\d\d(?:[.,]\d{{3,9}})?)?(?: ?{_HALF})?|\d\d? ?{_HALF}|\d\d?h\d\d\b"
    r"|\d\d?(?:\.\d\d)?(?= Uhr\b)))"
    rf"|(?P<number>(?=[-+\u2212#.\d])(?:#?{_NUMBER}(?=[a-z%]{{1,3}}\b|%|{_BIG_UNIT}|{_AFTER})"
    rf"|(?<=[{_MARKS}]){_DIGITS}(?=[KMBkmb]n?\b))"
    rf"|(?=[Hdefhnost])(?:{_NUMBER_WORDS}\b|[Hh]alf an?(?= (?:{'|'.join(_HALVED)})\b)))"
    rf"|(?P<identifier>(?!-)#?(?=[-{_ID_LETTERS}]{{0,40}}+\d)(?=[-\d_{_ID_OTHERS}]{{0,40}}+[A-Za-z])(?!-)"
    rf"[-\d{_ID_LETTERS}]{{4,61}})"
    rf"|(?P<name>[A-Z][\w'\u2019]{{1,40}}"
    rf"(?: (?:of |the |de |van |von )?(?!{_DAY_FOLLOWS})[A-Z][\w'\u2019]{{1,40}}(?![\w'\u2019]|-\d)){{1,15}})"
    rf"|(?P<opposite>{_OPPOSITE})"
    rf")(?:{_AFTER}|(?<=\d)(?=[a-z%]|T\d\d:|Z\b|{_BIG_UNIT}|[KMB]n?\b)|(?<=/\d{{4}})(?=:\d\d:\d\d:))",
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

_LIST = re.compile(r"\[(?!\d{1,3}(?:,\d{3})+\])[-+.\d,\s]*\]")
"""Numbers in brackets, but for a single one with separators."""
_ROWS = re.compile(r"(?:^[^,\n]+(?:,[^ \n][^,\n]*)+\n?){2,}", re.MULTILINE)
"""Lines of cells with commas between them, and no blank behind these."""


_LINK = re.compile(
    r"(?:st|nd|rd|th|er|[.\u00ba])?(?:(?P<comma>,\s+)|(?P<last>,\s+(?:and|or)\s+)|(?P<both>\s+(?:and|or|&|und|oder|et|ou|y|o|e)\s+)"
    r"|(?P<to>\s?[-\u2013\u2014]\s?|\s+(?:to|until|till|through|bis|\u00e0|al?)\s+)"
    rf"|(?P<blank>[ \u00a0]))[{_MARKS}]?"
)
"""What stands between the values of a list or range, or between the numbers of one quantity."""
_MAX_LINK_CHARS = 12
_LISTED = frozenset(("number", "date", "time"))

_Measure: TypeAlias = tuple[str, str, float]
"""The unit of a number, what it measures, and how much of it."""
_NO_MEASURE: Final[_Measure] = "", "", 1.0


class _Readings:
    """Keeps the latest readings of texts: ledger, checks, schemata and the guard read the same ones."""

    def __init__(self, max_size: int) -> None:
        self._max_size = max_size
        self._size = 0
        self._by_text: dict[str, tuple[Value, ...]] = {}
        self._lock = Lock()

    def read(self, text: str) -> tuple[Value, ...]:
        values = self._by_text.get(text)
        if values is None:
            values = tuple(_read(text))
            with self._lock:
                self._size += 0 if text in self._by_text else len(text) + _VALUE_SIZE * len(values)
                self._by_text[text] = values
                while self._size > self._max_size:
                    oldest = next(iter(self._by_text))
                    self._size -= len(oldest) + _VALUE_SIZE * len(self._by_text.pop(oldest))
        return values


_VALUE_SIZE: Final = 256
"""Bytes of a value, about."""
_READINGS: Final = _Readings(32_000_000)


def find_values(text: str) -> Sequence[Value]:
    """Return every value that *text* states, in order; quotations come last, and may hold other values.

    A text is read once, in linear time, for all that ask for it one after another.
    """
    return _READINGS.read(text)


def dimension_of(unit: str) -> str:
    """Return what a unit of a value measures: `money` for every currency, `#` for `million`; empty for no unit."""
    dimension, _ = _MEASURES.get(unit, ("", 1.0))
    return "money" if dimension in _CURRENCIES else dimension


def _read(text: str) -> Iterator[Value]:
    values: list[Value] = []
    measures: list[_Measure] = []
    links: list[str] = []
    end = -_MAX_LINK_CHARS - 1
    for match in _VALUE.finditer(_part_cells(text)):
        form: Form = match.lastgroup  # type: ignore[assignment]  # every alternative is named
        words = match.group()
        key = _normalize(form, words)
        if not key:
            continue
        start, stop = match.span()
        measure = _NO_MEASURE
        if form == "number":
            beside = text[max(0, start - 2) : start].strip()[-1:]
            is_money = beside.isupper() or beside in (*_MARKS,)
            before = _BEFORE_NUMBER.search(text, max(0, start - 6), start) if is_money else None
            currency = _UNITS.get(before["currency"].rstrip().lower(), "") if before else ""
            if before and before["minus"] and currency and key[0] != "-":
                key = f"-{key}"
            measure, stop = _find_measure(text, start, stop, currency)
        value = Value(words, form, start, key, measure[0], _write_quantity(key, measure))
        link = _LINK.fullmatch(text, end, start) if form in _LISTED and start - end <= _MAX_LINK_CHARS else None
        if link is not None and values:
            links.append(link.lastgroup or "")
        else:
            yield from _share(values, measures, links) if links else values
            values, measures, links = [], [], []
        values.append(value)
        measures.append(measure)
        end = stop if form in _LISTED else -_MAX_LINK_CHARS - 1
    yield from _share(values, measures, links) if links else values
    for match in _QUOTATION.finditer(text):
        words = match.group(1)
        yield Value(words, "quotation", match.start(1), " ".join(words.casefold().split()).rstrip(".!?"))


def _share(values: list[Value], measures: list[_Measure], links: list[str]) -> list[Value]:
    """Return the values of a list or range, each with the month, half of the day or unit that one of them has."""
    for index in range(len(values) - 1, 0, -1):
        is_long = index > 1 and links[index - 2] == "comma"  # 14, 15, and 16 July; not invoice 7, and 3 March
        joining: tuple[str, ...] = ("both", "to", "last") if is_long else ("both", "to")
        for other in range(index - 1, -1, -1):
            is_range = links[other] == "to"
            if links[other] not in joining or not _take_from(values, measures, other, index, is_range=is_range):
                break
            joining = ("both", "to", "comma")
    for index in range(len(values) - 1):
        if (
            measures[index][1] in _CURRENCIES
            and links[index] == "to"
            and _is_bare(values[index + 1], measures[index + 1])
        ):
            _take_from(values, measures, index + 1, index, is_range=True)
    _add_up(values, measures, links)
    is_month_first = (value.form == "date" and value.text[0].isalpha() for value in values[:-1])
    first = next((index for index, is_first in enumerate(is_month_first) if is_first), None)
    return values if first is None else _share_month(values, measures, links, first)


def _share_month(values: list[Value], measures: list[_Measure], links: Sequence[str], first: int) -> list[Value]:
    """Return the values with the month, and the year, of the date at *first* in the days behind it."""
    last, year = first, ""
    while last < len(links) and links[last] != "blank" and _is_bare(values[last + 1], measures[last + 1]):
        last += 1
    if last > first and links[last - 1] == "comma" and _is_year(values[last]):
        year, last = values[last].key, last - 1
    while last > first and links[last - 1] == "comma":
        last -= 1
    for index in range(first + 1, last + 1):
        _take_from(values, measures, index, first, is_range=False)
    if not year or last == first:
        return values
    dated = [replace(one, key=f"{year}-{one.key[-LENGTH_WITHOUT_YEAR:]}") for one in values[first : last + 1]]
    return [*values[:first], *dated, *values[last + 2 :]]


def _is_bare(value: Value, measure: _Measure) -> bool:
    return value.form == "number" and measure is _NO_MEASURE and value.text.isdigit()


def _is_year(value: Value) -> bool:
    return len(value.text) == 4 and value.text.isdigit() and value.text[:2] in ("19", "20")


def _take_from(values: list[Value], measures: list[_Measure], index: int, other: int, *, is_range: bool) -> bool:
    """Give a value what another one of its list or range has beside it; return False where it has that itself."""
    value, whole = values[index], values[other]
    if whole.form == "number":
        return value.form == "number" and _take_measure(values, measures, index, other)
    is_bare = _is_bare(value, measures[index])
    dated = _share_date(value, whole, is_before=index < other, is_bare=is_bare) if whole.form == "date" else None
    timed = _share_half(value, whole, is_range=is_range, is_bare=is_bare) if whole.form == "time" else None
    shared = dated or timed
    if shared is not None:
        values[index] = shared
    return shared is not None


def _share_date(value: Value, whole: Value, *, is_before: bool, is_bare: bool) -> Value | None:
    """Return a day as a date of the month, or a date as one of the year, of another date."""
    if value.form == "date" and len(value.key) < len(whole.key) and value.key <= whole.key[-LENGTH_WITHOUT_YEAR:]:
        return replace(value, key=f"{whole.key[:-LENGTH_WITHOUT_YEAR]}{value.key}")
    has_month = any(map(str.isalpha, whole.text)) and whole.text[0].isalpha() != is_before
    if not is_bare or not has_month or not 1 <= int(value.key) <= 31:
        return None
    return replace(value, form="date", key=f"{whole.key[:-2]}{int(value.key):02}")


def _share_half(value: Value, whole: Value, *, is_range: bool, is_bare: bool) -> Value | None:
    """Return an hour, or a time without its half of the day, as a time of the half of another one."""
    half = _HALF_LETTER.search(whole.text)
    is_open = is_bare or (value.form == "time" and not any(map(str.isalpha, value.text)))
    if half is None or not is_open or int(_DIGIT_RUN.findall(value.text)[0]) > 12:
        return None
    key = _normalize_time(f"{value.text} {half.group()}")
    if is_range and _minutes(key) > _minutes(whole.key):  # from 11 to 2 pm
        key = _normalize_time(f"{value.text} {'am' if half.group(1) in 'Pp' else 'pm'}")
    return replace(value, form="time", key=key)


def _take_measure(values: list[Value], measures: list[_Measure], index: int, other: int) -> bool:
    """Give a number the unit of another one, unless it is much longer: order 48213 and 30 days."""
    own, (unit, dimension, size) = measures[index], measures[other]
    if not unit or len(values[index].key) > len(values[other].key) + 1:
        return False
    if own[1] in _CURRENCIES and own[2] == 1.0 and dimension in ("#", own[1]) and size > 1.0:  # EUR 5 to 7 million
        _measure(values, measures, other, (own[0], own[1], size))
        _measure(values, measures, index, (own[0], own[1], size))
    elif own is _NO_MEASURE:
        _measure(values, measures, index, (unit, dimension, size))
    else:
        return False
    return True


def _measure(values: list[Value], measures: list[_Measure], index: int, measure: _Measure) -> None:
    measures[index] = measure
    values[index] = replace(values[index], unit=measure[0], quantity=_write_quantity(values[index].key, measure))


def _add_up(values: list[Value], measures: list[_Measure], links: Sequence[str]) -> None:
    """Give each number of `1 h 30 min` the quantity of both."""
    first = 0
    for index in range(1, len(values) + 1):
        if index < len(values) and links[index - 1] in ("blank", "both"):
            (_, dimension, size), (_, other, smaller) = measures[index - 1], measures[index]
            is_part = dimension == other and dimension not in _NOT_PARTED and float(values[index].key) * smaller < size
            if is_part and (links[index - 1] == "blank" or dimension == "s"):
                continue
        if index - first > 1:
            total = sum(float(values[one].key) * measures[one][2] for one in range(first, index))
            quantity = _write_quantity("1", (measures[first][0], measures[first][1], total))
            values[first:index] = [replace(value, quantity=quantity) for value in values[first:index]]
        first = index


def _minutes(key: str) -> int:
    hour, minute, *_ = key.split(":")
    return int(hour) * 60 + int(minute)


def _write_quantity(key: str, measure: _Measure) -> str:
    return f"{measure[1]} {float(key) * measure[2]:.12g}" if measure[1] else ""


def _part_cells(text: str) -> str:
    """Return the text with semicolons, which are part of no number, between the cells of tables and items of lists."""
    if "," in text and "[" in text:
        text = _LIST.sub(lambda items: items.group().replace(",", ";"), text)
    if text.count(",") < 2 or "\n" not in text:
        return text

    def part(rows: re.Match[str]) -> str:
        lines = rows.group().splitlines()
        has_heading = not any(char.isdigit() for char in lines[0]) and len({line.count(",") for line in lines}) == 1
        return rows.group().replace(",", ";") if has_heading else rows.group()

    return _ROWS.sub(part, text)


def _find_measure(text: str, start: int, stop: int, currency: str) -> tuple[_Measure, int]:
    """Return what a number measures, the currency before it or a unit behind, and where the words end that say so."""
    beside = _AFTER_NUMBER.match(text, stop)
    word = beside.group().strip(_AROUND_UNIT).lower() if beside else ""
    unit = _AFTER_MONEY.get(word, "") if currency else ""
    unit = unit or _UNITS.get(word, "")
    if word == "s" and (stop - start == 4 or text[max(0, start - 4) : start].lower() == "the "):  # the 1990s, the 90s
        unit = ""
    if not unit or beside is None:
        return ((currency, currency, 1.0) if currency else _NO_MEASURE), stop
    dimension, size = _MEASURES[unit]
    stop = beside.end()
    if dimension != "#":
        return (currency, currency, 1.0) if currency else (unit, dimension, size), stop
    further = None if currency else _AFTER_NUMBER.match(text, stop)
    money = _UNITS.get(further.group().strip(_AROUND_UNIT).lower(), "") if further else ""
    if money in _CURRENCIES and further is not None:
        return (unit, money, size), further.end()
    return (currency or unit, currency or dimension, size), stop


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
        return "0.5" if text[1:5] == "alf " else _read_number_words(text)
    if text.isdecimal() and text.isascii() and len(text) <= _MAX_DIGITS:  # most are
        return text.lstrip("0") or "0"
    number = text.translate(_BLANKS)
    if not number.isascii():
        number = "".join(char if char.isascii() else str(int(char)) for char in number)
    if "e" in number.lower():
        number = f"{Decimal(number.replace(',', '.')):f}"
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
    return sign + (f"0{digits}" if digits.startswith(".") else digits) if digits else "0"


def _read_number_words(text: str) -> str:
    """Return the digits of a number in words; empty for a bare "one", which is a pronoun more often than a number."""
    total = part = 0
    for word in re.split(r"[- ]", text):
        scale = _SCALES.get(word, 0)
        if scale > 100:
            total, part = total + part * scale, 0
        else:
            part = (part or 1) * scale if scale else part + _WORD_VALUES.get(word, 0)
    return "" if text == "one" else str(total + part)


def _normalize_time(text: str) -> str:
    """Write a time of day by 24 hours, without seconds that are none."""
    hour, *rest = _DIGIT_RUN.findall(text)
    number, half = int(hour), _HALF_LETTER.search(text)
    if half is not None:
        if number > 12:
            return ""
        number = number % 12 + (12 if half.group(1) in "Pp" else 0)
    if any(int(part) > 59 for part in rest[:2]):
        return ""
    rest = rest[:1] if rest[1:2] == ["00"] else rest[:2]
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
