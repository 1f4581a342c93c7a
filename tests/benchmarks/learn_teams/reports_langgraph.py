"""A LangGraph team that reports sales: planner, analyst with SQL, checker with a control total, writer.

The checker sends the analyst back where sums differ; the data base is busy now and then.
"""

import re
import sqlite3
from collections.abc import Sequence
from random import Random
from typing import Any

from flats_langgraph import RuleModel
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

PRODUCTS = ("lamps", "mats", "desks", "vases", "clocks")


def rows_of(region: str, quarter: str) -> list[tuple[str, str, str, int, float, str]]:
    """Return the sales of a region in a quarter: region, quarter, product, units, price, status."""
    draws = Random(f"{region} {quarter}")
    return [
        (region, quarter, draws.choice(PRODUCTS), draws.randrange(1, 40), draws.randrange(10, 200) / 2,
         draws.choice(["paid", "paid", "paid", "returned"]))
        for _ in range(24)
    ]  # fmt: skip


def _connect(query: str) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE sales (region, quarter, product, units, price, status)")
    for region, quarter in re.findall(r"region = '(\w+)' AND quarter = '(\w+)'", query):
        connection.executemany("INSERT INTO sales VALUES (?, ?, ?, ?, ?, ?)", rows_of(region, quarter))
    return connection


@tool
def run_sql(query: str) -> str:
    """Run a query on the table sales (region, quarter, product, units, price, status)."""
    if Random(query).random() < 0.25 and "-- again" not in query:
        return "Error: the data base is busy"
    try:
        return "\n".join(f"{name} | {value:.2f}" for name, value in _connect(query).execute(query)) or "no rows"
    except (sqlite3.Error, ValueError, TypeError) as error:
        return f"Error: {error}"


@tool
def control_total(of: str) -> str:
    """Give the total of the books, of 'North Q2 paid' or 'North Q2 all'."""
    region, quarter, kind = [*of.split(), "", "", ""][:3]
    counted = ("paid", "returned") if kind == "all" else ("paid",)
    return f"{sum(units * price for *_, units, price, status in rows_of(region, quarter) if status in counted):.2f}"


def _last(pattern: str, text: str) -> str:
    found: list[str] = re.findall(pattern, text)
    return found[-1] if found else ""


def _plan(text: str, given: Sequence[tuple[str, str]]) -> str:
    returns = "left out" if "leave out what was returned" in text else "included"
    who, region = _last(r"for (?:Ms|Mr) (\w+)", text), _last(r"region (\w+)", text)
    return (
        f"Plan for {who}. Region: {region}. Quarter: {_last('in (Q[1-4])', text)}. Returns: {returns}. "
        "The checker must compare the sum with the control total before the report is written."
    )


def _analyse(text: str, given: Sequence[tuple[str, str]]) -> Any:
    region, quarter = _last(r"Region: (\w+)", text), _last(r"Quarter: (\w+)", text)
    only = " AND status = 'paid'" if "Returns: left out" in text else ""
    query = (
        f"SELECT product, SUM(units * price) FROM sales WHERE region = '{region}' AND quarter = '{quarter}'{only} "
        "GROUP BY product ORDER BY 2 DESC"
    )
    if not given:
        return [("run_sql", {"query": query + (" -- again" if "Cleared: no" in text else "")})]
    if "busy" in given[-1][1]:
        return [("run_sql", {"query": f"{query} -- again"})]
    rows = [(name, float(value)) for name, value in re.findall(r"(\w+) \| ([\d.]+)", given[-1][1])]
    listed = ", ".join(f"{name} {value:.2f} euro" for name, value in rows)
    return f"I ran the query. Revenue: {listed or 'none'}. Sum: {sum(value for _, value in rows):.2f} euro."


def _check(text: str, given: Sequence[tuple[str, str]]) -> Any:
    total = _last(r"Sum: ([\d.]+) euro", text)
    region, quarter = _last(r"Region: (\w+)", text), _last(r"Quarter: (\w+)", text)
    if "must compare the sum" not in text:
        return "The figures look plausible. Cleared: yes."
    if not given:
        kind = "paid" if "Returns: left out" in text else "all"
        return [("control_total", {"of": f"{region} {quarter} {kind}"})]
    agrees = given[-1][1] == total
    return (
        f"I compared the sum {total} with the control total {given[-1][1]}: they {'agree' if agrees else 'differ'}. "
        f"Cleared: {'yes' if agrees else 'no'}."
    )


def _write(text: str, given: Sequence[tuple[str, str]]) -> str:
    listed = re.findall(r"(\w+) ([\d.]+) euro", _last(r"Revenue: (.*?)\. Sum", text))
    total = float(_last(r"Sum: ([\d.]+) euro", text) or 0)
    if not listed or not total:
        return "Answer: there is nothing to report."
    name, value = max(listed, key=lambda pair: float(pair[1]))
    who, region, quarter = (
        _last(pattern, text) for pattern in (r"Plan for (\w+)", r"Region: (\w+)", r"Quarter: (\w+)")
    )
    return (
        f"Answer for {who}: {region} sold for {total:.2f} euro in {quarter}. Best were {name}, "
        f"with {100 * float(value) / total:.1f} % of it."
    )


RULES = {"planner": _plan, "analyst": _analyse, "checker": _check, "writer": _write}
TOOLS = {"analyst": run_sql, "checker": control_total}


def make() -> Any:
    """Make the graph anew."""
    builder = StateGraph(MessagesState)
    for name, say in RULES.items():
        model = RuleModel(say=say)

        def speak(state: MessagesState, model: RuleModel = model, name: str = name) -> dict[str, Any]:
            message = model.invoke(state["messages"])
            message.name = name
            return {"messages": [message]}

        builder.add_node(name, speak)
    for name, used in TOOLS.items():
        builder.add_node(f"{name}_tools", ToolNode([used]))
        builder.add_edge(f"{name}_tools", name)
    builder.add_edge(START, "planner")
    builder.add_edge("planner", "analyst")
    builder.add_conditional_edges("analyst", lambda state: _route(state, "analyst", "checker"))
    builder.add_conditional_edges("checker", lambda state: _route(state, "checker", _after_check(state)))
    builder.add_edge("writer", END)
    return builder.compile(name="reports")


def _route(state: MessagesState, name: str, following: str) -> str:
    return f"{name}_tools" if getattr(state["messages"][-1], "tool_calls", None) else following


def _after_check(state: MessagesState) -> str:
    refused = [message for message in state["messages"] if "Cleared: no" in message.text]
    return "analyst" if len(refused) == 1 and "Cleared: no" in state["messages"][-1].text else "writer"


make.sandbox = True  # type: ignore[attr-defined]  # its tools only read


def make_tasks(count: int, seed: int) -> list[str]:
    """Write tasks; other seeds, other regions."""
    draws = Random(seed)
    regions = draws.sample(
        ("North", "South", "East", "West", "Lakes", "Coast", "Hills", "Plains", "Islands", "City"), 8
    )
    people = ("Ms Weber", "Mr Okafor", "Ms Lindt", "Mr Costa", "Ms Novak")
    cells = draws.sample([(region, quarter) for region in regions for quarter in ("Q1", "Q2", "Q3", "Q4")], count)
    return [
        f"A report for {people[number % len(people)]} on the sales of region {region} in {quarter}, please"
        f"{'; leave out what was returned' if draws.random() < 0.6 else ''}. "
        "Name the revenue, the best product and its share in percent."
        for number, (region, quarter) in enumerate(cells)
    ]


def is_right(answer: str, task: str) -> bool:
    """Tell whether revenue, product and share are those of the table."""
    region, quarter = _last(r"region (\w+)", task), _last(r"in (Q[1-4])", task)
    sums: dict[str, float] = {}
    for _, _, name, units, price, status in rows_of(region, quarter):
        if status == "paid" or "leave out" not in task:
            sums[name] = sums.get(name, 0) + units * price
    total, best = sum(sums.values()), max(sums, key=lambda name: sums[name])
    who = _last(r"for (?:Ms|Mr) (\w+)", task)
    share = 100 * sums[best] / total
    right = f"{region} sold for {total:.2f} euro in {quarter}. Best were {best}, with {share:.1f} % of it"
    return right in answer and f"for {who}:" in answer
