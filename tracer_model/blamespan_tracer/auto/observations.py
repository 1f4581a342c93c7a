"""What stands out about each step of a run, and how rarely sound runs have it: claims, broken checks, repetition.

A strength means something only beside those of sound runs: a number without a source is common, one that differs in a
digit from the number in its source is not. A table turns strengths into surprises, in nats: minus the logarithm of the
share of sound claims, or steps, that have it as strongly. Surprises of different kinds compare, also where no failed
run ever showed the kind.

Dims: T steps of a run.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blamespan.trace import MessageActionTrace
from blamespan_tracer.checks import CheckResult
from blamespan_tracer.ledger import Claim, Ledger, Mention, read_ledger

__all__ = ["Observation", "ObservedRun", "SurpriseTable", "find_repeat", "observe", "observe_claim"]

_LONG_NUMBER = 4
"""Digits from which on a number is a long one: few long numbers are equal by chance."""

_SHORTEST_REPEAT = 20
"""Shorter messages, such as "Approved.", may be said twice."""

_PER_STEP = "steps"
"""Form of what is observed of a step rather than of a claim."""

_PRIOR_CLAIMS = 50.0
"""Added to how many sound claims were seen: a form that is hardly ever seen surprises nobody."""


@dataclass(frozen=True, slots=True)
class Observation:
    """Something that stands out about a step.

    Attributes:
        step: Index of the step.
        kind: What it is.
        form: Form of the claim that it is about, or `steps`.
        strength: How strongly; comparable within one kind and form only.
        claim: The claim that it is about; None for what is observed of a step.
        source: The mention that the claim contradicts, where it contradicts one.
    """

    step: int
    kind: str
    form: str
    strength: float
    claim: Claim | None = None
    source: Mention | None = None


@dataclass(frozen=True, slots=True)
class ObservedRun:
    """What is observed of a run.

    Attributes:
        observations: Of its steps.
        n_claims: How many claims of each form its agents make.
        unsupported: (T,) how much of what each step states has no source, in nats, and
        information: (T,) how much it states, in nats.
        decides: (T,) which steps an agent can be blamed for, those without text left out.
        repeats: (T,) 2 where an agent says again what it said, 1 where another agent said it, else 0.
    """

    observations: tuple[Observation, ...]
    n_claims: Mapping[str, int]
    unsupported: NDArray[np.float64]
    information: NDArray[np.float64]
    decides: NDArray[np.bool_]
    repeats: NDArray[np.int64]


def observe(trace: MessageActionTrace, results: Sequence[CheckResult], ledger: Ledger | None = None) -> ObservedRun:
    """Observe a run.

    Args:
        trace: The run.
        results: What the bundled checks come to on it.
        ledger: The run's claims, where they are read already.
    """
    ledger = ledger or read_ledger(trace)
    n_steps = len(trace.steps)
    decides = np.array([trace.can_be_blamed(step) and bool(step.content.strip()) for step in trace.steps], np.bool_)
    unsupported, information = np.zeros((2, n_steps))
    n_claims: dict[str, int] = defaultdict(int)
    observations: list[Observation] = []
    for index, claims in enumerate(ledger.claims):
        for claim in claims:
            n_claims[_form(claim)] += 1
            observations += observe_claim(index, claim)
            if claim.mention.value.form != "opposite":
                information[index] += claim.information
                unsupported[index] += _missing_support(claim)
    repeats = _find_repeats(trace)
    observations += [
        Observation(index, f"repeats, {repeat}", _PER_STEP, 1.0) for index, repeat in enumerate(repeats) if repeat
    ]
    observations += [
        Observation(result.step, f"check {result.check.name}, {result.outcome}", _PER_STEP, 1.0)
        for result in results
        if result.step is not None and result.outcome != "pass" and not result.check.is_evidence
    ]
    kept = tuple(observation for observation in observations if decides[observation.step])
    return ObservedRun(kept, n_claims, unsupported, information, decides, repeats)


class SurpriseTable:
    """How rarely sound runs show each kind of observation.

    Args:
        strengths: Of the sound runs' observations by kind and form, ascending.
        sizes: By form how many sound claims were seen; `steps` for how many steps.
    """

    def __init__(self, strengths: Mapping[tuple[str, str], NDArray[np.float64]], sizes: Mapping[str, float]) -> None:
        self._strengths = dict(strengths)
        self._sizes = dict(sizes)
        self._usual = float(np.mean([size for form, size in sizes.items() if form != _PER_STEP])) if sizes else 1.0

    @classmethod
    def of(cls, runs: Iterable[ObservedRun]) -> SurpriseTable:
        """Count what sound runs show."""
        strengths: dict[tuple[str, str], list[float]] = defaultdict(list)
        sizes: dict[str, float] = defaultdict(float)
        for run in runs:
            sizes[_PER_STEP] += float(run.decides.sum())
            for form, count in run.n_claims.items():
                sizes[form] += count
            for observation in run.observations:
                strengths[observation.kind, observation.form].append(observation.strength)
        return cls({key: np.sort(np.array(values, np.float32)) for key, values in strengths.items()}, sizes)

    def surprise(self, observation: Observation) -> float:
        """Return how rarely a sound claim, or step, shows this, in nats."""
        strengths = self._strengths.get((observation.kind, observation.form))
        n_alike = 0
        if strengths is not None:
            n_alike = len(strengths) - int(np.searchsorted(strengths, observation.strength - 1e-6))
        if observation.form == _PER_STEP:
            return -math.log((n_alike + 0.5) / max(self._sizes.get(_PER_STEP, 0.0), 1.0))
        size = self._sizes.get(observation.form, 0.0)
        return -math.log((n_alike + 0.5) / (max(size, 0.5 * self._usual) + _PRIOR_CLAIMS))

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the table as arrays."""
        keys = sorted(self._strengths)
        return {
            "surprise_strengths": np.concatenate([self._strengths[key] for key in keys]).astype(np.float32),
            "surprise_sizes": np.array([len(self._strengths[key]) for key in keys], np.int64),
        }

    def names(self) -> dict[str, Any]:
        """Return the names of what `tensors` returns, and the sizes by form."""
        return {"kinds": [list(key) for key in sorted(self._strengths)], "sizes": dict(sorted(self._sizes.items()))}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, NDArray[Any]], names: Mapping[str, Any]) -> SurpriseTable:
        """Build a table from what `tensors` and `names` returned.

        Raises:
            KeyError: if something is missing.
            ValueError: if sizes do not fit each other.
        """
        ends = np.cumsum(tensors["surprise_sizes"])
        if len(ends) != len(names["kinds"]) or int(ends[-1] if len(ends) else 0) != len(tensors["surprise_strengths"]):
            raise ValueError("a table of surprises whose sizes do not fit")
        parts = np.split(tensors["surprise_strengths"], ends[:-1])
        keys = [(str(kind), str(form)) for kind, form in names["kinds"]]
        return cls(dict(zip(keys, parts, strict=True)), {str(form): float(n) for form, n in names["sizes"].items()})


def observe_claim(step: int, claim: Claim) -> Iterator[Observation]:
    """Yield what stands out about a claim of a step."""
    form, doubt = _form(claim), 1.0 / (1.0 + claim.derivation)
    for contradiction in claim.contradictions:
        if contradiction.is_repaired:
            continue
        source = contradiction.source
        use = "unused" if contradiction.is_unused else "used"
        match contradiction.kind:
            case "near":
                unlike = contradiction.surprise * (1.0 - contradiction.share_alike) + contradiction.agreement
                yield Observation(step, f"near, {use}", form, unlike * doubt, claim, source)
            case "context":
                yield Observation(step, f"context, {use}", form, contradiction.surprise * doubt, claim, source)
            case "row":
                yield Observation(step, f"row, {use}", form, contradiction.surprise, claim, source)
            case "unit":
                yield Observation(step, "unit", form, contradiction.surprise + contradiction.agreement, claim, source)
            case "opposite":
                yield Observation(step, "opposite", form, contradiction.surprise, claim, source)
    if missing := _missing_support(claim):
        yield Observation(step, "unsupported", form, missing, claim)


def _missing_support(claim: Claim) -> float:
    if claim.support is not None or claim.mention.value.form == "opposite":
        return 0.0
    return claim.information / (1.0 + claim.derivation)


def _form(claim: Claim) -> str:
    value = claim.mention.value
    if value.form == "number":
        return "long number" if len(value.key.lstrip("-").replace(".", "")) >= _LONG_NUMBER else "short number"
    return value.form


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
