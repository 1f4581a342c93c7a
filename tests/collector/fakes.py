"""Runs, a tracer and a backend for the collector's tests: deterministic, and no weights."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Sequence

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from blamespan.attribution import Attribution, ModeBlame, TracerIdentity
from blamespan.otlp import spans_from_proto, spans_to_proto
from blamespan.rebuilding.emit import emit
from blamespan.spans import Span
from blamespan.taxonomy import mode
from blamespan.trace import Agent, MessageActionTrace, Step
from blamespan_collector.settings import Limits

SOON = Limits(quiet_s=0.05, idle_s=0.4, max_age_s=60)
PATIENT = Limits(quiet_s=60)
"""Lets nothing go before the worker stops: what came in several requests is one trace, however far apart they came."""
POISON = "poison"
"""A task that breaks the tracer."""


class FirstStepTracer:
    """Blames the first step; breaks on poison."""

    identity = TracerIdentity("first-step", "1", "0123456789ab")

    def __init__(self) -> None:
        self.batches: list[int] = []

    def attribute(self, traces: Sequence[MessageActionTrace]) -> list[Attribution]:
        self.batches.append(len(traces))
        return [self._one(trace) for trace in traces]

    def _one(self, trace: MessageActionTrace) -> Attribution:
        if trace.task == POISON:
            raise ValueError("cannot read \x1b[31mthis")
        blamable = [step for step in trace.steps if trace.can_be_blamed(step)]
        if not blamable:
            return Attribution.abstain(trace, "nobody to blame", self.identity)
        shares = [float(step is blamable[0]) for step in trace.steps]
        modes = [ModeBlame(mode("mast:FM-1.1"), blamable[0].agent, 0.7)]
        return Attribution.of(trace, shares, failure_score=0.9, tracer=self.identity, modes=modes)


class Odd(FirstStepTracer):
    """Does what its task says: prints, raises, ends its process or hangs."""

    def attribute(self, traces: Sequence[MessageActionTrace]) -> list[Attribution]:
        for each in traces:
            if each.task == "print":
                print("in between")  # noqa: T201  # what is tested
            elif each.task == "end":
                os._exit(3)
            elif each.task == "hang":
                time.sleep(60)
        return super().attribute(traces)


class Clock:
    """Time that a test sets."""

    def __init__(self) -> None:
        self.now_ns = 10**18

    def __call__(self) -> int:
        return self.now_ns


class SlowTracer(FirstStepTracer):
    """Does not answer before it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()

    def attribute(self, traces: Sequence[MessageActionTrace]) -> list[Attribution]:
        self.go.wait(30)
        return super().attribute(traces)


def run(number: int, *, steps: int = 3, task: str = "add", content: str = "hello") -> list[Span]:
    """Make the spans of a run: its own, then one per step."""
    trace = MessageActionTrace(
        trace_id=f"{number:032x}",
        task=task,
        steps=tuple(
            Step(i, f"{number * 100_000 + i + 1:016x}", f"agent{i % 2}", content=content, start_ns=i, end_ns=i + 1)
            for i in range(steps)
        ),
        agents=(Agent("agent0"), Agent("agent1")),
        resource={"service.name": "test"},
    )
    return emit(trace)


def request(spans: Sequence[Span]) -> ExportTraceServiceRequest:
    return ExportTraceServiceRequest(resource_spans=spans_to_proto(spans))


def spans_of(requests: Sequence[ExportTraceServiceRequest]) -> list[Span]:
    return [span for one in requests for span in spans_from_proto(one.resource_spans)]


async def until(condition: object, timeout_s: float = 10) -> None:
    """Wait until *condition* () is true."""
    assert callable(condition)
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110  # what we wait for is often a file or a thread
            await asyncio.sleep(0.01)
