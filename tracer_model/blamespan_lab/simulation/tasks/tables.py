"""Data analysis: sums, means and counts of a small table by a tool, compared and combined."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from types import MappingProxyType

from blamespan_lab.simulation.statements.facts import Lookup
from blamespan_lab.simulation.statements.values import written
from blamespan_lab.simulation.tasks.task import Builder, Task, Tool
from blamespan_lab.simulation.tasks.tools import CALCULATOR

__all__ = ["table_task"]

_TABLES = (
    (
        "orders",
        "region",
        ("North", "South", "East", "West"),
        "month",
        ("January", "February", "March"),
        ("units", "returns"),
    ),
    (
        "visits",
        "museum",
        ("Harbour", "Castle", "Garden", "Railway"),
        "day",
        ("Friday", "Saturday", "Sunday"),
        ("guests", "tickets"),
    ),
    (
        "trials",
        "field",
        ("Alder", "Birch", "Cedar", "Dogwood"),
        "season",
        ("spring", "summer", "autumn"),
        ("plants", "losses"),
    ),
    ("calls", "team", ("Red", "Blue", "Green", "Amber"), "shift", ("early", "late", "night"), ("answered", "missed")),
)
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
    name, group, groups, time, times, columns = rng.choice(_TABLES)
    rows = [
        {group: one, time: when, columns[0]: float(rng.randint(20, 400)), columns[1]: float(rng.randint(1, 19))}
        for one in groups
        for when in times
        for _ in range(rng.randint(1, 3))
    ]
    rng.shuffle(rows)
    table = _Table(build, name, group, time, rows)
    last = (
        _compared(table, groups, times, columns, size)
        if rng.random() < 0.4
        else _combined(table, groups, times, columns, size)
    )
    opening = f"[The table|A table] `{name}` has the columns `{group}`, `{time}`, `{columns[0]}` and `{columns[1]}`."
    request = rng.choice(("What is the {}?", "Report the {}.", "Please find the {}.")).format(build.facts[last].phrase)
    tools = (_aggregate(rows), CALCULATOR) if rng.random() < 0.4 else (_aggregate(rows),)
    return build.task(last, opening, request, tools=tools)


class _Table:
    """The rows of a task, and facts about them."""

    def __init__(self, build: Builder, name: str, group: str, time: str, rows: Sequence[Mapping[str, object]]) -> None:
        self.build, self.name, self.group, self.time, self.rows = build, name, group, time, rows

    def found(self, function: str, column: str, one: str, when: str = "") -> str:
        words = {"sum": "total", "max": "highest count", "mean": "mean"}[function]
        phrase = f"{words} of {column} for {one}" + (f" in {when}" if when else "")
        where = f"{self.group} = {one}" + (f" and {self.time} = {when}" if when else "")
        value = float(_aggregated(self.rows, function, column, where))
        key = f"{function}_{column}_{one}_{when}"
        lookup = Lookup("aggregate", {"function": function, "column": column, "where": where}, "value")
        return self.build.found(key, phrase, round(value, 2), lookup)


def _combined(table: _Table, groups: Sequence[str], times: Sequence[str], columns: Sequence[str], size: int) -> str:
    """Ask for a share or a difference: (a + b + ...) less returns, set against another group."""
    build = table.build
    one, other = build.rng.sample(list(groups), k=2)
    parts = [table.found("sum", columns[0], one, when) for when in list(times)[: max(2, min(3, size - 2))]]
    total = build.derived("total", f"sum of {columns[0]} for {one}", "sum", parts)
    if size <= 3:
        return total
    lost = table.found("sum", columns[1], one)
    last = build.derived("net", f"net result for {one}", "difference", (total, lost))
    if size >= 6:
        whole = table.found("sum", columns[0], other)
        less = table.found("sum", columns[1], other)
        net = build.derived("net_other", f"net result for {other}", "difference", (whole, less))
        operation = build.rng.choice(("sum", "larger", "smaller", "quotient"))
        phrase = {"sum": "joint net result", "quotient": f"net result of {one} per net unit of {other}"}.get(
            operation, f"{operation} net result"
        )
        last = build.derived("both", phrase, operation, (last, net))
    if size >= 8:
        peak = table.found("max", columns[0], other)
        last = build.derived("peaked", "net result with the best single row", "sum", (last, peak))
    return last


def _compared(table: _Table, groups: Sequence[str], times: Sequence[str], columns: Sequence[str], size: int) -> str:
    """Ask which group is best by a figure."""
    build = table.build
    when = build.rng.choice(list(times))
    build.measure = "balance"
    balances = []
    for one in list(groups)[: max(2, min(4, size // 2))]:
        more, less = table.found("sum", columns[0], one, when), table.found("sum", columns[1], one, when)
        balances.append(build.derived(f"balance_{one}", f"balance of {one}", "difference", (more, less), label=one))
    return build.derived(
        "best", f"{table.group} to be named", build.rng.choice(("lowest", "highest")), balances, kind="name"
    )


def _aggregate(rows: Sequence[Mapping[str, object]]) -> Tool:
    return Tool(
        "aggregate",
        "Aggregate a column of the table over the rows that match.",
        {
            "function": "sum, mean, max, min or count",
            "column": "its name",
            "where": "e.g. region = North and month = May",
        },
        lambda function, column, where: written(float(_aggregated(rows, function, column, where))),
    )


def _aggregated(rows: Sequence[Mapping[str, object]], function: str, column: str, where: str) -> float:
    """Aggregate.

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
    kept = [row for row in rows if all(str(row[pair[0]]).casefold() == pair[1].casefold() for pair in wanted)]
    if not kept:
        raise ValueError(f"no row matches {where!r}. Check the values")
    values = [value for row in kept if isinstance(value := row[column], float)]
    return float(_FUNCTIONS[function](values))
