"""What a run says of which thing: the rows of its tables, the answers of its tools, and the sentences about them.

A value stands for something only beside what it is a value of. Here every text of a run is cut into statements, a
table's row or a sentence, and each is read with the things that it names: rows of tables that stood in the run before.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from blamespan.lazy import lazy_property
from blamespan.trace import MessageActionTrace, Step
from blamespan_tracer.ledger.ledger import TASK
from blamespan_tracer.ledger.records import Cell, Row, Table, find_tables
from blamespan_tracer.ledger.values import Form, Value, find_values

Key: TypeAlias = tuple[Form, str]

_MAX_CHARS: Final = 40_000
"""Of a longer text the beginning is read for statements."""
_MAX_STATING: Final = 20
"""Statements of one value that are kept."""
_MAX_ANSWERS: Final = 40
"""Answers of one tool that are held against each other."""
_LONGEST_BARE: Final = 30
"""Characters of an answer that is one value and nothing else."""
_MAX_CANDIDATES: Final = 200
"""Rows that one word names; a word that names more names none."""

_BORDER = re.compile(r"(?<=[.!?;])\s+|\n+")
_WORD = re.compile(r"[^\W_]+(?:[.'\u2019-][^\W_]+)*")


@dataclass(frozen=True, slots=True)
class SourceRow:
    """A row of a table, and the step that states it.

    Attributes:
        step: Index of the step; `TASK` for the task.
        is_input: Whether the step was given it.
        row: The row.
        text: As it is written.
    """

    step: int
    is_input: bool
    row: Row
    text: str


@dataclass(frozen=True, slots=True)
class SourceTable:
    """Rows that say the same of several things, and where each value stands in them."""

    columns: tuple[str, ...]
    rows: tuple[SourceRow, ...]
    rows_with: Mapping[Key, frozenset[int]]


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence, a line or a table's row of a step.

    Attributes:
        step: Index of the step.
        start: Offset of its first character, and
        stop: behind its last one.
        text: As it is written.
        words: Its words, in small letters, and the same with plurals as singulars.
        values: What it states; a part of a text that states nothing is no statement.
        row: The row of the step's own table that it is, where it is one.
    """

    step: int
    start: int
    stop: int
    text: str
    words: frozenset[str]
    values: tuple[Value, ...]
    row: Row | None = None


@dataclass(slots=True)
class Things:
    """What was said of which thing so far, while a run is read from its first step on."""

    _tables: list[SourceTable] = field(default_factory=list)
    _named: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    _stating: dict[Key, list[frozenset[str]]] = field(default_factory=lambda: defaultdict(list))
    _answers: dict[str, list[tuple[frozenset[str], SourceRow]]] = field(default_factory=lambda: defaultdict(list))

    def add(self, step: int, stated: _StatedText, *, is_input: bool = False) -> None:
        """Take up what a text states."""
        for table in stated.tables:
            rows = [SourceRow(step, is_input, row, stated.text[row.start : row.stop]) for row in table.rows]
            self._add_table(rows, table.columns)
        for statement in stated.statements:
            for value in statement.values:
                known = self._stating[value.form, value.key]
                if len(known) < _MAX_STATING:
                    known.append(statement.words)

    def add_answer(self, call: Step, result: Step, stated: _StatedText) -> None:
        """Take up what a tool answered as a row of its table: the things that the call asked for name it.

        An answer that is a bare value is what numbers were asked with as often as what things: only words name it.
        """
        rows = [table.rows[0] for table in stated.tables if len(table.rows) == 1 and not table.rows[0].name]
        tool, _, arguments = call.content.partition("(")
        answers = self._answers[tool]
        row = rows[0] if rows else stated.bare
        if row is None or len(answers) >= _MAX_ANSWERS:
            return
        names = frozenset(word.casefold() for word in _WORD.findall(_arguments_only(arguments)))
        if not rows:
            names = frozenset(word for word in names if len(word) > 2 and not word[0].isdigit())
        answers.append((names, SourceRow(result.index, False, row, result.content[row.start : row.stop])))
        if len(answers) > 1:
            times = Counter(word for words, _ in answers for word in words)
            named = []
            for words, source in answers:
                own = frozenset(word for word in words if times[word] == 1)
                named_row = replace(source.row, name=" ".join(sorted(own)), names=(own,) if own else ())
                named.append(replace(source, row=named_row))
            self._add_table(named, tuple(row.cells))

    def _add_table(self, rows: Sequence[SourceRow], columns: tuple[str, ...]) -> None:
        rows_with: dict[Key, set[int]] = defaultdict(set)
        for index, source in enumerate(rows):
            for cell in source.row.cells.values():
                for value in cell.values:
                    rows_with[value.form, value.key].add(index)
            for word in frozenset[str]().union(*source.row.names):
                self._named[word].append((len(self._tables), index))
        frozen = {key: frozenset(indices) for key, indices in rows_with.items()}
        self._tables.append(SourceTable(columns, tuple(rows), frozen))

    def find_rows(self, words: frozenset[str]) -> Iterator[tuple[SourceTable, frozenset[int]]]:
        """Yield each table of which these words name rows, and these rows, by part of a name or all."""
        found: dict[int, set[int]] = defaultdict(set)
        for word in words:
            named = self._named.get(word, ())
            if len(named) <= _MAX_CANDIDATES:
                for table, row in named:
                    found[table].add(row)
        for table, rows in sorted(found.items()):
            yield self._tables[table], frozenset(rows)

    def is_said_of(self, key: Key, row: Row) -> bool:
        """Check whether a statement so far gives a value and names a thing."""
        return any(not words.isdisjoint(names) for words in self._stating.get(key, ()) for names in row.names)


def _arguments_only(text: str) -> str:
    """Return the values of a call's arguments, without their names."""
    try:
        parsed = json.loads(text.rstrip().removesuffix(")"))
    except (ValueError, RecursionError):
        return re.sub(r"\w+\s*=", " ", text)
    return json.dumps(list(parsed.values()) if isinstance(parsed, dict) else parsed, ensure_ascii=False)


@dataclass(frozen=True)
class _StatedText:
    """A text with what it states.

    Attributes:
        step: Index of the step whose it is.
        text: As much of it as is read.
    """

    step: int
    text: str

    @lazy_property
    def values(self) -> Sequence[Value]:
        """What it states, ascending by offset."""
        return sorted(find_values(self.text), key=lambda value: value.start)

    @lazy_property
    def tables(self) -> Sequence[Table]:
        """Its tables."""
        return find_tables(self.text, self.values)

    @property
    def bare(self) -> Row | None:
        """It as a row of one cell, where it is one number, date or time and nothing else."""
        text = self.text.strip()
        if not 0 < len(text) <= _LONGEST_BARE or len(self.values) != 1:
            return None
        value = self.values[0]
        if value.form not in ("number", "date", "time") or value.text.strip() != text:
            return None
        return Row("", (), {"": Cell("", text, value.start, (value,))}, value.start, value.stop)

    @lazy_property
    def statements(self) -> Sequence[Statement]:
        """Its statements."""
        return list(_cut_statements(self.step, self.text, self.values, self.tables))


def _cut_statements(step: int, text: str, values: Sequence[Value], tables: Sequence[Table]) -> Iterator[Statement]:
    """Cut a text into the rows of its tables and, where there are none, its sentences and lines."""
    rows = [row for table in tables for row in table.rows if row.stop <= len(text)]
    rows = sorted((row for row in rows if "\n" not in text[row.start : row.stop]), key=lambda row: row.start)
    starts = [value.start for value in values]

    def make(start: int, stop: int, row: Row | None = None) -> Iterator[Statement]:
        own = values[bisect_left(starts, start) : bisect_left(starts, stop)]
        if own:
            words = frozenset(word.casefold() for word in _WORD.findall(text[start:stop]))
            names = row.names if row is not None else ()
            yield Statement(step, start, stop, text[start:stop], words.union(*names), tuple(own), row)

    position = 0
    for row in [*rows, None]:
        for start, stop in _cut_sentences(text, position, len(text) if row is None else row.start):
            yield from make(start, stop)
        if row is not None:
            yield from make(row.start, row.stop, row)
            position = max(position, row.stop)


def _cut_sentences(text: str, start: int, stop: int) -> Iterator[tuple[int, int]]:
    for border in _BORDER.finditer(text, start, stop):
        if text[start : border.start()].strip():
            yield start, border.start()
        start = border.end()
    if start < stop and text[start:stop].strip():
        yield start, stop


def read_things(trace: MessageActionTrace) -> Iterator[tuple[Step, Sequence[Statement], Things]]:
    """Yield each step with what it states and what was said of which thing before it; nothing without a table."""
    things = Things()
    task = _StatedText(TASK, trace.task[:_MAX_CHARS])
    inputs = [_StatedText(step.index, step.input_text[:_MAX_CHARS]) for step in trace.steps]
    contents = [_StatedText(step.index, step.content[:_MAX_CHARS]) for step in trace.steps]
    answers = (text for step, text in zip(trace.steps, contents, strict=True) if step.kind == "tool_result")
    if not any(text.tables for text in (task, *inputs, *contents)) and not any(text.bare for text in answers):
        return
    things.add(TASK, task)
    for step, given, own in zip(trace.steps, inputs, contents, strict=True):
        things.add(step.index, given, is_input=True)
        yield step, own.statements, things
        things.add(step.index, own)
        if step.kind == "tool_result" and step.index:
            call = trace.steps[step.inputs[-1] if step.inputs else step.index - 1]
            if call.kind == "tool_call":
                things.add_answer(call, step, own)
