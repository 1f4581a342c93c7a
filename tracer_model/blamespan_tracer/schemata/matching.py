"""Hold every step of a run against every schema: deterministic, without a model, in one product of matrices.

Dims: S schemata, T steps that can be blamed, F features that some schema asks for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from blamespan.trace import MessageActionTrace
from blamespan_tracer.ledger import Ledger
from blamespan_tracer.schemata.schema import ErrorSchema, Signature
from blamespan_tracer.schemata.signs import StepSigns, abstract_words, pairs_of, read_signs

__all__ = ["SchemaMatch", "match_schemata", "match_signs"]

_WEIGHTS: Final = {"sign": 4.0, "error": 2.0, "wording": 3.0, "agent": 1.0, "before": 0.5, "after": 0.5}
"""What each part of a signature counts; a part with several features shares its weight out."""

_LEAST_WORDING: Final = 0.6
"""A signature without a sign that the step shows needs so much of its wording."""

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class SchemaMatch:
    """A step that fails as a known failure did.

    Attributes:
        schema: Which.
        step: Index of the step.
        span_id: Its span.
        score: How much of the signature the step shows, from the schema's threshold to 1.
    """

    schema: ErrorSchema
    step: int
    span_id: str
    score: float


def match_schemata(
    trace: MessageActionTrace, schemata: Sequence[ErrorSchema], *, first: int = 0, ledger: Ledger | None = None
) -> list[SchemaMatch]:
    """Return which known failures a run shows, the surest first: of each schema the step that fits best.

    It works on prefixes of a run: what a step shows by itself, and against what came before, is known when the step is
    taken. What follows it is not known yet: a signature that asks for that has a lower score until it is, and a
    contradiction that a later step repairs counts until then.

    Args:
        trace: A run, or a prefix of one.
        schemata: What is known.
        first: Steps before this one are not held against them: they were, when they were the latest.
        ledger: The claims of *trace*, where they are read already.
    """
    return match_signs(read_signs(trace, ledger), schemata, trace, first=first) if schemata else []


def match_signs(
    steps: Sequence[StepSigns], schemata: Sequence[ErrorSchema], trace: MessageActionTrace, *, first: int = 0
) -> list[SchemaMatch]:
    """Do as `match_schemata` with what is read of the steps already."""
    steps = [step for step in steps if step.step.index >= first]
    if not steps or not schemata:
        return []
    scores = _compile(tuple(schemata)).score(steps, [agent.name for agent in trace.agents])
    matches = []
    for schema, row in zip(schemata, scores, strict=True):
        best = int(row.argmax())
        score = round(float(row[best]), 4)
        if score >= schema.threshold:
            step = steps[best].step
            matches.append(SchemaMatch(schema, step.index, step.span_id, min(1.0, score)))
    return sorted(matches, key=lambda match: (-match.score, match.schema.name))


class _Compiled:
    """Schemata as matrices: what each asks for, and how much it counts."""

    def __init__(self, schemata: Sequence[ErrorSchema]) -> None:
        self._columns: dict[str, int] = {}
        rows = [self._list_features(schema.signature) for schema in schemata]
        shape = (len(schemata), max(len(self._columns), 1))
        self._weights, self._evidence = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        self._wording, self._required = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        self._n_required = np.zeros(len(schemata), np.float32)
        for row, features in enumerate(rows):
            total = sum(weight for _, _, weight in features if weight)
            for part, column, weight in features:
                if part == "required":
                    self._required[row, column] = 1.0
                    self._n_required[row] += 1.0
                    continue
                self._weights[row, column] += weight / total
                if part in ("sign", "error"):
                    self._evidence[row, column] = 1.0
                if part == "wording":
                    self._wording[row, column] = weight / _WEIGHTS["wording"]

    def _list_features(self, signature: Signature) -> list[tuple[str, int, float]]:
        parts: dict[str, Sequence[str]] = {
            "required": [f"{name} {value}" for name, value in _required(signature)],
            "sign": [f"sign {sign}" for sign in signature.signs],
            "error": [f"error {signature.error}"] if signature.error else [],
            "wording": sorted(f"words {pair}" for pair in pairs_of(abstract_words(signature.wording))),
            "agent": [f"agent {signature.agent}"] if signature.agent else [],
            "before": [f"before {signature.before}"] if signature.before else [],
            "after": [f"after {signature.after}"] if signature.after else [],
        }
        return [
            (part, self._columns.setdefault(name, len(self._columns)), _WEIGHTS.get(part, 0.0) / len(names))
            for part, names in parts.items()
            for name in names
        ]

    def score(self, steps: Sequence[StepSigns], agents: Sequence[str]) -> Floats:
        """Return (S, T) scores; 0 where a step is of another kind, or shows nothing that speaks of failure."""
        shown = np.zeros((len(steps), self._weights.shape[1]), np.float32)
        for row, step in enumerate(steps):
            for name in _list_shown(step, agents):
                column = self._columns.get(name)
                if column is not None:
                    shown[row, column] = 1.0
        columns = shown.T
        is_possible = (self._required @ columns) >= self._n_required[:, None] - 0.5
        has_evidence = (self._evidence @ columns) > 0.5
        is_worded = (self._wording @ columns) >= _LEAST_WORDING - 1e-5
        scores: Floats = self._weights @ columns
        return np.where(is_possible & (has_evidence | is_worded), scores, np.float32(0.0))


def _required(signature: Signature) -> Iterator[tuple[str, str]]:
    if signature.kind:
        yield "kind", signature.kind
    if signature.tool:
        yield "tool", signature.tool


def _list_shown(step: StepSigns, agents: Sequence[str]) -> Iterator[str]:
    yield f"kind {step.step.kind}"
    yield f"tool {step.tool}"
    yield f"agent {step.agent}"
    yield f"before {step.before}"
    yield f"after {step.after}"
    if step.step.error:
        yield f"error {step.step.error}"
    yield from (f"sign {sign}" for sign in step.signs)
    words = abstract_words(step.step.content, agents)
    yield from (f"words {pair}" for pair in pairs_of(words))
    if len(words) >= 4:
        yield from (f"words {word}" for word in set(words))


@lru_cache(maxsize=8)
def _compile(schemata: tuple[ErrorSchema, ...]) -> _Compiled:
    return _Compiled(schemata)
