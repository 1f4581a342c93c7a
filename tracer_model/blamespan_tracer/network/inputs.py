"""From a run to what the network reads of it.

Dims: N merged steps of a run, F features, R relations, K answers of the lexicon.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blamespan.trace import MessageActionTrace
from blamespan_tracer.contracts import CONTRACTS, Verdict, judge, verdict_features
from blamespan_tracer.features import in_batches, read_batch
from blamespan_tracer.lexicon import Lexicon
from blamespan_tracer.network.vocabulary import Vocabulary
from blamespan_tracer.network.words import Words, words_of
from blamespan_tracer.representation import EDGE_TYPES, ROLES, STEP_FEATURES, Representation, analyse, represent

__all__ = [
    "RELATIONS",
    "WINDOW",
    "RunInputs",
    "feature_names",
    "read_runs",
    "relations_of",
    "run_inputs",
    "scaled",
    "windows",
]

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

RELATIONS = (
    *EDGE_TYPES,
    *(f"{name}, backwards" for name in EDGE_TYPES),
    "earlier",
    "later",
    "of the same agent",
    "itself",
)
"""What can hold between two steps, by number: edges both ways, order, and whose they are."""

WINDOW = 512
"""Most steps that attend to each other: longer runs are read in as many parts as it takes, so time stays linear."""

_N_EDGES = len(EDGE_TYPES)

_UNREAD = frozenset({"duration, z", "tokens written, z", "tokens read, z"})
"""Features that say nothing in runs that were made without a clock or an LLM: what they taught would be wrong."""

_READ = np.array([place for place, name in enumerate(STEP_FEATURES) if name not in _UNREAD])

_FURTHEST = 4.0
"""Scaled features end there: a value that training never saw must not drown the others."""

_LOGIT_SCALE = 0.25
"""Brings the lexicon's log-odds of agents, mostly -8 to 4, to the size of the other features."""


@dataclass(frozen=True, slots=True)
class RunInputs:
    """One run, as the network reads it.

    Attributes:
        features: (N, F).
        words: Of the N steps.
        edges: (3, E) as `Representation.edges`.
        edge_weights: (E,).
        agent: (N,) int64.
        can_be_blamed: (N,) bool.
        origins: (N,) the original steps each is made of.
        n_steps: How many steps the run had before merging.
    """

    features: Floats
    words: Words
    edges: Ints
    edge_weights: Floats
    agent: Ints
    can_be_blamed: NDArray[np.bool_]
    origins: tuple[tuple[int, ...], ...]
    n_steps: int

    def __len__(self) -> int:
        return len(self.agent)


def feature_names(lexicon: Lexicon) -> tuple[str, ...]:
    """Name the columns of `RunInputs.features`, in order."""
    return (
        *(STEP_FEATURES[place] for place in _READ),
        *(f"{contract.name}: {what}" for contract in CONTRACTS for what in ("broken", "first", "so far")),
        *(f"role: {role}" for role in ROLES),
        *(f"lexicon, step: {code}" for code in lexicon.codes),
        *(f"lexicon, agent: {code}" for code in lexicon.codes),
    )


def run_inputs(traces: Sequence[MessageActionTrace], lexicon: Lexicon, vocabulary: Vocabulary) -> list[RunInputs]:
    """Read runs as `read_runs` does, without what their contracts quote."""
    return [inputs for inputs, _ in read_runs(traces, lexicon, vocabulary)]


def read_runs(
    traces: Sequence[MessageActionTrace], lexicon: Lexicon, vocabulary: Vocabulary
) -> list[tuple[RunInputs, list[Verdict]]]:
    """Read runs, each with the verdicts of the contracts on it; each by itself, whatever shares the call.

    Args:
        traces: The runs, each with at least one step.
        lexicon: Says what the words speak of; its scores are features.
        vocabulary: The words that the network knows.
    """
    agents = [of_run for batch in in_batches(traces) for of_run in read_batch(batch).agents]
    scores = iter(lexicon.score_all([agent for run in agents for agent in run]))
    found = []
    for trace, run in zip(traces, agents, strict=True):
        analysis = analyse(trace)
        seen = represent(trace, analysis)
        by_step = np.zeros((len(trace.steps), len(lexicon.codes)), np.float32)
        by_agent = np.zeros((len(seen.agents), len(lexicon.codes)), np.float32)
        number = {name: place for place, name in enumerate(seen.agents)}
        for _ in run:
            score = next(scores)
            by_step[list(score.steps)] = score.by_step
            by_agent[number[score.agent]] = score.logits * _LOGIT_SCALE
        verdicts = judge(CONTRACTS, trace, analysis)
        rules = verdict_features(CONTRACTS, verdicts, seen)
        found.append((_inputs(trace, seen, rules, by_step, by_agent, vocabulary), verdicts))
    return found


def scaled(features: Floats, mean: Floats, spread: Floats) -> Floats:
    """Scale (N, F) features by their (F,) mean and spread in training, and cut what lies far out."""
    found: Floats = np.clip((features - mean) / spread, -_FURTHEST, _FURTHEST).astype(np.float32)
    return found


def relations_of(run: RunInputs) -> Floats:
    """Lay a run's relations out: (R, N, N), `[r, s, t]` is how strongly relation r leads from step s to step t."""
    n_steps = len(run)
    table = np.zeros((len(RELATIONS), n_steps, n_steps), np.float32)
    kind, start, end = run.edges
    table[kind, start, end] = run.edge_weights
    table[kind + _N_EDGES, end, start] = run.edge_weights
    order = np.arange(n_steps)
    table[2 * _N_EDGES] = order[:, None] > order[None, :]
    table[2 * _N_EDGES + 1] = order[:, None] < order[None, :]
    table[2 * _N_EDGES + 2] = run.agent[:, None] == run.agent[None, :]
    table[2 * _N_EDGES + 3] = np.eye(n_steps, dtype=np.float32)
    return table


def windows(run: RunInputs) -> list[RunInputs]:
    """Part a long run, so that attention stays within each part."""
    if len(run) <= WINDOW:
        return [run]
    parts = []
    for start in range(0, len(run), WINDOW):
        end = min(start + WINDOW, len(run))
        kind, source, target = run.edges
        inside = (source >= start) & (source < end) & (target >= start) & (target < end)
        parts.append(
            RunInputs(
                features=run.features[start:end],
                words=run.words.of(np.arange(start, end)),
                edges=np.stack([kind, source - start, target - start])[:, inside],
                edge_weights=run.edge_weights[inside],
                agent=run.agent[start:end],
                can_be_blamed=run.can_be_blamed[start:end],
                origins=run.origins[start:end],
                n_steps=run.n_steps,
            )
        )
    return parts


def _inputs(
    trace: MessageActionTrace,
    seen: Representation,
    rules: Floats,
    by_step: Floats,
    by_agent: Floats,
    vocabulary: Vocabulary,
) -> RunInputs:
    lexical = np.stack([by_step[list(origin)].sum(axis=0) for origin in seen.origins])
    roles = np.eye(len(ROLES), dtype=np.float32)[seen.role]
    blamable = seen.can_be_blamed[:, None]
    features = np.concatenate(
        [
            seen.features[:, _READ],
            rules * blamable,
            roles,
            lexical * blamable,
            by_agent[seen.agent] * blamable,
        ],
        axis=1,
    )
    return RunInputs(
        features=features.astype(np.float32),
        words=words_of(trace.task, seen.texts, vocabulary),
        edges=seen.edges,
        edge_weights=seen.edge_weights,
        agent=seen.agent,
        can_be_blamed=seen.can_be_blamed,
        origins=seen.origins,
        n_steps=len(trace.steps),
    )
