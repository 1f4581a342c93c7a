"""Running a program again and again, each attempt told what went wrong in the one before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from opentelemetry.sdk.trace import TracerProvider

import blamespan
from blamespan.errors import ConfigError, MissingExtra
from blamespan.plugins import load_entry, plugins
from blamespan.retrying import Attempt, Retried
from blamespan.testing import SpanRecorder
from blamespan.tracers import DEFAULT_TRACER, Tracer, ask_tracer, load_tracer
from blamespan_lab.rerun.feedback.writing import feedback_on, is_suspected, with_feedback
from blamespan_lab.rerun.stress.watching import longest_trace
from blamespan_lab.rerun.user_program import Ran, open_program

_MOST_ATTEMPTS = 100


@contextmanager
def record_spans() -> Iterator[SpanRecorder]:
    """Record AutoGen and LangGraph runs for this block alone: no span leaves the process.

    Raises:
        ConfigError: if recording is on already, so that spans go elsewhere.
        MissingExtra: if no framework is there that could be recorded.
    """
    if _is_recording():
        raise ConfigError(
            "expected recording to be off, got it switched on already, so that spans go elsewhere. "
            "Call blamespan.uninstrument() first, and blamespan.instrument() again afterwards"
        )
    recorder = SpanRecorder(TracerProvider(shutdown_on_exit=False))
    if not blamespan.instrument(tracer_provider=recorder.provider):
        raise MissingExtra(
            "expected a framework to record, got none, or OTEL_SDK_DISABLED is set. "
            "Install one with: pip install 'blamespan[autogen]' or pip install 'blamespan[langgraph]'"
        )
    try:
        yield recorder
    finally:
        blamespan.uninstrument()


def _is_recording() -> bool:
    for entry in plugins("opentelemetry_instrumentor").values():
        if entry.value.startswith("blamespan"):
            with suppress(MissingExtra):
                if load_entry(entry)().is_instrumented_by_opentelemetry:
                    return True
    return False


def retry(
    factory: Callable[[], Any] | str,
    task: str,
    *,
    budget: int = 3,
    check: Callable[[str, str], Any] | None = None,
    tracer: str | Tracer = DEFAULT_TRACER,
) -> Retried:
    """Do what `blamespan.retry` says; see there."""
    _check(task, budget)
    attributes = load_tracer(tracer) if isinstance(tracer, str) else tracer
    with record_spans() as spans:
        program = open_program(factory, check)
        return Retried(tuple(_attempts(program.run, task, budget, spans, attributes)))


def _attempts(
    run: Callable[[str], Ran], task: str, budget: int, spans: SpanRecorder, tracer: Tracer
) -> Iterator[Attempt]:
    """Run up to *budget* times, ending with the first success, or where nobody can tell and nobody seems at fault.

    A tracer that is told that a run failed looks for who did it, where it might have held its tongue.
    """
    feedback = ""
    for _ in range(budget):
        spans.clear()
        ran = run(with_feedback(task, feedback))
        if ran.succeeded:
            yield Attempt(feedback, ran.answer, True, ran.error)
            return
        has_failed = ran.succeeded is False or bool(ran.error)
        trace, verdict = longest_trace(spans.spans()), None
        if trace is not None:
            trace = replace(trace, outcome="failed") if has_failed else trace
            [verdict] = ask_tracer(tracer, [trace])
        yield Attempt(feedback, ran.answer, ran.succeeded, ran.error, verdict)
        if not has_failed and not is_suspected(verdict):
            return
        feedback = "" if trace is None or verdict is None else feedback_on(trace, verdict).text


def _check(task: str, budget: int) -> None:
    if not isinstance(task, str) or not task.strip():
        raise ConfigError(f"task must be a text, got {task!r}. Say what the program is asked")
    if isinstance(budget, bool) or not isinstance(budget, int) or not 1 <= budget <= _MOST_ATTEMPTS:
        raise ConfigError(
            f"budget must be a whole number of attempts from 1 to {_MOST_ATTEMPTS}, got {budget!r}. Leave it out for 3"
        )
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise ConfigError(
        "retry runs event loops of its own and was called within one. Call it like "
        "await asyncio.to_thread(blamespan.retry, factory, task)"
    )
