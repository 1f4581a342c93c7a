"""From trials, timings and tries to the rows of the guard's table, and from rows to whether each bar is met. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any

from tests.benchmarks.guard_rows import Overruns, Timing, WayTries
from tests.benchmarks.guard_work import Trial

from blamespan_lab.rerun.stress.figures import Rate

ARMS = ("none", "random", "guard")
MIN_GAIN = 10.0
"""Points by which more tasks are solved with the guard."""
MAX_DISTURBED = 0.02
MAX_CLAIMS = 0.5
"""Share of the unsupported claims that may still reach the final answer."""
MAX_P50_MS, MAX_P99_MS, MAX_GROWTH = 3.0, 15.0, 1.0
MAX_OVERRUN = 1
BAR_STEPS = 200


@dataclass(frozen=True, slots=True)
class Difference:
    """How much more often something is so in one of two arms that the same trials went through, in points.

    Attributes:
        points: The mean of the differences within trials.
        interval: Its 95 % interval, by the normal distribution.
    """

    points: float
    interval: tuple[float, float]


def compare_arms(with_it: Sequence[bool], without: Sequence[bool]) -> Difference:
    """Compare two arms trial by trial."""
    differences = [100.0 * (one - other) for one, other in zip(with_it, without, strict=True)]
    if not differences:
        return Difference(0.0, (-100.0, 100.0))
    middle = mean(differences)
    half = 1.96 * stdev(differences) / math.sqrt(len(differences)) if len(differences) > 1 else 100.0
    return Difference(middle, (middle - half, middle + half))


def describe_rate(rate: Rate) -> dict[str, Any]:
    """Return a rate in percent with its interval, ready for JSON."""
    return {"hits": rate.hits, "n": rate.n, "percent": 100 * rate.share, "interval": [100 * x for x in rate.interval]}


def sum_up_solved(trials: Sequence[Trial]) -> dict[str, Any]:
    """Sum up trials: what was solved, what was disturbed, and which claims reached the final answer."""
    done = [trial for trial in trials if trial.arms]
    solved = {arm: [trial.arms[arm].is_solved for trial in done] for arm in ARMS}
    rates = {arm: Rate(sum(hits), len(hits)) for arm, hits in solved.items()}
    gain = compare_arms(solved["guard"], solved["none"])
    over_random = compare_arms(solved["guard"], solved["random"])
    are_apart = rates["guard"].interval[0] > rates["none"].interval[1]
    disturbed = Rate(sum(bool(trial.arms["sound"].rules) for trial in done), len(done))
    harmful = [trial for trial in done if not trial.arms["none"].is_solved]
    claims = {arm: sum(trial.arms[arm].unsupported for trial in done) for arm in ARMS}
    share = claims["guard"] / claims["none"] if claims["none"] else None
    return {
        "trials": len(done),
        "left_out": dict(Counter(trial.why_not for trial in trials if not trial.arms)),
        "solved": {arm: describe_rate(rate) for arm, rate in rates.items()},
        "gain": {"points": gain.points, "interval": list(gain.interval)},
        "gain_over_random": {"points": over_random.points, "interval": list(over_random.interval)},
        "averted": {
            arm: describe_rate(Rate(sum(t.arms[arm].is_solved for t in harmful), len(harmful))) for arm in ARMS
        },
        "harmed": describe_rate(
            Rate(
                sum(t.arms["none"].is_solved and not t.arms["guard"].is_solved for t in done),
                sum(t.arms["none"].is_solved for t in done),
            )
        ),
        "disturbed": describe_rate(disturbed),
        "disturbed_by": _count_rules(trial.arms["sound"].rules for trial in done),
        "asked_again_by": _count_rules(trial.arms["guard"].rules for trial in done),
        "retries": {arm: sum(trial.arms[arm].retries for trial in done) for arm in ARMS},
        "repaired": {arm: sum(trial.arms[arm].repaired for trial in done) for arm in ARMS},
        "errors": sum(trial.arms[arm].errors for trial in done for arm in ("guard", "sound")),
        "claims": {**claims, "share": share, "sound": sum(trial.arms["sound"].unsupported for trial in done)},
        "answers_with_claims": {
            arm: describe_rate(Rate(sum(trial.arms[arm].unsupported > 0 for trial in done), len(done))) for arm in ARMS
        },
        "bars": {
            "solved": gain.points >= MIN_GAIN and are_apart,
            "disturbed": bool(done) and disturbed.share <= MAX_DISTURBED,
            "claims": share is not None and share <= MAX_CLAIMS,
        },
    }


def sum_up_mechanisms(trials: Sequence[Trial]) -> dict[str, dict[str, Any]]:
    """Return for each way faults are written how often a task was solved, by arm."""
    rows: dict[str, list[Trial]] = {}
    for trial in trials:
        if trial.arms:
            rows.setdefault(trial.plan.mechanism, []).append(trial)
    return {
        mechanism: {arm: describe_rate(Rate(sum(t.arms[arm].is_solved for t in row), len(row))) for arm in ARMS}
        for mechanism, row in sorted(rows.items())
    }


def _count_rules(rules: Any) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for row in rules:
        counts.update(row)
    return dict(counts.most_common())


def sum_up_tries(tries: Sequence[WayTries]) -> dict[str, Any]:
    """Sum up tries of ways to a forbidden tool."""
    rate = Rate(sum(one.through for one in tries), sum(one.tries for one in tries))
    useless = [f"{one.framework}: {one.way}" for one in tries if not one.leads]
    return {
        "through": describe_rate(rate),
        "ways": dict(Counter(one.framework for one in tries)),
        "ways_through": [f"{one.framework}: {one.way}" for one in tries if one.through],
        "ways_that_lead_nowhere": useless,
        "bars": {"forbidden": rate.n > 0 and not rate.hits and not useless},
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


def sum_up_overruns(rows: Sequence[Overruns]) -> dict[str, Any]:
    """Sum up budgets of agents side by side."""
    worst = max((row.worst_calls for row in rows), default=0)
    return {
        "rows": [
            {
                "framework": row.framework,
                "unit": row.unit,
                "runs": row.runs,
                "agents": row.agents,
                "worst_calls": row.worst_calls,
                "unspent": row.unspent,
            }
            for row in rows
        ],
        "worst_calls": worst,
        "bars": {"budgets": bool(rows) and worst <= MAX_OVERRUN and not any(row.unspent for row in rows)},
    }


def sum_up_same(runs: int, decisions: int, observed: int, changed: Sequence[object]) -> dict[str, Any]:
    """Sum up what an observing guard changes."""
    return {
        "changed": describe_rate(Rate(len(changed), runs)),
        "decisions": decisions,
        "observed": observed,
        "programs": [repr(program) for program in changed],
        "bars": {"same": runs > 0 and observed > 0 and not changed},
    }


def gather_bars(document: Mapping[str, Any]) -> dict[str, bool]:
    """Return every bar of a document."""
    return {
        name: met for part in document.values() if isinstance(part, dict) for name, met in part.get("bars", {}).items()
    }
