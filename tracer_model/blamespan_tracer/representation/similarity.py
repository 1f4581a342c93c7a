"""How alike the words of steps are: to the task, the plan, the others, the step before, and oneself.

Words are weighed by rarity within the run and hashed to 256 dimensions with signs, so that a run of N steps costs N
times as much as one and not N squared.

Dims: N merged steps, D = 256.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blamespan_tracer.representation.claims import Segments
from blamespan_tracer.representation.reading import Flag, Ints, Mask, Reading
from blamespan_tracer.tokens import joint_hash

__all__ = ["Similarity", "find_similarity"]

Floats = NDArray[np.float64]

_DIMS = 256


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
    said, task, result = _bags(reading, segments, n_steps)
    zero = np.zeros(n_steps)
    if not len(decides):
        return Similarity(*[zero] * 9)
    before, after, own_before = _neighbours(agent, decides, n_steps)
    by_agent = np.zeros((int(agent.max()) + 1, _DIMS))
    np.add.at(by_agent, agent[decides], said[decides])
    everybody = by_agent.sum(axis=0)
    planned = plans if plans.any() else np.arange(n_steps) == decides[0]
    seen = np.maximum.accumulate(np.where(np.any(result != 0, axis=1), np.arange(n_steps), -1))
    last_seen = np.concatenate([[-1], seen[:-1]])
    return Similarity(
        task=_cosine(said, task[None]),
        before=_cosine(said, _at(said, before)),
        after=_cosine(said, _at(said, after)),
        own_before=_cosine(said, _at(said, own_before)),
        own=_cosine(said, by_agent[agent] - said),
        others=_cosine(said, everybody - by_agent[agent]),
        plan=_cosine(said, said[planned].sum(axis=0) - np.where(planned[:, None], said, 0.0)),
        end=np.where(np.arange(n_steps) == decides[-1], 0.0, _cosine(said, said[decides[-1]][None])),
        result_before=_cosine(said, _at(result, last_seen)),
    )


def _bags(reading: Reading, segments: Segments, n_steps: int) -> tuple[Floats, Floats, Floats]:
    """Add up weighed words: (N, D) of what is said, (D,) of the task, (N, D) of results."""
    at = np.flatnonzero(reading.has(Flag.WORD | Flag.NUMBER) & ~reading.has(Flag.STOP))
    n_segments, n_tokens = len(reading.texts), len(reading.tokens) + 1
    pair, times = np.unique(reading.segment[at] * n_tokens + reading.token[at], return_counts=True)
    segment, token = pair // n_tokens, pair % n_tokens
    found_in = np.bincount(token, minlength=n_tokens)
    weight = (1 + np.log(times)) * np.log1p(n_segments / found_in[token])
    hashed = joint_hash(token.astype(np.uint32), np.zeros(len(token), np.uint32), 11)
    weight = np.where(hashed & np.uint32(1 << 20), weight, -weight)
    dim = (hashed % np.uint32(_DIMS)).astype(np.int64)
    row = np.where(segments.owner[segment] < 0, 0, 1 + segments.owner[segment] + n_steps * segments.is_result[segment])
    size = (1 + 2 * n_steps) * _DIMS
    bags = np.bincount(row * _DIMS + dim, weight, minlength=size).astype(np.float64, copy=False).reshape(-1, _DIMS)
    return bags[1 : n_steps + 1], bags[0], bags[n_steps + 1 :]


def _neighbours(agent: Ints, decides: Ints, n_steps: int) -> tuple[Ints, Ints, Ints]:
    before, after, own = np.full((3, n_steps), -1)
    before[decides[1:]] = decides[:-1]
    after[decides[:-1]] = decides[1:]
    order = decides[np.argsort(agent[decides], kind="stable")]
    same = agent[order[1:]] == agent[order[:-1]]
    own[order[1:][same]] = order[:-1][same]
    return before, after, own


def _at(rows: Floats, place: Ints) -> Floats:
    picked: Floats = np.where(place[:, None] < 0, 0.0, rows[place])
    return picked


def _cosine(one: Floats, other: Floats) -> Floats:
    size = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    return np.asarray((one * other).sum(axis=1) / np.where(size > 0, size, 1.0))
