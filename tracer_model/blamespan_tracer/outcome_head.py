"""Says how likely a run failed, as a user's own runs with a known outcome taught it.

How a run ends tells a team's failures from its successes, but in each team by other words and habits: a head that is
learnt from one team's runs is worse than chance on the next (docs/why/evaluation.md). So none is bundled. `blamespan
lab train --outcomes` learns one from what `blamespan.record_outcome`, thumbs and labels say of a user's own runs; the
tracer `auto` uses it where it was measurably better than the tracer by itself.

Dims: F features of a run, of which B are buckets of hashed words.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from blamespan.attribution import NOBODY_KNOWS
from blamespan.learnt_files import OUTCOME_HEADS
from blamespan.trace import MessageActionTrace, Step
from blamespan_tracer.heads import load_head, load_in_use
from blamespan_tracer.tokens import joint_hash, token_hashes
from blamespan_tracer.weights_file import write_weights

_FORMAT: Final = "blamespan-outcomes-1"

_N_BUCKETS: Final = 4096
_N_LAST_MESSAGES: Final = 2
_CLOSING_CHARS: Final = 3_000
_RESULT_CHARS: Final = 500
_BIGRAMS: Final = 1

_ERROR = re.compile(r"(?i)error|exception|traceback|not found|invalid|denied|timed? ?out")
_CUES: Final = {
    "regrets": r"sorry|apolog|unfortunately",
    "is unable": r"unable|cannot|can't|could not|not able",
    "hands over": r"transfer|human agent|escalat",
    "reports an error": r"error|fail|exception|issue",
    "finds nothing": r"not found|no result|nothing",
    "hedges": r"however|assum|approximat|likely|should",
    "reports success": r"success|done|complete|passed|all tests",
    "thanks": r"thank|great|welcome",
    "asks": r"\?",
}
_CUE_PATTERNS: Final = tuple(re.compile(pattern, re.IGNORECASE) for pattern in _CUES.values())

HABITS: Final = (
    "decisions",
    "calls",
    "share of calls",
    "errors",
    "share of errors",
    "ends on an error",
    "repetitions",
    "share of repetitions",
    "length of the closing message",
    "ends with a call",
    "mean length",
    "speakers",
    "suspicion of the tracer",
    *(f"closing message {name}" for name in _CUES),
    *(f"last result {name}" for name in _CUES),
)
"""What each feature after the buckets means."""

N_FEATURES: Final = _N_BUCKETS + len(HABITS)

Floats = NDArray[np.float32]


def outcome_features(trace: MessageActionTrace, suspicion: float) -> Floats:
    """Return the (F,) features of a run: words of its end, by bucket, then its habits.

    Args:
        trace: The run.
        suspicion: Failure score of the tracer that was not told how the run ended, 0..1.
    """
    decisions = [step for step in trace.steps if trace.can_be_blamed(step) and step.content.strip()]
    messages = [step for step in decisions if step.kind == "message"]
    results = [step for step in trace.steps if step.kind == "tool_result"]
    closing = "\n".join(step.content for step in messages[-_N_LAST_MESSAGES:])[-_CLOSING_CHARS:]
    last_result = results[-1].content[-_RESULT_CHARS:] if results else ""
    features = np.zeros(N_FEATURES, np.float32)
    features[:_N_BUCKETS] = _count_words(f"{closing}\n{last_result}")
    features[_N_BUCKETS:] = [
        *_describe_course(trace, decisions, results, messages[-1].content if messages else ""),
        suspicion,
        *(float(bool(pattern.search(closing))) for pattern in _CUE_PATTERNS),
        *(float(bool(pattern.search(last_result))) for pattern in _CUE_PATTERNS),
    ]
    return features


def _count_words(text: str) -> Floats:
    """Count words and pairs of words by bucket, as logarithms."""
    words = token_hashes(text)
    pairs = joint_hash(words[:-1], words[1:], _BIGRAMS)
    counts = np.bincount(np.concatenate([words, pairs]) % _N_BUCKETS, minlength=_N_BUCKETS)
    return np.log1p(counts).astype(np.float32)


def _describe_course(
    trace: MessageActionTrace, decisions: list[Step], results: list[Step], closing: str
) -> tuple[float, ...]:
    """Return how the run went, in the order of `HABITS`."""
    n_decisions = max(len(decisions), 1)
    calls = [step for step in decisions if step.kind == "tool_call"]
    errors = [step.status == "error" or bool(_ERROR.search(step.content[:600])) for step in results]
    texts = {(step.agent, step.kind, " ".join(step.content.split())) for step in decisions}
    repetitions = len(decisions) - len(texts)
    return (
        math.log1p(len(decisions)),
        math.log1p(len(calls)),
        len(calls) / n_decisions,
        math.log1p(sum(errors)),
        sum(errors) / max(len(errors), 1),
        float(bool(errors) and errors[-1]),
        math.log1p(repetitions),
        repetitions / n_decisions,
        math.log1p(len(closing)),
        float(bool(decisions) and decisions[-1].kind == "tool_call"),
        math.log1p(sum(len(step.content) for step in decisions) / n_decisions),
        math.log1p(len({step.agent for step in decisions})),
    )


@dataclass(frozen=True, slots=True)
class OutcomeHead:
    """A logistic regression over a run's words and habits.

    Attributes:
        rarity: (B,) how rare the words of each bucket are: what their counts are multiplied by.
        mean: Of each habit in training, and
        spread: its standard deviation.
        weights: (F,) for scaled features.
        bias: What is added.
        alarm: Probability from which on a run is called failed.
        is_better: Whether it was measurably better than the tracer by itself.
        figures: What was measured when it was learnt.
        digest: Of the file.
    """

    rarity: Floats
    mean: Floats
    spread: Floats
    weights: Floats
    bias: float
    alarm: float
    is_better: bool
    figures: Mapping[str, Any] = field(default_factory=dict)
    digest: str = ""

    def scale(self, features: Floats) -> Floats:
        """Return (..., F) features as the weights expect them."""
        return scale_features(features, self.rarity, self.mean, self.spread)

    def probability(self, trace: MessageActionTrace, suspicion: float) -> float:
        """Return how likely a run failed, 0..1; see `outcome_features`."""
        total = float(self.scale(outcome_features(trace, suspicion)) @ self.weights) + self.bias
        return 1.0 / (1.0 + math.exp(-max(-60.0, min(60.0, total))))

    def failure_score(self, trace: MessageActionTrace, suspicion: float) -> float:
        """Return the same on a scale on which the alarm lies at a half."""
        probability = self.probability(trace, suspicion)
        return float(np.interp(probability, (0.0, self.alarm, max(self.alarm, 1.0)), (0.0, NOBODY_KNOWS, 1.0)))

    def save(self, path: Path) -> str:
        """Write the file; return its digest."""
        tensors = {"rarity": self.rarity, "mean": self.mean, "spread": self.spread, "weights": self.weights}
        settings = {
            "habits": HABITS,
            "bias": self.bias,
            "alarm": self.alarm,
            "is_better": self.is_better,
            "figures": dict(self.figures),
        }
        return write_weights(path, tensors, {"format": _FORMAT, "settings": json.dumps(settings)})

    @classmethod
    def load(cls, path: Path) -> OutcomeHead:
        """Read a file that `save` wrote.

        Raises:
            TracerUnavailable: if it is missing, damaged or of another version.
        """
        return load_head(path, _FORMAT, cls._build, what_for="outcomes", command="blamespan lab train --outcomes")

    @classmethod
    def _build(cls, tensors: Mapping[str, NDArray[Any]], settings: Mapping[str, Any], digest: str) -> OutcomeHead:
        head = cls(
            tensors["rarity"],
            tensors["mean"],
            tensors["spread"],
            tensors["weights"],
            bias=float(settings["bias"]),
            alarm=float(settings["alarm"]),
            is_better=bool(settings["is_better"]),
            figures=settings["figures"],
            digest=digest,
        )
        sizes = (len(head.rarity), len(head.mean), len(head.spread), len(head.weights))
        if sizes != (_N_BUCKETS, len(HABITS), len(HABITS), N_FEATURES) or tuple(settings["habits"]) != HABITS:
            raise ValueError("features of another version")
        return head


def scale_features(features: Floats, rarity: Floats, mean: Floats, spread: Floats) -> Floats:
    """Return (..., F) features with words as a unit vector, and habits in standard deviations, at a third."""
    words = features[..., :_N_BUCKETS] * rarity
    length = np.sqrt((words**2).sum(axis=-1, keepdims=True))
    habits = np.clip((features[..., _N_BUCKETS:] - mean) / spread, -3.0, 3.0)
    scaled: Floats = np.concatenate([_WORDS_SIZE * words / np.maximum(length, 1e-6), _HABITS_SIZE * habits], axis=-1)
    return scaled


_WORDS_SIZE: Final = np.float32(3.0)
_HABITS_SIZE: Final = np.float32(0.3)


def outcome_heads_in_use() -> tuple[OutcomeHead, ...]:
    """Load the heads in use, those that `BLAMESPAN_LEARNT` names or those beside the store: see `load_in_use`.

    Raises:
        TracerUnavailable: if the file is missing or damaged.
    """
    return load_in_use(OUTCOME_HEADS, OutcomeHead.load)
