"""How text is cut: the ends of long texts, sentences, numbers, words, and tokens as hashes.

All that reads words of a run cuts them here. There are two cuts, as two sets of weights were trained with one each:

- `find_words` cuts a text into words, identifiers, numbers and the few marks that say something. Checks and quotes
  are made of them.
- `token_hashes` cuts a text into hashes: of runs of letters, runs of digits and marks, without case. The lexicon
  knows tokens by these hashes, which are the same on every machine and in every process.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Hashes: TypeAlias = NDArray[np.uint32]

MAX_TEXT_CHARS = 8_000
"""Of a longer text the first and last half of this many characters are read; 97 % of AEGIS's messages fit."""

_MAX_RUN_CHARS = 4_000_000
"""Where a run has more, every text's bound shrinks, to no less than 400 characters: bounded time for any run."""

_LEAST_TEXT_CHARS = 400

SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
"""What lies between two sentences or lines."""

# No group below is possessive: Python before 3.11.5 loses matches by that (github.com/python/cpython/issues/106052)
NUMBER_PATTERN = r"\d{1,15}+(?:,\d{3}){0,4}(?:\.\d{1,12})?"
"""A number: `1,204.50`."""

_SIGNED = rf"(?:(?<![^\s=:,;])-)?{NUMBER_PATTERN}"
"""Below zero where nothing stands before the sign."""

_OPERATOR = r"(?<=[\d)] )[-+*/\u00d7\u00f7\u00b7\u2212](?= [\d(])|(?<=\d)[\u00d7\u00f7\u00b7](?=\d)"
_WORD = re.compile(
    r"[^\W\d\u2e80-\u9fff\uac00-\ud7af]\w{0,39}+(?:['\u2019][a-z]{1,2}\b)?"  # a word or an identifier
    rf"|{_SIGNED}|{_OPERATOR}|[=.!?;\n\"\u201c\u201d]|```"
    r"|[\u2e80-\u9fff\uac00-\ud7af]"  # of scripts without blanks a character
)
_ASCII_WORD = re.compile(rf"[A-Za-z_]\w{{0,39}}+(?:'[a-z]{{1,2}}\b)?|{_SIGNED}|{_OPERATOR}|[=.!?;\n\"]|```", re.ASCII)
"""The same for ASCII, at half the cost. All quantifiers are bounded: linear in any text."""

_MAX_NAME = 60
"""Longer names of several words are read word by word."""

_MAX_TOKEN_CHARS = 40
"""Longer runs are several tokens: bounded, so that no text can cost more than its length."""

_TOKEN = re.compile(rf"[^\W\d_]{{1,{_MAX_TOKEN_CHARS}}}|\d{{1,{_MAX_TOKEN_CHARS}}}|[^\w\s]")

_ASCII_TOKEN = re.compile(rf"[a-z]{{1,{_MAX_TOKEN_CHARS}}}|[0-9]{{1,{_MAX_TOKEN_CHARS}}}|[^a-z0-9_\s]")
"""The same for ASCII in small letters, at half the cost."""

_NUMBER = zlib.crc32(b"0")
"""Stands for every number: which one it is belongs to the task, not to the fault."""


def text_ends(text: str) -> tuple[str, ...]:
    """Return what is read of a text: all of it, or of a long one its beginning and its end."""
    half = MAX_TEXT_CHARS // 2
    return (text,) if len(text) <= MAX_TEXT_CHARS else (text[:half], text[-half:])


def cut_long_texts(texts: Sequence[str]) -> list[str]:
    """Cut each text of a run to its beginning and end where it is long, and all of them more where they are many."""
    total = sum(min(len(text), MAX_TEXT_CHARS) for text in texts)
    share = MAX_TEXT_CHARS if total <= _MAX_RUN_CHARS else max(_LEAST_TEXT_CHARS, _MAX_RUN_CHARS // len(texts))
    half = share // 2
    return [text if len(text) <= share else f"{text[:half]}\n{text[-half:]}" for text in texts]


def split_sentences(text: str) -> Iterator[str]:
    """Split a text into sentences and lines that are not blank."""
    return (sentence for sentence in SENTENCE_END.split(text) if sentence.strip())


def sentences_of(text: str, most: int) -> tuple[str, ...]:
    """Split the first 8,000 characters of *text* into sentences; of more than *most* the first and last ones."""
    sentences = [sentence.strip() for sentence in split_sentences(text[:MAX_TEXT_CHARS])]
    if len(sentences) > most:
        sentences = [*sentences[: most // 2], *sentences[-(most - most // 2) :]]
    return tuple(sentences)


def find_words(text: str, names: tuple[str, ...] = ()) -> list[str]:
    """List the words, identifiers, numbers, operators, sentence ends, quotation marks and code fences of a text.

    Args:
        text: As it is written.
        names: Each is one word wherever it stands, however it is written: the 3 of `unit-3` is no number.
    """
    return _word_pattern(names, text.isascii()).findall(text)


def has_several_words(name: str) -> bool:
    """Check whether `find_words` would cut a name that begins like a word."""
    return name[:1].isalpha() and len(name) <= _MAX_NAME and _WORD.fullmatch(name) is None


def is_number(word: str) -> bool:
    """Check whether a word of `find_words`, of which there is at least a character, is a number."""
    return word[0].isdecimal() or (word[0] == "-" and len(word) > 1)


@lru_cache(maxsize=256)
def _word_pattern(names: tuple[str, ...], is_ascii: bool) -> re.Pattern[str]:
    """Return what finds the words of a text, and these names as a whole, the longest first."""
    plain = _ASCII_WORD if is_ascii else _WORD
    if not names:
        return plain
    longest_first = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    return re.compile(rf"(?i:(?<!\w)(?:{longest_first})(?!\w))|{plain.pattern}", plain.flags & re.ASCII)


def token_hashes(text: str) -> Hashes:
    """Hash the tokens of a text, in order."""
    return np.array(list(map(_hash, _find_tokens(text))), np.uint32)


def _find_tokens(text: str) -> list[str]:
    """List the tokens of what is read of a text, in small letters."""
    read = text_ends(text)
    if text.isascii():
        return [token for part in read for token in _ASCII_TOKEN.findall(part.lower())]
    return [token.lower() for part in read for token in _TOKEN.findall(part)]


@lru_cache(maxsize=1 << 16)
def _hash(token: str) -> int:
    if token[0].isdigit():  # a superscript two is a letter to `re`, but a number
        return _NUMBER
    return zlib.crc32(token.encode("utf-8", "replace"))  # "replace": a lone surrogate is not UTF-8


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
