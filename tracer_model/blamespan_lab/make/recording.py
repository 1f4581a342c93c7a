"""Recording simulated runs: in memory, with ids and times that follow from a run's name and from nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextvars import Context
from random import Random
from typing import Any, Self, TypeVar

from opentelemetry.instrumentation.utils import suppress_instrumentation
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.semconv.attributes import exception_attributes
from opentelemetry.util.types import Attributes

import blamespan
from blamespan import conventions as words
from blamespan.errors import ConfigError
from blamespan.injecting.injection import Injection
from blamespan.intercepting.boundaries import PlannedFault
from blamespan_lab.make.simulation.random_stream import stable_seed

ValueT = TypeVar("ValueT")

_EPOCH_NS = 1_767_225_600_000_000_000
"""2026-01-01: runs begin within the year after it."""
_YEAR_S = 31_536_000
_MS = 1_000_000
_RANDOM_ID = re.compile(r"(?<![0-9a-f])[0-9a-f]{8}(-?)[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{12}(?![0-9a-f])")
"""What frameworks draw to tell teams, messages and checkpoints apart."""


class Recording:
    """Records runs one after another while it is open; one at a time in a process.

    Frameworks are instrumented once and the hooks of `blamespan.inject` stay in place, so that a run costs little more
    than itself.
    """

    def __init__(self) -> None:
        self._ids = _NamedIds()
        self._log = _Log()
        limits = SpanLimits(max_span_attributes=512, max_events=128, max_links=512)
        resource = Resource({"service.name": "agents"})
        self._provider = TracerProvider(
            id_generator=self._ids, resource=resource, span_limits=limits, shutdown_on_exit=False
        )
        self._provider.add_span_processor(self._log)
        self._hooks = Injection([PlannedFault("blamespan:X4")])
        self._elsewhere = Context()  # where that fault holds: nowhere that anything runs

    def __enter__(self) -> Self:
        self._elsewhere.run(self._hooks.__enter__)
        blamespan.instrument(
            tracer_provider=self._provider,
            capture_content=True,
            mask_secrets=False,
            mask_keys=(),
            max_content_bytes=words.DEFAULT_MAX_CONTENT_BYTES,
        )
        return self

    def __exit__(self, *_: object) -> None:
        blamespan.uninstrument()
        self._elsewhere.run(self._hooks.close)

    def record(self, name: str, run: Callable[[], ValueT]) -> tuple[ValueT, tuple[ReadableSpan, ...]]:
        """Run something once and give its spans, in the order they ended.

        Args:
            name: Ids and times follow from it: the same run under the same name gives the same spans.
            run: Runs one team or graph.

        Raises:
            ConfigError: if nothing was recorded: the spans go elsewhere, or recording is switched off.
        """
        self._ids.begin(name)
        self._log.entries.clear()
        result = run()
        if not self._log.entries:
            raise ConfigError(
                "expected the run to be recorded, got no span. Leave blamespan.instrument() to the recording, and "
                "unset OTEL_SDK_DISABLED"
            )
        return result, _rewrite(self._log.entries, name)

    def unrecorded(self, run: Callable[[], ValueT]) -> ValueT:
        """Run something without spans, which is faster."""
        with suppress_instrumentation():
            return run()


class _NamedIds(IdGenerator):
    """Ids that follow from the name of a run and how many were given before."""

    def __init__(self) -> None:
        self.begin("")

    def begin(self, name: str) -> None:
        self._name, self._count = name, 0

    def generate_trace_id(self) -> int:
        """Return the id of the run's trace."""
        return stable_seed("trace", self._name) << 64 | stable_seed("trace, too", self._name) or 1

    def generate_span_id(self) -> int:
        """Return the next span id."""
        self._count += 1
        return stable_seed("span", self._name, self._count) or 1


class _Log(SpanProcessor):
    """Keeps what happened to spans, in order: ids at their start, themselves at their end."""

    def __init__(self) -> None:
        self.entries: list[int | ReadableSpan] = []

    def on_start(self, span: Any, parent_context: Any = None) -> None:  # the SDK's types, which it does not export
        self.entries.append(span.get_span_context().span_id)

    def on_end(self, span: ReadableSpan) -> None:
        self.entries.append(span)


def _rewrite(log: list[int | ReadableSpan], name: str) -> tuple[ReadableSpan, ...]:
    """Return the ended spans with times and random ids of our own making, the same whenever they are recorded."""
    rng = Random(stable_seed("times", name))  # noqa: S311 - reproducible on purpose
    renamed = _Renamed(name)
    now_ns = _EPOCH_NS + stable_seed("begins", name) % _YEAR_S * 1_000_000_000
    started: dict[int, int] = {}
    ended: list[ReadableSpan] = []
    for entry in log:
        now_ns += int(_took_ms(entry, rng) * _MS)
        if isinstance(entry, int):
            started[entry] = now_ns
        elif (began := started.get(_span_id(entry))) is not None:  # else of a run before, which ends late
            ended.append(_at(entry, began, now_ns, renamed))
    return tuple(ended)


def _took_ms(entry: int | ReadableSpan, rng: Random) -> float:
    """Draw how long it takes from what came before to this: a model by the length of its answer, a tool as it likes."""
    if isinstance(entry, int):
        return rng.uniform(0.3, 3.0)
    attributes = entry.attributes or {}
    operation = attributes.get(words.OPERATION)
    if operation == words.OPERATION_CHAT:
        tokens = attributes.get(words.OUTPUT_TOKENS)
        return rng.uniform(200, 700) + rng.uniform(10, 25) * (tokens if isinstance(tokens, int) else 40)
    return rng.uniform(5, 400) if operation == words.OPERATION_TOOL else rng.uniform(0.3, 3.0)


def _span_id(span: ReadableSpan) -> int:
    context = span.get_span_context()
    return context.span_id if context is not None else 0


def _at(span: ReadableSpan, start_ns: int, end_ns: int, renamed: _Renamed) -> ReadableSpan:
    return ReadableSpan(
        name=renamed.text(span.name),
        context=span.get_span_context(),
        parent=span.parent,
        resource=span.resource,
        attributes=renamed.attributes(span.attributes),
        events=[Event(event.name, renamed.attributes(event.attributes), end_ns) for event in span.events],
        links=span.links,
        kind=span.kind,
        status=span.status,
        start_time=start_ns,
        end_time=end_ns,
        instrumentation_scope=span.instrumentation_scope,
    )


class _Renamed:
    """Random ids by what stands for them, the first of a run first."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._known: dict[str, str] = {}

    def attributes(self, attributes: Attributes) -> Mapping[str, Any]:
        """Leave out the stack of an exception too: it shows where this machine keeps its files."""
        lasting = {
            key: value for key, value in (attributes or {}).items() if key != exception_attributes.EXCEPTION_STACKTRACE
        }
        return {key: self.text(value) if isinstance(value, str) else value for key, value in lasting.items()}

    def text(self, text: str) -> str:
        return _RANDOM_ID.sub(self._stand_in, text)

    def _stand_in(self, match: re.Match[str]) -> str:
        plain = match[0].replace("-", "")
        number = self._known.setdefault(plain, f"{len(self._known):x}")
        digits = f"{stable_seed('id', self._name, number):016x}{stable_seed('id, too', self._name, number):016x}"
        return (
            "-".join([digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]])
            if "-" in match[0]
            else digits
        )
