"""Values said of another thing than the one that has them: another row, another column of a table."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from blamespan_tracer.checks.check import ExaminedRun, Finding, Source, check
from blamespan_tracer.ledger.ledger import TASK
from blamespan_tracer.ledger.records import Cell, Row, fold_word, words_of
from blamespan_tracer.ledger.things import SourceRow, SourceTable, Statement, Things, read_things
from blamespan_tracer.ledger.values import Value

_LEAST_DIGITS: Final = 3
"""A number with fewer digits may stand beside anything."""

_MOST_OF_NAME: Final = 0.5
"""Share of a name's words above which a statement has the name."""
_ROWS_LOOKED_AT: Final = 8
"""Rows by which it is told what the cells of a column state."""

_COMPARES = re.compile(
    r"(?i)\b(?:than|difference|between|instead|not|rather|unlike|versus|total|sum|average|mean|combined|both|all|respectively)\b"
)
"""A sentence with one of them speaks of other things than it names, too."""


@check("value-of-its-row", "A value is said of the row that has it.", trust=0.8)
def values_stay_in_their_rows(run: ExaminedRun) -> Iterator[Finding]:
    """Look for a value that stands in another row of a table than the one that the statement names."""
    yield from run.once(_judge_values).rows


@check("value-of-its-column", "A value is said of the column that has it.", trust=0.8)
def values_stay_in_their_columns(run: ExaminedRun) -> Iterator[Finding]:
    """Look for a value of the row that a statement names, from another column than the one that the statement names."""
    yield from run.once(_judge_values).columns


@dataclass(frozen=True, slots=True)
class _MisplacedValues:
    """Findings about the rows and about the columns that values are said of."""

    rows: tuple[Finding, ...]
    columns: tuple[Finding, ...]


def _judge_values(run: ExaminedRun) -> _MisplacedValues:
    """Hold the values of every statement against the tables that stood before it, in one reading of the run."""
    rows: list[Finding] = []
    columns: list[Finding] = []
    for step, statements, things in read_things(run.trace):
        if not run.trace.can_be_blamed(step) or step.kind == "tool_call":
            continue
        for statement in statements:
            if statement.row is None and _COMPARES.search(statement.text):
                continue
            named = list(things.find_rows(statement.words))
            for value in statement.values if named else ():
                if value.form not in ("quotation", "opposite", "name"):
                    rows += _describe(statement, _find_other_row(value, statement, named, things))
                    columns += _describe(statement, _find_other_column(value, statement, named))
    return _MisplacedValues(tuple(rows), tuple(columns))


_NamedRows: TypeAlias = Sequence[tuple[SourceTable, frozenset[int]]]
"""Tables with the rows that a statement names, as `Things.find_rows` yields them."""

_Found: TypeAlias = tuple[SourceRow, str] | bool | None
"""The row that a value is said of, and what is wrong; True where it is right, None where nothing tells."""


def _describe(statement: Statement, found: _Found) -> Iterator[Finding]:
    if isinstance(found, tuple):
        source, reason = found
        where = Source(None if source.step == TASK else source.step, source.text)
        yield Finding(statement.step, "fail", statement.text, reason, source=where)
    elif found:
        yield Finding(statement.step, "pass")


def _find_other_row(value: Value, statement: Statement, rows: _NamedRows, things: Things) -> _Found:
    key = value.form, value.key
    found: tuple[SourceRow, str] | None = None
    for table, named in rows:
        having = table.rows_with.get(key)
        if having is None:
            continue
        if named & having:
            return True
        if len(named) != 1 or len(having) != 1:
            continue
        own, other = table.rows[next(iter(named))], table.rows[next(iter(having))]
        column = next(cell.column for cell in other.row.cells.values() if _has(cell, value))
        if not _is_named(own.row, statement) or not _lacks(own.row.cells.get(column), value, statement):
            continue
        if not _speaks_of(column, table, value, statement):
            continue
        if things.is_said_of(key, own.row):
            return True
        reason = f"{value.text!r} is said of {own.row.name[:60]!r}; it stands beside {other.row.name[:60]!r}"
        found = own, reason
    return found


def _find_other_column(value: Value, statement: Statement, rows: _NamedRows) -> _Found:
    if value.form == "number" and _count_digits(value) < _LEAST_DIGITS:
        return None
    found: tuple[SourceRow, str] | None = None
    for table, named in rows:
        if len(named) != 1 or named.isdisjoint(table.rows_with.get((value.form, value.key), ())):
            continue
        own = table.rows[next(iter(named))]
        having = [cell.column for cell in own.row.cells.values() if _has(cell, value)]
        is_its_name = any(value.key in names for names in own.row.names)
        if is_its_name or not _is_named(own.row, statement):
            continue
        said, heading = _words_of_heading(value, statement), words_of(having[0])
        if len(having) > 1 or (heading and heading <= said):
            return True
        spoken = [column for column in table.columns if _is_heard(words_of(column), heading, said)]
        if len(spoken) == 1 and _lacks(own.row.cells.get(spoken[0]), value, statement):
            found = own, f"{value.text!r} is {having[0][:60]!r} of {own.row.name[:60]!r}, not {spoken[0][:60]!r}"
    return found


def _is_heard(column: frozenset[str], other: frozenset[str], said: frozenset[str]) -> bool:
    """Check whether a statement has all words that tell a column from another one, and none that tell that one."""
    return bool(column - other) and column - other <= said and (other - column).isdisjoint(said)


def _lacks(cell: Cell | None, value: Value, statement: Statement) -> bool:
    """Check whether a thing has another value of this form in a column, which the statement does not say, too."""
    alike = [one for one in cell.values if one.form == value.form] if cell is not None else []
    said = {(own.form, own.key) for own in statement.values}
    return bool(alike) and all((one.form, one.key) not in said for one in alike)


def _is_named(row: Row, statement: Statement) -> bool:
    """Check whether a statement names a row: it has most words of one of its names."""
    return any(len(names & statement.words) > _MOST_OF_NAME * len(names) for names in row.names)


def _speaks_of(column: str, table: SourceTable, value: Value, statement: Statement) -> bool:
    """Check whether a statement speaks of a column: by words of its heading, or because no other has such values.

    A short number may stand beside anything: it needs the whole heading.
    """
    own, said = words_of(column), _words_of_heading(value, statement)
    if value.form == "number" and _count_digits(value) < _LEAST_DIGITS:
        return own <= said and len(value.key) > 1
    return not own.isdisjoint(said) or not any(
        _states(other, value, table) for other in table.columns if other != column
    )


def _words_of_heading(value: Value, statement: Statement) -> frozenset[str]:
    """Return the words by which a statement may say what a value is: in a table those of the heading above it."""
    if statement.row is None:
        return statement.words | {*map(fold_word, statement.words)}
    cells = statement.row.cells.values()
    return next(
        (words_of(cell.column) for cell in cells if any(one.start == value.start for one in cell.values)), frozenset()
    )


def _states(column: str, value: Value, table: SourceTable) -> bool:
    cells = (source.row.cells.get(column) for source in table.rows[:_ROWS_LOOKED_AT])
    return any(one.form == value.form for cell in cells if cell is not None for one in cell.values)


def _has(cell: Cell, value: Value) -> bool:
    return any((one.form, one.key) == (value.form, value.key) for one in cell.values)


def _count_digits(value: Value) -> int:
    return len(value.key.lstrip("-").replace(".", "").rstrip("0"))
