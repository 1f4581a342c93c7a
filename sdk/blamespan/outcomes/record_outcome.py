"""Saying how a run ended, where the program knows: `blamespan.record_outcome("failed", reason="expected 36")`.

Integrations tell of each outermost run that begins (`run_begins`) and ends (`run_ends`). `blamespan.recent_runs` knows
which run a call is about; nothing of a run is kept but what it takes to find it and to write on its trace.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Sequence
from typing import Final, Literal

from opentelemetry import context as otel_context
from opentelemetry.context import Context
from opentelemetry.sdk.environment_variables import OTEL_SDK_DISABLED

from blamespan.errors import ConfigError
from blamespan.host_safety import shield_host
from blamespan.outcomes.recent_runs import MOST_RUNS, OutcomeTaker, RecentRun, RecentRuns

_log = logging.getLogger("blamespan")
_RUN_KEY = otel_context.create_key("blamespan-outcome")
_TRACE_ID = re.compile(r"[0-9a-fA-F]{32}", re.ASCII)
_MOST_NAMED: Final = 5
"""Runs that a warning lists."""

_runs = RecentRuns()


def record_outcome(
    outcome: Literal["succeeded", "failed"], reason: str = "", *, result: object = None, trace_id: str | None = None
) -> bool:
    """Record how a run ended: what a program or its user knows of the answer, though every span says OK.

    It concerns the run that it is called in (a tool, a node, an agent), whose teams within teams are parts of it.
    Outside of a run it concerns the one that began or ended last here: in this asyncio task or a task that this one
    waited for, in this thread or an event loop that this thread ran. Where runs were under way side by side,
    *result* or *trace_id* says which one. The last of several outcomes counts. Tracers know it, and what has been
    judged already is judged again.

    Args:
        outcome: `succeeded` or `failed`.
        reason: Why, for people; recorded as contents are: masked, cut, or withheld.
        result: What the run returned: AutoGen's `TaskResult`, a LangGraph output, state or state snapshot, or a copy
            of it; the `config` of a LangGraph thread; or a trace id. It is recognized, not recorded.
        trace_id: 32 hex digits: a run of this process, among its latest 1,000, however long ago it ended.

    Returns:
        Whether it was recorded. Where not, a warning on the logger `blamespan` says why, and lists the runs that
        could be meant.

    Raises:
        ConfigError: if *outcome* or *trace_id* is none, *reason* is no text, or both *result* and *trace_id* are given.
    """
    if outcome not in ("succeeded", "failed"):
        raise ConfigError(f"expected the outcome 'succeeded' or 'failed', got {outcome!r}. Not known? Say nothing")
    if not isinstance(reason, str):
        raise ConfigError(f"expected a reason as text, got {reason!r}. Say it like reason='expected 36, got 35'")
    if result is not None and trace_id is not None:
        raise ConfigError("expected result= or trace_id=, got both. Leave one out")
    if isinstance(result, str) and _TRACE_ID.fullmatch(result):
        result, trace_id = None, result
    if trace_id is not None and not (isinstance(trace_id, str) and _TRACE_ID.fullmatch(trace_id)):
        raise ConfigError(
            f"expected a trace id of 32 hex digits, got {trace_id!r}. "
            "Write it like format(span.get_span_context().trace_id, '032x')"
        )
    with shield_host("record an outcome"):
        runs = _meant(result, trace_id)
        if len(runs) != 1:
            _warn(runs, result, trace_id)
            return False
        runs[0].taker.take(outcome, reason)
        runs[0].is_told = True
        return True
    return False


def run_begins(
    taker: OutcomeTaker,
    trace_id: int,
    context: Context,
    *,
    begins_trace: bool,
    name: str = "",
    conversation_id: str | None = None,
) -> Context:
    """Note that a run begins, if it is no part of another; return the context that what it does is called in.

    Args:
        taker: The run.
        trace_id: Its trace; 0 where it is not recorded.
        context: Where it begins.
        begins_trace: Whether it is its trace's first span: no other run of that trace came before.
        name: Of its team or graph.
        conversation_id: Equal for runs that continue each other.
    """
    if otel_context.get_value(_RUN_KEY, context) is not None:
        return context
    written = f"{trace_id:032x}" if trace_id else ""
    run = _runs.begin(taker, written, name=name, conversation_id=conversation_id, begins_trace=begins_trace)
    return otel_context.set_value(_RUN_KEY, run, context)


def run_ends(taker: OutcomeTaker, context: Context, *, agents: Iterable[str] = (), result: object = None) -> None:
    """Note that a run ends here: an outcome recorded next is that of this run.

    Args:
        taker: The run.
        context: As `run_begins` returned it.
        agents: Names of who took part.
        result: What it returns.
    """
    run = context.get(_RUN_KEY)
    if isinstance(run, RecentRun) and run.taker is taker:
        with shield_host("note the end of a run"):
            _runs.end(run, agents=agents, result=result)


def _meant(result: object, trace_id: str | None) -> Sequence[RecentRun]:
    if trace_id is not None:
        return _runs.of_trace(trace_id.lower())
    if result is not None:
        return _runs.of_result(result)
    around = otel_context.get_value(_RUN_KEY)
    return [around] if isinstance(around, RecentRun) else _runs.here()


def _warn(runs: Sequence[RecentRun], result: object, trace_id: str | None) -> None:
    """Log why no outcome is recorded, and which runs could be meant."""
    if os.environ.get(OTEL_SDK_DISABLED, "").strip().lower() == "true":
        return
    if trace_id is not None:
        expected = (
            f"expected the trace id of one run among the latest {MOST_RUNS:,} of this process, got {trace_id!r} with"
        )
        if runs:
            _log_runs(f"{expected} several runs", runs, "Name one with result=, or call this within the run")
        else:
            _log.warning("%s none: nothing is recorded. Call this in the process that ran it", expected)
    elif result is not None:
        got = f"expected the result of one recorded run, got a {type(result).__name__} that"
        if runs:
            _log_runs(f"{got} {len(runs)} runs returned", runs, "Name one with trace_id=")
        else:
            latest = _runs.latest(_MOST_NAMED)
            _log_runs(f"{got} no run returned", latest, "Give what it returned, unchanged, or trace_id=")
    elif runs:
        expected = f"expected record_outcome() after one run, got {len(runs)} runs that could be meant"
        _log_runs(expected, runs, "Name one with result= (what it returned) or trace_id=")
    else:
        got = "expected record_outcome() in or after a run, got no recorded run in this thread or asyncio task"
        advice = "Call blamespan.instrument() before the run, and this where the run is awaited, or give result="
        _log_runs(got, _runs.latest(_MOST_NAMED), advice)


def _log_runs(problem: str, runs: Sequence[RecentRun], advice: str) -> None:
    named = "; ".join(str(run) for run in runs[-_MOST_NAMED:])
    _log.warning("%s: nothing is recorded. %s%s", problem, advice, f". Runs: {named}" if named else "")
