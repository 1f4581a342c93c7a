"""What stands out about each step of a run, and how rarely sound runs have it: claims, broken checks, repetition.

A strength means something only beside those of sound runs: a number without a source is common, one that differs in a
digit from the number in its source is not. A table turns strengths into surprises, in nats: minus the logarithm of the
share of sound claims, or steps, that have it as strongly. Surprises of different kinds compare, also where no failed
run ever showed the kind.

What is rare depends on where it stands: in a page that an agent reads out most values are new, and some are like others
by chance; among copied values one that differs is rare. So each observation has a circumstance, one of a few, and its
share is that among sound claims in this circumstance, drawn towards the share among all of them.

Dims: T steps of a run.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blamespan.trace import MessageActionTrace
from blamespan_tracer.auto.claim_model import ClaimModel, ClaimRows, read_claims, with_surprises
from blamespan_tracer.checks import CheckResult
from blamespan_tracer.ledger import Claim, Ledger, Mention, read_ledger
from blamespan_tracer.ledger.ledger import TASK

__all__ = [
    "Observation",
    "ObservedRun",
    "SurpriseTable",
    "count_claims",
    "find_repeat",
    "judge_claims",
    "lay_out_claims",
    "name_form",
    "observe",
    "observe_claims",
]

_LONG_NUMBER = 4
"""Digits from which on a number is a long one: few long numbers are equal by chance."""

_SHORTEST_REPEAT = 20
"""Shorter messages, such as "Approved.", may be said twice."""

_PER_STEP = "steps"
"""Form of what is observed of a step rather than of a claim."""

_PRIOR_CLAIMS = 50.0
"""Added to how many sound claims were seen: a form that is hardly ever seen surprises nobody."""

_PRIOR_ALIKE = 200.0
"""Sound claims in one circumstance count as much as the shares among all claims do once there are so many of them."""

_SUPPORTED_SHARES = (0.45, 0.75)
_COUNTS_BESIDE = (1, 4, 13)
_COUNTS_KNOWN = (10, 50)
"""Between these lie the circumstances of a claim: the share of the step's other values that have a source, how many
they are, and how many values of its form were known before."""

N_CIRCUMSTANCES = 2 * (len(_SUPPORTED_SHARES) + 1) * (len(_COUNTS_BESIDE) + 1) * (len(_COUNTS_KNOWN) + 1)
"""Of each of them there are two: an argument of a call, or not."""


@dataclass(frozen=True, slots=True)
class Observation:
    """Something that stands out about a step.

    Attributes:
        step: Index of the step.
        kind: What it is.
        form: Form of the claim that it is about, or `steps`.
        strength: How strongly; comparable within one kind and form only.
        circumstance: Where the claim stands, 0 to `N_CIRCUMSTANCES` - 1; 0 for what is observed of a step.
        claim: The claim that it is about; None for what is observed of a step.
        source: The mention that the claim contradicts, where it contradicts one.
        place: Offset of the claim in its step; -1 for what is observed of a step.
    """

    step: int
    kind: str
    form: str
    strength: float
    circumstance: int = 0
    claim: Claim | None = None
    source: Mention | None = None
    place: int = -1


@dataclass(frozen=True, slots=True)
class ObservedRun:
    """What is observed of a run.

    Attributes:
        observations: Of its steps.
        n_claims: How many claims of each form its agents make, by form and circumstance.
        unsupported: (T,) how much of what each step states has no source, in nats, and
        information: (T,) how much it states, in nats.
        decides: (T,) which steps an agent can be blamed for, those without text left out.
        repeats: (T,) 2 where an agent says again what it said, 1 where another agent said it, else 0.
        claims: The claims of the steps that decide, for the trees.
        scores: (C,) how far above the trees' floor each claim's score is; 0 for others, and before the trees judge.
    """

    observations: tuple[Observation, ...]
    n_claims: Mapping[tuple[str, int], int]
    unsupported: NDArray[np.float64]
    information: NDArray[np.float64]
    decides: NDArray[np.bool_]
    repeats: NDArray[np.int64]
    claims: ClaimRows
    scores: NDArray[np.float64]


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
    n_claims: Counter[tuple[str, int]] = Counter()
    observations: list[Observation] = []
    deciders = [step.agent if trace.can_be_blamed(step) else None for step in trace.steps]
    for index, claims in enumerate(ledger.claims):
        circumstances = _find_circumstances(claims)
        n_claims += Counter(zip(map(name_form, claims), circumstances, strict=True))
        observations += observe_claims(index, claims, trace.steps[index].agent, deciders, circumstances)
        for claim in claims:
            if claim.mention.value.form != "opposite":
                information[index] += claim.information
                unsupported[index] += _missing_support(claim)
    repeats = _find_repeats(trace)
    observations += [
        Observation(index, f"repeats, {repeat}", _PER_STEP, 1.0) for index, repeat in enumerate(repeats) if repeat
    ]
    observations += [
        Observation(result.step, f"check {result.check.name}, fail", _PER_STEP, 1.0)
        for result in results
        if result.step is not None and result.outcome == "fail" and not result.check.is_evidence
    ]
    kept = tuple(observation for observation in observations if decides[observation.step])
    rows = read_claims(trace, ledger, decides, name_form)
    scores = np.zeros(len(rows.forms))
    return ObservedRun(kept, n_claims, unsupported, information, decides, repeats, rows, scores)


def lay_out_claims(rows: ClaimRows, observations: Iterable[Observation], table: SurpriseTable) -> NDArray[np.float32]:
    """Return the (C, F) features of claims, with how surprising *table* finds their contradictions.

    Args:
        rows: The claims.
        observations: Of their steps.
        table: Says how surprising these are.
    """
    surprises: dict[tuple[int, int], dict[str, float]] = defaultdict(dict)
    for one in observations:
        if one.place < 0:
            continue
        of_claim, kind = surprises[one.step, one.place], one.kind.partition(",")[0]
        of_claim[kind] = max(of_claim.get(kind, 0.0), table.surprise(one))
    return with_surprises(rows, surprises)


def judge_claims(run: ObservedRun, table: SurpriseTable, model: ClaimModel) -> ObservedRun:
    """Return the run with the scores that the trees give its claims."""
    return replace(run, scores=model.judge(lay_out_claims(run.claims, run.observations, table)))


class SurpriseTable:
    """How rarely sound runs show each kind of observation.

    Args:
        strengths: Of the sound runs' observations by kind and form, ascending.
        circumstances: Of the same observations, in the same order.
        sizes: By form and circumstance how many sound claims were seen; `steps` for how many steps.
    """

    def __init__(
        self,
        strengths: Mapping[tuple[str, str], NDArray[np.float32]],
        circumstances: Mapping[tuple[str, str], NDArray[np.uint8]],
        sizes: Mapping[tuple[str, int], float],
    ) -> None:
        self._strengths, self._circumstances, self._sizes = dict(strengths), dict(circumstances), dict(sizes)
        self._by_circumstance = {
            (*key, circumstance): self._strengths[key][self._circumstances[key] == circumstance]
            for key in self._strengths
            for circumstance in np.unique(self._circumstances[key]).tolist()
        }
        by_form: dict[str, float] = defaultdict(float)
        for (form, _), size in sizes.items():
            by_form[form] += size
        self._by_form = dict(by_form)
        claims = [size for form, size in by_form.items() if form != _PER_STEP]
        self._usual = float(np.mean(claims)) if claims else 1.0

    @classmethod
    def of(cls, runs: Iterable[ObservedRun]) -> SurpriseTable:
        """Count what sound runs show."""
        shown: dict[tuple[str, str], list[tuple[float, int]]] = defaultdict(list)
        sizes: Counter[tuple[str, int]] = Counter()
        for run in runs:
            sizes[_PER_STEP, 0] += int(run.decides.sum())
            sizes.update(run.n_claims)
            for observation in run.observations:
                shown[observation.kind, observation.form].append((observation.strength, observation.circumstance))
        for values in shown.values():
            values.sort()
        return cls(
            {key: np.array([strength for strength, _ in values], np.float32) for key, values in shown.items()},
            {key: np.array([circumstance for _, circumstance in values], np.uint8) for key, values in shown.items()},
            sizes,
        )

    def surprise(self, observation: Observation) -> float:
        """Return how rarely a sound claim in this circumstance, or a sound step, shows this, in nats."""
        kind, form = observation.kind, observation.form
        n_alike = _count_alike(self._strengths.get((kind, form)), observation.strength)
        if form == _PER_STEP:
            return -math.log((n_alike + 0.5) / max(self._by_form.get(_PER_STEP, 0.0), 1.0))
        share = (n_alike + 0.5) / (max(self._by_form.get(form, 0.0), 0.5 * self._usual) + _PRIOR_CLAIMS)
        here = self._by_circumstance.get((kind, form, observation.circumstance))
        size = self._sizes.get((form, observation.circumstance), 0.0)
        n_here = _count_alike(here, observation.strength)
        return -math.log((n_here + _PRIOR_ALIKE * share) / (size + _PRIOR_ALIKE))

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the table as arrays."""
        keys = sorted(self._strengths)
        return {
            "surprise_strengths": np.concatenate([self._strengths[key] for key in keys]).astype(np.float32),
            "surprise_circumstances": np.concatenate([self._circumstances[key] for key in keys]).astype(np.uint8),
            "surprise_counts": np.array([len(self._strengths[key]) for key in keys], np.int64),
        }

    def names(self) -> dict[str, Any]:
        """Return the names of what `tensors` returns, and the sizes by form and circumstance."""
        sizes = [[form, circumstance, size] for (form, circumstance), size in sorted(self._sizes.items())]
        return {"kinds": [list(key) for key in sorted(self._strengths)], "sizes": sizes}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, NDArray[Any]], names: Mapping[str, Any]) -> SurpriseTable:
        """Build a table from what `tensors` and `names` returned.

        Raises:
            KeyError: if something is missing.
            ValueError: if sizes do not fit each other.
        """
        strengths, circumstances = tensors["surprise_strengths"], tensors["surprise_circumstances"]
        ends = np.cumsum(tensors["surprise_counts"])
        n_shown = int(ends[-1]) if len(ends) else 0
        if len(ends) != len(names["kinds"]) or not n_shown == len(strengths) == len(circumstances):
            raise ValueError("a table of surprises whose sizes do not fit")
        keys = [(str(kind), str(form)) for kind, form in names["kinds"]]
        return cls(
            dict(zip(keys, np.split(strengths, ends[:-1]), strict=True)),
            dict(zip(keys, np.split(circumstances, ends[:-1]), strict=True)),
            {(str(form), int(circumstance)): float(size) for form, circumstance, size in names["sizes"]},
        )


def _count_alike(strengths: NDArray[np.float32] | None, strength: float) -> int:
    """Count the strengths, ascending, that are at least as high."""
    return 0 if strengths is None else len(strengths) - int(np.searchsorted(strengths, strength - 1e-6))


def observe_claims(
    step: int,
    claims: Sequence[Claim],
    agent: str,
    deciders: Sequence[str | None],
    circumstances: Sequence[int] | None = None,
) -> Iterator[Observation]:
    """Yield what stands out about the claims of a step.

    Args:
        step: Index of the step.
        claims: All that it makes.
        agent: Who takes it.
        deciders: Of each step before it the agent that can be blamed for it; None where nobody can.
        circumstances: Of the claims, where they are known already.
    """
    for claim, circumstance in zip(claims, circumstances or _find_circumstances(claims), strict=True):
        for kind, strength, source in _doubt(claim, agent, deciders):
            yield Observation(
                step, kind, name_form(claim), strength, circumstance, claim, source, claim.mention.value.start
            )


def count_claims(claims: Iterable[Claim]) -> int:
    """Count the claims of a step that say something by themselves: an opposite says only which way."""
    return sum(claim.mention.value.form != "opposite" for claim in claims)


def _doubt(claim: Claim, agent: str, deciders: Sequence[str | None]) -> Iterator[tuple[str, float, Mention | None]]:
    """Yield what speaks against a claim: the kind, how strongly, and the source that contradicts it."""
    doubt = 1.0 / (1.0 + claim.derivation)
    for contradiction in claim.contradictions:
        if contradiction.is_repaired:
            continue
        source = contradiction.source
        strength, agreement = contradiction.surprise, contradiction.agreement
        match contradiction.kind:
            case "near":
                strength = (strength * (1.0 - contradiction.share_alike) + agreement) * doubt
            case "context":
                strength = strength * doubt
            case "unit":
                strength = strength + agreement
            case "row" | "opposite":
                pass
        if contradiction.n_around:  # values copied beside it tell whether it was copied from there
            rest = contradiction.n_around - contradiction.n_alongside
            strength += math.log((contradiction.n_alongside + 0.5) / (rest + 0.5))
        kind: str = contradiction.kind
        if kind in ("near", "context", "row"):
            kind += ", unused" if contradiction.is_unused else ", used"
        is_own = source.step != TASK and not source.is_input and deciders[source.step] == agent
        yield f"{kind}, own" if is_own else kind, strength, source
    if missing := _missing_support(claim):
        yield "unsupported", missing, None


def _find_circumstances(claims: Sequence[Claim]) -> list[int]:
    """Return the circumstance of each claim of a step."""
    is_known: dict[tuple[str, str], bool] = {}
    for claim in claims:
        value = claim.mention.value
        if value.form != "opposite":
            is_known.setdefault((value.form, value.key), claim.support is not None or claim.derivation > 1.0)
    n_values, n_known = len(is_known), sum(is_known.values())
    circumstances = []
    for claim in claims:
        own = is_known.get((claim.mention.value.form, claim.mention.value.key))
        others, known = n_values - (own is not None), n_known - bool(own)
        digits = (
            (bisect_right(_SUPPORTED_SHARES, (known + 1) / (others + 1.5)), len(_SUPPORTED_SHARES) + 1),
            (bisect_right(_COUNTS_BESIDE, others), len(_COUNTS_BESIDE) + 1),
            (bisect_right(_COUNTS_KNOWN, claim.n_known), len(_COUNTS_KNOWN) + 1),
            (int(claim.is_argument), 2),
        )
        number = 0
        for digit, base in digits:
            number = number * base + digit
        circumstances.append(number)
    return circumstances


def _missing_support(claim: Claim) -> float:
    if claim.support is not None or claim.mention.value.form == "opposite":
        return 0.0
    return claim.information / (1.0 + claim.derivation)


def name_form(claim: Claim) -> str:
    """Name what a claim is: its form, and of a number how it is written."""
    value = claim.mention.value
    if value.form == "number":
        if value.text[0].isalpha():
            return "number word"
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
