"""Hashes are the same everywhere, bounded, and tied to places in the text."""

from __future__ import annotations

import re
import zlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from blamespan_tracer.tokens import MAX_TEXT_CHARS, find_words, joint_hash, token_hashes


def test_hashes_are_those_of_every_machine() -> None:
    """Weights are tied to these very numbers, in every process: a change here makes every trained file worthless."""
    words = token_hashes("Hello, 42!")

    assert words.tolist() == [907060870, 3772416878, 4108050209, 2657877971]
    assert joint_hash(words[:2], words[1:3], 7).tolist() == [151350383, 316464150]


def test_numbers_and_case_do_not_count() -> None:
    """Every number is one token, and capitals are small letters."""
    assert token_hashes("Step 12").tolist() == token_hashes("step 7").tolist()


def test_long_text_is_read_at_both_ends() -> None:
    """Of a text past the limit the first and the last half of it are read, and nothing between."""
    half = MAX_TEXT_CHARS // 2
    text = "a " * (half // 2) + "middle " * 1_000 + "z " * (half // 2)

    kept = set(token_hashes(text).tolist())

    assert kept == set(token_hashes("a z").tolist())


def slow_tokens(text: str) -> list[int]:
    """Hash the tokens of a text no longer than is read, one by one, as the documentation says it."""
    pattern = re.compile(r"[^\W\d_]{1,40}|\d{1,40}|[^\w\s]")
    found = [match.group().lower() for match in pattern.finditer(text)]
    return [zlib.crc32(b"0" if token[0].isdigit() else token.encode("utf-8", "replace")) for token in found]


ascii_texts = st.text(st.characters(max_codepoint=127), max_size=120)
any_texts = st.text(alphabet=st.characters(), max_size=60)  # lone surrogates, marks and scripts of any kind


@given(st.one_of(ascii_texts, any_texts))
@example("a" * 100)
@example("9" * 81)
@example("x" * 40 + "Y")
@example("\u0130" * 50)
@example("\u00b2x \U0001d7d8")
@example("a\ud800b")
def test_tokens_agree_with_a_slow_reference(text: str) -> None:
    """Long runs are cut at 40; letters that grow as they become small and odd digits count as they stand."""
    assert token_hashes(text).tolist() == slow_tokens(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("It doesn't cost 1,204.50, but -3.", ["It", "doesn't", "cost", "1,204.50", "but", "-3", "."]),
        ("row_7 = 12 * 3", ["row_7", "=", "12", "*", "3"]),
        ("Über 10:30 “ja”", ["Über", "10", "30", "“", "ja", "”"]),
        ("東京 42", ["東", "京", "42"]),
        ("3-5 (x)", ["3", "5", "x"]),
        ("", []),
    ],
)
def test_words_are_words_numbers_and_signs_that_say_something(text: str, words: list[str]) -> None:
    """Identifiers and numbers stay whole; commas, brackets and blanks are left out."""
    assert find_words(text) == words


def test_names_are_one_word() -> None:
    """A name is one word however it is written, and only as a whole."""
    assert find_words("Unit-3 asks unit-33", ("unit-3",)) == ["Unit-3", "asks", "unit", "33"]
