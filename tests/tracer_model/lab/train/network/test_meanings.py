"""Meanings of words: distilled once, read by training, and near for words that are near to an encoder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file

from blamespan.errors import TracerUnavailable
from blamespan_lab.train.network.distilling import distil
from blamespan_lab.train.network.meanings import Meanings
from blamespan_tracer.alternatives.network.inputs import Vocabulary
from blamespan_tracer.tokens import token_hashes


def letters(words: Sequence[str]) -> NDArray[np.float32]:
    """Encode words by their letters: those with the same letters are the same to it."""
    table = np.zeros((len(words), 26), np.float32)
    for row, word in enumerate(words):
        for letter in word:
            table[row, ord(letter) - ord("a")] += 1
    return table


def row_of(meanings: Meanings, word: str) -> NDArray[np.float32]:
    """The meaning of a word."""
    (row,) = meanings.vocabulary.rows(token_hashes(word))
    assert row >= 0
    return meanings.vectors[row]


def test_words_near_to_the_encoder_are_near_in_meaning() -> None:
    """Width is taken by what tells words apart; what they all share says nothing."""
    words = ["listen", "silent", "tinsel", "check", "checks", "verify", "two words"]
    meanings = distil(words, letters, 4)

    assert meanings.vectors.shape == (6, 4)  # two words are no word
    assert np.allclose(row_of(meanings, "listen"), row_of(meanings, "silent"), atol=1e-5)
    near, far = (np.linalg.norm(row_of(meanings, "check") - row_of(meanings, word)) for word in ("checks", "listen"))
    assert near < far


def test_meanings_come_back_as_they_were_written(tmp_path: Path) -> None:
    """To 16 bits, with the digest that identifies the file."""
    meanings = distil(["yes", "no", "maybe", "never"], letters, 3)
    digest = meanings.save(tmp_path / "words.safetensors", {"source": "letters"})

    back = Meanings.load(tmp_path / "words.safetensors")

    assert back.digest == digest
    assert back.vocabulary.hashes.tolist() == meanings.vocabulary.hashes.tolist()
    assert np.allclose(back.vectors, meanings.vectors, atol=1e-2)


@pytest.mark.parametrize("damage", ["missing", "cut", "format", "numbers", "order", "shape"])
def test_damaged_meanings_are_refused_in_one_sentence(tmp_path: Path, damage: str) -> None:
    """It says what was expected, what was got and what to do."""
    path = tmp_path / "words.safetensors"
    hashes, vectors = np.array([1, 2, 3], np.uint32), np.ones((3, 2), np.float16)
    if damage == "numbers":
        vectors[0, 0] = np.nan
    if damage == "order":
        hashes = hashes[::-1].copy()
    if damage == "shape":
        vectors = vectors[:2]
    if damage != "missing":
        format_ = "blamespan-words-0" if damage == "format" else "blamespan-words-1"
        save_file({"hashes": hashes, "vectors": vectors}, path, {"format": format_})
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:20])

    with pytest.raises(TracerUnavailable, match=r"expected meanings of words in .* Reinstall blamespan or make them"):
        Meanings.load(path)


def test_words_not_known_have_no_row() -> None:
    """Nothing is made of a word that has no meaning, rather than that of another one."""
    vocabulary = Vocabulary.of(["yes", "no"])

    assert vocabulary.rows(token_hashes("yes maybe no")).tolist().count(-1) == 1
    assert Vocabulary.of([]).rows(token_hashes("yes")).tolist() == [-1]


def test_bundled_meanings_know_the_field() -> None:
    """What agents say of their work is in them, and synonyms are nearer than strangers."""
    meanings = Meanings.bundled()
    verify, check, kettle = (row_of(meanings, word) for word in ("verify", "check", "kettle"))

    assert len(meanings.vocabulary) > 30_000
    assert np.linalg.norm(verify - check) < np.linalg.norm(verify - kettle)
