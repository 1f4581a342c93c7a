"""Which run wrote which checkpoint, so that a run that goes on from there links to it.

It is kept in this process, by thread, namespace and checkpoint: what a checkpointer saves stays what it would be
without us. Where the program asks for it (`link_checkpoints=True`) it also stands in the checkpoint's metadata, under
keys of ours, and a run in another process links as well.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, SpanContext
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

__all__ = ["OURS", "CheckpointOrigin", "find_origin", "remember_origin"]

_RUN_KEY = "blamespan.traceparent"
"""str: the run that wrote a checkpoint, as W3C `traceparent`."""
_CALLS_KEY = "blamespan.calls"
"""str: JSON, the agents that asked for the tool calls still open, by call id."""
OURS = (_RUN_KEY, _CALLS_KEY)
"""The keys of ours in a checkpoint's metadata."""
_MAX_CHECKPOINTS = 10_000
"""The latest, about 500 bytes each: of a run one for every superstep."""
_PROPAGATOR = TraceContextTextMapPropagator()


@dataclass(frozen=True, slots=True)
class CheckpointOrigin:
    """The run that wrote a checkpoint.

    Attributes:
        run: Its span.
        calls: The agents that asked for the tool calls still open, by call id.
        task: What was asked first; known within this process alone.
    """

    run: SpanContext
    calls: Mapping[str, str]
    task: str = ""

    @property
    def metadata(self) -> dict[str, str]:
        """Return it as a checkpoint's metadata say it."""
        carrier: dict[str, str] = {}
        _PROPAGATOR.inject(carrier, trace.set_span_in_context(NonRecordingSpan(self.run)))
        found = {_RUN_KEY: carrier["traceparent"]} if carrier else {}
        return found | ({_CALLS_KEY: json.dumps(dict(self.calls))} if self.calls else {})


_Key = tuple[str, str, str]
_origins: dict[_Key, CheckpointOrigin] = {}
"""The oldest first. Of the process, not of an instrumentor: recording may be switched off and on between two runs."""


def remember_origin(config: Mapping[str, Any], checkpoint_id: str, origin: CheckpointOrigin) -> None:
    """Keep *origin* of a checkpoint of the thread that *config* names."""
    if not origin.run.is_valid:
        return
    _origins[_key(config, checkpoint_id)] = origin
    with suppress(StopIteration, RuntimeError):  # another thread is at it. No lock: a finalizer may save a checkpoint
        while len(_origins) > _MAX_CHECKPOINTS:
            _origins.pop(next(iter(_origins)), None)


def find_origin(config: Mapping[str, Any], checkpoint_id: str, metadata: Mapping[str, Any]) -> CheckpointOrigin | None:
    """Return the origin of a checkpoint as kept in this process, else as its *metadata* say, else None."""
    known = _origins.get(_key(config, checkpoint_id))
    if known is not None:
        return known
    run = _span_context(metadata.get(_RUN_KEY))
    return CheckpointOrigin(run, json.loads(metadata.get(_CALLS_KEY) or "{}")) if run is not None else None


def _key(config: Mapping[str, Any], checkpoint_id: str) -> _Key:
    named = config.get("configurable") or {}
    return str(named.get("thread_id", "")), str(named.get("checkpoint_ns", "")), checkpoint_id


def _span_context(traceparent: object) -> SpanContext | None:
    if not isinstance(traceparent, str):
        return None
    span = trace.get_current_span(_PROPAGATOR.extract({"traceparent": traceparent}, Context()))
    return span.get_span_context() if isinstance(span, NonRecordingSpan) and span.get_span_context().is_valid else None
