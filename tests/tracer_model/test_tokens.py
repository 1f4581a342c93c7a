"""Hashes are the same everywhere, bounded, and tied to places in the text."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from blamespan_tracer.tokens import MAX_TEXT_CHARS, joint_hash, token_hashes, token_spans


def test_hashes_are_those_of_every_machine() -> None:
    """Weights are tied to these very numbers: a change here makes every trained file worthless."""
    words = token_hashes("Hello, 42!")

    assert words.tolist() == [907060870, 3772416878, 4108050209, 2657877971]
    assert joint_hash(words[:2], words[1:3], 7).tolist() == [151350383, 316464150]


def test_hashes_do_not_depend_on_the_process() -> None:
    """Python salts its own hash per process; ours is not."""
    program = "from blamespan_tracer.tokens import token_hashes; print(token_hashes('one Two 3').tolist())"

    printed = {
        subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout for _ in range(2)
    }

    assert printed == {f"{token_hashes('one Two 3').tolist()}\n".encode()}


def test_numbers_and_case_do_not_count() -> None:
    """Every number is one token, and capitals are small letters."""
    assert token_hashes("Step 12").tolist() == token_hashes("step 7").tolist()


def test_long_text_is_read_at_both_ends() -> None:
    """Of a text past the limit the first and the last half of it are read, and nothing between."""
    half = MAX_TEXT_CHARS // 2
    text = "a " * (half // 2) + "middle " * 1_000 + "z " * (half // 2)

    kept = set(token_hashes(text).tolist())

    assert kept == set(token_hashes("a z").tolist())


@given(st.text(max_size=300))
def test_spans_point_at_the_tokens(text: str) -> None:
    """Spans ascend without overlap, and each holds the token whose hash it carries."""
    spans = list(token_spans(text))

    assert all(start < end for start, end, _ in spans)
    assert all(one[1] <= other[0] for one, other in pairwise(spans))
    assert all(token_hashes(text[start:end])[0] == found for start, end, found in spans if text[start:end].isascii())


@given(st.text(alphabet=st.characters(), max_size=200))
def test_any_text_can_be_hashed(text: str) -> None:
    """Lone surrogates, marks and scripts of any kind are only text."""
    assert token_hashes(text).dtype == np.uint32
