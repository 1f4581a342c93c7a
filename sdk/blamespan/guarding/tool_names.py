"""Names of tools and agents, compared so that no spelling gets around a rule.

What is allowed must be spelt as the policy spells it. What is forbidden is forbidden in every spelling that looks like
it: other scripts, invisible characters, accents, other separators, digits for letters.
"""

# ruff: noqa: RUF001 - letters that look alike are what this file is about

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final

__all__ = ["is_forbidden_name", "is_listed_name", "make_plain", "skeleton"]

_UNKNOWN: Final = "\0"
"""Stands in a skeleton for a letter of which nobody knows what it looks like: it may look like any."""

_LOOKALIKES: Final = {
    source: target
    for target, sources in {
        # what Unicode's confusables.txt says of letters outside Latin, as far as programs can name a tool with them
        "a": "аαɑᴀ@",
        "b": "ЬьβвᏏɓʙ",
        "c": "сϲᴄⅽꮯ¢",
        "d": "ԁɗᏧđð",
        "e": "еєҽɛεᴇ℮€",
        "f": "ғƒꜰſϝ",
        "g": "ɡցɢġ",
        "h": "һհʜн",
        "j": "јϳʝ",
        "k": "кκᴋӄ",
        "l": "іιıɩӏ|!ⅼΙІӀlⅰɪᎥ",
        "n": "ոпηɴռ",
        "o": "оοσօᴏөө๐೦०",
        "p": "рρᴘᑭ",
        "q": "ԛգ",
        "r": "гᴦʀꭇ",
        "s": "ѕꜱʂ$",
        "t": "тτᴛ",
        "u": "υսᴜцʋ",
        "v": "ѵνᴠⅴ",
        "w": "ѡԝωᴡա",
        "x": "хχⅹ×",
        "y": "уγүʏყ",
        "z": "ᴢʐ",
        "m": "мᴍⅿ",
    }.items()
    for source in sources
}
_SAME_FORM: Final = str.maketrans({"i": "l", "1": "l", "j": "j", "0": "o", "3": "e", "5": "s", "4": "a", "7": "t"})
_LEAST_KNOWN = 0.5
"""Share of a name's letters that must be known for it to look like another one."""


@lru_cache(maxsize=4_096)
def make_plain(name: str) -> str:
    """Return a name without what does not show: compatibility forms, case, invisible characters."""
    text = unicodedata.normalize("NFKC", name)
    text = "".join(char for char in text if unicodedata.category(char) not in ("Cf", "Cc", "Co", "Cn", "Cs"))
    return unicodedata.normalize("NFKC", text.casefold()).strip()


@lru_cache(maxsize=4_096)
def skeleton(name: str) -> str:
    """Return what a name looks like: two names that may be taken for each other have one skeleton."""
    text = unicodedata.normalize("NFKD", make_plain(name))
    letters = []
    for char in text:
        category = unicodedata.category(char)
        if category[0] in "MZPC" and char not in _LOOKALIKES:
            continue  # accents, blanks, separators
        if char in _LOOKALIKES:
            letters.append(_LOOKALIKES[char])
        elif char.isascii():
            letters.append(char)
        elif category[0] == "N" and unicodedata.digit(char, None) is not None:
            letters.append(str(unicodedata.digit(char)))
        else:
            letters.append(_UNKNOWN)
    return "".join(letters).translate(_SAME_FORM).replace("rn", "m").replace("vv", "w")


def is_listed_name(name: str, patterns: Iterable[str]) -> bool:
    """Check whether *name* is one of *patterns* (`*` stands for anything), spelt as there but for case."""
    if make_plain(name) != name.casefold():
        return False  # it only looks like it
    return any(fnmatchcase(name.casefold(), pattern.casefold()) for pattern in patterns)


def is_forbidden_name(names: Iterable[str], patterns: Iterable[str]) -> bool:
    """Check whether any of *names* may be taken for one of *patterns*, in which `*` stands for anything."""
    shapes = [skeleton(name) for name in names]
    for pattern in patterns:
        parts = "*".join(skeleton(part) for part in pattern.split("*"))
        if any(_looks_like(shape, parts) for shape in shapes):
            return True
    return False


def _looks_like(shape: str, pattern: str) -> bool:
    if _UNKNOWN not in shape:
        return fnmatchcase(shape, pattern) if "*" in pattern else shape == pattern
    if shape.count(_UNKNOWN) > len(shape) * _LEAST_KNOWN:
        return False
    if "*" in pattern:  # any character may be any other: what is certain must be there, in order
        return _matches(shape, pattern)
    return len(shape) == len(pattern) and all(a in (b, _UNKNOWN) for a, b in zip(shape, pattern, strict=True))


def _matches(shape: str, pattern: str) -> bool:
    reached = {0}
    for char in pattern:
        if char == "*":
            reached = set(range(min(reached), len(shape) + 1)) if reached else set()
            continue
        reached = {at + 1 for at in reached if at < len(shape) and shape[at] in (char, _UNKNOWN)}
        if not reached:
            return False
    return len(shape) in reached
