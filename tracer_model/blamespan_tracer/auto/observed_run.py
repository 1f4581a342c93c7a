"""What a run says against each of its steps: doubtful claims, broken checks, repetition.

Dims: T steps of a run, C claims of the steps that an agent decides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from blamespan.trace import MessageActionTrace
from blamespan_tracer.auto.claim_model import LEARNT_KINDS, ClaimModel, ClaimRows, read_claims
from blamespan_tracer.checks import CheckResult
from blamespan_tracer.checks.alarms import weight_of
from blamespan_tracer.checks.check import ExaminedRun
from blamespan_tracer.ledger import Claim, Ledger, read_ledger
from blamespan_tracer.ledger.ledger import Contradiction

DOUBTS: Final = (*LEARNT_KINDS, "no source")
"""What may speak against a claim: the kinds of contradictions, and that it has no source."""

_SHORTEST_REPEAT = 20
"""Shorter messages, such as "Approved.", may be said twice."""


@dataclass(frozen=True, slots=True)
class ObservedRun:
    """What is observed of a run.

    Attributes:
        decides: (T,) which steps an agent can be blamed for, those without text left out.
        claims: Those of the steps that decide.
        scores: (C,) how far each claim's score stands above that of usual sound claims; 0 before the trees judge.
        doubts: (T, D) how much each of `DOUBTS` speaks against a step's claims at most, in nats.
        checks: (T,) how much broken checks speak against a step, in nats.
        repeats: (T,) 2 where an agent says again what it said, 1 where another agent said it, else 0.
        unsupported: (T,) how much of what each step states has no source, in nats, and
        information: (T,) how much it states, in nats.
        n_claims: How many claims agents make.
    """

    decides: NDArray[np.bool_]
    claims: ClaimRows
    scores: NDArray[np.float64]
    doubts: NDArray[np.float64]
    checks: NDArray[np.float64]
    repeats: NDArray[np.int64]
    unsupported: NDArray[np.float64]
    information: NDArray[np.float64]
    n_claims: int


@dataclass(frozen=True, slots=True)
class ReadRun:
    """A run as the model reads it.

    Dims: T steps of the run.

    Attributes:
        examined: The run, as checks examine it.
        results: What checks come to on it.
        observed: What it says against its steps.
        plain: (T, P) of `plain_features`.
        can_be_blamed: (T,) bool.
        loops: As `find_loops` lists them.
    """

    examined: ExaminedRun
    results: Sequence[CheckResult]
    observed: ObservedRun
    plain: NDArray[np.float64]
    can_be_blamed: NDArray[np.bool_]
    loops: Sequence[Sequence[int]]

    @property
    def trace(self) -> MessageActionTrace:
        """The run itself."""
        return self.examined.trace


def observe(trace: MessageActionTrace, results: Sequence[CheckResult], ledger: Ledger | None = None) -> ObservedRun:
    """Observe a run.

    Args:
        trace: The run.
        results: What checks come to on it.
        ledger: The run's claims, where they are read already.
    """
    ledger = ledger or read_ledger(trace)
    decides = np.array([trace.can_be_blamed(step) and bool(step.content.strip()) for step in trace.steps], np.bool_)
    unsupported, information = np.array([measure_support(claims) for claims in ledger.claims]).reshape(-1, 2).T
    claims = read_claims(trace, ledger, decides)
    return ObservedRun(
        decides=decides,
        claims=claims,
        scores=np.zeros(len(claims.steps)),
        doubts=np.array([measure_doubts(of_step) for of_step in ledger.claims]).reshape(-1, len(DOUBTS)),
        checks=_weigh_checks(trace, results),
        repeats=_find_repeats(trace),
        unsupported=unsupported,
        information=information,
        n_claims=sum(map(count_claims, ledger.claims)),
    )


def judge_claims(run: ObservedRun, model: ClaimModel) -> ObservedRun:
    """Return the run with the scores that the trees give its claims."""
    return replace(run, scores=model.judge(run.claims.features))


def count_claims(claims: Sequence[Claim]) -> int:
    """Count the claims of a step that say something by themselves: an opposite says only which way."""
    return sum(claim.mention.value.form != "opposite" for claim in claims)


def measure_doubts(claims: Sequence[Claim]) -> list[float]:
    """Return how much each of `DOUBTS` speaks against the claims of a step at most: (D,) in nats."""
    doubts = dict.fromkeys(DOUBTS, 0.0)
    for claim in claims:
        for one in claim.contradictions:
            if one.kind in doubts and not one.is_repaired:
                doubts[one.kind] = max(doubts[one.kind], measure_contradiction(claim, one))
        doubts["no source"] = max(doubts["no source"], _missing_support(claim))
    return list(doubts.values())


def measure_contradiction(claim: Claim, one: Contradiction) -> float:
    """Return how much a contradiction speaks against a claim, in nats.

    A calculation that gives the claim takes away from it. Values beside the claim that were copied from the source add
    to it: the claim was meant to be copied from there, too.
    """
    strength, unexplained = one.surprise, 1.0 / (1.0 + claim.derivation)
    if one.kind == "near":
        strength = (strength * (1.0 - one.share_alike) + one.agreement) * unexplained
    elif one.kind == "context":
        strength *= unexplained
    elif one.kind == "unit":
        strength += one.agreement
    if one.n_around:
        strength += math.log((one.n_alongside + 0.5) / (one.n_around - one.n_alongside + 0.5))
    return strength


def strongest_contradiction(claim: Claim) -> Contradiction | None:
    """Return what most contradicts a claim, what the run puts right left out; None where nothing does."""
    standing = [one for one in claim.contradictions if not one.is_repaired]
    return max(standing, key=lambda one: measure_contradiction(claim, one), default=None)


def _missing_support(claim: Claim) -> float:
    """Return how much of what a claim says has no source, in nats."""
    if claim.support is not None or claim.mention.value.form == "opposite":
        return 0.0
    return claim.information / (1.0 + claim.derivation)


def measure_support(claims: Sequence[Claim]) -> tuple[float, float]:
    """Return how much of what a step states has no source, and how much it states, both in nats."""
    stated = sum(claim.information for claim in claims if claim.mention.value.form != "opposite")
    return sum(map(_missing_support, claims)), stated


def _weigh_checks(trace: MessageActionTrace, results: Sequence[CheckResult]) -> NDArray[np.float64]:
    """Return how much broken checks that the run does not put right speak against each step: (T,) in nats."""
    weights = np.zeros(len(trace.steps))
    broken = {
        (result.step, result.check)
        for result in results
        if result.step is not None and result.outcome == "fail" and not result.is_repaired
    }
    for step, check in broken:
        weights[step] += max(0.0, weight_of(check))
    return weights


def find_repeat(
    agent: str, kind: str, text: str, texts: Set[tuple[str, str]], own_texts: Set[tuple[str, str, str]]
) -> int:
    """Return 2 where an agent says again what it said, 1 where another agent said it, else 0.

    Args:
        agent: Who speaks.
        kind: Kind of the step.
        text: What it says, with single blanks.
        texts: What was said before, by kind, and
        own_texts: by agent and kind.
    """
    if len(text) <= _SHORTEST_REPEAT:
        return 0
    return 2 if (agent, kind, text) in own_texts else int((kind, text) in texts)


def _find_repeats(trace: MessageActionTrace) -> NDArray[np.int64]:
    """Find the steps that say again, word for word, what was said; a call announced and then made is said once."""
    texts: set[tuple[str, str]] = set()
    by_agent: set[tuple[str, str, str]] = set()
    repeats = np.zeros(len(trace.steps), np.int64)
    for step in trace.steps:
        text = " ".join(step.content.split())
        if trace.can_be_blamed(step):
            own = step.agent, step.kind, text
            repeats[step.index] = find_repeat(*own, texts, by_agent)
            texts.add((step.kind, text))
            by_agent.add(own)
    return repeats
