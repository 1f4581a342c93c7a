"""How like steps are to each other: in the words that they repeat, and in what their words are about.

Repetition counts shingles, four tokens in a row. Similarity compares words, weighed by rarity within the run and hashed
to 256 dimensions with signs, so that a run of N steps costs N times as much as one and not N squared.

Dims: G segments, T tokens, S shingles, N merged steps, D = 256.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blamespan_tracer.alternatives.network.representation.claims import Floats, Segments
from blamespan_tracer.alternatives.network.representation.reading import Flag, Ints, Mask, Reading
from blamespan_tracer.tokens import joint_hash

SHINGLE_TOKENS = 4
"""Tokens of a shingle: three are common by chance, five miss what is slightly reworded."""

_DIMS = 256
"""Dimensions that words are hashed to."""


@dataclass(frozen=True, slots=True)
class Repetition:
    """Per merged step, as shares of its shingles: (N,) each, 0 for a step too short to have any.

    Attributes:
        own: Said before by the same speaker.
        others: Said before, but by another agent that decides.
        sources: Said before by the task, a user or a tool.
        later: Said again later by another agent.
    """

    own: Floats
    others: Floats
    sources: Floats
    later: Floats


def find_repetition(reading: Reading, segments: Segments, n_steps: int) -> Repetition:
    """Compare the shingles of all segments."""
    shingle, segment = _list_shingles(reading)
    step, speaker = segments.owner[segment], segments.speaker[segment]
    is_said = segments.is_said[segment]
    n_speakers = int(speaker.max(initial=0)) + 1
    own_first = _find_first(shingle * n_speakers + speaker.clip(min=0), np.where(is_said, step, n_steps))
    agents_first = _find_first(shingle, np.where(is_said, step, n_steps))
    source_first = _find_first(shingle, np.where(is_said, n_steps, step))
    last_other = -_find_first(shingle, np.where(is_said, -step, n_steps))
    size = np.bincount(step[is_said], minlength=n_steps).clip(min=1)

    def share(of: Mask) -> Floats:
        shares: Floats = np.bincount(step[of & is_said], minlength=n_steps) / size
        return shares

    is_own = own_first < step
    return Repetition(
        own=share(is_own),
        others=share((agents_first < step) & ~is_own),
        sources=share(source_first < step),
        later=share(last_other > step),
    )


def _list_shingles(reading: Reading) -> tuple[Ints, Ints]:
    """Number the shingles of words and numbers, each once per segment: (S,) and the segment of each (S,)."""
    at = np.flatnonzero(reading.has(Flag.WORD | Flag.NUMBER))
    token, segment = reading.token[at].astype(np.uint64), reading.segment[at]
    if len(at) < SHINGLE_TOKENS:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    mixed = np.zeros(len(at) - SHINGLE_TOKENS + 1, np.uint64)
    for offset in range(SHINGLE_TOKENS):
        mixed = (mixed ^ token[offset : len(token) - SHINGLE_TOKENS + 1 + offset]) * np.uint64(0x9E3779B185EBCA87)
        mixed ^= mixed >> np.uint64(29)
    whole = segment[: len(mixed)] == segment[SHINGLE_TOKENS - 1 :]
    number = np.unique(mixed[whole], return_inverse=True)[1].astype(np.int64)
    return number, segment[: len(mixed)][whole]


def _find_first(key: Ints, step: Ints) -> Ints:
    """Return, for each entry, the least step of all entries with its key."""
    if not len(key):
        return key
    _, which = np.unique(key, return_inverse=True)
    least = np.full(int(which.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(least, which, step)
    return least[which]


@dataclass(frozen=True, slots=True)
class Similarity:
    """Cosines, -1..1, and 0 where there is nothing to compare with: (N,) each.

    Attributes:
        task: With the task.
        before: With the decision before, whoever took it.
        after: With the decision after.
        own_before: With this agent's decision before.
        own: With all other decisions of this agent.
        others: With all decisions of other agents.
        plan: With the plan: what plan steps say, or else the first decision.
        end: With the last decision.
        result_before: With the last tool result it could see.
    """

    task: Floats
    before: Floats
    after: Floats
    own_before: Floats
    own: Floats
    others: Floats
    plan: Floats
    end: Floats
    result_before: Floats


def find_similarity(reading: Reading, segments: Segments, agent: Ints, decides: Ints, plans: Mask) -> Similarity:
    """Compare the steps.

    Args:
        reading: The run's tokens.
        segments: What they are of.
        agent: (N,) who took each step.
        decides: Indices of the steps that are decisions, ascending.
        plans: (N,) which steps are marked as plans.
    """
    n_steps = len(agent)
    words, task, result = _bag_words(reading, segments, n_steps)
    zero = np.zeros(n_steps)
    if not len(decides):
        return Similarity(*[zero] * 9)
    before, after, own_before = _find_neighbours(agent, decides, n_steps)
    by_agent = np.zeros((int(agent.max()) + 1, _DIMS))
    np.add.at(by_agent, agent[decides], words[decides])
    everybody = by_agent.sum(axis=0)
    planned = plans if plans.any() else np.arange(n_steps) == decides[0]
    last_result = np.maximum.accumulate(np.where(np.any(result != 0, axis=1), np.arange(n_steps), -1))
    result_before = np.concatenate([[-1], last_result[:-1]])
    return Similarity(
        task=_cosine(words, task[None]),
        before=_cosine(words, _rows_at(words, before)),
        after=_cosine(words, _rows_at(words, after)),
        own_before=_cosine(words, _rows_at(words, own_before)),
        own=_cosine(words, by_agent[agent] - words),
        others=_cosine(words, everybody - by_agent[agent]),
        plan=_cosine(words, words[planned].sum(axis=0) - np.where(planned[:, None], words, 0.0)),
        end=np.where(np.arange(n_steps) == decides[-1], 0.0, _cosine(words, words[decides[-1]][None])),
        result_before=_cosine(words, _rows_at(result, result_before)),
    )


def _bag_words(reading: Reading, segments: Segments, n_steps: int) -> tuple[Floats, Floats, Floats]:
    """Add up weighed words: (N, D) of what is said, (D,) of the task, (N, D) of results."""
    at = np.flatnonzero(reading.has(Flag.WORD | Flag.NUMBER) & ~reading.has(Flag.STOP))
    n_segments, n_tokens = len(reading.texts), len(reading.tokens) + 1
    pair, times = np.unique(reading.segment[at] * n_tokens + reading.token[at], return_counts=True)
    segment, token = pair // n_tokens, pair % n_tokens
    n_segments_with = np.bincount(token, minlength=n_tokens)
    weight = (1 + np.log(times)) * np.log1p(n_segments / n_segments_with[token])
    hashed = joint_hash(token.astype(np.uint32), np.zeros(len(token), np.uint32), 11)
    weight = np.where(hashed & np.uint32(1 << 20), weight, -weight)
    dim = (hashed % np.uint32(_DIMS)).astype(np.int64)
    row = np.where(segments.owner[segment] < 0, 0, 1 + segments.owner[segment] + n_steps * segments.is_result[segment])
    size = (1 + 2 * n_steps) * _DIMS
    bags = np.bincount(row * _DIMS + dim, weight, minlength=size).astype(np.float64, copy=False).reshape(-1, _DIMS)
    return bags[1 : n_steps + 1], bags[0], bags[n_steps + 1 :]


def _find_neighbours(agent: Ints, decides: Ints, n_steps: int) -> tuple[Ints, Ints, Ints]:
    before, after, own = np.full((3, n_steps), -1)
    before[decides[1:]] = decides[:-1]
    after[decides[:-1]] = decides[1:]
    order = decides[np.argsort(agent[decides], kind="stable")]
    same = agent[order[1:]] == agent[order[:-1]]
    own[order[1:][same]] = order[:-1][same]
    return before, after, own


def _rows_at(rows: Floats, index: Ints) -> Floats:
    picked: Floats = np.where(index[:, None] < 0, 0.0, rows[index])
    return picked


def _cosine(left: Floats, right: Floats) -> Floats:
    size = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    return np.asarray((left * right).sum(axis=1) / np.where(size > 0, size, 1.0))
