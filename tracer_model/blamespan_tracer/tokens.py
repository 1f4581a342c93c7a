"""Text to token hashes: the same on every machine, in every process."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["MAX_TEXT_CHARS", "Hashes", "joint_hash", "token_hashes", "token_spans"]

Hashes: TypeAlias = NDArray[np.uint32]

MAX_TEXT_CHARS = 8_000
"""Of a longer text the first and last half of this many characters are read; 97 % of AEGIS's messages fit."""

_TOKEN = re.compile(r"[^\W\d_]{1,40}|\d{1,40}|[^\w\s]")
"""A run of letters, a run of digits, or one mark. Bounded, so that no text can fill the cache below."""

_NUMBER = "0"
"""Stands for every number: which one it is belongs to the task, not to the fault."""


def token_hashes(text: str) -> Hashes:
    """Hash the tokens of *text*, in order, without case; every number is the same token."""
    return np.fromiter((_hash(token) for part in _read(text.lower()) for token in _TOKEN.findall(part)), np.uint32)


def token_spans(text: str) -> Iterator[tuple[int, int, int]]:
    """Yield where each token that is read stands in *text*, and its hash, as (start, end, hash)."""
    offset = 0
    for part in _read(text):
        for match in _TOKEN.finditer(part):
            yield offset + match.start(), offset + match.end(), _hash(match.group().lower())
        offset = len(text) - len(part)


def joint_hash(first: Hashes, second: Hashes, namespace: int) -> Hashes:
    """Hash pairs of hashes, element by element, apart from those of every other *namespace*.

    Source: the finaliser of SplitMix64, over two odd multipliers of xxHash64.
    """
    mixed = first.astype(np.uint64) * np.uint64(0x9E3779B185EBCA87)
    mixed ^= second.astype(np.uint64) * np.uint64(0xC2B2AE3D27D4EB4F) + np.uint64(namespace)
    mixed ^= mixed >> np.uint64(30)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    return (mixed >> np.uint64(32)).astype(np.uint32)


def _read(text: str) -> tuple[str, ...]:
    half = MAX_TEXT_CHARS // 2
    return (text,) if len(text) <= MAX_TEXT_CHARS else (text[:half], text[-half:])


@lru_cache(maxsize=1 << 17)
def _hash(token: str) -> int:
    if token[0].isdigit():
        token = _NUMBER
    return zlib.crc32(token.encode("utf-8", "replace"))  # "replace": a lone surrogate is not UTF-8
