"""Labelled runs as training sees them: features of every agent beside what it is labelled with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from blamespan.importing.recorded import RecordedRun
from blamespan.taxonomy import AEGIS
from blamespan_lab.agent_names import labelled_pairs
from blamespan_lab.recorded_runs import is_held_out
from blamespan_tracer.alternatives.features import AgentFeatures, agent_features

__all__ = [
    "AT_FAULT",
    "CODES",
    "LabelledRun",
    "LexiconVocabulary",
    "label_matrix",
    "labelled_runs",
    "split",
]

CODES = (*AEGIS, "any")
"""The answers a lexicon gives, in order."""

AT_FAULT = len(CODES) - 1
"""Column of `any`: at fault at all."""

Hashes: TypeAlias = NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class LabelledRun:
    """One run to learn from.

    Attributes:
        question: Its task; runs of one question are never on both sides of a split.
        agents: Features of the agents that can be blamed.
        pairs: (row in `agents`, column of the mode); an agent that never speaks has row -1 - its place
            among such labels, so that it counts as missed and never as found.
    """

    question: str
    agents: tuple[AgentFeatures, ...]
    pairs: frozenset[tuple[int, int]]


def labelled_runs(runs: Iterable[RecordedRun]) -> Iterator[LabelledRun]:
    """Turn recorded runs into labelled features, leaving out runs without a readable agent or without labels."""
    for run in runs:
        agents = tuple(agent_features(run.trace))
        if agents and run.faults is not None:
            yield LabelledRun(run.trace.task, agents, _number_pairs(run, [agent.agent for agent in agents]))


def split(runs: Sequence[LabelledRun], *, percent: int, seed: int) -> tuple[list[LabelledRun], list[LabelledRun]]:
    """Part *runs* into those to fit on and those held out, by question."""
    is_out = [is_held_out(run.question, percent=percent, seed=seed) for run in runs]
    return (
        [run for run, out in zip(runs, is_out, strict=True) if not out],
        [run for run, out in zip(runs, is_out, strict=True) if out],
    )


@dataclass(frozen=True, slots=True)
class LexiconVocabulary:
    """The features worth a weight: (V,) hashes ascending, and their (V,) inverse document frequency."""

    keys: Hashes
    idf: NDArray[np.float32]

    @classmethod
    def of(cls, runs: Sequence[LabelledRun], *, min_agents: int) -> LexiconVocabulary:
        """Keep every feature that at least *min_agents* agents have."""
        agents = [agent for run in runs for agent in run.agents]
        distinct = [np.unique(np.concatenate((*agent.text, agent.opening, agent.seat))) for agent in agents]
        keys, counts = np.unique(np.concatenate(distinct), return_counts=True)
        is_common = counts >= min_agents
        idf = np.log((1 + len(agents)) / (1 + counts[is_common])) + 1
        return cls(keys[is_common], idf.astype(np.float32))

    def find(self, hashes: Hashes) -> NDArray[np.int64]:
        """Place those of *hashes* that are known."""
        rows = np.searchsorted(self.keys, hashes).clip(max=len(self.keys) - 1)
        known: NDArray[np.int64] = rows[self.keys[rows] == hashes]
        return known


def label_matrix(runs: Sequence[LabelledRun]) -> NDArray[np.float32]:
    """Lay the labels out as (agents of all runs, answers), 0 or 1."""
    rows = []
    for run in runs:
        block = np.zeros((len(run.agents), len(CODES)), dtype=np.float32)
        for row, column in run.pairs:
            if row >= 0:
                block[row, [column, AT_FAULT]] = 1
        rows.append(block)
    return np.concatenate(rows)


def _number_pairs(run: RecordedRun, agents: Sequence[str]) -> frozenset[tuple[int, int]]:
    silent: dict[str, int] = {}
    rows = {agent: row for row, agent in enumerate(agents)}
    return frozenset(
        (rows[agent] if agent in rows else silent.setdefault(agent, -1 - len(silent)), CODES.index(code))
        for agent, code in sorted(labelled_pairs(run))
    )
