"""Values as they stand in a text: amounts with units and separators, names, choices, limits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from blamespan_lab.make.simulation.statements.facts import FactValue, Limit, TaskFact
from blamespan_tracer.ledger.values import dimension_of, find_values

_COUNTED = re.compile(
    r"(?:\b(?:step|round|line|item|part|agent|page|point|version|check|test|no\.?|number)\s*|#)$", re.IGNORECASE
)
_NAME = re.compile(
    r"`(?P<code>[^`\n]{1,60})`|[\"'](?P<quote>[A-Z][^\"'\n]{0,60})[\"']|(?P<bare>\b[A-Z][\w-]*(?:[ -][A-Z0-9][\w-]*)*)"
)


_OPENERS = """
I It That This The We They He She So Thus Hence Therefore Not As And But According From By In For Per Yes No If
APPROVED TERMINATE DONE FINAL ANSWER FINISH NEXT Let My Our All Next Then Now Done Checked Correct Agreed Note Answer
What Which Who Where When How Please Find Report Work Look Plan Looking With Search Searching Everything Everyone
Everybody Nothing Something Once Since Before After That These Those There Here Correction Result Regarding Concerning
Given Based Having To On At Up Also Both Each Any Still Waiting Thanks
"""
_NOT_NAMES = frozenset(_OPENERS.split())
"""Words that open a sentence or end a run, and are no name."""
_AT_MOST = re.compile(
    r"\b(?:at most|no more than|not more than|not exceed|not above|up to|below|maximum|max|under|within|"
    r"or less|or fewer)\b",
    re.IGNORECASE,
)
_AT_LEAST = re.compile(
    r"\b(?:at least|no less than|no fewer than|not less than|not below|from|above|minimum|min|over|or more)\b",
    re.IGNORECASE,
)
_UNIT_BEHIND = re.compile(r"[ \u00a0]?(?:%|\u20ac|[A-Za-z]+)")


@dataclass(frozen=True, slots=True)
class ValueMatch:
    """A value that stands at `text[start:end]`."""

    start: int
    end: int
    value: FactValue


def find_fact_values(text: str, fact: TaskFact) -> list[ValueMatch]:
    """Find every value in *text* that *fact* could have, in order."""
    if fact.kind == "amount":
        return list(_amounts(text, fact))
    if fact.kind == "limit":
        return list(_limits(text, fact))
    if fact.kind == "verdict":
        return _choices(text, fact)
    return list(_names(text)) if fact.kind == "name" else []


def format_value(value: FactValue, unit: str = "", *, separators: bool = False) -> str:
    """Write *value* as a person would: no needless decimals, its unit behind it."""
    if isinstance(value, Limit):
        return f"{'at most' if value.relation == '<=' else 'at least'} {format_value(value.amount, unit)}"
    if isinstance(value, str):
        return value
    number = f"{round(value, 2):{',' if separators else ''}.2f}"
    number = number.rstrip("0").rstrip(".") if "." in number else number
    number = number if number != "-0" else "0"
    if unit == "euros" and "." in number and len(number.partition(".")[2]) == 1:
        number += "0"
    return f"{number} {unit}" if unit else number


def _amounts(text: str, fact: TaskFact) -> Iterator[ValueMatch]:
    for value in find_values(text):
        is_numeral = value.form == "number" and value.text[-1].isdigit() and value.text[0] != "#"
        if not is_numeral or _COUNTED.search(text[: value.start]) or _is_list_mark(text, value.start, value.stop):
            continue
        amount = _convert(float(value.key), value.quantity, fact.unit)
        if amount is not None:
            yield ValueMatch(value.start, _find_end(text, value.stop), round(amount, 6))


def _is_list_mark(text: str, start: int, stop: int) -> bool:
    return text[stop : stop + 1] == ")" and "(" not in text[max(0, start - 40) : start]


def _convert(number: float, quantity: str, unit: str) -> float | None:
    """Return a number in the unit that is meant, or None where what is stated measures something else."""
    dimension, _, amount = quantity.partition(" ")
    if not dimension:
        return number
    meant, size = _measure(unit)
    if dimension == "#" or (not meant and dimension_of(dimension) == "money"):
        return float(amount)
    if not meant:
        return number if dimension != "percent" else None
    return float(amount) / size if dimension == meant else None


@lru_cache(maxsize=256)
def _measure(unit: str) -> tuple[str, float]:
    """Return what a unit measures, and how much of it; nothing for what is no unit."""
    dimension, _, amount = next((value.quantity for value in find_values(f"2 {unit}")), "").partition(" ")
    return dimension, float(amount or 2) / 2


def _find_end(text: str, stop: int) -> int:
    """Return where the words end that are the unit of a number: `3 thousand euros` has two."""
    for _ in range(2):
        word = _UNIT_BEHIND.match(text, stop)
        if word is None or not _measure(word.group().strip())[0]:
            break
        stop = word.end()
    return stop


def _limits(text: str, fact: TaskFact) -> Iterator[ValueMatch]:
    """Find amounts with the words that make them a floor or a ceiling; a bare amount is a ceiling."""
    before = 0
    for token in _amounts(text, fact):
        words = text[before : token.start]
        floor, ceiling = _AT_LEAST.search(words), _AT_MOST.search(words)
        is_floor = ceiling is None and (floor or _AT_LEAST.match(text[token.end :].lstrip())) is not None
        bound = floor or ceiling
        amount = token.value if isinstance(token.value, float) else 0.0
        yield ValueMatch(
            before + bound.start() if bound else token.start, token.end, Limit(">=" if is_floor else "<=", amount)
        )
        before = token.end


def _choices(text: str, fact: TaskFact) -> list[ValueMatch]:
    longest = sorted(fact.choices, key=len, reverse=True)
    pattern = re.compile(r"(?<!\w)(?:" + "|".join(map(re.escape, longest)) + r")(?!\w)", re.IGNORECASE)
    by_text = {choice.casefold(): choice for choice in fact.choices}
    return [ValueMatch(m.start(), m.end(), by_text[m.group().casefold()]) for m in pattern.finditer(text)]


def _names(text: str) -> Iterator[ValueMatch]:
    for match in _NAME.finditer(text):
        name = match["code"] or match["quote"] or match["bare"]
        if match["bare"]:
            while name and name.split()[0] in _NOT_NAMES:  # "So Maria Keller"
                name = name.partition(" ")[2]
            end = next((at for at, word in enumerate(name.split()) if word in _NOT_NAMES), None)  # "Elm Court DONE"
            start = match.end() - len(name)
            name = " ".join(name.split()[:end])
        else:
            start = match.start()
        if name:
            yield ValueMatch(start, start + len(name) + (0 if match["bare"] else 2), name)
