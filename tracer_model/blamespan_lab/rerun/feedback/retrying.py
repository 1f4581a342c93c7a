"""Running a program again and again, each attempt told what went wrong in the one before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, TypeAlias

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import blamespan
from blamespan.errors import ConfigError, MissingExtra, NoAgentSteps
from blamespan.otlp.sdk import span_from_sdk
from blamespan.pipeline import AttributedRun
from blamespan.plugins import load_entry, plugins
from blamespan.rebuilding.rebuild import rebuild_run
from blamespan.rebuilding.runs import split_runs
from blamespan.retrying import Attempt, Retried
from blamespan.spans import Span
from blamespan.tracers import DEFAULT_TRACER, Tracer, ask_tracer, load_tracer
from blamespan_lab.rerun.feedback.writing import feedback_on, is_suspected, with_feedback
from blamespan_lab.rerun.user_program import Ran, open_program

Tell: TypeAlias = Callable[[AttributedRun | None, Ran], str]
"""Writes what the next attempt is told, from what was recorded of this one and how it ended."""

_MOST_ATTEMPTS = 100


class SpanCollector:
    """Spans of a program while recording is on."""

    def __init__(self, exporter: InMemorySpanExporter) -> None:
        self._exporter = exporter

    def taken(self) -> list[Span]:
        """Return what was recorded since the last time."""
        spans = [span_from_sdk(span) for span in self._exporter.get_finished_spans()]
        self._exporter.clear()
        return spans


@contextmanager
def record_spans() -> Iterator[SpanCollector]:
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
    provider, exporter = TracerProvider(shutdown_on_exit=False), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    if not blamespan.instrument(tracer_provider=provider):
        raise MissingExtra(
            "expected a framework to record, got none, or OTEL_SDK_DISABLED is set. "
            "Install one with: pip install 'blamespan[autogen]' or pip install 'blamespan[langgraph]'"
        )
    try:
        yield SpanCollector(exporter)
    finally:
        blamespan.uninstrument()


def _is_recording() -> bool:
    for entry in plugins("opentelemetry_instrumentor").values():
        if entry.value.startswith("blamespan"):
            with suppress(MissingExtra):
                if load_entry(entry)().is_instrumented_by_opentelemetry:
                    return True
    return False


def attempts(
    run: Callable[[str], Ran], task: str, *, budget: int, spans: SpanCollector, tracer: Tracer, tell: Tell
) -> Iterator[Attempt]:
    """Run up to *budget* times, ending with the first success, or where nobody can tell and nobody seems at fault.

    Args:
        run: Runs the program on what it is told.
        task: What it is told at first; feedback comes behind it.
        budget: Most attempts.
        spans: Of `record_spans`.
        tracer: Attributes each attempt.
        tell: Writes the feedback.
    """
    feedback = ""
    for _ in range(budget):
        spans.taken()
        ran = run(with_feedback(task, feedback))
        if ran.succeeded:
            yield Attempt(feedback, ran.answer, True, ran.error)
            return
        has_failed = ran.succeeded is False or bool(ran.error)
        judged = _longest(spans.taken(), tracer, has_failed=has_failed)
        verdict = judged.attribution if judged is not None else None
        yield Attempt(feedback, ran.answer, ran.succeeded, ran.error, verdict)
        if not has_failed and not is_suspected(verdict):
            return
        feedback = tell(judged, ran)


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
        done = attempts(program.run, task, budget=budget, spans=spans, tracer=attributes, tell=by_template)
        return Retried(tuple(done))


def by_template(judged: AttributedRun | None, ran: Ran) -> str:
    """Tell what the verdict says; of a run of which nothing was recorded, nothing."""
    del ran
    return feedback_on(judged.trace, judged.attribution).text if judged is not None else ""


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


def _longest(spans: list[Span], tracer: Tracer, *, has_failed: bool) -> AttributedRun | None:
    """Attribute what was recorded: of several runs, as of tools that are teams themselves, the one with most spans.

    A tracer that is told that a run failed looks for who did it, where it might have held its tongue.
    """
    by_trace: dict[str, list[Span]] = {}
    for span in spans:
        by_trace.setdefault(span.trace_id, []).append(span)
    runs = [run for of_trace in by_trace.values() for run in split_runs(of_trace)]
    for run in sorted(runs, key=lambda recorded_run: -len(recorded_run.spans)):
        try:
            trace = rebuild_run(run)
        except NoAgentSteps:  # a run in which nobody did anything
            continue
        trace = replace(trace, outcome="failed") if has_failed else trace
        [verdict] = ask_tracer(tracer, [trace])
        return AttributedRun(run, trace, verdict)
    return None
