"""Values as they stand in a text: amounts with units and separators, names, choices, limits."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from blamespan_lab.data_files import read_data_file
from blamespan_lab.simulation.statements.facts import Limit, TaskFact, Value

__all__ = ["ValueMatch", "find_values", "format_value"]

_NUMBER = re.compile(
    r"(?<![\w.,-])(?P<sign>[-−]?)(?:[€$£]\s?)?"  # noqa: RUF001  # the true minus sign
    r"(?P<digits>\d{1,3}(?:[,\u00a0\u202f]\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)(?!\d|[.,]\d|:\d)"
)
_COUNTED = re.compile(
    r"(?:\b(?:step|round|line|item|part|agent|page|point|version|check|test|no\.?|number)\s*|#)$", re.IGNORECASE
)
_NAME = re.compile(
    r"`(?P<code>[^`\n]{1,60})`|[\"'](?P<quote>[A-Z][^\"'\n]{0,60})[\"']|(?P<bare>\b[A-Z][\w-]*(?:[ -][A-Z0-9][\w-]*)*)"
)


@dataclass(frozen=True, slots=True)
class _ValueWords:
    """Units with what they measure and their size, words that multiply an amount, and words that are no name."""

    not_names: str
    units: Mapping[str, tuple[str, float]]
    multiples: Mapping[str, float]


_WORDS = read_data_file(_ValueWords, Path(__file__).with_suffix(".toml"))
_NOT_NAMES = frozenset(_WORDS.not_names.split())
_AT_MOST = re.compile(
    r"\b(?:at most|no more than|not more than|not exceed|not above|up to|below|maximum|max|under|within|"
    r"or less|or fewer)\b",
    re.IGNORECASE,
)
_AT_LEAST = re.compile(
    r"\b(?:at least|no less than|no fewer than|not less than|not below|from|above|minimum|min|over|or more)\b",
    re.IGNORECASE,
)
_UNIT = re.compile(
    r"\s?(?:(?P<percent>%)|(?P<unit>"
    + "|".join(sorted([*_WORDS.units, *_WORDS.multiples], key=len, reverse=True))
    + r")\b)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ValueMatch:
    """A value that stands at `text[start:end]`."""

    start: int
    end: int
    value: Value


def find_values(text: str, fact: TaskFact) -> list[ValueMatch]:
    """Find every value in *text* that *fact* could have, in order."""
    if fact.kind == "amount":
        return list(_amounts(text, fact))
    if fact.kind == "limit":
        return list(_limits(text, fact))
    if fact.kind in ("choice", "verdict"):
        return _choices(text, fact)
    return list(_names(text)) if fact.kind == "name" else []


def format_value(value: Value, unit: str = "", *, separators: bool = False) -> str:
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
    for match in _NUMBER.finditer(text):
        if _COUNTED.search(text[: match.start()]) or _is_list_mark(text, match):
            continue
        amount = float(re.sub(r"[^\d.]", "", match["digits"])) * (-1 if match["sign"] else 1)
        unit = _UNIT.match(text, match.end())
        factor = _factor("percent" if unit and unit["percent"] else unit["unit"].lower() if unit else "", fact.unit)
        if factor is not None:
            yield ValueMatch(match.start(), unit.end() if unit else match.end(), round(amount * factor, 6))


def _is_list_mark(text: str, match: re.Match[str]) -> bool:
    return text[match.end() : match.end() + 1] == ")" and "(" not in text[max(0, match.start() - 40) : match.start()]


def _factor(stated: str, meant: str) -> float | None:
    """Return what to multiply by, or None where the unit stated measures something else."""
    if not stated or stated == meant:
        return 1.0
    if stated in _WORDS.multiples:
        return _WORDS.multiples[stated]
    kind, size = _WORDS.units[stated]
    if meant not in _WORDS.units:
        return 1.0 if stated != "percent" else None
    meant_kind, meant_size = _WORDS.units[meant]
    return size / meant_size if kind == meant_kind else None


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
