"""Data analysis: sums, means and counts of a small table by a tool, compared and combined."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import MappingProxyType

from blamespan_lab.make.data_files import read_data_file
from blamespan_lab.make.simulation.statements.facts import Lookup
from blamespan_lab.make.simulation.statements.values import format_value
from blamespan_lab.make.simulation.tasks.task import Builder, Task, Tool
from blamespan_lab.make.simulation.tasks.tools import CALCULATOR


@dataclass(frozen=True, slots=True)
class _TableWords:
    """A table's name, its two grouping columns with their values, and its two columns of numbers."""

    name: str
    group: str
    groups: tuple[str, ...]
    time: str
    times: tuple[str, ...]
    columns: tuple[str, str]


@dataclass(frozen=True, slots=True)
class _TableBank:
    requests: tuple[str, ...]
    tables: tuple[_TableWords, ...]


_TABLES = read_data_file(_TableBank, Path(__file__).with_suffix(".toml"))
_FUNCTIONS: Mapping[str, Callable[[Sequence[float]], float]] = MappingProxyType(
    {
        "sum": lambda v: sum(v),
        "max": max,
        "min": min,
        "count": lambda v: float(len(v)),
        "mean": lambda v: sum(v) / len(v),
    }
)


def table_task(rng: Random, size: int) -> Task:
    """Make a table task that is about *size* facts deep."""
    build = Builder("tables", rng)
    words = rng.choice(_TABLES.tables)
    first, second = words.columns
    rows = [
        {words.group: group, words.time: time, first: float(rng.randint(20, 400)), second: float(rng.randint(1, 19))}
        for group in words.groups
        for time in words.times
        for _ in range(rng.randint(1, 3))
    ]
    rng.shuffle(rows)
    table = _Table(build, words, rows)
    target = _compare_groups(table, size) if rng.random() < 0.4 else _combine_sums(table, size)
    opening = (
        f"[The table|A table] `{words.name}` has the columns `{words.group}`, `{words.time}`, `{first}` and `{second}`."
    )
    request = rng.choice(_TABLES.requests).format(build.facts[target].phrase)
    tools = (_make_tool(rows), CALCULATOR) if rng.random() < 0.4 else (_make_tool(rows),)
    return build.task(target, opening, request, tools=tools)


@dataclass(frozen=True, slots=True)
class _Table:
    """The rows of a task, and facts about them."""

    build: Builder
    words: _TableWords
    rows: Sequence[Mapping[str, object]]

    def add_aggregate(self, function: str, column: str, group: str, time: str = "") -> str:
        """Add the aggregate of a column over a group's rows as a fact, and return its key."""
        name = {"sum": "total", "max": "highest count", "mean": "mean"}[function]
        phrase = f"{name} of {column} for {group}" + (f" in {time}" if time else "")
        where = f"{self.words.group} = {group}" + (f" and {self.words.time} = {time}" if time else "")
        value = float(_aggregate(self.rows, function, column, where))
        key = f"{function}_{column}_{group}_{time}"
        lookup = Lookup("aggregate", {"function": function, "column": column, "where": where}, "value")
        return self.build.add_lookup(key, phrase, round(value, 2), lookup)


def _combine_sums(table: _Table, size: int) -> str:
    """Ask for a share or a difference: (a + b + ...) less returns, set against another group."""
    build, words = table.build, table.words
    gains, losses = words.columns
    group, other = build.rng.sample(list(words.groups), k=2)
    parts = [table.add_aggregate("sum", gains, group, time) for time in words.times[: max(2, min(3, size - 2))]]
    target = build.add_derived("total", f"sum of {gains} for {group}", "sum", parts)
    if size <= 3:
        return target
    lost = table.add_aggregate("sum", losses, group)
    target = build.add_derived("net", f"net result for {group}", "difference", (target, lost))
    if size >= 6:
        whole = table.add_aggregate("sum", gains, other)
        less = table.add_aggregate("sum", losses, other)
        net = build.add_derived("net_other", f"net result for {other}", "difference", (whole, less))
        operation = build.rng.choice(("sum", "larger", "smaller", "quotient"))
        phrase = {"sum": "joint net result", "quotient": f"net result of {group} per net unit of {other}"}.get(
            operation, f"{operation} net result"
        )
        target = build.add_derived("both", phrase, operation, (target, net))
    if size >= 8:
        peak = table.add_aggregate("max", gains, other)
        target = build.add_derived("peaked", "net result with the best single row", "sum", (target, peak))
    return target


def _compare_groups(table: _Table, size: int) -> str:
    """Ask which group is best by a figure."""
    build, words = table.build, table.words
    gains, losses = words.columns
    time = build.rng.choice(list(words.times))
    build.measure = "balance"
    balances = []
    for group in words.groups[: max(2, min(4, size // 2))]:
        more, less = table.add_aggregate("sum", gains, group, time), table.add_aggregate("sum", losses, group, time)
        key, phrase = f"balance_{group}", f"balance of {group}"
        balances.append(build.add_derived(key, phrase, "difference", (more, less), label=group))
    return build.add_derived(
        "best", f"{words.group} to be named", build.rng.choice(("lowest", "highest")), balances, kind="name"
    )


def _make_tool(rows: Sequence[Mapping[str, object]]) -> Tool:
    return Tool(
        "aggregate",
        "Aggregate a column of the table over the rows that match.",
        {
            "function": "sum, mean, max, min or count",
            "column": "its name",
            "where": "e.g. region = North and month = May",
        },
        lambda function, column, where: format_value(float(_aggregate(rows, function, column, where))),
    )


def _aggregate(rows: Sequence[Mapping[str, object]], function: str, column: str, where: str) -> float:
    """Aggregate a column over the rows that *where* selects.

    Raises:
        ValueError: if there is no such function, column or row.
    """
    if function not in _FUNCTIONS:
        raise ValueError(f"expected a function among {sorted(_FUNCTIONS)}, got {function!r}. Name one of them")
    if column not in rows[0] or not isinstance(rows[0][column], float):
        raise ValueError(f"expected a column of numbers, got {column!r}. The columns are {sorted(rows[0])}")
    wanted = [tuple(side.strip() for side in part.split("=", 1)) for part in where.split(" and ") if part.strip()]
    if any(len(pair) != 2 or pair[0] not in rows[0] for pair in wanted):
        raise ValueError(f"expected conditions like 'region = North', got {where!r}. The columns are {sorted(rows[0])}")
    matches = [row for row in rows if all(str(row[pair[0]]).casefold() == pair[1].casefold() for pair in wanted)]
    if not matches:
        raise ValueError(f"no row matches {where!r}. Check the values")
    values = [value for row in matches if isinstance(value := row[column], float)]
    return float(_FUNCTIONS[function](values))
