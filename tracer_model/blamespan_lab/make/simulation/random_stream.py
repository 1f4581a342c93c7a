"""Chance that depends on what is decided and on nothing else."""

from __future__ import annotations

import hashlib
from random import Random


def stable_seed(*parts: object) -> int:
    """Hash *parts* by their text to 64 bits: the same in every process and on every machine."""
    return int.from_bytes(hashlib.blake2b("\x1f".join(map(str, parts)).encode(), digest_size=8).digest())


class RandomStream:
    """Draws for one decision: each purpose has its own, so that one more draw shifts no other.

    Args:
        parts: What the decision is: the run's seed, the agent, the number of its decision.
    """

    def __init__(self, *parts: object) -> None:
        self._parts = parts

    def chance(self, probability: float, *purpose: object) -> bool:
        """Come true with *probability*."""
        if probability <= 0:
            return False
        return probability >= 1 or stable_seed(*self._parts, *purpose) / 2**64 < probability

    def rng(self, *purpose: object) -> Random:
        """Return a generator of its own for *purpose*."""
        return Random(stable_seed(*self._parts, *purpose))  # noqa: S311  # reproducible on purpose
