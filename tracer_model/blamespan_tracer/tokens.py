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

__all__ = ["MAX_TEXT_CHARS", "Hashes", "Places", "Tokens", "joint_hash", "ranges", "token_hashes", "tokens_of"]

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
        """Return which text each token is of: (T,), ascending."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    def of(self, texts: Places) -> Tokens:
        """Return those of some of the texts, in the order of *texts*."""
        at = ranges((np.cumsum(self.sizes) - self.sizes)[texts], self.sizes[texts])
        return Tokens(self.hashes[at], self.starts[at], self.ends[at], self.sizes[texts])


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
    return Tokens(hashes, starts, ends, sizes).of(np.argsort(np.array(plain + other)))  # as the texts came


def ranges(starts: Places, sizes: Places) -> Places:
    """List starts[0], starts[0] + 1, ... sizes[0] of them, then those of the next, and so on."""
    shifts = np.repeat(starts - (np.cumsum(sizes) - sizes), sizes)
    return shifts + np.arange(len(shifts))


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
    """Check whether every character of *text* is one small letter, mark or blank that UTF-16 has one unit for."""
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
_BEFORE = 8
"""Blanks before the first text: so many bytes before the end of any token can be read at once."""


@dataclass(frozen=True, slots=True)
class _Checksums:
    """What CRC-32 is made of: it is linear, so every byte adds a number of its own by how far from the end it stands.

    Attributes:
        of_length: (L,) the checksum of so many zeros.
        of_byte: (L, 256) what a byte so many places before the last one adds.
        of_pair: (4, 65536) what the two bytes that are 2 i and 2 i + 1 places before the last one add, together.
        mask: (L,) keeps so many of eight bytes, the last ones.
    """

    of_length: Hashes
    of_byte: NDArray[np.uint32]
    of_pair: NDArray[np.uint32]
    mask: NDArray[np.uint64]


@cache
def _checksums() -> _Checksums:
    lengths = range(_MAX_TOKEN_CHARS + 1)
    zeros = np.array([zlib.crc32(bytes(length)) for length in lengths], np.uint32)
    added = [[zlib.crc32(bytes([code, *bytes(behind)])) for code in range(256)] for behind in lengths[:-1]]
    of_byte = np.array(added, np.uint32) ^ zeros[1:, None]
    of_pair = np.stack([(of_byte[place][:, None] ^ of_byte[place + 1]).ravel() for place in range(0, _BEFORE, 2)])
    mask = [2**64 - 2 ** (64 - 8 * min(length, _BEFORE)) for length in lengths]
    return _Checksums(zeros, of_byte, of_pair, np.array(mask, np.uint64))


def _plain_tokens(texts: Sequence[str]) -> Tokens:
    """Find the tokens of texts of small letters: borders are where the kind of character changes, and around marks."""
    read = ["\n".join(_ends(text)) if len(text) > MAX_TEXT_CHARS else text for text in texts]
    joined = "\n".join(["\n" * (_BEFORE - 1), *read, ""])
    codes, kinds = _codes_and_kinds(joined)
    changes = kinds[1:] != kinds[:-1]
    changes |= kinds[1:] == _MARK
    is_of_token = kinds != _NONE
    starts = np.flatnonzero(changes & is_of_token[1:]) + 1
    starts, ends = _in_pieces(starts, np.flatnonzero(changes & is_of_token[:-1]) + 1)
    hashes = _hashed(joined, codes, starts, ends)
    hashes[kinds[starts] == _DIGIT] = _NUMBER
    lengths = np.array([len(text) for text in read], np.int64) + 1
    first = np.cumsum(lengths) - lengths + _BEFORE
    sizes = np.diff(np.searchsorted(starts, first), append=len(starts))
    shift = np.repeat(first, sizes)
    if any(part is not whole for part, whole in zip(read, texts, strict=True)):
        # what stands behind the cut stands further on in the text
        left_out = np.repeat([len(whole) - len(part) for part, whole in zip(read, texts, strict=True)], sizes)
        shift -= np.where((left_out != 0) & (starts - shift > MAX_TEXT_CHARS // 2), left_out, 0)
    return Tokens(hashes, starts - shift, ends - shift, sizes)


def _codes_and_kinds(joined: str) -> tuple[NDArray[np.uint8] | NDArray[np.uint16], NDArray[np.uint8]]:
    """Return the code of each character, in one byte where all have one, and what it is."""
    if joined.isascii():
        letters = joined.encode()
        return np.frombuffer(letters, np.uint8), np.frombuffer(letters.translate(_ascii_kinds()), np.uint8)
    codes = np.frombuffer(joined.encode("utf-16-le", "surrogatepass"), "<u2")
    return codes, _kinds().take(codes)


@cache
def _ascii_kinds() -> bytes:
    return _kinds()[:256].tobytes()


def _in_pieces(starts: Places, ends: Places) -> tuple[Places, Places]:
    """Part what is longer than a token may be."""
    if (ends - starts).max(initial=0) <= _MAX_TOKEN_CHARS:
        return starts, ends
    pieces = -((starts - ends) // _MAX_TOKEN_CHARS)
    begins = np.repeat(starts, pieces) + ranges(np.zeros_like(pieces), pieces) * _MAX_TOKEN_CHARS
    return begins, np.minimum(begins + _MAX_TOKEN_CHARS, np.repeat(ends, pieces))


def _hashed(joined: str, codes: NDArray[np.uint8] | NDArray[np.uint16], starts: Places, ends: Places) -> Hashes:
    """Compute the CRC-32 of every token, the last eight bytes of all at once; of those beyond ASCII one by one."""
    tables = _checksums()
    letters = codes.astype(np.uint8, copy=False)  # of what is beyond ASCII a part, which is put right below
    lengths = ends - starts
    last: NDArray[np.uint64] = np.ndarray((len(letters) - _BEFORE + 1,), "<u8", letters, strides=(1,))[ends - _BEFORE]
    last &= tables.mask[lengths]
    pairs = last.view("<u2").reshape(-1, _BEFORE // 2)
    hashes: Hashes = tables.of_length[lengths]
    for place, added in enumerate(tables.of_pair):
        hashes ^= added[pairs[:, -1 - place]]
    longer = np.flatnonzero(lengths > _BEFORE)
    place = _BEFORE
    while len(longer):
        hashes[longer] ^= tables.of_byte[place][letters[ends[longer] - 1 - place]]
        place += 1
        longer = longer[lengths[longer] > place]
    if codes.dtype != np.uint8:
        beyond = np.unique(np.searchsorted(starts, np.flatnonzero(codes > 0x7F), side="right") - 1)
        beyond = beyond[beyond >= 0]  # what is no token may stand before the first one
        places = zip(starts[beyond].tolist(), ends[beyond].tolist(), strict=True)
        hashes[beyond] = [_hash(joined[start:end]) for start, end in places]
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
