"""How likely a claim is wrong, by all that the ledger says of it together: gradient-boosted trees over claims.

Whether a contradicted claim is a mistake depends on the rest: whether the claim has a source elsewhere, who stated what
contradicts it, whether its neighbours were copied from there, whether anybody says it again. The trees learnt that from
claims that were changed in runs of language models: they rank the changed claim of a run before its others.

Dims: C claims of a run, F features of a claim, M trees, N nodes of all of them.

Source: Burges, "From RankNet to LambdaRank to LambdaMART: an overview", 2010. We differ: more surprise, less support
and less derivation never make a claim less likely wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from blamespan.trace import MessageActionTrace
from blamespan_tracer.ledger import Claim, Ledger, Mention
from blamespan_tracer.ledger.equations import equations
from blamespan_tracer.ledger.ledger import TASK, Contradiction, ContradictionKind
from blamespan_tracer.weights_file import from_tensors, to_tensors

Floats = NDArray[np.float32]

LEARNT_KINDS: Final[tuple[ContradictionKind, ...]] = ("near", "context", "row", "unit", "opposite")
"""Kinds of contradictions that the trees have learnt."""
_FORMS: Final = (
    "short number",
    "long number",
    "number word",
    "date",
    "time",
    "identifier",
    "name",
    "quotation",
    "opposite",
)
_PLACES: Final = ("task", "input", "tool", "same agent", "other agent")
"""Where a source stands: in the task, in what a step was given, in what nobody can be blamed for, in agents' steps."""

_OF_CLAIM = (
    "has no source",
    "words that agree with its source",
    "words that agree with another value",
    "words that agree with its source rather",
    "derivation",
    "calculated from what stands beside it",
    "calculated from the latest numbers",
    "calculated from known numbers",
    "calculations expected by chance",
    "information",
    "is said again",
    "is an argument",
    "known values",
    "is in a sum that does not hold",
    "is in a sum that holds",
)
_OF_SOURCE = (*(f"source in {place}" for place in _PLACES), "steps since its source", "spelt as in its source")
_OF_CONTRADICTION = (
    "found",
    "strength",
    "words that agree",
    "unused",
    "repaired",
    "share alike",
    "copied along",
    "copied around",
    *(f"in {place}" for place in _PLACES if place != "input"),
    "steps since",
)
_OF_STEP = (
    "share of claims with a source",
    "share of claims with a source or a calculation",
    "claims",
    "place in the run",
    "is the last decision",
    "is the first decision",
    "is a call",
    "length",
    "steps of the run",
)

CLAIM_FEATURES: Final = (
    *(f"is a {form}" for form in _FORMS),
    *_OF_CLAIM,
    *_OF_SOURCE,
    *(f"{kind}: {what}" for kind in LEARNT_KINDS for what in _OF_CONTRADICTION),
    *_OF_STEP,
)
"""What each column means."""

MONOTONE: Final[Mapping[str, int]] = {
    "has no source": 1,
    "words that agree with its source": -1,
    "words that agree with its source rather": -1,
    "derivation": -1,
    "is in a sum that does not hold": 1,
    "is in a sum that holds": -1,
    **{
        f"{kind}: {what}": sign
        for kind in LEARNT_KINDS
        for what, sign in {
            "found": 1,
            "strength": 1,
            "copied along": 1,
            "repaired": -1,
            "share alike": -1,
        }.items()
    },
}
"""Features that only ever speak against a claim (1), or for it (-1)."""

_LONG_NUMBER = 4
"""Digits from which on a number is a long one: few long numbers are equal by chance."""

_MOST_NATS = 20.0
_ROWS_AT_ONCE = 4_096


@dataclass(frozen=True, slots=True)
class ClaimRows:
    """The claims of a run as the trees read them.

    Attributes:
        steps: (C,) the step that makes each, and
        places: (C,) its offset in the step.
        features: (C, F).
        claims: Them.
    """

    steps: NDArray[np.int64]
    places: NDArray[np.int64]
    features: Floats
    claims: tuple[Claim, ...]


@dataclass(frozen=True, slots=True)
class ClaimingStep:
    """A step that states something, and where it stands in the run as far as that is known.

    Attributes:
        index: Of the step.
        agent: Who takes it.
        is_call: Whether it calls a tool.
        content: What it says.
        n_steps: Of the run.
        is_first: Whether it is the first that an agent decides, and
        is_last: whether it is the last.
    """

    index: int
    agent: str
    is_call: bool
    content: str
    n_steps: int
    is_first: bool
    is_last: bool


def read_claims(trace: MessageActionTrace, ledger: Ledger, decides: NDArray[np.bool_]) -> ClaimRows:
    """Lay out the claims of the steps that an agent decides.

    Args:
        trace: The run.
        ledger: Its claims.
        decides: (T,) bool.
    """
    agents = [step.agent if trace.can_be_blamed(step) else None for step in trace.steps]
    decisions = np.flatnonzero(decides).tolist()
    places = (
        ClaimingStep(
            index,
            trace.steps[index].agent,
            trace.steps[index].kind == "tool_call",
            trace.steps[index].content,
            len(trace.steps),
            index == decisions[0],
            index == decisions[-1],
        )
        for index in decisions
    )
    return lay_out_steps(((step, ledger.claims[step.index]) for step in places), agents)


def lay_out_steps(
    steps: Iterable[tuple[ClaimingStep, Sequence[Claim]]],
    agents: Sequence[str | None],
) -> ClaimRows:
    """Lay out the claims of steps.

    Args:
        steps: Each with its claims.
        agents: Of every step before them the agent that can be blamed for it; None where nobody can.
    """
    found = [(step, claim, row) for step, claims in steps for claim, row in _describe_step(step, claims, agents)]
    features = np.array([row for _, _, row in found], np.float32).reshape(len(found), len(CLAIM_FEATURES))
    return ClaimRows(
        np.array([step.index for step, _, _ in found], np.int64),
        np.array([claim.mention.value.start for _, claim, _ in found], np.int64),
        features,
        tuple(claim for _, claim, _ in found),
    )


def _describe_step(
    step: ClaimingStep, claims: Sequence[Claim], agents: Sequence[str | None]
) -> Iterator[tuple[Claim, list[float]]]:
    n_supported = sum(claim.support is not None for claim in claims)
    n_calculated = sum(claim.calculated.operands != "" for claim in claims)
    of_step = [
        (n_supported + 1) / (len(claims) + 1.5),
        (n_supported + n_calculated + 1) / (len(claims) + 1.5),
        math.log1p(len(claims)),
        step.index / step.n_steps,
        float(step.is_last),
        float(step.is_first),
        float(step.is_call),
        math.log1p(len(step.content)),
        math.log1p(step.n_steps),
    ]
    sums = equations(step.content) if claims else ()
    for claim in claims:
        start = claim.mention.value.start
        holds = {one.holds for one in sums if one.start <= start < one.end}
        row = [float(name_form(claim) == form) for form in _FORMS]
        row += _describe_claim(claim, agents, step.agent, is_wrong_sum=False in holds, is_right_sum=True in holds)
        found = {one.kind: one for one in claim.contradictions}
        for kind in LEARNT_KINDS:
            row += _describe_contradiction(found.get(kind), step.index, agents, step.agent)
        yield claim, row + of_step


def name_form(claim: Claim) -> str:
    """Name what a claim is: its form, and of a number how it is written."""
    value = claim.mention.value
    if value.form == "number":
        if value.text[0].isalpha():
            return "number word"
        return "long number" if len(value.key.lstrip("-").replace(".", "")) >= _LONG_NUMBER else "short number"
    return value.form


def _describe_claim(
    claim: Claim, agents: Sequence[str | None], agent: str, *, is_wrong_sum: bool, is_right_sum: bool
) -> list[float]:
    described = [
        float(claim.support is None),
        float(claim.agreement),
        float(claim.rival_agreement),
        float(claim.agreement - claim.rival_agreement),
        min(claim.derivation, _MOST_NATS),
        *(float(claim.calculated.operands == operands) for operands in ("beside", "latest", "known")),
        max(claim.calculated.expected, -_MOST_NATS),
        claim.information,
        float(claim.is_repeated),
        float(claim.is_argument),
        math.log1p(claim.n_known),
        float(is_wrong_sum),
        float(is_right_sum),
    ]
    source = claim.support
    if source is None:
        return described + [0.0] * len(_OF_SOURCE)
    where = _find_place(source, agents, agent)
    described += [float(where == place) for place in _PLACES]
    distance = math.log1p(claim.mention.step - source.step)
    return [*described, distance, float(source.value.text == claim.mention.value.text)]


def _describe_contradiction(
    found: Contradiction | None, step: int, agents: Sequence[str | None], agent: str
) -> list[float]:
    if found is None:
        return [0.0] * len(_OF_CONTRADICTION)
    where = _find_place(found.source, agents, agent)
    rest = found.n_around - found.n_alongside
    return [
        1.0,
        min(found.surprise, _MOST_NATS),
        float(found.agreement),
        float(found.is_unused),
        float(found.is_repaired),
        found.share_alike,
        math.log((found.n_alongside + 0.5) / (rest + 0.5)),
        math.log1p(found.n_around),
        *(float(where == place) for place in _PLACES if place != "input"),
        math.log1p(step - found.source.step),
    ]


def _find_place(source: Mention, agents: Sequence[str | None], agent: str) -> str:
    if source.step == TASK:
        return "task"
    if source.is_input:
        return "input"
    owner = agents[source.step]
    if owner is None:
        return "tool"
    return "same agent" if owner == agent else "other agent"


@dataclass(frozen=True, slots=True)
class ClaimModel:
    """Gradient-boosted trees, as arrays.

    A node of a tree leads to `left` where the feature is at most the threshold, else to `right`; a leaf to itself.

    Attributes:
        feature: (N,) column that a node asks for.
        threshold: (N,).
        left: (N,) node, and
        right: (N,) node.
        value: (N,) what a leaf adds to the score.
        root: (M,) first node of each tree.
        depth: (1,) of the deepest tree.
        floor: (1,) score below which a claim is not worth a remark: that of four sound claims in five.
    """

    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    value: NDArray[np.float64]
    root: NDArray[np.int32]
    depth: NDArray[np.int32]
    floor: NDArray[np.float64]

    def judge(self, features: Floats) -> NDArray[np.float64]:
        """Return (C,) how far above the floor the score of each claim is, by their (C, F) features; 0 below it."""
        above: NDArray[np.float64] = np.maximum(self.score(features) - self.floor[0], 0.0)
        return above

    def score(self, features: Floats) -> NDArray[np.float64]:
        """Return (C,) scores by the (C, F) features of claims: the higher, the likelier wrong."""
        parts = [
            self._score_part(features[first : first + _ROWS_AT_ONCE])
            for first in range(0, len(features), _ROWS_AT_ONCE)
        ]
        return np.concatenate(parts) if parts else np.zeros(0)

    def _score_part(self, features: Floats) -> NDArray[np.float64]:
        nodes = np.broadcast_to(self.root, (len(features), len(self.root)))
        rows = np.arange(len(features))[:, None]
        for _ in range(int(self.depth[0])):
            is_left = features[rows, self.feature[nodes]] <= self.threshold[nodes]
            nodes = np.where(is_left, self.left[nodes], self.right[nodes])
        scores: NDArray[np.float64] = self.value[nodes].sum(axis=1)
        return scores

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the trees by name."""
        return to_tensors(self, "claims")

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, NDArray[Any]]) -> ClaimModel:
        """Build trees from what `tensors` returned.

        Raises:
            KeyError: if something is missing.
            ValueError: if sizes do not fit, or a node leads nowhere.
        """
        model = from_tensors(cls, tensors, "claims")
        n_nodes = len(model.value)
        of_nodes = (model.feature, model.threshold, model.left, model.right, model.value)
        if any(array.shape != (n_nodes,) for array in of_nodes) or (model.depth.shape, model.floor.shape) != (
            (1,),
            (1,),
        ):
            raise ValueError("trees of another size")
        for array, stop in (
            (model.feature, len(CLAIM_FEATURES)),
            (model.left, n_nodes),
            (model.right, n_nodes),
            (model.root, n_nodes),
        ):
            if array.size and not 0 <= array.min() <= array.max() < stop:
                raise ValueError("trees whose nodes lead nowhere")
        return model
