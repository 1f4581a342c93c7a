"""Saying how a run ended, where the program knows: `blamespan.record_outcome("failed", reason="expected 36")`.

Integrations tell of each outermost run that begins (`run_begins`) and take what is said of it; nothing else of a run is
known here, and nothing of a run is kept but what it takes to write on its trace.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from collections import OrderedDict
from contextvars import ContextVar
from typing import Final, Literal, Protocol, cast

from opentelemetry import context as otel_context
from opentelemetry.context import Context
from opentelemetry.sdk.environment_variables import OTEL_SDK_DISABLED

from blamespan.errors import ConfigError
from blamespan.guard import guard

__all__ = ["OutcomeTaker", "record_outcome", "run_begins", "run_ends"]

_log = logging.getLogger("blamespan")
_RUN_KEY = otel_context.create_key("blamespan-outcome")
_latest: ContextVar[OutcomeTaker | None] = ContextVar("blamespan-latest-run", default=None)
_MOST_REMEMBERED: Final = 1_000
"""Traces whose runs can be named by their id; of more, the latest."""
_TRACE_ID = re.compile(r"[0-9a-fA-F]{32}", re.ASCII)


class OutcomeTaker(Protocol):
    """A run that can be told how it ended, at work or over."""

    def take(self, outcome: Literal["succeeded", "failed"], reason: str) -> None:
        """Write it on the run's trace."""
        ...


def record_outcome(outcome: Literal["succeeded", "failed"], reason: str = "", *, trace_id: str | None = None) -> bool:
    """Say how a run ended: what a program or its user knows of the answer, though every span says OK.

    It concerns the run that it is called in (a tool, a node, an agent), whose teams within teams are parts of it;
    outside of one the run that began or ended last in this thread or asyncio task; or that of *trace_id*. Said again,
    the last counts. Tracers know it, and the collector judges again what it has sent on already.

    Args:
        outcome: `succeeded` or `failed`.
        reason: Why, for people; recorded as contents are: masked, cut, or withheld.
        trace_id: 32 hex digits: a run of this process, among its latest 1,000 traces, however long ago it ended.

    Returns:
        Whether there is such a run. Where not, nothing is recorded and a warning on the logger `blamespan` says why.

    Raises:
        ConfigError: if *outcome* or *trace_id* is none, or *reason* no text.
    """
    if outcome not in ("succeeded", "failed"):
        raise ConfigError(f"expected the outcome 'succeeded' or 'failed', got {outcome!r}. Not known? Say nothing")
    if not isinstance(reason, str):
        raise ConfigError(f"expected a reason as text, got {reason!r}. Say it like reason='expected 36, got 35'")
    if trace_id is not None and not (isinstance(trace_id, str) and _TRACE_ID.fullmatch(trace_id)):
        raise ConfigError(
            f"expected a trace id of 32 hex digits, got {trace_id!r}. "
            "Write it like format(span.get_span_context().trace_id, '032x')"
        )
    found = _runs.of(trace_id.lower()) if trace_id is not None else _here()
    if len(found) != 1:
        _say_why(trace_id, is_several=len(found) > 1)
        return False
    with guard("record an outcome"):
        found[0].take(outcome, reason)
    return True


def run_begins(taker: OutcomeTaker, trace_id: int, context: Context, *, begins_trace: bool) -> Context:
    """Learn of a run's beginning, if it is no part of another; gives the context that what it does is called in.

    Args:
        taker: The run.
        trace_id: Its trace; 0 where it is not recorded.
        context: Where it begins.
        begins_trace: Whether it is its trace's first span: no other run of that trace came before.
    """
    if otel_context.get_value(_RUN_KEY, context) is not None:
        return context
    _latest.set(taker)
    if trace_id:
        _runs.add(f"{trace_id:032x}", taker, begins_trace=begins_trace)
    return otel_context.set_value(_RUN_KEY, taker, context)


def run_ends(taker: OutcomeTaker, context: Context) -> None:
    """Learn of a run's end: where it was awaited, what is said next is said of it.

    Args:
        taker: The run.
        context: As `run_begins` gave it.
    """
    if context.get(_RUN_KEY) is taker:
        _latest.set(taker)


class _Runs:
    """The latest runs, by trace id."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: OrderedDict[str, list[OutcomeTaker]] = OrderedDict()

    def add(self, trace_id: str, taker: OutcomeTaker, *, begins_trace: bool) -> None:
        """Remember a run; of a trace that has several, two. Deterministic ids may come again, for another trace."""
        with self._lock:
            others = [] if begins_trace else self._found.get(trace_id, [])
            self._found[trace_id] = [*others[:1], taker]
            self._found.move_to_end(trace_id)
            while len(self._found) > _MOST_REMEMBERED:
                self._found.popitem(last=False)

    def of(self, trace_id: str) -> list[OutcomeTaker]:
        """List the run of a trace, two where it has several."""
        with self._lock:
            return list(self._found.get(trace_id, ()))


_runs = _Runs()


def _here() -> list[OutcomeTaker]:
    """Find the run around, or the last one: none or one."""
    taker = otel_context.get_value(_RUN_KEY) or _latest.get()
    return [cast(OutcomeTaker, taker)] if taker is not None else []


def _say_why(trace_id: str | None, *, is_several: bool) -> None:
    if os.environ.get(OTEL_SDK_DISABLED, "").strip().lower() == "true":
        return
    if trace_id is None:
        _log.warning(
            "expected record_outcome() in or after a run, got no recorded run in this thread or asyncio task: nothing "
            "is recorded. Call blamespan.instrument() before the run, and this where the run is awaited, or with "
            "trace_id="
        )
        return
    said, advice = "none", "Say it in the process that ran it"
    if is_several:
        said, advice = "several runs", "Say it within each run, or right after it"
    _log.warning(
        "expected the trace id of one run among the latest %d traces of this process, got %r with %s: nothing is "
        "recorded. %s",
        *(_MOST_REMEMBERED, trace_id, said, advice),
    )
