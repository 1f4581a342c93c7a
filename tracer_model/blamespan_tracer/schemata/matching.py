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
from blamespan_tracer.schemata.findings import StepFindings, abstract_words, pairs_of, read_findings
from blamespan_tracer.schemata.schema import ErrorSchema, Signature

_OWN_WEIGHT: Final = 4.0
"""What the findings count by themselves, or the wording: either of them makes a failure known, so each has a score."""

_BESIDE: Final = {"agent": 1.0, "before": 0.5, "after": 0.5}
"""What the rest of a signature counts beside them."""

_LEAST_WORDING: Final = 0.6
"""A step has to have so much of the wording to be known by it."""

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
    return match_findings(read_findings(trace, ledger), schemata, first=first) if schemata else []


def match_findings(
    steps: Sequence[StepFindings], schemata: Sequence[ErrorSchema], *, first: int = 0
) -> list[SchemaMatch]:
    """Do as `match_schemata` with what is read of the steps already."""
    steps = [step for step in steps if step.step.index >= first]
    if not steps or not schemata:
        return []
    scores = _compile(tuple(schemata)).score(steps)
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
        self._findings, self._wording, self._beside, self._required = (np.zeros(shape, np.float32) for _ in range(4))
        sizes = np.zeros((len(schemata), 2), np.float32)
        for row, parts in enumerate(rows):
            for part, columns in parts.items():
                if part in _BESIDE:
                    self._beside[row, columns] = _BESIDE[part]
                    sizes[row, 1] += _BESIDE[part]
                elif part == "required":
                    self._required[row, columns] = 1.0
                    sizes[row, 0] = len(columns)
                elif columns:
                    (self._findings if part == "findings" else self._wording)[row, columns] = 1.0 / len(columns)
        self._n_required, self._beside_weight = sizes[:, :1], sizes[:, 1:]

    def _list_features(self, signature: Signature) -> dict[str, list[int]]:
        words = sorted(pairs_of(abstract_words(signature.wording)))
        parts = {
            "required": [f"{name} {value}" for name, value in _required(signature)],
            "findings": [*(f"finding {finding}" for finding in signature.findings), *_named("error", signature.error)],
            "wording": [f"words {pair}" for pair in words],
            **{part: _named(part, getattr(signature, part)) for part in _BESIDE},
        }
        return {
            part: [self._columns.setdefault(name, len(self._columns)) for name in names]
            for part, names in parts.items()
        }

    def score(self, steps: Sequence[StepFindings]) -> Floats:
        """Return (S, T) scores: by the findings or by the wording, whichever is higher.

        They are 0 where a step is of another kind, or shows nothing that speaks of failure.
        """
        shown = np.zeros((self._findings.shape[1], len(steps)), np.float32)
        for place, step in enumerate(steps):
            for name in step.shown:
                column = self._columns.get(name)
                if column is not None:
                    shown[column, place] = 1.0
        beside = self._beside @ shown
        best = np.zeros(beside.shape, np.float32)
        for part, least in ((self._findings, 1e-6), (self._wording, _LEAST_WORDING - 1e-5)):
            share = part @ shown
            score = (_OWN_WEIGHT * share + beside) / (_OWN_WEIGHT + self._beside_weight)
            best = np.maximum(best, np.where(share >= least, score, np.float32(0.0)))
        is_possible = (self._required @ shown) >= self._n_required - 0.5
        scores: Floats = np.where(is_possible, best, np.float32(0.0))
        return scores


def _named(part: str, value: str) -> list[str]:
    return [f"{part} {value}"] if value else []


def _required(signature: Signature) -> Iterator[tuple[str, str]]:
    if signature.kind:
        yield "kind", signature.kind
    if signature.tool:
        yield "tool", signature.tool


@lru_cache(maxsize=8)
def _compile(schemata: tuple[ErrorSchema, ...]) -> _Compiled:
    return _Compiled(schemata)
