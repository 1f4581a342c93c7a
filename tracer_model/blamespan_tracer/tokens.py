"""Text to token hashes: the same on every machine, in every process.

A token is a run of letters, a run of digits or one mark, without case. Texts are read many at once, character by
character of all of them in numpy: several times as fast as token by token. The regular expression says what a
token is, and reads what has no character of its own for each (emoji, letters that grow as they become small).
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["MAX_TEXT_CHARS", "Hashes", "Places", "Tokens", "joint_hash", "token_hashes", "tokens_of"]

Hashes: TypeAlias = NDArray[np.uint32]
Places: TypeAlias = NDArray[np.int64]

MAX_TEXT_CHARS = 8_000
"""Of a longer text the first and last half of this many characters are read; 97 % of AEGIS's messages fit."""

_MAX_TOKEN_CHARS = 40
"""Longer runs are several tokens: bounded, so that no text can cost more than its length."""

_TOKEN = re.compile(rf"[^\W\d_]{{1,{_MAX_TOKEN_CHARS}}}|\d{{1,{_MAX_TOKEN_CHARS}}}|[^\w\s]")

_NUMBER = np.uint32(zlib.crc32(b"0"))
"""Stands for every number: which one it is belongs to the task, not to the fault."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of N texts, text by text, in order.

    Dims: T tokens of all texts.

    Attributes:
        hashes: (T,) what each is.
        starts: (T,) where each begins in its text, and
        ends: (T,) where it ends.
        sizes: (N,) how many tokens each text has.
    """

    hashes: Hashes
    starts: Places
    ends: Places
    sizes: Places

    @property
    def texts(self) -> Places:
        """Tell which text each token is of: (T,), ascending."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)


def token_hashes(text: str) -> Hashes:
    """Hash the tokens of one text, in order."""
    return tokens_of([text]).hashes


def tokens_of(texts: Sequence[str]) -> Tokens:
    """Find the tokens of many texts at once."""
    if not texts:
        none = np.zeros(0, np.int64)
        return Tokens(none.astype(np.uint32), none, none, none)
    small = [text.lower() for text in texts]
    plain = [number for number, text in enumerate(texts) if _is_plain(text, small[number])]
    other = sorted({*range(len(texts))}.difference(plain))
    parts = [_plain_tokens([small[number] for number in plain])] if plain else []
    parts += [_other_tokens(texts[number]) for number in other]
    sizes = np.concatenate([part.sizes for part in parts])
    hashes, starts, ends = (np.concatenate([getattr(part, name) for part in parts]) for name in _ARRAYS)
    if not other:
        return Tokens(hashes, starts, ends, sizes)
    came = np.argsort(np.array(plain + other))  # back into the order of the texts
    begins = np.cumsum(sizes) - sizes
    order = np.concatenate([np.arange(begins[text], begins[text] + sizes[text]) for text in came])
    return Tokens(hashes[order], starts[order], ends[order], sizes[came])


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


_ARRAYS = ("hashes", "starts", "ends")
_NONE, _LETTER, _DIGIT, _MARK = range(4)


def _is_plain(text: str, small: str) -> bool:
    """Tell whether every character of *text* is one small letter, mark or blank that UTF-16 has one unit for."""
    if text.isascii():
        return True
    return len(small) == len(text) and len(text.encode("utf-16-le", "surrogatepass")) == 2 * len(text)


@cache
def _kinds() -> NDArray[np.uint8]:
    """Tell of each of UTF-16's units what it is, as the regular expression does."""
    kinds = np.zeros(1 << 16, np.uint8)
    for code in range(1 << 16):
        text = chr(code)
        if _TOKEN.match(text):
            kinds[code] = _DIGIT if _IS_DIGIT.match(text) else _LETTER if _IS_WORD.match(text) else _MARK
    return kinds


_IS_DIGIT, _IS_WORD = re.compile(r"\d"), re.compile(r"\w")
_CRC = np.array([zlib.crc32(bytes([code])) for code in range(256)], np.uint32)
_CRC ^= _CRC[0xFF]
_CRC = _CRC[::-1].copy()
"""CRC-32's table by bytes: what one byte gives, but for what the start and the end of a checksum add."""


def _plain_tokens(texts: Sequence[str]) -> Tokens:
    """Find the tokens of texts of small letters: borders are where the kind of character changes, and around marks."""
    read = ["\n".join(_ends(text)) if len(text) > MAX_TEXT_CHARS else text for text in texts]
    joined = "\n".join(read) + "\n"
    codes = np.frombuffer(joined.encode("utf-16-le", "surrogatepass"), "<u2")
    kinds = _kinds()[codes]
    changes = kinds[1:] != kinds[:-1]
    changes |= kinds[1:] == _MARK
    borders = np.flatnonzero(changes) + 1  # the last character is a blank: it ends every token
    starts = np.concatenate([np.zeros(min(len(borders), 1), np.int64), borders[:-1]])
    is_token = kinds[starts] != _NONE
    starts, ends = _in_pieces(starts[is_token], borders[is_token])
    hashes = _hashed(joined, codes, starts, ends)
    hashes[kinds[starts] == _DIGIT] = _NUMBER
    lengths = np.array([len(text) for text in read], np.int64) + 1
    first = np.cumsum(lengths) - lengths
    sizes = np.diff(np.searchsorted(starts, first), append=len(starts))
    text_of = np.repeat(np.arange(len(texts)), sizes)
    shift = first[text_of]
    left_out = np.array([len(text) - len(kept) for text, kept in zip(texts, read, strict=True)])
    if left_out.any():  # what stands behind the cut stands further on in the text
        is_behind = (left_out[text_of] != 0) & (starts - shift > MAX_TEXT_CHARS // 2)
        shift = shift - np.where(is_behind, left_out[text_of], 0)
    return Tokens(hashes, starts - shift, ends - shift, sizes)


def _in_pieces(starts: Places, ends: Places) -> tuple[Places, Places]:
    """Part what is longer than a token may be."""
    if (ends - starts).max(initial=0) <= _MAX_TOKEN_CHARS:
        return starts, ends
    pieces = -((starts - ends) // _MAX_TOKEN_CHARS)
    number = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    begins = np.repeat(starts, pieces) + number * _MAX_TOKEN_CHARS
    return begins, np.minimum(begins + _MAX_TOKEN_CHARS, np.repeat(ends, pieces))


def _hashed(joined: str, codes: NDArray[np.uint16], starts: Places, ends: Places) -> Hashes:
    """Compute the CRC-32 of every token at once, one byte of each after the other; of those beyond ASCII one by one."""
    missing = (_MAX_TOKEN_CHARS - (ends - starts)).astype(np.uint8)  # of a byte: sorted in linear time
    longest_first = np.argsort(missing, kind="stable")
    at = starts[longest_first]
    left = np.cumsum(np.bincount(missing, minlength=_MAX_TOKEN_CHARS))[_MAX_TOKEN_CHARS - 1 :: -1]
    crc = np.full(len(at), 0xFFFFFFFF, np.uint32)
    for place, still in enumerate(left[left > 0].tolist()):
        now = crc[:still]
        crc[:still] = _CRC[(now ^ codes[at[:still] + place]) & np.uint32(0xFF)] ^ (now >> np.uint32(8))
    hashes = np.empty_like(crc)
    hashes[longest_first] = crc ^ np.uint32(0xFFFFFFFF)
    beyond = np.searchsorted(starts, np.flatnonzero(codes > 0x7F), side="right") - 1
    for token in sorted(set(beyond.tolist())):
        if token >= 0:  # what is no token may stand behind the last one, or before the first
            hashes[token] = _hash(joined[starts[token] : ends[token]])
    return hashes


@lru_cache(maxsize=1 << 15)
def _hash(token: str) -> int:
    if token[0].isdigit():  # a superscript two is a letter to `re`, but a number
        return int(_NUMBER)
    return zlib.crc32(token.encode("utf-8", "replace"))  # "replace": a lone surrogate is not UTF-8


def _other_tokens(text: str) -> Tokens:
    """Find the tokens of a text in any script."""
    starts: list[int] = []
    ends: list[int] = []
    hashes: list[int] = []
    offset = 0
    for part in _ends(text) if len(text) > MAX_TEXT_CHARS else (text,):
        for match in _TOKEN.finditer(part):
            token = match.group().lower()
            starts.append(offset + match.start())
            ends.append(offset + match.end())
            hashes.append(_hash(token))
        offset = len(text) - len(part)
    return Tokens(
        np.array(hashes, np.uint32), np.array(starts, np.int64), np.array(ends, np.int64), np.array([len(hashes)])
    )


def _ends(text: str) -> tuple[str, str]:
    half = MAX_TEXT_CHARS // 2
    return text[:half], text[-half:]
