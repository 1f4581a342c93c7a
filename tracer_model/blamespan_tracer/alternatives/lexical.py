"""The lexical tracer: attributes a failure by the words of each step. No LLM, no GPU, no network."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
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
from blamespan_tracer.alternatives.features import AgentFeatures, in_batches, read_batch
from blamespan_tracer.alternatives.lexicon import AgentScores, Lexicon
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


@dataclass(frozen=True, slots=True)
class _SuspectAgent:
    """One agent's scores, as probabilities and as shares of its own steps."""

    features: AgentFeatures
    scores: AgentScores
    probabilities: Floats  # (K,)
    shares: list[float]  # (S,)


@dataclass(frozen=True, slots=True)
class _LexicalRun:
    """One run before its verdict.

    Attributes:
        trace: The run.
        suspects: Who can be blamed.
        shares: Of every step, up to a common factor; empty where there is no verdict.
        log_odds: Of the most suspected agent being at fault.
        why_not: Why there is no verdict.
    """

    trace: MessageActionTrace
    suspects: Sequence[_SuspectAgent]
    shares: list[float]
    log_odds: float
    why_not: str | None

    @property
    def probabilities(self) -> Floats:
        """Return those of all suspects, (A, K)."""
        return np.stack([suspect.probabilities for suspect in self.suspects])

    @classmethod
    def of(cls, trace: MessageActionTrace, suspects: Sequence[_SuspectAgent]) -> _LexicalRun:
        """Share the blame over the steps of *suspects*."""
        why_not = abstention_reason(trace) or (None if suspects else NO_TEXT)
        if why_not is not None:
            return cls(trace, suspects, [], 0.0, why_not)
        shares = [0.0] * len(trace.steps)
        log_odds = max(float(suspect.scores.logits[-1]) for suspect in suspects)
        for suspect in suspects:
            odds = max(math.exp(float(suspect.scores.logits[-1]) - log_odds), _LEAST)
            for step, share in zip(suspect.scores.steps, suspect.shares, strict=True):
                shares[step] = odds * max(share, _LEAST)
        return cls(trace, suspects, shares, log_odds, None)


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

    Deterministic: runs are read many at once, but every sum is of one run alone, in a fixed order.
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
        return [verdict for batch in in_batches(traces) for verdict in self._attribute(batch)]

    def _attribute(self, traces: Sequence[MessageActionTrace]) -> list[Attribution]:
        agents = read_batch(traces)
        suspects = iter(self._suspects([agent for of_run in agents for agent in of_run]))
        accused = [[next(suspects) for _ in of_run] for of_run in agents]
        cases = [_LexicalRun.of(trace, each) for trace, each in zip(traces, accused, strict=True)]
        judged = [case for case in cases if case.why_not is None]
        modes = iter(decide([self._weigh_possible_modes(case) for case in judged], self._thresholds))
        return [
            Attribution.abstain(case.trace, case.why_not, self._identity)
            if case.why_not is not None
            else self._verdict(case, next(modes))
            for case in cases
        ]

    def _suspects(self, agents: Sequence[AgentFeatures]) -> list[_SuspectAgent]:
        if not agents:
            return []
        scores = self._lexicon.score_all(agents)
        probabilities = sigmoid(np.stack([score.logits for score in scores]))
        answers = answer_weights(probabilities)
        owner = np.repeat(np.arange(len(agents)), [len(agent.steps) for agent in agents])
        by_step = iter(suspicion(np.concatenate([score.by_step for score in scores]), answers[owner]).tolist())
        return [
            _SuspectAgent(*each, begin_shares([next(by_step) for _ in each[0].steps]))
            for each in zip(agents, scores, probabilities, strict=True)
        ]

    def _weigh_possible_modes(self, case: _LexicalRun) -> Floats:
        """Return the probabilities of all suspects, (A, K); 0 for modes that the team of the run cannot show."""
        is_possible = [code not in AEGIS or can_show(case.trace, AEGIS[code]) for code in self._lexicon.codes]
        return np.where(is_possible, case.probabilities, 0)

    def _verdict(self, case: _LexicalRun, modes: Iterable[tuple[int, int]]) -> Attribution:
        total = sum(case.shares)
        failed = self._lexicon.failure_probability(case.log_odds) if len(case.suspects) > 1 else _NO_IDEA
        codes, probabilities = self._lexicon.codes, case.probabilities
        return Attribution.of(
            case.trace,
            case.shares,
            failure_score=failed,
            unaided_score=failed,
            tracer=self._identity,
            modes=[
                ModeBlame(AEGIS[codes[mode]], case.suspects[row].features.agent, float(probabilities[row, mode]))
                for row, mode in sorted(modes)
            ],
            evidence=quote_steps(case.trace, [share / total for share in case.shares]),
        )


def decide(runs: Sequence[Floats], thresholds: Thresholds) -> list[frozenset[Pair]]:
    """Choose what to report of each run: at least the likeliest pair.

    Dims: A agents of a run, M modes.

    Args:
        runs: Per run (A, M + 1), the last column for being at fault at all. A is at least 1.
        thresholds: From which probability on.
    """
    if not runs:
        return []
    table, sizes = np.concatenate(runs), np.array([len(run) for run in runs])
    run_of, first = np.repeat(np.arange(len(runs)), sizes), np.cumsum(sizes) - sizes
    modes, at_fault = table[:, :-1], table[:, -1]
    chosen = modes >= thresholds.mode
    suspects = np.flatnonzero(at_fault >= thresholds.agent)
    chosen[suspects, modes[suspects].argmax(axis=1)] = True
    for run in np.flatnonzero(~np.logical_or.reduceat(chosen.any(axis=1), first)).tolist():
        likeliest = int(runs[run][:, :-1].argmax())
        chosen[first[run] + likeliest // modes.shape[1], likeliest % modes.shape[1]] = True
    pairs: list[set[Pair]] = [set() for _ in runs]
    row, column = np.nonzero(chosen)
    of = run_of[row]
    for run, agent, mode in zip(of.tolist(), (row - first[of]).tolist(), column.tolist(), strict=True):
        pairs[run].add((agent, mode))
    return list(map(frozenset, pairs))


def suspicion(by_step: Floats, weight: Floats) -> Floats:
    """Sum up what each step's words add to the case against its agent.

    Dims: S steps, K answers (every mode, then being at fault at all).

    Args:
        by_step: (S, K) what each step adds to the log-odds.
        weight: (S, K) the `answer_weights` of who took it.

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
