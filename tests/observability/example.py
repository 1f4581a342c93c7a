"""The files of examples/observability, as the programs that they are for read them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

EXAMPLE = Path(__file__).parents[2] / "examples" / "observability"
DASHBOARDS = sorted((EXAMPLE / "grafana" / "dashboards").glob("*.json"))
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "grafana.md"

CHOSEN = {
    "$instance": ".*",
    "$__range": "15m",
    "$__rate_interval": "5m",
    "$__interval": "5m",
}
"""What Grafana puts in the place of its variables; long enough for a slow machine."""


def dashboards() -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in DASHBOARDS]


def panels() -> Iterator[dict[str, Any]]:
    """Give every panel that shows something, rather than a row's title."""
    for dashboard in dashboards():
        yield from (panel for panel in dashboard["panels"] if panel["type"] != "row")


def queries() -> Iterator[tuple[str, dict[str, Any]]]:
    """Give every query to Prometheus, with its variables filled in, under its panel's title and its letter."""
    for panel in panels():
        for target in panel["targets"]:
            if target["datasource"]["type"] == "prometheus":
                yield f"{panel['title']} {target['refId']}", {**target, "expr": filled(target["expr"])}


def filled(expression: str) -> str:
    for variable, value in CHOSEN.items():
        expression = expression.replace(variable, value)
    assert "$" not in re.sub(r'"\$1"', "", expression), expression
    return expression


def links() -> Iterator[tuple[str, str]]:
    """Give every link of a panel's data, under the panel's title."""
    for panel in panels():
        for link in panel["fieldConfig"]["defaults"].get("links", ()):
            yield panel["title"], link["url"]
