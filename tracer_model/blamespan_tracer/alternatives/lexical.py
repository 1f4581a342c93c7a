"""The lexical tracer: attributes a failure by the words of each step. No LLM, no GPU, no network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from blamespan import __version__
from blamespan.attribution import Attribution, ModeBlame, TracerIdentity
from blamespan.taxonomy import AEGIS
from blamespan.trace import MessageActionTrace
from blamespan_tracer.abstention import NO_TEXT, abstention_reason
from blamespan_tracer.alternatives.evidence import quote_steps
from blamespan_tracer.alternatives.features import agent_features
from blamespan_tracer.alternatives.lexicon import Lexicon
from blamespan_tracer.modes import can_show
from blamespan_tracer.numeric import sigmoid

BUNDLED = Path(__file__).parent / "weights" / "lexical.safetensors"

_LEAST = 1e-6
"""Smallest relative odds and share: an agent that can be blamed is never wholly cleared, so no verdict divides by 0."""

_FLOOR = 1e-6
"""Smallest spread of suspicion that still tells steps apart."""

_NO_IDEA = 0.5
"""Failure score of a run of one agent: AEGIS's lone agents are all at fault, so nothing tells a sound one."""

Floats: TypeAlias = NDArray[np.float32]
Pair: TypeAlias = tuple[int, int]
"""Row of an agent and column of a mode."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Probabilities from which on a mode of an agent, and an agent with its likeliest mode, are reported."""

    mode: float
    agent: float


class LexicalTracer:
    """Attributes runs by hashed words, weighed by what AEGIS's labelled faults taught.

    What its numbers mean:

    - An agent's share of the blame is how likely it is the culprit *if exactly one agent is*: its odds of
      being at fault over the sum of everybody's. The share of its steps follows `begin_shares`.
    - `failure_score` is how likely the run failed by an agent's fault, judged by its most suspected agent and
      calibrated on held-out questions, failed runs against the same runs without their culprits, half of
      each; 0.5 for a run of one agent. These are AEGIS's runs: on teams unlike its own it is a hint, not an alarm
      (`docs/why/evaluation.md` has the measured false alarms).
    - A run that an agent ended with an error gets no verdict: the trace says itself who failed, and the
      words of the others, all that is read here, say nothing about it.
    - Modes are AEGIS's, named with their taxonomy.

    Deterministic: every sum is of one run alone, in a fixed order.
    """

    def __init__(self, lexicon: Lexicon) -> None:
        self._lexicon = lexicon
        self._thresholds = Thresholds(lexicon.mode_threshold, lexicon.agent_threshold)
        self._identity = TracerIdentity("lexical", __version__, lexicon.digest)

    @classmethod
    def bundled(cls) -> LexicalTracer:
        """Load the weights that came with the package.

        Raises:
            TracerUnavailable: if they are missing or damaged.
        """
        return cls.load(BUNDLED)

    @classmethod
    def load(cls, path: Path) -> LexicalTracer:
        """Load weights that `blamespan lab train` wrote.

        Raises:
            TracerUnavailable: if *path* is missing, damaged or of another format.
        """
        return cls(Lexicon.load(path))

    @property
    def identity(self) -> TracerIdentity:
        """Name, version and weights digest."""
        return self._identity

    @property
    def lexicon(self) -> Lexicon:
        """The model behind it."""
        return self._lexicon

    def attribute(self, traces: Sequence[MessageActionTrace]) -> list[Attribution]:
        """Attribute each run; one verdict per trace, in order."""
        return [self._attribute(trace) for trace in traces]

    def _attribute(self, trace: MessageActionTrace) -> Attribution:
        """Share the blame over the steps of the agents that can be blamed."""
        agents = agent_features(trace)
        why_not = abstention_reason(trace) or (None if agents else NO_TEXT)
        if why_not is not None:
            return Attribution.abstain(trace, why_not, self._identity)
        scores = [self._lexicon.score(agent) for agent in agents]
        probabilities = sigmoid(np.stack([score.logits for score in scores]))
        log_odds = max(float(score.logits[-1]) for score in scores)
        shares = [0.0] * len(trace.steps)
        for score, answers in zip(scores, answer_weights(probabilities), strict=True):
            odds = max(math.exp(float(score.logits[-1]) - log_odds), _LEAST)
            own = begin_shares(suspicion(score.by_step, answers).tolist())
            for step, share in zip(score.steps, own, strict=True):
                shares[step] = odds * max(share, _LEAST)
        total = sum(shares)
        failed = self._lexicon.failure_probability(log_odds) if len(agents) > 1 else _NO_IDEA
        codes = self._lexicon.codes
        is_possible = [code not in AEGIS or can_show(trace, AEGIS[code]) for code in codes]
        return Attribution.of(
            trace,
            shares,
            failure_score=failed,
            unaided_score=failed,
            tracer=self._identity,
            modes=[
                ModeBlame(AEGIS[codes[mode]], agents[row].agent, float(probabilities[row, mode]))
                for row, mode in sorted(decide(np.where(is_possible, probabilities, 0), self._thresholds))
            ],
            evidence=quote_steps(trace, [share / total for share in shares]),
        )


def decide(probabilities: Floats, thresholds: Thresholds) -> frozenset[Pair]:
    """Choose what to report of a run: at least the likeliest pair.

    Args:
        probabilities: (A, M + 1) of A agents, at least one, and M modes; the last column for being at fault at all.
        thresholds: From which probability on.
    """
    modes, at_fault = probabilities[:, :-1], probabilities[:, -1]
    chosen = modes >= thresholds.mode
    suspects = np.flatnonzero(at_fault >= thresholds.agent)
    chosen[suspects, modes[suspects].argmax(axis=1)] = True
    if not chosen.any():
        chosen.flat[modes.argmax()] = True
    return frozenset((int(agent), int(mode)) for agent, mode in np.argwhere(chosen))


def suspicion(by_step: Floats, weight: Floats) -> Floats:
    """Sum up what each step's words add to the case against its agent.

    Dims: S steps, K answers (every mode, then being at fault at all).

    Args:
        by_step: (S, K) what each step adds to the log-odds.
        weight: (K,) the `answer_weights` of who took them.

    Returns:
        (S,) the modes' contributions, each weighed by how likely the mode is, plus those to `at fault`.
    """
    case: Floats = (by_step * weight).sum(axis=1)
    return case


def answer_weights(probabilities: Floats) -> Floats:
    """Return how much each answer counts in the case against an agent.

    Args:
        probabilities: (A, K) of each of A agents, all its steps together; the last for being at fault at all.

    Returns:
        (A, K) the modes' probabilities, scaled to add up to 1, and that of being at fault as it is.
    """
    weights = probabilities.copy()
    weights[:, :-1] /= np.maximum(probabilities[:, :-1].sum(axis=1, keepdims=True), np.float32(_FLOOR))
    return weights


def begin_shares(scores: Sequence[float]) -> list[float]:
    """Share one agent's blame over its steps, in order; the first step that looks wrong takes most.

    What goes wrong early is repeated, built on and reported later, so later suspicious steps are mostly consequences.
    Each step therefore has a hazard, the chance that it is wrong given that nothing was before, and a step's share is
    the chance that the fault *begins* there.

    Before any evidence each of S steps has hazard 1 / S: one of them is expected to begin the fault.
    A step that looks worse than the agent's others by one standard deviation has e times the odds.

    Args:
        scores: (S,) suspicion of each step, at least one; only how they compare matters, not their scale.

    Returns:
        (S,) adding up to 1.
    """
    n_steps = len(scores)
    if n_steps == 1:
        return [1.0]
    mean = sum(scores) / n_steps
    spread = max(math.sqrt(sum((score - mean) ** 2 for score in scores) / n_steps), _FLOOR)
    begins, nothing_before = [], 1.0
    for score in scores:
        hazard = 0.5 * (1 + math.tanh(0.5 * ((score - mean) / spread - math.log(n_steps - 1))))
        begins.append(hazard * nothing_before)
        nothing_before *= 1 - hazard
    total = sum(begins)
    return [share / total for share in begins]
