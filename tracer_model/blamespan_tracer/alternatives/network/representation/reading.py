"""A run's texts, read once: every token of every original step, as arrays.

Dims: G segments (the task, then each original step), T tokens of all segments, V distinct tokens of the run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from blamespan_tracer.cues import CUES, STOP_WORDS, count_cues
from blamespan_tracer.tokens import cut_long_texts, find_words, has_several_words, is_number

Ints: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]

_LIST_DIGITS = 2
"""Of the number of a list's item, at most."""

_MAX_NAMES = 64
"""Names of several words that are read as one, the first."""


class Flag:
    """Bits of what a token is: plain numbers, as members of an enumeration take longer than what is done with them."""

    NUMBER = 1
    WORD = 2
    CAPITAL = 4
    IDENTIFIER = 8
    STOP = 16
    ENDS_SENTENCE = 32
    FENCE = 64
    EQUALS = 128
    QUOTE = 256
    QUESTION = 512
    OPERATOR = 1024


@dataclass(frozen=True, slots=True)
class Reading:
    """The tokens of a run, segment by segment, in order.

    Attributes:
        texts: (G,) what was read of each segment.
        tokens: (V,) distinct tokens by first occurrence; a number is spelled the one way, a word without case.
        places: Which place of `tokens` each has.
        token: (T,) which token, 0..V-1.
        segment: (T,) which segment, ascending.
        flags: (T,) `Flag` bits, as spelled there.
        sentence: (T,) number of the sentence, ascending over the run.
        in_code: (T,) whether it stands between code fences.
        opens: (T,) whether it opens a sentence.
        numbers_list: (T,) whether it is the number of a list's item: `5) ...`, or the 1 in `Plan: 1. ... 2. ...`; who
            answers `57`, and nothing more in that line, lists nothing.
        cue: (G, C) how many tokens of each segment hint at each of `CUES`.
        is_cut: (G,) whether something was left out of what was read of it.
    """

    texts: tuple[str, ...]
    tokens: tuple[str, ...]
    places: Mapping[str, int]
    token: Ints
    segment: Ints
    flags: Ints
    sentence: Ints
    in_code: Mask
    opens: Mask
    numbers_list: Mask
    cue: Ints
    is_cut: Mask

    def has(self, flag: int) -> Mask:
        """Return for each token whether it has any bit of *flag*: (T,)."""
        marked: Mask = (self.flags & flag) != 0
        return marked

    def is_any(self, words: Collection[str]) -> Mask:
        """Return for each token whether it is one of *words*, which are in small letters: (T,)."""
        known = np.zeros(len(self.tokens) + 1, np.bool_)
        known[list(self.known(words))] = True
        marked: Mask = known[self.token]
        return marked

    def known(self, words: Collection[str]) -> set[int]:
        """List which distinct tokens are one of *words*, which are in small letters."""
        return {self.places[word] for word in words if word in self.places}

    def count(self, of: Mask) -> Ints:
        """Count the tokens that *of* marks, per segment: (G,)."""
        return np.bincount(self.segment[of], minlength=len(self.texts))


def read_texts(texts: Sequence[str], names: Sequence[str] = ()) -> Reading:
    """Read the segments of a run, the task first.

    Args:
        texts: Of each segment.
        names: Of the agents. Each is one token, however it is written: the 3 of `unit-3` is no number.
    """
    read = cut_long_texts(texts)
    of_words = tuple(name for name in names if has_several_words(name))[:_MAX_NAMES]
    words = [find_words(text, of_words) for text in read]
    every = [word for words_of_text in words for word in words_of_text]
    spellings = {token: place for place, token in enumerate(dict.fromkeys(every))}
    kinds = [_kind(token) for token in spellings]
    tokens: dict[str, int] = {}
    plain = np.array([tokens.setdefault(name, len(tokens)) for name, _ in kinds] or [0], np.int64)
    bits = np.array([flags for _, flags in kinds] or [0], np.int64)
    spelling = np.fromiter(map(spellings.__getitem__, every), np.int64, len(every))
    segment = np.repeat(np.arange(len(read)), [len(words_of_text) for words_of_text in words])
    flags = bits[spelling]
    token = plain[spelling]
    lengths = np.array([len(name) for name in tokens] or [0], np.int64)
    begins = np.diff(segment, prepend=-1) != 0
    ends = (flags & Flag.ENDS_SENTENCE) != 0
    follows = np.concatenate([[True], ends[:-1]])[: len(ends)] | begins
    lines = np.cumsum(np.concatenate([[True], token[:-1] == tokens.get("\n", -1)])[: len(token)] | begins)
    is_short = (flags & Flag.NUMBER != 0) & (lengths <= _LIST_DIGITS)[token]
    items = is_short & follows & _has_company(flags, lines)
    return Reading(
        texts=tuple(read),
        tokens=tuple(tokens),
        places=tokens,
        token=token,
        segment=segment,
        flags=flags,
        sentence=np.cumsum(follows),
        in_code=_in_code(flags, segment),
        opens=follows,
        numbers_list=items | _begins_list(token, segment, items, tokens),
        cue=np.array([count_cues(words_of_text) for words_of_text in words], np.int64).reshape(-1, len(CUES)),
        is_cut=np.array([one is not other for one, other in zip(read, texts, strict=True)], np.bool_),
    )


def is_long(number: str) -> bool:
    """Check whether a number has two digits or more: one of one digit is said of too many things to be anybody's."""
    return len(number.lstrip("-").replace(".", "")) > 1


def _has_company(flags: Ints, lines: Ints) -> Mask:
    """Return which tokens have a word or another number in their line: (T,), of (T,) numbers of lines."""
    says = (flags & (Flag.WORD | Flag.NUMBER)) != 0
    accompanied: Mask = (np.bincount(lines, says) > 1)[lines]
    return accompanied


def _begins_list(token: Ints, segment: Ints, items: Mask, tokens: Mapping[str, int]) -> Mask:
    """Return which tokens are a 1 within a line after which the next item of the segment is number 2: (T,).

    Args:
        token: (T,) which token.
        segment: (T,) where it stands.
        items: (T,) whether it is the number of an item that opens a sentence.
        tokens: The place of each distinct token.
    """
    at = np.flatnonzero(items)
    following = np.searchsorted(at, np.arange(len(token)), side="right")
    has_next = following < len(at)
    place = at[following[has_next]]
    begins: Mask = (token == tokens.get("1", -1)) & ~items
    begins[~has_next] = False
    begins[has_next] &= (token[place] == tokens.get("2", -1)) & (segment[place] == segment[has_next])
    return begins


@lru_cache(maxsize=1 << 16)
def _kind(token: str) -> tuple[str, int]:
    """Return how a token is spelled the one way, and what it is."""
    first = token[0]
    if is_number(token):
        plain = token.replace(",", "")
        return (plain.rstrip("0").rstrip(".") if "." in plain else plain), Flag.NUMBER
    if first in _MARKS:
        return token, _MARKS[first]
    small = token.lower()
    flags = Flag.WORD
    if small in STOP_WORDS:
        flags |= Flag.STOP
    if first.isupper():
        flags |= Flag.CAPITAL
    if "_" in token or any(char.isdecimal() for char in token) or _is_camel(token):
        flags |= Flag.IDENTIFIER
    return small, flags


_MARKS = {
    "`": Flag.FENCE,
    "=": Flag.EQUALS,
    ".": Flag.ENDS_SENTENCE,
    "!": Flag.ENDS_SENTENCE,
    "?": Flag.ENDS_SENTENCE | Flag.QUESTION,
    ";": Flag.ENDS_SENTENCE,
    "\n": Flag.ENDS_SENTENCE,
    '"': Flag.QUOTE,
    "\u201c": Flag.QUOTE,
    "\u201d": Flag.QUOTE,
    **dict.fromkeys("-+*/\u00d7\u00f7\u00b7\u2212", Flag.OPERATOR),
}


def _is_camel(token: str) -> bool:
    return any(char.isupper() for char in token[1:]) and any(char.islower() for char in token)


def _in_code(flags: Ints, segment: Ints) -> Mask:
    """Return which tokens stand after an odd number of fences of their segment."""
    is_fence = (flags & Flag.FENCE) != 0
    if not is_fence.any():
        return np.zeros(len(flags), np.bool_)
    so_far = np.cumsum(is_fence)
    first = np.searchsorted(segment, segment)  # where each token's segment begins
    before = np.where(first > 0, so_far[first - 1], 0)
    inside: Mask = ((so_far - before) % 2 == 1) & ~is_fence
    return inside
