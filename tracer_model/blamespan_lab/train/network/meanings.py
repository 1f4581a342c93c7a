"""What words mean: vectors distilled once from a sentence encoder, from which the network's word table is learnt.

A network that learnt a row for each word would know the words of its training runs. One that learns what to make of a
word's meaning knows the words near it too.

Dims: V words, M width of a meaning.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError

from blamespan.errors import TracerUnavailable
from blamespan_tracer.alternatives.network.inputs import Vocabulary
from blamespan_tracer.weights_file import read_weights, write_weights

__all__ = ["BUNDLED_MEANINGS", "Meanings"]

FORMAT = "blamespan-words-1"
"""Changes whenever a file written before can no longer be read."""

BUNDLED_MEANINGS = Path(__file__).parent.parent / "weights" / "words.safetensors"
"""Made by `scripts/words`."""


@dataclass(frozen=True, slots=True)
class Meanings:
    """Words and their meanings.

    Attributes:
        vocabulary: The V words.
        vectors: (V, M) float32, of 16-bit precision, spread 1 over all.
        digest: First 12 hex digits of the file's SHA-256, empty before it is written.
    """

    vocabulary: Vocabulary
    vectors: NDArray[np.float32]
    digest: str = ""

    @classmethod
    def bundled(cls) -> Meanings:
        """Load those that came with the package."""
        return cls.load(BUNDLED_MEANINGS)

    @classmethod
    def load(cls, path: Path) -> Meanings:
        """Read what `save` wrote.

        Raises:
            TracerUnavailable: if the file is missing, damaged, of another format, or holds numbers that are none.
        """
        try:
            tensors, _, digest = read_weights(path, FORMAT)
            hashes, vectors = tensors["hashes"], tensors["vectors"].astype(np.float32)
            if vectors.ndim != 2 or len(vectors) != len(hashes) or not np.isfinite(vectors).all():
                raise ValueError(f"{len(hashes)} words with vectors of shape {vectors.shape}")
            return cls(Vocabulary(hashes), vectors, digest)
        except (OSError, SafetensorError, ValueError, KeyError) as error:
            raise TracerUnavailable(
                f"expected meanings of words in {str(path)!r} (format {FORMAT}), got {error}. "
                "Reinstall blamespan or make them again: scripts/words"
            ) from error

    def save(self, path: Path, notes: dict[str, str]) -> str:
        """Write them to *path* in 16 bits; return the digest that identifies the file."""
        tensors: dict[str, NDArray[Any]] = {
            "hashes": self.vocabulary.hashes,
            "vectors": self.vectors.astype(np.float16),
        }
        return write_weights(path, tensors, {"format": FORMAT, **notes})
