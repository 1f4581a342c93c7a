"""What tools answered about which thing, and where a sentence about that thing has another number.

A tool answers `{"item": "lamp", "price": 48}`; "The lamp costs 84" shares no word with it but the thing. A record is
held against a sentence only where all of the sentence's clause is understood: it names the thing, and every other word
is a word of the record, of its call, of what is measured, or one that says nothing. Other words may speak of another
thing, or of another time.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from functools import cache
from typing import Final, TypeAlias

from blamespan_tracer.ledger.records import find_tables, fold_word, words_of
from blamespan_tracer.ledger.values import Value, dimension_of, find_values

_KINDS: Final = tuple(
    frozenset(words.split())
    for words in (
        "price cost amount total fee charge sell pay worth",
        "quantity qty count stock unit piece available availability inventory left remaining item",
        "distance far",
        "length long",
        "height tall high altitude elevation",
        "width wide",
        "depth deep",
        "weight weigh heavy mass",
        "age old",
        "score rating rated star",
        "duration time take",
        "day due deadline",
        "temperature temp degree warm cold hot",
        "population inhabitant people resident live",
        "speed fast",
        "area size",
        "capacity seat hold",
        "balance",
        "revenue turnover sale sold",
        "salary wage earn",
        "percent percentage pct share rate",
    )
)
"""Words by which people and records say what a number is of; plurals as singulars."""

_IRREGULAR: Final = {
    **dict.fromkeys(("priced", "pricing"), "price"),
    **dict.fromkeys(("charged", "charging"), "charge"),
    **dict.fromkeys(("paid", "pays"), "pay"),
    **dict.fromkeys(("weighed", "weighing"), "weigh"),
    **dict.fromkeys(("selling", "sells"), "sell"),
    **dict.fromkeys(("costing", "costed"), "cost"),
    "scored": "score",
    "lives": "live",
    "earned": "earn",
    "took": "take",
}
_WORDS_THAT_SAY_NOTHING: Final = """
a according also an and answer are as at be been by current currently data database find for found
from get got had has have hello here hi i in is it its itself just know now of ok okay on our out record report
result return say see show stand state still sure thank that the their there they this to today tool up user value
was we were which with you your yes final look looked lookup check checked checking confirm confirmed confirming
listed list item product name exactly equal come great good information info system catalog
catalogue page shop store done please note following detail summary
"""
_SAY_NOTHING: Final = frozenset(_WORDS_THAT_SAY_NOTHING.split())
"""Words of a clause that tell neither another thing nor another time."""

_TELLS_OTHER = re.compile(
    r"(?i)\b(?:other|another|elsewhere|competitors?|old(?!\b.{0,12}\byears?)|older|previous(?:ly)?|former(?:ly)?"
    r"|earlier|used to|before|ago|yesterday|tomorrow|next|future|will|would|could|should|might|may|maybe|perhaps"
    r"|probably|likely"
    r"|about|around|roughly|approximately|approx|nearly|almost|circa|ca|at (?:least|most)|over|under|than|between"
    r"|estimate[ds]?|estimated|expected|expect|assum\w+|suppose\w*|if|unless|until|when|plan\w*|target|goal|budget|limit"
    r"|max(?:imum)?|min(?:imum)?|offer\w*|propos\w+|suggest\w*|recommend\w*|want\w*|instead|not|no|never|cannot"
    r"|without|discount\w*|off|reduc\w+|sav(?:e|es|ing|ings)|increas\w+|decreas\w+|rose|fell|raise[ds]?|chang\w+"
    r"|per|each|every"
    r"|both|together|combined|average|mean|sum|extra|additional|plus|minus|differ\w*|more|less|fewer|example|wrong"
    r"|incorrect\w*|mistake\w*|typo|claim\w*|let us|let's|say we"
    r"|calculat\w+|comput\w+|converted|conversion|multipl\w+)\b"
    r"|\w+n['\u2019]t\b|\?|[~\u2248\u00b1=+<>\[]|(?<!\*)\*(?!\*)"
)
"""A sentence with one of them speaks of another number than the one that a tool has answered, or guesses."""

_NAMELESS = "currency unit units status state type category ok success error message note description comment source"
_IS_NAMELESS: Final = frozenset(_NAMELESS.split())
"""Keys of strings that name nothing."""
_UNMEASURED = """
id year code zip zipcode postcode phone number no nr page index rank version port line row month timestamp lat lon
latitude longitude error status
"""
_NO_AMOUNT: Final = frozenset(_UNMEASURED.split())
"""Keys of numbers that measure nothing."""

_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")
_CLAUSE = re.compile(r"[,;:\u2014]\s|\s[-\u2013]\s|\b(?:and|but|while|whereas)\b|\)")
_WORD = re.compile(r"[^\W_]+(?:['\u2019-][^\W\d_]+)*")
_DEGREE = re.compile("\u00b0 ?[CF]?")
_NUMBERED = re.compile(r"(?i)(?:\b(?:no|nr|number)\.?|#|\u2116)\s*\Z")
_POSSESSIVE = re.compile(r"['\u2019]s$")
_PRONOUN = re.compile(r"\W*(?:It|Its|It's|It\u2019s)\b")
_ASSIGNED = re.compile(
    r"(?P<key>[A-Za-z_]\w{0,40})\s*=\s*(?P<value>\"[^\"]*\"|'[^']*'|[^,;|\n]*?)(?=[,;|\s]+[A-Za-z_]\w*\s*=|[,;|)\n]|\Z)"
)
_QUOTED = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'")
_PYTHON: Final = str.maketrans("'", '"')
_NONE = re.compile(r"\b(?:None|True|False)\b")
_LITERALS: Final = {"None": "null", "True": "true", "False": "false"}

_MAX_CHARS, _MAX_ROWS, _MAX_RECORDS = 8_000, 60, 300
_MAX_LINE_CHARS, _MAX_LINES = 160, 12
_MAX_NAME_WORDS = 5
_LEAST_NAME_CHARS: Final = 3
_YEARS: Final = range(1900, 2101)


@dataclass(frozen=True, slots=True)
class AnsweredNumber:
    """A number that a tool has answered about a thing.

    Attributes:
        step: Index of the step that answers.
        value: The number, as the answer states it.
    """

    step: int
    value: Value


@dataclass(frozen=True, slots=True)
class _Amount:
    """A number of a record.

    Attributes:
        value: It.
        words: Of its key, plurals as singulars.
        unit: The unit beside it, in its key or elsewhere in its record; empty where nothing tells.
        is_bare: Whether it is all that the tool answered.
    """

    value: Value
    words: frozenset[str]
    unit: str
    is_bare: bool


@dataclass(frozen=True, slots=True)
class _Record:
    """What a tool answered about one thing.

    Attributes:
        step: Index of the step that answers.
        names: Words of each string that names the thing.
        words: All words of the record and its call.
        amounts: Its numbers.
        has_one_number: Whether it has no other number, not even one that measures nothing.
        stated: Keys of all values that it and its call state.
    """

    step: int
    names: tuple[frozenset[str], ...]
    words: frozenset[str]
    amounts: tuple[_Amount, ...]
    has_one_number: bool
    stated: frozenset[str]

    @property
    def naming(self) -> frozenset[str]:
        """Words of all its names."""
        return frozenset().union(*self.names)


class ToolRecords:
    """The records that tools have answered so far in a run, the latest ones of many."""

    def __init__(self) -> None:
        self._records: deque[_Record] = deque(maxlen=_MAX_RECORDS)
        self._last_stated: dict[str, int] = {}

    def add(self, step: int, call: str, text: str) -> None:
        """Take up what a tool answered.

        Args:
            step: Index of the step that answers.
            call: The call, as `tool({"argument": "value"})`; empty where it is not known.
            text: The answer.
        """
        found = list(_read_records(step, call, text[:_MAX_CHARS]))
        self._records += found
        self._last_stated.update((key, step) for record in found for key in record.stated)

    def is_confirmed(self, value: Value, step: int) -> bool:
        """Check whether a tool has stated a number after a step."""
        return self._last_stated.get(value.key, -1) > step

    def find_other(self, value: Value, text: str) -> AnsweredNumber | None:
        """Return the number that a tool has answered instead of one that a text states; None where nothing tells.

        Args:
            value: A number that has no source and is not calculated.
            text: The text.
        """
        if not self._records or not _is_amount(value, text):
            return None
        sentence = _find_sentence(text, value)
        if sentence is None:
            return None
        named = self._find_named(sentence)
        found = [(record, amount) for record in named for amount in _find_alike(record, sentence)]
        if not found or any(not _is_understood(record, sentence) for record, _ in found):
            return None
        record, amount = found[-1]
        is_one = all(other.value.equals(amount.value) for _, other in found)
        return AnsweredNumber(record.step, amount.value) if is_one and not amount.value.equals(value) else None

    def _find_named(self, sentence: _Sentence) -> list[_Record]:
        """Return the records of the thing that a sentence names, by the most words."""
        fits = [
            (max((len(name) for name in record.names if name <= sentence.names), default=0), record)
            for record in self._records
        ]
        most = max(fit for fit, _ in fits)
        return [record for fit, record in fits if fit == most] if most else []


@dataclass(frozen=True, slots=True)
class _Sentence:
    """A sentence that states a number.

    Attributes:
        value: The number.
        names: Words that may name the thing, those of the sentence before it among them, where it begins with `It`.
        clause: Words of the clause up to the number and behind it, in order, its numbers left out.
        beside: Words that say what the number is of: between it and the number before it, and the next word behind it.
        behind: The next word behind it; empty at the end of the clause.
        others: Keys of the other values of the clause.
    """

    value: Value
    names: frozenset[str]
    clause: tuple[str, ...]
    beside: frozenset[str]
    behind: str
    others: frozenset[str]


def _fold(word: str) -> str:
    word = fold_word(_POSSESSIVE.sub("", word))
    return _IRREGULAR.get(word, word)


def _list_words(text: str) -> list[str]:
    return [_fold(word) for word in _WORD.findall(_DEGREE.sub(" ", text))]


def _is_amount(value: Value, text: str) -> bool:
    """Check whether a number of a text may measure something: no year, name or position in a list."""
    if not any(char.isdigit() for char in value.text) or value.text.startswith("#"):
        return False
    if not value.unit and "." not in value.key and float(value.key) in _YEARS:
        return False
    if _NUMBERED.search(text, max(0, value.start - 12), value.start):
        return False
    return text.count("```", 0, value.start) % 2 == 0


def _find_sentence(text: str, value: Value) -> _Sentence | None:
    """Return the sentence of a text that states a number; None where it guesses, or speaks of another time."""
    borders = list(_SENTENCE.finditer(text, max(0, value.start - 1_000), value.stop + 1_000))
    start = max((border.end() for border in borders if border.end() <= value.start), default=0)
    stop = min((border.start() for border in borders if border.start() >= value.stop), default=len(text))
    whole = text[start:stop]
    if len(whole) > 400 or _TELLS_OTHER.search(whole):
        return None
    first_named = start
    if _PRONOUN.match(whole):
        first_named = max((border.end() for border in borders if border.end() < start), default=0)
    end = _CLAUSE.search(text, value.stop, stop)
    values = find_values(text)
    numbers = [one for one in values if start <= one.start < stop and one.form in ("number", "date", "time")]
    clause_stop = end.start() if end is not None else stop
    inside = [one for one in numbers if one.start < clause_stop]
    clause = _without(text, start, clause_stop, inside)
    first = max((one.stop for one in numbers if one.stop <= value.start), default=start)
    behind = _list_words(_strip_unit(text[value.stop : clause_stop]))
    beside = {*_list_words(text[first : value.start]), *behind[:2]}
    return _Sentence(
        value,
        frozenset(_list_words(text[first_named:clause_stop])),
        tuple(_list_words(clause)),
        frozenset(beside),
        behind[0] if behind else "",
        frozenset(one.key for one in inside if one.start != value.start),
    )


def _strip_unit(text: str) -> str:
    word = _WORD.search(text)
    return text[word.end() :] if word and dimension_of(_unit_of(word[0])) else text


def _without(text: str, start: int, stop: int, values: Sequence[Value]) -> str:
    parts, at = [], start
    for value in sorted(values, key=lambda one: one.start):
        parts.append(text[at : max(at, value.start)])
        at = max(at, value.stop)
    return " ".join([*parts, text[at:stop]])


@cache
def _unit_of(word: str) -> str:
    """Return the unit that a word names; empty where it names none."""
    return next((value.unit for value in find_values(f"1 {word[:40]}") if value.form == "number"), "")


def _kinds_of(words: Set[str]) -> frozenset[int]:
    return frozenset(number for number, kind in enumerate(_KINDS) if not kind.isdisjoint(words))


def _find_alike(record: _Record, sentence: _Sentence) -> list[_Amount]:
    """Return the one number of a record that is of what the sentence's number is of; of several none."""
    dimension, said = dimension_of(sentence.value.unit), _kinds_of(sentence.beside)
    dimension = "" if dimension == "#" else dimension
    said_else = sentence.beside - record.naming - _SAY_NOTHING
    is_alone = record.has_one_number and not said_else
    found = [one for one in record.amounts if _is_alike(one, dimension, said, sentence, is_alone=is_alone)]
    return found if len(found) == 1 else []


def _is_alike(amount: _Amount, dimension: str, said: frozenset[int], sentence: _Sentence, *, is_alone: bool) -> bool:
    own, measured = _kinds_of(amount.words), dimension_of(amount.unit)
    if dimension and measured and dimension != measured:
        return False
    if "percent" in (dimension, measured) and dimension != measured:
        return False
    if dimension == measured == "money" and amount.unit != sentence.value.unit:
        return False
    if own & said or (amount.words and amount.words <= sentence.beside):
        return True
    if own and said:
        return False
    if dimension == "money" and own & _MONEY:
        return True
    if (dimension and dimension == measured) or (amount.is_bare and not own and (dimension or said)):
        return True
    return is_alone and not dimension and not measured and not own


def _is_understood(record: _Record, sentence: _Sentence) -> bool:
    """Check whether every word of a clause is known: of the record, its call, what is measured, or saying nothing."""
    if not sentence.others <= record.stated:
        return False
    return all(
        word in record.words or word in _SAY_NOTHING or word in _MEASURING or _unit_of(word) for word in sentence.clause
    )


_MEASURING: Final = frozenset().union(*_KINDS)


def _read_records(step: int, call: str, text: str) -> Iterator[_Record]:
    """Yield the records of an answer: rows of its tables, else its lines, else the one number that it is."""
    tool, _, arguments = call.partition("(")
    asked = [word for word in _read_arguments(arguments) if word]
    call_words = frozenset(_list_words(f"{tool.replace('_', ' ')} {arguments.replace('_', ' ')}"))
    asked_keys = frozenset(value.key for value in find_values(arguments))
    plain = _as_json(text)
    values = sorted(find_values(plain), key=lambda value: value.start)
    rows = [row for table in find_tables(plain, values) for row in table.rows][:_MAX_ROWS]
    cells: list[_Cells] = [[(cell.column, cell.text, cell.values) for cell in row.cells.values()] for row in rows]
    labels = [row.name for row in rows]
    if not cells:
        cells = list(_read_lines(text))
        labels = [""] * len(cells)
    for label, own in zip(labels, cells, strict=True):
        record = _make_record(
            step, label, own, asked if len(cells) == 1 else [], call_words, asked_keys, words_of(tool)
        )
        if record is not None:
            yield record


def _as_json(text: str) -> str:
    """Return an answer that is written as Python writes it as JSON, every character where it was."""
    if text.lstrip()[:2] not in ("{'", "[{", "['") or '"' in text:
        return text
    return _NONE.sub(lambda match: _LITERALS[match[0]], text.translate(_PYTHON))


def _read_arguments(arguments: str) -> list[str]:
    """List the strings that a call passes, and its numbers of three digits and more."""
    quoted = [first or second for first, second in _QUOTED.findall(re.sub(r"[\"']\w+[\"']\s*:", " ", arguments))]
    return [*quoted, *re.findall(r"\b\d{3,}\b", _QUOTED.sub(" ", arguments))]


_Cells: TypeAlias = list[tuple[str, str, Sequence[Value]]]
"""Of a record: the key, the text and what it states, each."""


def _read_lines(text: str) -> Iterator[_Cells]:
    """Yield the lines of a short answer as records: `item=lamp price=48`, `price 48 euros`, `48`."""
    lines = list(re.finditer(r"[^\n]*\S[^\n]*", text))
    if len(lines) > _MAX_LINES or any(len(line[0]) > _MAX_LINE_CHARS for line in lines):
        return
    values = sorted(find_values(text), key=lambda value: value.start)

    def inside(start: int, stop: int) -> list[Value]:
        return [value for value in values if start <= value.start < stop]

    for line in lines:
        assigned = list(_ASSIGNED.finditer(text, line.start(), line.end()))
        if assigned:
            yield [(one["key"], one["value"].strip("\"' "), inside(one.start("value"), one.end())) for one in assigned]
            continue
        cells: _Cells = []
        start = line.start()
        for end in [*(mark.end() for mark in re.finditer(r"[,;|:](?=\s)", line[0])), len(line[0])]:
            stop = line.start() + end
            part, own = text[start:stop].strip(" ,;|:.-*"), inside(start, stop)
            label = _without(text, start, stop, own)
            cells.append((label if own else "", "" if own and label.strip() else part, own))
            start = stop
        yield _join_labels(cells)


def _join_labels(cells: _Cells) -> _Cells:
    """Give a number that stands alone the words before it: `price: 48`."""
    joined: _Cells = []
    for key, text, values in cells:
        if values and not _WORD.search(key) and joined and not joined[-1][2]:
            joined[-1] = joined[-1][1], "", values
        else:
            joined.append((key, text, values))
    return joined


def _make_record(
    step: int,
    label: str,
    cells: _Cells,
    asked: Sequence[str],
    call_words: frozenset[str],
    asked_keys: frozenset[str],
    tool: frozenset[str],
) -> _Record | None:
    units = (_unit_of(text) for _, text, values in cells if not values and text)
    currency = next((unit for unit in units if dimension_of(unit) == "money"), "")
    amounts: list[_Amount] = []
    names = [label, *asked]
    words: set[str] = set(call_words)
    stated = set(asked_keys)
    n_numbers = 0
    for key, text, values in cells:
        own = frozenset(_IRREGULAR.get(word, word) for word in words_of(key))
        words |= own | {*_list_words(text)}
        stated |= {value.key for value in values}
        numbers = [value for value in values if value.form == "number" and any(map(str.isdigit, value.text))]
        n_numbers += len(numbers)
        if len(numbers) == len(values) == 1 and _is_number(text, numbers[0]):
            if own.isdisjoint(_NO_AMOUNT):
                is_bare = not own and len(cells) == 1
                amounts.append(_make_amount(numbers[0], own or tool, currency, is_bare=is_bare))
        elif own.isdisjoint(_IS_NAMELESS):
            names.append(text)
        elif text == "":
            names.append(key)
    found = {frozenset(_list_words(name)) for name in names if len(name.split()) <= _MAX_NAME_WORDS}
    found = {name for name in found if _can_name(name)}
    if not amounts or not found:
        return None
    return _Record(step, tuple(found), frozenset(words), tuple(amounts), n_numbers == 1, frozenset(stated))


def _is_number(text: str, value: Value) -> bool:
    """Check whether a cell is a number with its unit, or a few words around it."""
    return len(_WORD.findall(text.replace(value.text, ""))) <= 2


def _make_amount(value: Value, words: frozenset[str], currency: str, *, is_bare: bool) -> _Amount:
    unit = value.unit or next((found for word in sorted(words) if dimension_of(found := _unit_of(word))), "")
    if not unit and _kinds_of(words) & _MONEY:
        unit = currency
    return _Amount(value, words, "" if dimension_of(unit) == "#" else unit, is_bare)


_MONEY: Final = frozenset(
    number for number, kind in enumerate(_KINDS) if kind & {"price", "balance", "revenue", "salary"}
)


def _can_name(words: frozenset[str]) -> bool:
    """Check whether words may name a thing: at least one is no unit, no word that says nothing, and long enough."""
    return any(
        len(word) >= _LEAST_NAME_CHARS and word not in _SAY_NOTHING and word not in _MEASURING and not _unit_of(word)
        for word in words
    )
