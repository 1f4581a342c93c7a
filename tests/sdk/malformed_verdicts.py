"""Answers of a third-party tracer that are no verdicts, each in its own way."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

from blamespan.attribution import Attribution, Contradicted, Evidence, ModeBlame, StepBlame, TracerIdentity
from blamespan.trace import MessageActionTrace
from blamespan.tracers import Tracer
from tests.sdk.fixed_tracer import LongestStepTracer

BAD_TASK = "break"
"""Asked of the runs that a `MalformedTracer` has no verdict on."""

_ANY = cast(Any, object())

MALFORMED: dict[str, tuple[Callable[[Attribution], object], str]] = {
    "nothing": (lambda verdict: None, "expected an Attribution from the tracer, got None"),
    "a dictionary": (lambda verdict: {"agent": "a"}, "expected an Attribution from the tracer, got {'agent': 'a'}"),
    "another run": (lambda verdict: replace(verdict, trace_id="ab"), "got one on 'ab'"),
    "too few steps": (lambda verdict: replace(verdict, steps=verdict.steps[:1]), "steps, got one on 1"),
    "no steps": (lambda verdict: replace(verdict, steps=_ANY), "expected the records of blamespan.attribution"),
    "steps out of order": (lambda verdict: replace(verdict, steps=verdict.steps[::-1]), "at its place in the verdict"),
    "steps of others": (
        lambda verdict: replace(
            verdict,
            steps=tuple(StepBlame(step.index, step.span_id, cast(Any, None), step.score) for step in verdict.steps),
        ),
        "at its place in the verdict",
    ),
    "a decisive step beyond the end": (lambda verdict: replace(verdict, decisive_step=99), "expected indices below"),
    "a step set beyond the end": (lambda verdict: replace(verdict, step_set=(-1,)), "number of steps, got -1"),
    "evidence from nowhere": (
        lambda verdict: replace(verdict, evidence=(Evidence(99, "x", 1.0),)),
        "number of steps, got 99",
    ),
    "evidence against a step that is not there": (
        lambda verdict: replace(verdict, evidence=(Evidence(0, "x", 1.0, Contradicted(50, "y")),)),
        "number of steps, got 50",
    ),
    "evidence that is no text": (
        lambda verdict: replace(verdict, evidence=(Evidence(0, cast(Any, b"x"), 1.0),)),
        "expected quotations as text, got b'x'",
    ),
    "a score that is no number": (
        lambda verdict: replace(verdict, failure_score=math.nan),
        "expected a failure score from 0 to 1, got nan",
    ),
    "a score beyond 1": (lambda verdict: replace(verdict, failure_score=2.0), "expected a failure score from 0 to 1"),
    "a score as text": (
        lambda verdict: replace(verdict, unaided_score=cast(Any, "0.5")),
        "expected an unaided score from 0 to 1",
    ),
    "a mode that is a word": (
        lambda verdict: replace(verdict, modes=(ModeBlame(cast(Any, "mast:FM-1.1"), "a", 0.5),)),
        "expected the records of blamespan.attribution",
    ),
    "no identity": (
        lambda verdict: replace(verdict, tracer=TracerIdentity(cast(Any, None), "1")),
        "expected the identity of a tracer as text, got None",
    ),
    "an abstention without words": (
        lambda verdict: replace(verdict, abstained=cast(Any, 7)),
        "expected the reason of an abstention as text, got 7",
    ),
}
"""What becomes of a good verdict, and words of the error that is said of it."""


class MalformedTracer:
    """Answers as a good tracer does; on runs that are asked to `BAD_TASK`, in a malformed way.

    Args:
        name: Of `MALFORMED`.
        good: The good tracer.
    """

    def __init__(self, name: str, good: Tracer | None = None) -> None:
        self._spoil = MALFORMED[name][0]
        self._good = good or LongestStepTracer()
        self.identity = self._good.identity

    def attribute(self, traces: Sequence[MessageActionTrace]) -> list[Attribution]:
        """Attribute each run."""
        return [
            cast(Attribution, self._spoil(verdict)) if trace.task == BAD_TASK else verdict
            for trace, verdict in zip(traces, self._good.attribute(traces), strict=True)
        ]
