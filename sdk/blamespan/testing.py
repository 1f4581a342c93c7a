"""For tests, ours and yours: a clock that ticks, ids that count, spans kept in memory, and failures replayed.

from blamespan.testing import SpanRecorder

recorder = SpanRecorder()
blamespan.instrument(tracer_provider=recorder.provider)
...run a team...
trace = blamespan.rebuild(recorder.spans())

`blamespan case` writes tests that call `replay`.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator

from blamespan.otlp.sdk import span_from_sdk
from blamespan.plugins import load_part
from blamespan.spans import Span
from blamespan.tracers import DEFAULT_TRACER, Tracer

if TYPE_CHECKING:
    from blamespan.attribution import Attribution
    from blamespan.trace import MessageActionTrace


class TickingClock:
    """A clock that moves one second at every reading, from 1 second after the epoch."""

    def __init__(self) -> None:
        self._ticks = itertools.count(1)

    def __call__(self) -> int:
        """Read the time in nanoseconds."""
        return next(self._ticks) * 1_000_000_000


class SequentialIds(IdGenerator):
    """Trace and span ids 1, 2, 3, ..."""

    def __init__(self) -> None:
        self._traces = itertools.count(1)
        self._spans = itertools.count(1)

    def generate_trace_id(self) -> int:
        """Return the next trace id."""
        return next(self._traces)

    def generate_span_id(self) -> int:
        """Return the next span id."""
        return next(self._spans)


class SpanRecorder:
    """An OpenTelemetry provider with deterministic ids and times that keeps its spans.

    Args:
        provider: Another one, with ids and times of its own.

    Attributes:
        provider: Pass it to `blamespan.instrument(tracer_provider=...)`.
    """

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider: TracerProvider = provider if provider is not None else _TickingProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def finished(self) -> Sequence[ReadableSpan]:
        """List the ended spans as the SDK's objects, in the order they ended."""
        return self._exporter.get_finished_spans()

    def spans(self) -> list[Span]:
        """List the ended spans, in the order they ended."""
        return [span_from_sdk(span) for span in self.finished()]

    def clear(self) -> None:
        """Forget the spans so far."""
        self._exporter.clear()


class _TickingProvider(TracerProvider):
    def __init__(self) -> None:
        super().__init__(
            id_generator=SequentialIds(), resource=Resource({"service.name": "test"}), shutdown_on_exit=False
        )
        self._clock = TickingClock()

    def get_tracer(self, *args: Any, **kwargs: Any) -> trace.Tracer:  # the SDK's signature grows with each release
        return _TickingTracer(super().get_tracer(*args, **kwargs), self._clock)


class _TickingTracer(trace.Tracer):
    def __init__(self, tracer: trace.Tracer, clock: TickingClock) -> None:
        self._tracer = tracer
        self._clock = clock

    def start_span(self, name: str, *args: Any, **kwargs: Any) -> trace.Span:
        arguments = inspect.signature(trace.Tracer.start_span).bind(self, name, *args, **kwargs).arguments
        arguments["start_time"] = arguments.get("start_time") or self._clock()
        span = self._tracer.start_span(**{key: value for key, value in arguments.items() if key != "self"})
        end = span.end

        def end_on_tick(end_time: int | None = None) -> None:
            end(end_time or self._clock())

        span.end = end_on_tick  # type: ignore[method-assign]
        return span

    @contextmanager
    def start_as_current_span(self, name: str, *args: Any, **kwargs: Any) -> Iterator[trace.Span]:  # type: ignore[override]
        arguments = inspect.signature(trace.Tracer.start_as_current_span).bind(self, name, *args, **kwargs).arguments
        del arguments["self"]
        end_on_exit = arguments.pop("end_on_exit", True)
        options = {
            key: arguments.pop(key) for key in ("record_exception", "set_status_on_exception") if key in arguments
        }
        with trace.use_span(self.start_span(**arguments), end_on_exit=end_on_exit, **options) as span:
            yield span


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong that is found at a step.

    Attributes:
        agent: Whose step it is.
        step: Its index.
        check: Name of the check that it breaks; `contradiction` of words against a source, `evidence` of other words.
        quote: The words.
        reason: What is wrong with them; empty where that is not known.
    """

    agent: str
    step: int
    check: str
    quote: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ReplayedRun:
    """How a run ended that was replayed up to a step.

    Attributes:
        answer: What the program gave.
        is_right: Whether the check calls that right; None without a check.
        trace: The whole run.
        verdict: What the tracer says of it.
        found: All that is wrong in it.
    """

    answer: str
    is_right: bool | None
    trace: MessageActionTrace
    verdict: Attribution
    found: tuple[Finding, ...]

    def findings(self, agent: str | None = None, check: str | None = None) -> list[Finding]:
        """List what is wrong: with *agent*, by *check*; with anybody or by any where they are left out."""
        return [one for one in self.found if agent in (None, one.agent) and check in (None, one.check)]


def replay(
    program: str | Callable[[], Any],
    task: str,
    recorded: Sequence[Mapping[str, Any]],
    *,
    agent: str,
    check: str | Callable[[str, str], Any] | None = None,
    timeout_s: float = 120.0,
    tracer: str | Tracer = DEFAULT_TRACER,
) -> ReplayedRun:
    """Run a program that is answered from a recording up to a step, and goes on with its own models from there.

    An agent's model is asked once its recorded answers are used up. A tool answers what is recorded for the same call;
    another call runs only where the factory says `sandbox = True`. A process replays one program at a time. Recording
    is off afterwards.

    Args:
        program: `module:factory`, or the factory: it gives an AutoGen team or agent, a compiled LangGraph graph, or a
            function of the task.
        task: What the program is asked.
        recorded: In order. Of models: `{"agent": name, "says": text}`, with `"calls": [{"tool", "arguments", "id"}]`
            where it calls tools. Of tools: `{"tool": name, "arguments": {...}, "answers": text}`, with `"raises"` and
            the name of a built-in exception where it raises one.
        agent: Who erred: its recorded answers must all be used, and it must act.
        check: `module:function`, or the function of (answer, task): whether the answer is right. Without it, the
            factory's attribute `check` is taken, if it has one.
        timeout_s: Within which the program must end.
        tracer: Who says what is wrong.

    Raises:
        ConfigError: if an argument is wrong, or the program cannot be made.
        NotReplayed: if the program raises, does not end, never comes to the step, or calls a tool that was not
            recorded and may not run.
        MissingExtra: if no framework that could be recorded is installed.
    """
    run = load_part("replay")
    return cast(
        ReplayedRun,
        run(program, task, recorded, agent=agent, check=check, timeout_s=timeout_s, tracer=tracer),
    )
