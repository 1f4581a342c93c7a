"""Tables and records that a text states: which thing has which value in which column.

Read are Markdown and SQL tables, CSV, columns of fixed width, JSON, and lists of `key: value`. Whatever the form, a row
is one thing, named by the words that no other row of its table has, and each of its cells is a value of that thing.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from calendar import month_name
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from blamespan_tracer.ledger.values import Value

_MAX_TABLES: Final = 40
"""Tables of one text that are read."""
_MAX_ROWS: Final = 2_000
"""Rows of one table that are read."""
_MAX_COLUMNS: Final = 60
_MAX_CHARS: Final = 200_000
"""Of a longer text the beginning is read."""
_MAX_DEPTH: Final = 12
"""Levels of nested JSON that are read."""
_MAX_NAMING: Final = 2
"""Columns that name the rows of a table: an identifier and a name."""
_MAX_NAME_WORDS: Final = 8
"""A cell with more words is a text, not a name."""

_WORD = re.compile(r"[^\W_]+(?:[.'\u2019-][^\W_]+)*")
_BORDER_LINE = re.compile(r"(?:[\s|+:]|[-=](?![-=]))*[-=]{2}[\s|+:=-]*$")
_GAP = re.compile(r"(?<=\S)(?: {2,}|\t+|; ?)(?=\S)")
_PAIR = re.compile(
    r"^[ \t]*(?:[-*+\u2022]\s+|\d{1,2}[.)]\s+)?[*_`]*(?P<key>[^\W\d_][^:\n|{}*]{0,48}?)[*_`]*:[*_`]*[ \t]+"
    r"(?P<value>\S[^\n]{0,200})$"
)
_HEADING = re.compile(r"^[ \t]*(?:#{1,6}\s+(?P<title>[^\n]{1,90})|\*\*(?P<bold>[^*\n]{1,90})\*\*:?)[ \t]*$")
_EMPHASIS = re.compile(r"[*`~]+|(?<!\w)_+|(?<!_)_+(?!\w)")
_AMOUNT = re.compile(r"[^\w-]*[-+]?\d[\d.,:/ -]*(?: ?[^\W\d]{1,4}\.?|%)?")
_MONTH = re.compile(r"\d{4}-\d\d")
_MONTHS_OF: Final = {f"{number:02}": (name, name[:3]) for number, name in enumerate(month_name) if number}
"""What people call the month of a row that is named `2024-07`."""
_JSON_START = re.compile(r"[\[{]")


@dataclass(frozen=True, slots=True)
class Cell:
    """What a row says in one column.

    Attributes:
        column: Heading of the column, or the key; for nested JSON the keys joined by blanks.
        text: The cell as it is written, without emphasis.
        start: Offset of its first character in the text.
        values: What it states; offsets count from the beginning of the text, too.
    """

    column: str
    text: str
    start: int
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One thing of a table.

    Attributes:
        name: The cell, heading or key by which people call it; empty where nothing names it.
        names: Of each cell that names it, the words that no other row of the table has, in small letters.
        cells: By column.
        start: Offset of its first character, and
        stop: behind its last one.
    """

    name: str
    names: tuple[frozenset[str], ...]
    cells: Mapping[str, Cell]
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Table:
    """Rows that say the same of several things; a record by itself is a table of one row.

    Attributes:
        columns: Headings, from left to right.
        rows: In the order of the text.
    """

    columns: tuple[str, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class _Line:
    text: str
    start: int

    @property
    def stop(self) -> int:
        return self.start + len(self.text)


_RawCell: TypeAlias = tuple[str, int]
"""Text of a cell, and its offset."""

_RawRow: TypeAlias = tuple[str, dict[str, _RawCell]]
"""What names a row, where that is no cell of it; and its cells by column."""


def words_of(text: str) -> frozenset[str]:
    """Return the words of a name or heading, in small letters, plurals as singulars."""
    return frozenset(fold_word(word) for word in _split_words(text))


def _split_words(text: str) -> list[str]:
    return _WORD.findall(re.sub(r"(?<=[a-z\d])(?=[A-Z])", " ", text.replace("_", " ")))


def fold_word(word: str) -> str:
    """Return a word in small letters, a plural as its singular."""
    word = word.casefold()
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def find_tables(text: str, values: Sequence[Value]) -> list[Table]:
    """Find the tables and records of a text, in order, each form by itself; time grows with the length of the text.

    Args:
        text: Of a step, an input or the task.
        values: What it states, ascending by offset.
    """
    text = text[:_MAX_CHARS]
    starts = [value.start for value in values]

    def values_in(start: int, stop: int) -> tuple[Value, ...]:
        return tuple(values[bisect_left(starts, start) : bisect_left(starts, stop)])

    found: list[tuple[int, Table]] = []
    taken: list[tuple[int, int]] = []
    for start, stop, value in _find_json(text):
        taken.append((start, stop))
        found += [(start, _build(rows, values_in)) for rows in _read_json(text, start, stop, value)]
    lines = [line for line in _split_lines(text) if not any(start <= line.start < stop for start, stop in taken)]
    found += [(start, _build(rows, values_in)) for start, rows in _read_line_tables(lines)]
    found.sort(key=lambda item: item[0])
    return [table for _, table in found[:_MAX_TABLES]]


def _split_lines(text: str) -> list[_Line]:
    lines, start = [], 0
    for line in text.split("\n"):
        lines.append(_Line(line.rstrip("\r"), start))
        start += len(line) + 1
    return lines


def _read_line_tables(lines: Sequence[_Line]) -> Iterator[tuple[int, list[_RawRow]]]:
    """Yield the tables whose rows are lines, and the lists of pairs, which the heading above them names."""
    index, title = 0, ""
    while index < len(lines):
        if match := _HEADING.match(lines[index].text):
            title = _clean(match["title"] or match["bold"])
        end, rows = _read_pairs(lines, index, title)
        for split in () if rows else _SPLITS:
            end, rows = _read_cells(lines, index, split)
            if rows:
                break
        if rows:
            yield lines[index].start, rows
        index = max(end, index + 1)


def _read_cells(
    lines: Sequence[_Line], index: int, split: Callable[[_Line], list[_RawCell]]
) -> tuple[int, list[_RawRow]]:
    """Read the lines from one on that have as many cells as the first, which is the heading; return where they end."""
    heading = split(lines[index])
    names = [_clean(text) for text, _ in heading]
    is_heading = 2 <= len(names) <= _MAX_COLUMNS and len({*names}) == len(names)
    if not is_heading or not any(char.isalpha() for char in names[0] + names[-1]):
        return index, []
    rows: list[_RawRow] = []
    for end in range(index + 1, len(lines)):
        if _BORDER_LINE.match(lines[end].text):
            continue
        cells = split(lines[end])
        if len(cells) != len(names):
            return end, rows
        if len(rows) < _MAX_ROWS:
            rows.append(("", dict(zip(names, cells, strict=True))))
    return len(lines), rows


def _split_pipes(line: _Line) -> list[_RawCell]:
    cells = _split_at(line, "|")
    is_framed = len(cells) > 1 and not cells[0][0]
    return cells[is_framed : len(cells) - (not cells[-1][0])] if len(cells) > 1 else []


def _split_commas(line: _Line) -> list[_RawCell]:
    cells = _split_at(line, ",")
    return cells if len(cells) > 1 and ", " not in line.text and line.text.rstrip()[-1:] not in ".:!?" else []


def _split_columns(line: _Line) -> list[_RawCell]:
    """Split a line at gaps of two blanks or more, tabs and semicolons."""
    cells, start = [], len(line.text) - len(line.text.lstrip())
    for gap in _GAP.finditer(line.text):
        cells.append((line.text[start : gap.start()], line.start + start))
        start = gap.end()
    return [*cells, (line.text[start:].rstrip(), line.start + start)] if cells else []


_SPLITS = _split_pipes, _split_commas, _split_columns


def _split_at(line: _Line, separator: str) -> list[_RawCell]:
    cells, start = [], line.start
    for part in line.text.split(separator):
        cells.append((part.strip(), start + len(part) - len(part.lstrip())))
        start += len(part) + 1
    return cells


def _read_pairs(lines: Sequence[_Line], index: int, title: str) -> tuple[int, list[_RawRow]]:
    """Read the lines from one on that are `key: value`, at least two; return where they end, and the record."""
    cells: dict[str, _RawCell] = {}
    end = index
    while end < len(lines) and (match := _PAIR.match(lines[end].text)):
        key = _clean(match["key"])
        if key in cells:
            break
        cells[key] = match["value"].strip(), lines[end].start + match.start("value")
        end += 1
    return (end, [(title, cells)]) if len(cells) > 1 else (index, [])


def _clean(text: str) -> str:
    return _EMPHASIS.sub("", text).strip()


def _build(rows: Sequence[_RawRow], values_in: Callable[[int, int], tuple[Value, ...]]) -> Table:
    """Make a table; what names its rows is found by which columns differ."""
    columns = list(dict.fromkeys(column for _, cells in rows for column in cells))[:_MAX_COLUMNS]
    named: list[list[str]] = [[label] if label else [] for label, _ in rows]
    is_labelled = any(label for label, _ in rows)
    n_naming = int(is_labelled)
    for column in columns if len(rows) > 1 else ():
        texts = [_clean(cells[column][0]) if column in cells else "" for _, cells in rows]
        if n_naming < _MAX_NAMING and _names_rows(texts, is_first=column == columns[0] and not is_labelled):
            n_naming += 1
            for names, text in zip(named, texts, strict=True):
                names += [text, *_MONTHS_OF.get(text[5:] if _MONTH.fullmatch(text) else "", ())]
    words = [[frozenset(word.casefold() for word in _split_words(text)) for text in texts] for texts in named]
    times = Counter(word for own in words for word in frozenset[str]().union(*own))
    built = []
    for (_, cells), own, names in zip(rows, words, named, strict=True):
        by_column = {}
        for column in columns:
            if column in cells:
                text, start = cells[column]
                by_column[column] = Cell(column, _clean(text), start, values_in(start, start + len(text)))
        starts = [cell.start for cell in by_column.values()]
        stop = max(cell.start + len(cell.text) for cell in by_column.values())
        distinct = (frozenset(word for word in one if times[word] == 1 and _can_name(word)) for one in own)
        built.append(Row(next(filter(None, names), ""), tuple(filter(None, distinct)), by_column, min(starts), stop))
    return Table(tuple(columns), tuple(built))


def _can_name(word: str) -> bool:
    """Check whether a word may name a row by itself: no short number, no single letter."""
    return len(word) > 2 and (any(char.isalpha() for char in word) or len(word) > 3)


def _names_rows(texts: Sequence[str], *, is_first: bool) -> bool:
    """Check whether the cells of a column name the rows: they differ, and most are words, identifiers or periods."""
    filled = [text for text in texts if text]
    if len(filled) < max(1, len(texts) - 1) or len({text.casefold() for text in filled}) != len(filled):
        return False
    names = [text for text in filled if len(text.split()) <= _MAX_NAME_WORDS and (is_first or not _is_amount(text))]
    return len(names) * 4 >= len(filled) * 3 and not all(map(_is_decimal, names))


def _is_amount(text: str) -> bool:
    """Check whether a cell is a number with its unit, a date or a time."""
    return _AMOUNT.fullmatch(text) is not None


def _is_decimal(text: str) -> bool:
    return not any(char.isalpha() for char in text) and ("." in text or "," in text)


def _find_json(text: str) -> Iterator[tuple[int, int, Any]]:
    """Yield the JSON objects and lists that stand in a text: where they begin and end, and what they hold."""
    decoder, position, n_tried = json.JSONDecoder(), 0, 0
    while n_tried < _MAX_TABLES and (match := _JSON_START.search(text, position)):
        try:
            value, stop = decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            n_tried += 1
            position = match.end()
            continue
        if isinstance(value, (dict, list)) and value:
            n_tried += 1
            yield match.start(), stop, value
        position = stop


class _Offsets:
    """Finds the offsets of what JSON holds, in the order in which it is written."""

    def __init__(self, text: str, start: int, stop: int) -> None:
        self._text, self._position, self._stop = text, start, stop

    def find(self, value: Any) -> int:
        for form in (json.dumps(value, ensure_ascii=False), json.dumps(value), str(value)):
            found = self._text.find(form, self._position, self._stop) if form else -1
            if found >= 0:
                self._position = found + len(form)
                return found + (form[0] == '"')
        return self._position


def _read_json(text: str, start: int, stop: int, value: Any) -> Iterator[list[_RawRow]]:
    offsets = _Offsets(text, start, stop)
    yield from _walk(value, "", offsets, _MAX_DEPTH)


def _walk(value: Any, label: str, offsets: _Offsets, depth: int) -> Iterator[list[_RawRow]]:
    """Yield the tables of a JSON value: lists of objects, objects of objects, and single objects."""
    if depth == 0:
        return
    if isinstance(value, list):
        objects = [item for item in value if isinstance(item, dict)]
        if objects and len(objects) == len(value):
            yield from _table_of([(label, item) for item in objects], offsets, depth, is_named=False)
        else:
            for item in value:
                if isinstance(item, (dict, list)):
                    yield from _walk(item, label, offsets, depth - 1)
                else:
                    offsets.find(item)
    elif isinstance(value, dict):
        if len(value) > 1 and all(isinstance(item, dict) and item for item in value.values()):
            yield from _table_of(list(value.items()), offsets, depth, is_named=True)
        else:
            yield from _table_of([(label, value)], offsets, depth, is_named=bool(label))


def _table_of(
    items: Sequence[tuple[str, Mapping[str, Any]]], offsets: _Offsets, depth: int, *, is_named: bool
) -> Iterator[list[_RawRow]]:
    """Yield the table of objects alike, and those that their fields hold."""
    rows: list[_RawRow] = []
    inner: list[list[_RawRow]] = []
    for label, item in items[:_MAX_ROWS]:
        if is_named:
            offsets.find(label)
        cells: dict[str, _RawCell] = {}
        for key, value in item.items():
            _collect(key, value, cells, inner, offsets, depth - 1)
        if cells:
            rows.append((label if is_named else "", cells))
    if rows:
        yield rows
    yield from inner


def _collect(
    key: str, value: Any, cells: dict[str, _RawCell], inner: list[list[_RawRow]], offsets: _Offsets, depth: int
) -> None:
    """Add what a field holds to the cells of its row; lists of objects are tables of their own."""
    offsets.find(key)
    if depth <= 0:
        return
    if isinstance(value, dict):
        if value and all(not isinstance(item, (dict, list)) for item in value.values()):
            for name, item in value.items():
                _collect(f"{key} {name}", item, cells, inner, offsets, depth - 1)
        else:
            inner += _walk(value, key, offsets, depth - 1)
    elif isinstance(value, list):
        if any(isinstance(item, (dict, list)) for item in value):
            inner += _walk(value, key, offsets, depth - 1)
        elif value:
            start = offsets.find(value[0])
            for item in value[1:]:
                offsets.find(item)
            cells[key] = ", ".join(map(_spell, value)), start
    else:
        cells[key] = _spell(value), offsets.find(value)


def _spell(value: Any) -> str:
    return "true" if value is True else "false" if value is False else "" if value is None else str(value)
