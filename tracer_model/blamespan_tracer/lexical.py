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
from blamespan.attribution import Attribution, Evidence, ModeBlame, TracerIdentity
from blamespan.taxonomy import AEGIS
from blamespan.trace import MessageActionTrace, Step
from blamespan_tracer.decision import Thresholds, decide, sigmoid
from blamespan_tracer.evidence import heaviest_window
from blamespan_tracer.features import AgentFeatures, agent_features, token_features
from blamespan_tracer.lexicon import AgentScores, Lexicon
from blamespan_tracer.shares import begin_shares, suspicion

__all__ = ["LexicalTracer"]

BUNDLED = Path(__file__).parent / "weights" / "lexical.safetensors"

MAX_EVIDENCE = 3
"""Quotes per verdict: the most blamed steps."""

_LEAST = 1e-6
"""Smallest relative odds and share: an agent that can be blamed is never wholly cleared, so no verdict divides by 0."""

_EDGES = " \t\r\n,.;:!?'\"`*_-"
"""What a quote need not begin or end with."""

_NO_IDEA = 0.5
"""Failure score of a run of one agent: AEGIS's lone agents are all at fault, so nothing tells a sound one."""

Floats: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class _Suspect:
    """One agent's scores, as probabilities and as shares of its own steps."""

    features: AgentFeatures
    scores: AgentScores
    probabilities: Floats  # (K,)
    shares: Floats  # (S,)


class LexicalTracer:
    """Attributes runs by hashed words, weighed by what AEGIS's labelled faults taught.

    What its numbers mean:

    - An agent's share of the blame is how likely it is the culprit *if exactly one agent is*: its odds of
      being at fault over the sum of everybody's. The share of its steps follows `blamespan_tracer.shares`.
    - `failure_score` is how likely the run failed by an agent's fault, judged by its most suspected agent and
      calibrated on held-out questions, failed runs against the same runs without their culprits, half of
      each; 0.5 for a run of one agent. These are AEGIS's runs: on teams unlike its own it is a hint, not an alarm
      (`docs/experiments.md` has the measured false alarms).
    - A run that an agent ended with an error gets no verdict: the trace says itself who failed, and the
      words of the others, all that is read here, say nothing about it.
    - Modes are AEGIS's, named with their taxonomy.

    Deterministic: one run is scored by itself, in numpy, in a fixed order.
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
        """Load weights that `blamespan train` wrote.

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
        features = agent_features(trace)
        reason = _why_loud(trace) or (None if features else _why_unreadable(trace))
        if reason is not None:
            return Attribution.abstain(trace, reason, self._identity)
        suspects = [self._suspect(agent) for agent in features]
        shares = [0.0] * len(trace.steps)
        at_fault = [float(suspect.scores.logits[-1]) for suspect in suspects]
        for suspect, log_odds in zip(suspects, at_fault, strict=True):
            odds = max(math.exp(log_odds - max(at_fault)), _LEAST)
            for step, share in zip(suspect.scores.steps, suspect.shares, strict=True):
                shares[step] = odds * max(float(share), _LEAST)
        return Attribution.of(
            trace,
            shares,
            failure_score=self._lexicon.failure_probability(max(at_fault)) if len(at_fault) > 1 else _NO_IDEA,
            tracer=self._identity,
            modes=self._modes(suspects),
            evidence=self._evidence(trace, suspects, shares),
        )

    def _suspect(self, features: AgentFeatures) -> _Suspect:
        scores = self._lexicon.score(features)
        probabilities = sigmoid(scores.logits)
        case = suspicion(scores.by_step, probabilities[:-1], probabilities[-1])
        return _Suspect(features, scores, probabilities, begin_shares(case))

    def _modes(self, suspects: Sequence[_Suspect]) -> list[ModeBlame]:
        table = np.stack([suspect.probabilities for suspect in suspects])
        return [
            ModeBlame(AEGIS[self._lexicon.codes[mode]], suspects[row].scores.agent, float(table[row, mode]))
            for row, mode in sorted(decide(table, self._thresholds))
        ]

    def _evidence(
        self, trace: MessageActionTrace, suspects: Sequence[_Suspect], shares: Sequence[float]
    ) -> list[Evidence]:
        by_agent = {suspect.scores.agent: suspect for suspect in suspects}
        ranked = sorted((step for step in trace.steps if shares[step.index] > 0), key=lambda step: -shares[step.index])
        total = sum(shares)
        found = []
        for step in ranked[:MAX_EVIDENCE]:
            quote = self._quote(step, by_agent[step.agent])
            if quote:
                found.append(Evidence(step.index, quote, shares[step.index] / total))
        return found

    def _quote(self, step: Step, suspect: _Suspect) -> str:
        known = suspect.features.text[suspect.features.steps.index(step.index)]
        spans, hashes = token_features(step.content, suspect.features, known)
        if not spans:
            return ""
        weights = suspicion(
            self._lexicon.weigh(hashes.ravel()).reshape(*hashes.shape, -1).sum(axis=1),
            suspect.probabilities[:-1],
            suspect.probabilities[-1],
        )
        start, end = heaviest_window(spans, weights)
        return step.content[start:end].strip(_EDGES)


def _why_loud(trace: MessageActionTrace) -> str | None:
    """Say who ended the run with an error: that failure is no silent one, and words are no evidence against others."""
    said = [step for step in trace.steps if step.kind not in ("tool_call", "tool_result")]
    if not said or said[-1].status != "error":
        return None
    return f"not a silent failure: {said[-1].agent} ended the run at step {said[-1].index} with {said[-1].error}"


def _why_unreadable(trace: MessageActionTrace) -> str:
    if not any(trace.can_be_blamed(step) for step in trace.steps):
        return "no step is an agent's decision: there is nobody to blame"
    return "no agent's step has any text to read"
