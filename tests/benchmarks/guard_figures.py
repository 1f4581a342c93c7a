"""From timings and tries to the rows of the guard's table, and from rows to whether each bar is met. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

from tests.benchmarks.guard_rows import Timing, WayTries

from blamespan.analysis.summary.statistics import Share

MAX_P50_MS, MAX_P99_MS, MAX_GROWTH = 3.0, 15.0, 1.0
BAR_STEPS = 200


def describe_rate(rate: Share) -> dict[str, Any]:
    """Return a rate in percent with its interval, ready for JSON."""
    return {
        "hits": rate.count,
        "n": rate.total,
        "percent": 100 * rate.value,
        "interval": [100 * x for x in rate.interval],
    }


def sum_up_tries(tries: Sequence[WayTries]) -> dict[str, Any]:
    """Sum up tries of ways to a forbidden tool."""
    rate = Share(sum(one.through for one in tries), sum(one.tries for one in tries))
    useless = [f"{one.framework}: {one.way}" for one in tries if not one.leads]
    return {
        "through": describe_rate(rate),
        "ways": dict(Counter(one.framework for one in tries)),
        "ways_through": [f"{one.framework}: {one.way}" for one in tries if one.through],
        "ways_that_lead_nowhere": useless,
        "bars": {"forbidden": rate.total > 0 and not rate.count and not useless},
    }


def find_percentile(values: Sequence[float], percent: float) -> float:
    """Return the value that *percent* of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, math.ceil(percent / 100 * len(ordered)) - 1))]


def sum_up_timings(timings: Sequence[Timing], barred: str) -> dict[str, Any]:
    """Sum up timings; the bars are for the policy *barred*, in CPU time."""
    rows = [
        {
            "framework": one.framework,
            "policy": one.policy,
            "steps": one.steps,
            "rounds": one.rounds,
            "n": len(one.added) * one.rounds,
            "p50_ms": 1_000 * find_percentile(one.added, 50),
            "p99_ms": 1_000 * find_percentile(one.added, 99),
            "cpu_p50_ms": 1_000 * find_percentile(one.cpu, 50),
            "cpu_p99_ms": 1_000 * find_percentile(one.cpu, 99),
        }
        for one in timings
    ]
    growth = {
        f"{framework}, {policy}": fit_growth(
            [
                (row["steps"], row["cpu_p50_ms"])
                for row in rows
                if (row["framework"], row["policy"]) == (framework, policy)
            ]
        )
        for framework, policy in dict.fromkeys((row["framework"], row["policy"]) for row in rows)
    }
    longest = max((row["steps"] for row in rows if row["steps"] <= BAR_STEPS), default=0)
    judged = [row for row in rows if row["steps"] == longest and row["policy"] == barred]
    grown = [value for name, value in growth.items() if name.endswith(f", {barred}")]
    return {
        "rows": rows,
        "growth": growth,
        "judged_steps": longest,
        "bars": {
            "time_p50": bool(judged) and all(row["cpu_p50_ms"] <= MAX_P50_MS for row in judged),
            "time_p99": bool(judged) and all(row["cpu_p99_ms"] <= MAX_P99_MS for row in judged),
            "time_growth": bool(grown) and all(value is not None and value <= MAX_GROWTH for value in grown),
        },
    }


def fit_growth(points: Sequence[tuple[int, float]]) -> float | None:
    """Return the power of a run's length by which the added time a message grows; None for fewer than two lengths.

    0 is no growth: the whole run takes time in proportion to its length. 1 is growth in proportion.
    """
    logs = [(math.log(steps), math.log(max(value, 1e-3))) for steps, value in points]
    if len({x for x, _ in logs}) < 2:
        return None
    x_mean, y_mean = mean(x for x, _ in logs), mean(y for _, y in logs)
    return sum((x - x_mean) * (y - y_mean) for x, y in logs) / sum((x - x_mean) ** 2 for x, _ in logs)


def gather_bars(document: Mapping[str, Any]) -> dict[str, bool]:
    """Return every bar of a document."""
    return {
        name: met for part in document.values() if isinstance(part, dict) for name, met in part.get("bars", {}).items()
    }
