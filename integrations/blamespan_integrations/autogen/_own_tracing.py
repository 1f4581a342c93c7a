"""AutoGen's own tracing, silenced: it tells the same runs again, torn into many traces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import ModuleType
from typing import Any

from autogen_core._telemetry import _genai, _tracing
from opentelemetry import trace
from opentelemetry.trace import INVALID_SPAN, NoOpTracer, Span

from blamespan_integrations.autogen._patches import Patches

__all__ = ["silence"]


def silence(patches: Patches) -> None:
    """Have AutoGen record no spans of its own: neither its runtime's nor its agents' and tools'.

    Spans a program makes with a tracer of its own stay, also those made with AutoGen's helpers.
    """
    patches.replace(_tracing.TraceHelper, "trace_block", _silent_block)
    patches.replace(_genai, "trace", _SilentTrace())


@contextmanager
def _silent_block(*_: Any, **__: Any) -> Iterator[Span]:
    yield INVALID_SPAN


class _SilentTrace(ModuleType):
    """Stands where `autogen_core._telemetry._genai` has `opentelemetry.trace`; only its tracers differ."""

    def __init__(self) -> None:
        super().__init__(trace.__name__, trace.__doc__)

    def __getattr__(self, name: str) -> Any:  # the module has all kinds of things
        return getattr(trace, name)

    def get_tracer(self, *_: Any, **__: Any) -> trace.Tracer:
        return _SilentTracer()


class _SilentTracer(NoOpTracer):
    """Makes nothing current either: AutoGen holds its spans across `yield`, where OpenTelemetry's tracer would."""

    start_as_current_span: Callable[..., AbstractContextManager[Span]] = staticmethod(_silent_block)  # type: ignore[assignment]
