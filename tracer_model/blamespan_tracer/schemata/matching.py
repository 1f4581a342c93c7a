"""Hold every step of a run against every schema: deterministic, without a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

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
    if not steps:
        return []
    matches = []
    for schema in schemata:
        asked = _ask(schema.signature)
        scores = [asked.score(step.shown) for step in steps]
        score = round(max(scores), 4)
        if score >= schema.threshold:
            step = steps[scores.index(max(scores))].step
            matches.append(SchemaMatch(schema, step.index, step.span_id, score))
    return sorted(matches, key=lambda match: (-match.score, match.schema.name))


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a signature asks for, as features of steps.

    Attributes:
        required: A step without one of them does not match.
        findings: Findings and the error.
        wording: Pairs of words.
        beside: What the rest counts.
    """

    required: frozenset[str]
    findings: frozenset[str]
    wording: frozenset[str]
    beside: Mapping[str, float]

    def score(self, shown: frozenset[str]) -> float:
        """Return the score of a step, 0..1: by the findings or by the wording, whichever is higher.

        It is 0 where the step is of another kind, or shows nothing that speaks of failure.
        """
        if not self.required <= shown:
            return 0.0
        beside = sum(weight for feature, weight in self.beside.items() if feature in shown)
        most = _OWN_WEIGHT + sum(self.beside.values())
        shares = [len(part & shown) / len(part) if part else 0.0 for part in (self.findings, self.wording)]
        known = [share for share, least in zip(shares, (0.0, _LEAST_WORDING), strict=True) if share and share >= least]
        return max(((_OWN_WEIGHT * share + beside) / most for share in known), default=0.0)


@lru_cache(maxsize=4_096)
def _ask(signature: Signature) -> _Asked:
    findings = {f"finding {finding}" for finding in signature.findings}
    if signature.error:
        findings.add(f"error {signature.error}")
    return _Asked(
        frozenset(f"{part} {value}" for part in ("kind", "tool") if (value := getattr(signature, part))),
        frozenset(findings),
        frozenset(f"words {pair}" for pair in pairs_of(abstract_words(signature.wording))),
        {f"{part} {value}": weight for part, weight in _BESIDE.items() if (value := getattr(signature, part))},
    )
