"""Look-ups: stock and prices in a database, fees and rules of the house in documents; then a little arithmetic."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random

from blamespan_lab.make.data_files import read_data_file
from blamespan_lab.make.simulation.statements.facts import Lookup
from blamespan_lab.make.simulation.statements.writing import lay_out, write_fact
from blamespan_lab.make.simulation.tasks.task import Builder, Task, Tool
from blamespan_lab.make.simulation.tasks.tools import search_tool


@dataclass(frozen=True, slots=True)
class _ShopWords:
    opening: str
    requests: tuple[str, ...]
    cities: tuple[str, ...]
    goods: tuple[tuple[str, str], ...]


_WORDS = read_data_file(_ShopWords, Path(__file__).with_suffix(".toml"))
_MAX_ROWS = 20
_MAX_SQL_CHARS = 1_000


def lookup(rng: Random, size: int) -> Task:
    """Make a look-up task that is about *size* facts deep."""
    build = Builder("lookup", rng)
    cities, goods = rng.sample(_WORDS.cities, k=5), rng.sample(_WORDS.goods, k=4)
    stock = {(good, city): rng.randint(4, 180) for good, _ in goods for city in cities}
    prices = {good: rng.randint(3, 140) for good, _ in goods}
    fees = {city: rng.randint(6, 90) for city in cities}
    values = [_value_of_stock(build, goods[n % 4], cities[n % 5], stock, prices) for n in range(max(1, size // 4))]
    last = (
        values[0] if len(values) == 1 else build.add_derived("total", "value of all that stock", "sum", values, "euros")
    )
    if size >= 4 or rng.random() < 0.6:
        city = cities[0]
        fee = build.add_lookup(
            "fee", f"delivery fee for {city}", float(fees[city]), _search_for(f"delivery fee {city}"), "euros"
        )
        last = build.add_derived("net", "value after the delivery fee", "difference", (last, fee), "euros")
    if size % 2 and size > 4:
        rate = float(rng.choice((2, 3, 5, 6, 8, 10)))
        tax = build.add_lookup("rate", "insurance rate", rate, _search_for("insurance rate"), "percent")
        last = build.add_derived("cover", "insurance premium", "percent", (tax, last), "euros")
    request = rng.choice(_WORDS.requests).format(build.facts[last].phrase)
    documents = _documents(build.rng, fees, cities, float(build.truth.get("rate", 4.0)))  # type: ignore[arg-type]
    return build.task(last, _WORDS.opening, request, tools=(_database(stock, prices), search_tool(documents)))


def _value_of_stock(
    build: Builder, good: tuple[str, str], city: str, stock: Mapping[tuple[str, str], int], prices: Mapping[str, int]
) -> str:
    singular, plural = good
    key = f"{singular}_{city}"
    stock_key = build.add_lookup(
        f"stock_{key}",
        f"stock of {plural} in {city}",
        float(stock[singular, city]),
        _select_cell("units", "stock", product=singular, city=city),
    )
    price = f"price_{singular}"
    if price not in build.facts:
        build.add_lookup(
            price,
            f"price of a {singular}",
            float(prices[singular]),
            _select_cell("price", "prices", product=singular),
            "euros",
        )
    return build.add_derived(f"value_{key}", f"value of the {plural} in {city}", "product", (stock_key, price), "euros")


def _select_cell(column: str, table: str, **where: str) -> Lookup:
    """Ask for one cell; the names are our own."""
    conditions = " AND ".join(f"{name} = '{value}'" for name, value in where.items())
    return Lookup("query_database", {"sql": f"SELECT {column} FROM {table} WHERE {conditions}"}, "value")  # noqa: S608


def _search_for(query: str) -> Lookup:
    return Lookup("search_documents", {"query": query})


def _documents(rng: Random, fees: Mapping[str, int], cities: Sequence[str], rate: float) -> dict[str, str]:
    """Write the house's documents: one per city, one on insurance, some beside the point."""
    facts = Builder("lookup", rng)
    written: dict[str, str] = {}
    for city in cities:
        key = facts.add_given(f"fee_{city}", f"delivery fee for {city}", float(fees[city]), "euros")
        hours = f"Goods for {city} leave at {rng.randint(6, 18)}:00. Up to {rng.randint(2, 9)} pallets go per trip."
        written[f"delivery-{city.lower()}"] = (
            lay_out([write_fact(facts.facts[key], facts.truth[key], rng, is_impersonal=True)], rng) + " " + hours
        )
    key = facts.add_given("insurance", "insurance rate", rate, "percent")
    written["insurance"] = (
        lay_out([write_fact(facts.facts[key], rate, rng, is_impersonal=True)], rng) + " It holds for every branch."
    )
    written["returns"] = f"Goods may be returned within {rng.randint(14, 60)} days."
    written["opening-hours"] = f"Branches open at {rng.randint(7, 10)}:00 and close at {rng.randint(17, 20)}:00."
    return written


def _database(stock: Mapping[tuple[str, str], int], prices: Mapping[str, int]) -> Tool:
    """Make a tool that runs one read-only SELECT on a fresh copy of the tables, in memory."""

    def query_database(sql: str) -> str:
        if len(sql) > _MAX_SQL_CHARS:
            raise ValueError(
                f"expected at most {_MAX_SQL_CHARS} characters of SQL, got {len(sql)}. Ask for less at once"
            )
        with closing(sqlite3.connect(":memory:")) as database:
            database.execute("CREATE TABLE stock (product TEXT, city TEXT, units INTEGER)")
            database.execute("CREATE TABLE prices (product TEXT, price INTEGER)")
            database.executemany("INSERT INTO stock VALUES (?, ?, ?)", [(*key, units) for key, units in stock.items()])
            database.executemany("INSERT INTO prices VALUES (?, ?)", list(prices.items()))
            database.execute("PRAGMA query_only = ON")
            steps = 0

            def is_too_long() -> bool:
                nonlocal steps
                steps += 1
                return steps > 100

            database.set_progress_handler(is_too_long, 10_000)
            rows = database.execute(sql).fetchmany(_MAX_ROWS)
        return "\n".join(", ".join(str(cell)[:200] for cell in row) for row in rows) or "no rows"

    return Tool(
        "query_database",
        "Run one SQL query on the tables stock(product, city, units) and prices(product, price).",
        {"sql": "a SELECT statement"},
        query_database,
    )
