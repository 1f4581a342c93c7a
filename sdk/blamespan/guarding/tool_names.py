"""Names of tools and agents, compared so that no spelling gets around a rule.

What is allowed must be spelt as the policy spells it. What is forbidden is forbidden in every spelling that may be
taken for it: without invisible characters, accents and separators, any character outside ASCII standing for whatever it
may look like. No table of look-alikes is complete, so there is none.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final

_UNKNOWN: Final = "\0"
"""Stands in a skeleton for a character that may look like any other, like two, or like none."""

_OWN_SCRIPT: Final = re.compile(
    "[БбГгДдЖжЗзИиЙйЛлПпФфЦцЧчШшЩщЪъЫыЭэЮюЯяΓΔΘΛΞΠΣΦΨΩδθλξπσφψωÆæÞþßŒœ"
    "\u0590-\u06ff\u0900-\u097f\u0e00-\u0e7f\u3041-\u30fa\u3400-\u9fff\uac00-\ud7a3]"
)
"""Characters that look like nothing in ASCII."""
_SAME_FORM: Final = str.maketrans(
    {**dict.fromkeys("i1|!", "l"), "0": "o", "3": "e", "5": "s", "$": "s", "4": "a", "@": "a", "7": "t"}
)


@lru_cache(maxsize=4_096)
def make_plain(name: str) -> str:
    """Return a name without what does not show: compatibility forms, case, invisible characters."""
    text = unicodedata.normalize("NFKC", name)
    text = "".join(char for char in text if unicodedata.category(char) not in ("Cf", "Cc", "Co", "Cn", "Cs"))
    return unicodedata.normalize("NFKC", text.casefold()).strip()


@lru_cache(maxsize=4_096)
def skeleton(name: str) -> str:
    """Return what a name looks like: two names that may be taken for each other have one skeleton."""
    text = unicodedata.normalize("NFKD", make_plain(name)).translate(_SAME_FORM)
    letters = [
        char if char.isascii() else str(unicodedata.decimal(char, _UNKNOWN))
        for char in text
        if unicodedata.category(char)[0] != "M" and (char.isalnum() or not char.isascii())
    ]
    return "".join(letters).translate(_SAME_FORM).replace("rn", "m").replace("vv", "w")


def is_listed_name(name: str, patterns: Iterable[str]) -> bool:
    """Check whether *name* is one of *patterns* (`*` stands for anything), spelt as there but for case."""
    if make_plain(name) != name.casefold():
        return False  # it only looks like it
    return any(fnmatchcase(name.casefold(), pattern.casefold()) for pattern in patterns)


def is_forbidden_name(names: Iterable[str], patterns: Iterable[str]) -> bool:
    """Check whether any of *names* may be taken for one of *patterns*, in which `*` stands for anything."""
    every = list(names)
    return any(_looks_like(name, pattern) for pattern in patterns for name in every)


def _looks_like(name: str, pattern: str) -> bool:
    plain = make_plain(pattern)
    if fnmatchcase(make_plain(name), plain):
        return True
    shape, wanted = skeleton(name), "*".join(map(skeleton, plain.split("*")))
    if _UNKNOWN not in shape:
        return fnmatchcase(shape, wanted)
    if not re.search(r"[a-z]", shape) and _OWN_SCRIPT.search(name):
        return False  # a word of another script
    return _may_be(shape, wanted)


def _may_be(shape: str, pattern: str) -> bool:
    """Check whether a skeleton with unknown characters may be a pattern: each may be none, one or two of it."""
    reached = {0}
    for char in shape:
        reached |= {at + 1 for at in reached if pattern[at : at + 1] == "*"}
        here = {at for at in reached if pattern[at : at + 1] == "*"}
        if char == _UNKNOWN:
            reached |= {at + step for at in reached for step in (1, 2) if at + step <= len(pattern)}
        else:
            reached = here | {at + 1 for at in reached if pattern[at : at + 1] == char}
    return any(not pattern[at:].strip("*") for at in reached)
