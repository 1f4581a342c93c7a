"""Runs in other words: what a network says of them tells how sure it may be of runs that are worded by strangers.

Generated runs are worded alike. On them as they are a network is surer than it may be of anybody else's.

Dims: V words, M width of a meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from blamespan_lab.train.network.examples import NetworkExample
from blamespan_tracer.alternatives.network.inputs import RunInputs

__all__ = ["with_near_words", "with_strange_words"]

Ints = NDArray[np.int64]

_NEAREST = 5
_AT_ONCE = 1_000
"""Words compared with all others at a time: bounds memory."""


def with_strange_words(examples: Sequence[NetworkExample], n_words: int, seed: int) -> list[NetworkExample]:
    """Put every word in the place of another: what was learnt of words helps no more."""
    return _reword(examples, np.random.default_rng(seed).permutation(n_words))


def with_near_words(
    examples: Sequence[NetworkExample], meanings: NDArray[np.float32], seed: int
) -> list[NetworkExample]:
    """Change every word for one of the five that mean most like it: the same said otherwise.

    Args:
        examples: The runs.
        meanings: (V, M) what each word means.
        seed: Chooses among the five, once for each word.
    """
    others, n_near = np.arange(len(meanings)), min(_NEAREST, len(meanings) - 1)
    used = np.unique(np.concatenate([example.inputs.tokens.rows for example in examples] or [others[:0]]))
    rng = np.random.default_rng(seed)
    directions = meanings / np.linalg.norm(meanings, axis=1, keepdims=True).clip(min=1e-9)
    for start in range(0, len(used) if n_near > 0 else 0, _AT_ONCE):
        some = used[start : start + _AT_ONCE]
        likeness = directions[some] @ directions.T
        likeness[np.arange(len(some)), some] = -np.inf
        nearest = np.argpartition(-likeness, n_near, axis=1)[:, :n_near]
        others[some] = nearest[np.arange(len(some)), rng.integers(0, n_near, len(some))]
    return _reword(examples, others)


def _reword(examples: Sequence[NetworkExample], others: Ints) -> list[NetworkExample]:
    return [replace(example, inputs=_in_words(example.inputs, others)) for example in examples]


def _in_words(run: RunInputs, others: Ints) -> RunInputs:
    return replace(run, tokens=replace(run.tokens, rows=others[run.tokens.rows]))
