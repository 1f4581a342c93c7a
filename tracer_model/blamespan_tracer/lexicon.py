"""The lexical model: one weight per feature and answer, and the file it lives in.

An agent's score is linear in which words it uses (how often, and which pairs of words, only adds
noise: 35.1 pair micro-F1 on held-out questions against 31.3), so it is *exactly* the sum of what each
of its steps adds, how it opens and where it sits: labels that only name an agent still teach which
steps speak against it, and every score can be traced back to words. Scoring needs numpy alone and
sees one agent at a time, so neither padding nor what shares a batch can change it.

Dims: V known features, K answers (every mode, then "at fault at all"), S steps of an agent.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from blamespan.errors import TracerUnavailable
from blamespan_tracer.features import AgentFeatures
from blamespan_tracer.tokens import Hashes

__all__ = ["SEAT_WEIGHT", "AgentScores", "Lexicon", "question_digest", "scaled"]

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

    def score(self, features: AgentFeatures) -> AgentScores:
        """Score one agent; every sum runs in an order fixed by its features alone."""
        found = [self._find(hashes) for hashes in (*features.text, features.opening)]
        kept, place, counts = np.unique(np.concatenate(found), return_inverse=True, return_counts=True)
        values = scaled(self.idf[kept], self.typical_length) / counts
        each = values[:, None] * self.weights[kept]  # (F, K): one occurrence of each feature
        ends = np.cumsum([len(part) for part in found])
        parts = np.split(place, ends[:-1])
        by_part = np.stack([each[part].sum(axis=0) for part in parts]).astype(np.float32)  # (S + 1, K)
        seat = SEAT_WEIGHT * self.weights[self._find(features.seat)].sum(axis=0)
        raw = by_part.sum(axis=0) + seat + self.bias
        logits = (raw * self.slope + self.offset).astype(np.float32)
        return AgentScores(features.agent, features.steps, logits, by_part[:-1] * self.slope)

    def failure_probability(self, log_odds: float) -> float:
        """Turn the log-odds of the most suspected agent into the probability that the run failed by it."""
        return 0.5 * (1 + math.tanh(0.5 * (log_odds * self.failure_slope + self.failure_offset)))

    def weigh(self, hashes: Hashes) -> Floats:
        """Weigh (n,) features one by one, (n, K), up to their agent's common factor; unknown ones weigh 0."""
        place = np.searchsorted(self.keys, hashes).clip(max=len(self.keys) - 1)
        known = self.keys[place] == hashes
        return np.where(known[:, None], self.weights[place] * self.idf[place][:, None], np.float32(0))

    def has_seen(self, question: str) -> bool:
        """Tell whether *question* was among the training questions."""
        return question_digest(question) in self.questions

    def _find(self, hashes: Hashes) -> NDArray[np.int64]:
        place = np.searchsorted(self.keys, hashes).clip(max=len(self.keys) - 1)
        found: NDArray[np.int64] = place[self.keys[place] == hashes]
        return found

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
        # safetensors writes an array's memory, not its view: a strided one would come back scrambled.
        content = _in_fixed_order(save({key: np.ascontiguousarray(each) for key, each in tensors.items()}, about))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return _digest(content)

    @classmethod
    def load(cls, path: Path) -> Lexicon:
        """Read a model written by `save`.

        Raises:
            TracerUnavailable: if the file is missing, damaged or of another format.
        """
        try:
            content = path.read_bytes()
            about = _metadata(content)
            if about.get("format") != FORMAT:
                raise ValueError(f"format {about.get('format')!r}")
            return cls._of(load(content), about, _digest(content))
        except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
            raise TracerUnavailable(
                f"expected lexical weights ({FORMAT}) at {str(path)!r}, got {error}. "
                "Reinstall blamespan, or train them: blamespan train tracer_model/recipes/lexical.toml --data DIR"
            ) from error

    @classmethod
    def _of(cls, tensors: dict[str, NDArray[np.generic]], about: dict[str, str], digest: str) -> Lexicon:
        thresholds, failure = json.loads(about["thresholds"]), json.loads(about["failure"])
        lexicon = cls(
            codes=tuple(json.loads(about["codes"])),
            keys=tensors["keys"].astype(np.uint32),
            idf=tensors["idf"].astype(np.float32),
            weights=tensors["weights"].astype(np.float32),
            bias=tensors["bias"].astype(np.float32),
            slope=tensors["slope"].astype(np.float32),
            offset=tensors["offset"].astype(np.float32),
            typical_length=float(json.loads(about["typical_length"])),
            failure_slope=float(failure[0]),
            failure_offset=float(failure[1]),
            mode_threshold=float(thresholds[0]),
            agent_threshold=float(thresholds[1]),
            questions=frozenset(about["questions"].split()),
            digest=digest,
            notes=json.loads(about["notes"]),
        )
        n_features, n_answers = len(lexicon.keys), len(lexicon.codes)
        if lexicon.weights.shape != (n_features, n_answers) or not n_features:
            raise ValueError(f"weights of shape {lexicon.weights.shape}, not {(n_features, n_answers)}")
        return lexicon


def scaled(values: Floats, typical_length: float) -> Floats:
    """Scale to Euclidean length 1, or below where the length is under the typical one."""
    return (values / max(float(np.sqrt((values * values).sum())), typical_length)).astype(np.float32)


def question_digest(question: str) -> str:
    """Shorten *question* to eight hex digits: enough to recognise it among thousands, too few to read it."""
    return sha256(" ".join(question.split()).encode("utf-8", "replace")).hexdigest()[:8]


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()[:12]


def _metadata(content: bytes) -> dict[str, str]:
    """Read the header's `__metadata__`, which safetensors' in-memory reader leaves out."""
    size = int.from_bytes(content[:8], "little")
    if not 2 <= size <= min(len(content), 10_000_000):
        raise ValueError(f"a header of {size} bytes in a file of {len(content)}")
    header = json.loads(content[8 : 8 + size])
    about = header.get("__metadata__") if isinstance(header, dict) else None
    if not isinstance(about, dict):
        raise ValueError("a file without metadata")
    return about


def _in_fixed_order(content: bytes) -> bytes:
    """Sort the header: safetensors writes metadata in an order that differs from run to run."""
    size = int.from_bytes(content[:8], "little")
    header = json.dumps(json.loads(content[8 : 8 + size]), sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + content[8 + size :]
