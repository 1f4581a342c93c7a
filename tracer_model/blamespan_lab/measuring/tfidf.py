"""The plain baseline of the field: TF-IDF of words and word pairs, one linear classifier per mode.

Every agent is one document. Nothing of its seat, its steps or the other agents is known to it.

Dims: N agents, V features, M modes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from blamespan.importing.recorded import RecordedRun
from blamespan.taxonomy import AEGIS
from blamespan_lab.measuring.metrics import f1
from blamespan_lab.measuring.table import is_held_out
from blamespan_lab.training.fit import SparseRows, fit
from blamespan_tracer.labels import labelled_pairs
from blamespan_tracer.tokens import Hashes, joint_hash, token_hashes

__all__ = ["tfidf_answers"]

_CODES = tuple(AEGIS)
_MIN_AGENTS, _PENALTY, _ITERATIONS, _HELD_OUT_PERCENT = 3, 0.3, 40, 15
_GRID = np.round(np.arange(0.05, 0.30, 0.01), 2)

Floats: TypeAlias = NDArray[np.float32]
Pair: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Documents:
    """The agents of many runs: whose run and name, feature counts, labels."""

    runs: int
    run: list[int]
    agents: list[str]
    counts: list[tuple[Hashes, Floats]]
    labels: Floats  # (N, M)


def tfidf_answers(training: Sequence[RecordedRun], runs: Sequence[RecordedRun]) -> list[frozenset[Pair]]:
    """Train on *training*, answer *runs*: of every agent its likeliest mode, from a probability on.

    The threshold comes from held-out questions of *training*.
    """
    held = [is_held_out(run.trace.task, percent=_HELD_OUT_PERCENT, seed=0) for run in training]
    known = [run for run, out in zip(training, held, strict=True) if not out]
    asked = [run for run, out in zip(training, held, strict=True) if out]
    probabilities, documents = _predict(_documents(known), _documents(asked)), _documents(asked)
    labels = [labelled_pairs(run) for run in asked]
    threshold = max(
        (float(one) for one in _GRID),
        key=lambda one: f1(labels, _answers(documents, probabilities, one)).micro_f1,
    )
    documents = _documents(runs)
    return _answers(documents, _predict(_documents(training), documents), threshold)


def _documents(runs: Iterable[RecordedRun]) -> _Documents:
    whose, agents, counts, labels = [], [], [], []
    n_runs = 0
    for place, run in enumerate(runs):
        n_runs += 1
        pairs = labelled_pairs(run)
        texts: dict[str, list[Hashes]] = {}
        for step in run.trace.steps:
            if run.trace.can_be_blamed(step):
                texts.setdefault(step.agent, []).append(_features(step.content))
        for agent, parts in texts.items():
            kept, often = np.unique(np.concatenate(parts), return_counts=True)
            whose.append(place)
            agents.append(agent)
            counts.append((kept, (1 + np.log(often)).astype(np.float32)))
            labels.append([(agent, code) in pairs for code in _CODES])
    return _Documents(n_runs, whose, agents, counts, np.array(labels, dtype=np.float32).reshape(-1, len(_CODES)))


def _features(text: str) -> Hashes:
    words = token_hashes(text)
    return np.concatenate([joint_hash(words, np.zeros_like(words), 1), joint_hash(words[:-1], words[1:], 2)])


def _predict(training: _Documents, asked: _Documents) -> Floats:
    """Fit on one set of documents, give the other's (N, M) probabilities."""
    keys, often = np.unique(np.concatenate([kept for kept, _ in training.counts]), return_counts=True)
    keys, often = keys[often >= _MIN_AGENTS], often[often >= _MIN_AGENTS]
    idf = (np.log((1 + len(training.counts)) / (1 + often)) + 1).astype(np.float32)

    def rows(documents: _Documents) -> SparseRows:
        return SparseRows.of([_weighed(kept, counts, keys, idf) for kept, counts in documents.counts], len(keys))

    weights, bias = fit(rows(training), training.labels, penalty=_PENALTY, iterations=_ITERATIONS)
    probabilities: Floats = (rows(asked).times(weights) + bias).sigmoid().numpy()
    return probabilities


def _weighed(kept: Hashes, counts: Floats, keys: Hashes, idf: Floats) -> tuple[NDArray[np.int64], Floats]:
    place = np.searchsorted(keys, kept).clip(max=len(keys) - 1)
    known = keys[place] == kept
    values = counts[known] * idf[place[known]]
    return place[known], (values / max(float(np.linalg.norm(values)), 1e-9)).astype(np.float32)


def _answers(documents: _Documents, probabilities: Floats, threshold: float) -> list[frozenset[Pair]]:
    found: list[set[Pair]] = [set() for _ in range(documents.runs)]
    for run, agent, row in zip(documents.run, documents.agents, probabilities, strict=True):
        if row.max() >= threshold:
            found[run].add((agent, _CODES[int(row.argmax())]))
    return [frozenset(each) for each in found]
