"""The lexical model: one weight per feature and answer, and the file it lives in.

An agent's score is linear in which words it uses (how often, and which pairs of words, only adds
noise: 35.1 pair micro-F1 on held-out questions against 31.3), so it is *exactly* the sum of what each
of its steps adds, how it opens and where it sits: labels that only name an agent still teach which
steps speak against it, and every score can be traced back to words. Scoring needs numpy alone, and every
sum is of one agent alone, in an order of its own: what shares a batch cannot change it.

Dims: V known features, K answers (every mode, then "at fault at all"), S steps of an agent.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError

from blamespan.errors import TracerUnavailable
from blamespan.json_text import parse_json
from blamespan_tracer.alternatives.features import AgentFeatures
from blamespan_tracer.tokens import Hashes
from blamespan_tracer.weights_file import read_weights, write_weights

FORMAT = "blamespan-lexicon-2"
"""Changes whenever a file written before can no longer be read."""

SEAT_WEIGHT = 0.05
"""Value of a seat feature, where the text features of a typical agent have Euclidean length 1."""

Floats: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class AgentScores:
    """What the lexicon says of one agent.

    Attributes:
        agent: Its name.
        steps: Indices of its steps that can be blamed, ascending.
        logits: (K,) calibrated log-odds.
        by_step: (S, K) what each step adds to `logits` by its words; opening, seat and bias make up the rest.
    """

    agent: str
    steps: tuple[int, ...]
    logits: Floats
    by_step: Floats


@dataclass(frozen=True, slots=True)
class Lexicon:
    """A trained model.

    Attributes:
        codes: What each answer means: AEGIS mode codes, then `any`.
        keys: (V,) uint32 feature hashes, ascending.
        idf: (V,) float32 inverse document frequency over the training agents.
        weights: (V, K) float32, of 16-bit precision: 8 bits per answer drown the words in the seat features.
        bias: (K,) float32.
        slope: (K,) float32 and
        offset: (K,) float32 turn raw scores into log-odds that held-out runs bear out.
        typical_length: Euclidean length of the median training agent's text features. Longer texts are scaled to
            length 1, shorter ones by this: few words are little evidence.
        failure_slope: Turns the log-odds of a run's most suspected agent into those of a failure, with
        failure_offset: see `LexicalTracer`.
        mode_threshold: A mode of an agent is reported from this probability on.
        agent_threshold: An agent at least this likely at fault is reported with its likeliest mode.
        questions: Eight-hex-digit digests of the training questions, to tell unseen ones.
        digest: First 12 hex digits of the file's SHA-256, empty before it is written.
        notes: How it was made; for people.
    """

    codes: tuple[str, ...]
    keys: Hashes
    idf: Floats
    weights: Floats
    bias: Floats
    slope: Floats
    offset: Floats
    typical_length: float
    failure_slope: float
    failure_offset: float
    mode_threshold: float
    agent_threshold: float
    questions: frozenset[str] = frozenset()
    digest: str = ""
    notes: dict[str, str] = field(default_factory=dict)

    def score(self, agent: AgentFeatures) -> AgentScores:
        """Score an agent; every sum runs in an order fixed by its features alone.

        Dims: P parts (the agent's steps, then its opening), F known features of all.
        """
        parts = [*agent.text, agent.opening]
        found, part = self._find(parts)
        kept, place, counts = np.unique(found, return_inverse=True, return_counts=True)
        idf = self.idf[kept]
        length = np.maximum(np.sqrt(_sum_up(idf * idf)), np.float32(self.typical_length))
        values = idf / length / counts.astype(np.float32)
        weighed = self.weights.take(found, axis=0)  # four times as fast as by index
        weighed *= values[place][:, None]
        by_part = _sum_groups(weighed, part, len(parts))  # (P, K)
        rows, _ = self._find([agent.seat])
        seat = np.float32(SEAT_WEIGHT) * _sum_up(self.weights.take(rows, axis=0))
        logits = (_sum_up(by_part) + seat + self.bias) * self.slope + self.offset
        return AgentScores(agent.agent, agent.steps, logits, by_part[:-1] * self.slope)

    def failure_probability(self, log_odds: float) -> float:
        """Turn the log-odds of the most suspected agent into the probability that the run failed by it."""
        return 0.5 * (1 + math.tanh(0.5 * (log_odds * self.failure_slope + self.failure_offset)))

    def has_seen(self, question: str) -> bool:
        """Check whether *question* was among the training questions."""
        return question_digest(question) in self.questions

    def _find(self, parts: Sequence[Hashes]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Look up the features of each part: the known ones' rows, and the part each is of, ascending."""
        hashes = np.concatenate(parts)
        rows = np.searchsorted(self.keys, hashes).clip(max=len(self.keys) - 1)
        known = np.flatnonzero(self.keys[rows] == hashes)
        return rows[known], np.repeat(np.arange(len(parts)), [len(part) for part in parts])[known]

    def save(self, path: Path) -> str:
        """Write the model to *path*, weights in 16 bits; return the digest that identifies it."""
        tensors: dict[str, NDArray[Any]] = {  # Any: of several dtypes
            "keys": self.keys,
            "idf": self.idf,
            "weights": self.weights.astype(np.float16),
            "bias": self.bias,
            "slope": self.slope,
            "offset": self.offset,
        }
        about = {
            "format": FORMAT,
            "codes": json.dumps(self.codes),
            "thresholds": json.dumps([self.mode_threshold, self.agent_threshold]),
            "typical_length": json.dumps(self.typical_length),
            "failure": json.dumps([self.failure_slope, self.failure_offset]),
            "questions": " ".join(sorted(self.questions)),
            "notes": json.dumps(self.notes, sort_keys=True),
        }
        return write_weights(path, tensors, about)

    @classmethod
    def load(cls, path: Path) -> Lexicon:
        """Read a model written by `save`.

        Raises:
            TracerUnavailable: if the file is missing, damaged or of another format.
        """
        try:
            return cls._of(*read_weights(path, FORMAT))
        except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
            raise TracerUnavailable(
                f"expected lexical weights ({FORMAT}) at {str(path)!r}, got {error}. "
                "Reinstall blamespan, or train them: blamespan lab train lexical --data DIR"
            ) from error

    @classmethod
    def _of(cls, tensors: dict[str, NDArray[np.generic]], about: dict[str, str], digest: str) -> Lexicon:
        thresholds, failure = parse_json(about["thresholds"]), parse_json(about["failure"])
        lexicon = cls(
            codes=tuple(parse_json(about["codes"])),
            keys=tensors["keys"].astype(np.uint32),
            idf=tensors["idf"].astype(np.float32),
            weights=tensors["weights"].astype(np.float32),
            bias=tensors["bias"].astype(np.float32),
            slope=tensors["slope"].astype(np.float32),
            offset=tensors["offset"].astype(np.float32),
            typical_length=float(parse_json(about["typical_length"])),
            failure_slope=float(failure[0]),
            failure_offset=float(failure[1]),
            mode_threshold=float(thresholds[0]),
            agent_threshold=float(thresholds[1]),
            questions=frozenset(about["questions"].split()),
            digest=digest,
            notes=parse_json(about["notes"]),
        )
        n_features, n_answers = len(lexicon.keys), len(lexicon.codes)
        if lexicon.weights.shape != (n_features, n_answers) or not n_features:
            raise ValueError(f"weights of shape {lexicon.weights.shape}, not {(n_features, n_answers)}")
        return lexicon


def scaled(values: Floats, typical_length: float) -> Floats:
    """Scale to Euclidean length 1, or below where the length is under the typical one."""
    return (values / max(float(np.sqrt((values * values).sum())), typical_length)).astype(np.float32)


def _sum_up(rows: Floats) -> Floats:
    """Add up the (F, ...) *rows*, one after the other."""
    total: Floats = _sum_groups(rows, np.zeros(len(rows), np.int64), 1)[0]
    return total


def _sum_groups(rows: Floats, group: NDArray[np.int64], n_groups: int) -> Floats:
    """Add up the (F, ...) *rows* of each of the (F,) ascending groups, one after the other; 0 where there is none."""
    total = np.zeros((n_groups, *rows.shape[1:]), np.float32)
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    if len(starts):
        total[group[starts]] = np.add.reduceat(rows, starts, axis=0, dtype=np.float32)
    return total


def question_digest(question: str) -> str:
    """Shorten *question* to eight hex digits: enough to recognise it among thousands, too few to read it."""
    return sha256(" ".join(question.split()).encode("utf-8", "replace")).hexdigest()[:8]
