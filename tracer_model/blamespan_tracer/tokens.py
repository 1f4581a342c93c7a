"""How text is cut: the ends of long texts, sentences, numbers, words, and tokens as hashes.

All that reads words of a run cuts them here. There are two cuts, because two sets of weights were trained with one each
(decision 072):

- `find_words` cuts a text into words, identifiers, numbers and the few marks that say something. Checks, features of
  steps and quotes are made of them.
- `tokens_of` cuts many texts into hashes: of runs of letters, runs of digits and marks, without case. The lexicon and
  the network's vocabulary know tokens by these hashes, which are the same on every machine and in every process.

`tokens_of` reads all texts at once, character by character in numpy: several times as fast as token by token. The
regular expression says what such a token is, and reads texts in which a character has no code of its own (emoji,
letters that grow as they become small).
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "MAX_TEXT_CHARS",
    "NUMBER_PATTERN",
    "Hashes",
    "Places",
    "Tokens",
    "cut_long_texts",
    "find_words",
    "has_several_words",
    "is_number",
    "joint_hash",
    "ranges",
    "sentences_of",
    "split_sentences",
    "text_ends",
    "token_hashes",
    "tokens_of",
]

Hashes: TypeAlias = NDArray[np.uint32]
Places: TypeAlias = NDArray[np.int64]

MAX_TEXT_CHARS = 8_000
"""Of a longer text the first and last half of this many characters are read; 97 % of AEGIS's messages fit."""

_MAX_RUN_CHARS = 4_000_000
"""Where a run has more, every text's bound shrinks, to no less than 400 characters: bounded time for any run."""

_LEAST_TEXT_CHARS = 400

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")

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

_NUMBER = np.uint32(zlib.crc32(b"0"))
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
    return (sentence for sentence in _SENTENCE_END.split(text) if sentence.strip())


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
    """Return the kind of each of UTF-16's units, as the regular expression has it."""
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
    read = ["\n".join(text_ends(text)) if len(text) > MAX_TEXT_CHARS else text for text in texts]
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
    for part in text_ends(text):
        for match in _TOKEN.finditer(part):
            token = match.group().lower()
            starts.append(offset + match.start())
            ends.append(offset + match.end())
            hashes.append(_hash(token))
        offset = len(text) - len(part)
    return Tokens(
        np.array(hashes, np.uint32), np.array(starts, np.int64), np.array(ends, np.int64), np.array([len(hashes)])
    )
