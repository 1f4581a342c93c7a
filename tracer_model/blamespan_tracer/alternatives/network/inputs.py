"""What the network reads of a run: features, relations, and the tokens of each sentence.

Dims: N merged steps of a run (or texts), F features, R relations, K answers of the lexicon, S sentences, W tokens,
V words of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blamespan.trace import MessageActionTrace
from blamespan_tracer.alternatives.features import in_batches, read_batch
from blamespan_tracer.alternatives.lexicon import Lexicon
from blamespan_tracer.alternatives.network.learnt_checks import LEARNT_CHECKS, analyse_run
from blamespan_tracer.alternatives.network.representation import EDGE_TYPES, ROLES, Representation, represent
from blamespan_tracer.alternatives.network.step_features import (
    STEP_FEATURES,
    check_features,
    name_check_features,
    step_features,
)
from blamespan_tracer.checks import Check, CheckResult, ExaminedRun
from blamespan_tracer.tokens import ranges, sentences_of, tokens_of

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
"""Relations between two steps, by index: edges both ways, order, and whether one agent took both."""

WINDOW = 512
"""Most steps of a run that all attend to each other: longer ones are split, so that time stays linear."""

_LONG_RUN_WINDOW = 128
"""Steps of a longer run that attend to each other: most runs that networks learn from are shorter than this, and
attention costs the square of it."""

_N_EDGES = len(EDGE_TYPES)

_UNREAD = frozenset({"duration, z", "tokens written, z", "tokens read, z"})
"""Features that mean nothing in runs made without a clock or an LLM: what they taught would be wrong."""

_FURTHEST = 4.0
"""Scaled features are clipped there: a value that training never saw must not drown the others."""

_LOGIT_SCALE = 0.25
"""Brings the lexicon's log-odds of agents, mostly -8 to 4, to the size of the other features."""

_MAX_SENTENCES = 64
"""Of a longer text the first and last half of this many are read."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Words in the order of their hashes.

    Attributes:
        hashes: (V,) uint32, ascending, each once.

    Raises:
        ValueError: if they do not ascend.
    """

    hashes: NDArray[np.uint32]

    def __post_init__(self) -> None:
        if self.hashes.ndim != 1 or (np.diff(self.hashes.astype(np.int64)) <= 0).any():
            raise ValueError("hashes of words that do not ascend")

    def __len__(self) -> int:
        return len(self.hashes)

    def rows(self, hashes: NDArray[Any]) -> Ints:
        """Return the row of each word, -1 for words that are not known."""
        if not len(self):
            return np.full(len(hashes), -1, np.int64)
        rows = np.minimum(np.searchsorted(self.hashes, hashes), len(self) - 1)
        return np.where(self.hashes[rows] == hashes, rows, -1)

    @classmethod
    def of(cls, words: Iterable[str]) -> Vocabulary:
        """Build a vocabulary from words as they are written; words with one hash share a row."""
        return cls(np.unique(tokens_of(list(words)).hashes))


@dataclass(frozen=True, slots=True)
class SentenceTokens:
    """The distinct known tokens of each sentence of each text.

    Attributes:
        rows: (W,) int64 rows of the embedding, sentence by sentence, ascending within each.
        first_token: (S + 1,) int64: sentence s has the tokens first_token[s]:first_token[s + 1].
        first_sentence: (N + 1,) int64, likewise of each text.
    """

    rows: Ints
    first_token: Ints
    first_sentence: Ints

    def __len__(self) -> int:
        return len(self.first_sentence) - 1

    def select(self, texts: Ints) -> SentenceTokens:
        """Return the tokens of some of the texts, in the order of *texts*."""
        sizes = np.diff(self.first_sentence)[texts]
        sentences = ranges(self.first_sentence[texts], sizes)
        lengths = np.diff(self.first_token)[sentences]
        rows = self.rows[ranges(self.first_token[sentences], lengths)]
        return SentenceTokens(rows, _offsets(lengths), _offsets(sizes))

    @classmethod
    def concatenate(cls, parts: Sequence[SentenceTokens]) -> SentenceTokens:
        """Put the texts of several one after the other."""
        return cls(
            np.concatenate([part.rows for part in parts]),
            _offsets(np.concatenate([np.diff(part.first_token) for part in parts])),
            _offsets(np.concatenate([np.diff(part.first_sentence) for part in parts])),
        )


@dataclass(frozen=True, slots=True)
class RunInputs:
    """One run, as the network reads it.

    Attributes:
        features: (N, F).
        tokens: Those of the N steps that the vocabulary knows.
        edges: (3, E) as `Representation.edges`.
        edge_weights: (E,).
        agent: (N,) int64.
        can_be_blamed: (N,) bool.
        origins: (N,) the original steps each is made of.
        n_steps: How many steps the run had before merging.
    """

    features: Floats
    tokens: SentenceTokens
    edges: Ints
    edge_weights: Floats
    agent: Ints
    can_be_blamed: NDArray[np.bool_]
    origins: tuple[tuple[int, ...], ...]
    n_steps: int

    def __len__(self) -> int:
        return len(self.agent)


def feature_names(lexicon: Lexicon) -> tuple[str, ...]:
    """Name all features that a network can be trained with: those of the bundled checks among them."""
    return (
        *(name for name in STEP_FEATURES if name not in _UNREAD),
        *(name for check in LEARNT_CHECKS for name in name_check_features(check)),
        *_other_features(lexicon.codes),
    )


def _other_features(codes: Sequence[str]) -> tuple[str, ...]:
    """Name the features that are neither a step's nor a check's."""
    return (
        *(f"role: {role}" for role in ROLES),
        *(f"lexicon, step: {code}" for code in codes),
        *(f"lexicon, agent: {code}" for code in codes),
    )


@dataclass(frozen=True, slots=True)
class _FeatureLayout:
    """Which columns make up the features of these names.

    Attributes:
        of_steps: Names of the features of steps.
        checks: The checks whose results are among them.
        order: (F,) for each name its column: features of steps, of checks, then the others.
    """

    of_steps: tuple[str, ...]
    checks: tuple[Check, ...]
    order: Ints


@lru_cache(maxsize=64)
def _lay_out(names: tuple[str, ...], codes: tuple[str, ...]) -> _FeatureLayout:
    wanted = set(names)
    of_steps = tuple(name for name in names if name in _STEP_FEATURES)
    checks = tuple(check for check in LEARNT_CHECKS if not wanted.isdisjoint(name_check_features(check)))
    columns = (*of_steps, *(name for check in checks for name in name_check_features(check)))
    column_of = {name: column for column, name in enumerate((*columns, *_other_features(codes)))}
    return _FeatureLayout(of_steps, checks, np.array([column_of[name] for name in names], np.int64))


_STEP_FEATURES = frozenset(STEP_FEATURES)


def read_inputs(
    traces: Sequence[MessageActionTrace], lexicon: Lexicon, vocabulary: Vocabulary, features: tuple[str, ...]
) -> list[RunInputs]:
    """Return what `read_runs` does, without the results of the checks."""
    return [inputs for inputs, _ in read_runs(traces, lexicon, vocabulary, features)]


def read_runs(
    traces: Sequence[MessageActionTrace], lexicon: Lexicon, vocabulary: Vocabulary, features: tuple[str, ...]
) -> list[tuple[RunInputs, list[CheckResult]]]:
    """Read runs, and apply to each the checks that the network learnt from; what shares a call changes nothing.

    Args:
        traces: The runs, each with at least one step.
        lexicon: Says what the words speak of; its scores are features.
        vocabulary: The words that the network knows.
        features: Names of the columns to read, of `feature_names`. Checks that are not among them are not applied.
    """
    layout = _lay_out(features, lexicon.codes)
    agents = [run_agents for batch in in_batches(traces) for run_agents in read_batch(batch)]
    scores = iter(lexicon.score_all([agent for run_agents in agents for agent in run_agents]))
    readings = []
    for trace, run_agents in zip(traces, agents, strict=True):
        run = ExaminedRun(trace)
        analysis = run.once(analyse_run)
        representation = represent(trace, analysis)
        by_step = np.zeros((len(trace.steps), len(lexicon.codes)), np.float32)
        by_agent = np.zeros((len(representation.agents), len(lexicon.codes)), np.float32)
        rows = {name: row for row, name in enumerate(representation.agents)}
        for _ in run_agents:
            score = next(scores)
            by_step[list(score.steps)] = score.by_step
            by_agent[rows[score.agent]] = score.logits * _LOGIT_SCALE
        results = [result for check in layout.checks for result in check.apply(run)]
        of_steps = step_features(analysis, layout.of_steps)
        of_checks = check_features(layout.checks, results, analysis)
        table = _join_features(representation, of_steps, of_checks, by_step, by_agent)[:, layout.order]
        inputs = _build_inputs(trace, representation, table, vocabulary)
        readings.append((inputs, results))
    return readings


def scale_features(features: Floats, mean: Floats, spread: Floats) -> Floats:
    """Scale (N, F) features by their (F,) mean and spread in training, and clip what lies far out."""
    scaled: Floats = np.clip((features - mean) / spread, -_FURTHEST, _FURTHEST).astype(np.float32)
    return scaled


def lay_out_relations(run: RunInputs) -> Floats:
    """Return a run's relations as (R, N, N): `[r, s, t]` is how strongly relation r leads from step s to step t."""
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


def split_into_windows(run: RunInputs) -> list[RunInputs]:
    """Split a long run into parts that attend within themselves."""
    if len(run) <= WINDOW:
        return [run]
    parts = []
    kind, source, target = run.edges
    for start in range(0, len(run), _LONG_RUN_WINDOW):
        end = min(start + _LONG_RUN_WINDOW, len(run))
        inside = (source >= start) & (source < end) & (target >= start) & (target < end)
        parts.append(
            RunInputs(
                features=run.features[start:end],
                tokens=run.tokens.select(np.arange(start, end)),
                edges=np.stack([kind, source - start, target - start])[:, inside],
                edge_weights=run.edge_weights[inside],
                agent=run.agent[start:end],
                can_be_blamed=run.can_be_blamed[start:end],
                origins=run.origins[start:end],
                n_steps=run.n_steps,
            )
        )
    return parts


def read_sentence_tokens(task: str, texts: Sequence[str], vocabulary: Vocabulary) -> SentenceTokens:
    """Read the tokens of texts that are not the task's: those say what a run is about, not what went wrong."""
    parts = [sentences_of(text, _MAX_SENTENCES) for text in texts]
    rows, first_token = _read_fresh_tokens(task, [sentence for part in parts for sentence in part], vocabulary)
    return SentenceTokens(rows, first_token, _offsets(np.array([len(part) for part in parts], np.int64)))


def _join_features(
    representation: Representation, of_steps: Floats, of_checks: Floats, by_step: Floats, by_agent: Floats
) -> Floats:
    lexical = np.stack([by_step[list(origin)].sum(axis=0) for origin in representation.origins])
    roles = np.eye(len(ROLES), dtype=np.float32)[representation.role]
    blamable = representation.can_be_blamed[:, None]
    parts = (
        *(of_steps, of_checks * blamable, roles),
        *(lexical * blamable, by_agent[representation.agent] * blamable),
    )
    return np.concatenate(parts, axis=1)


def _build_inputs(
    trace: MessageActionTrace, representation: Representation, features: Floats, vocabulary: Vocabulary
) -> RunInputs:
    return RunInputs(
        features=features.astype(np.float32),
        tokens=read_sentence_tokens(trace.task, representation.texts, vocabulary),
        edges=representation.edges,
        edge_weights=representation.edge_weights,
        agent=representation.agent,
        can_be_blamed=representation.can_be_blamed,
        origins=representation.origins,
        n_steps=len(trace.steps),
    )


def _read_fresh_tokens(task: str, sentences: Sequence[str], vocabulary: Vocabulary) -> tuple[Ints, Ints]:
    """Return the distinct known tokens of each sentence that the task has not, and where those of each begin."""
    tokens = tokens_of([task, *sentences])
    first = tokens.sizes[0]
    sentence, hashes = tokens.texts[first:] - 1, tokens.hashes[first:]
    rows = vocabulary.rows(hashes)
    fresh = (rows >= 0) & ~np.isin(hashes, np.unique(tokens.hashes[:first]))
    distinct = np.unique((sentence[fresh] << 32) | rows[fresh])
    return distinct & 0xFFFFFFFF, np.searchsorted(distinct >> 32, np.arange(len(sentences) + 1))


def _offsets(sizes: Ints) -> Ints:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
