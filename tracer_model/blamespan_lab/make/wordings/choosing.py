"""Taking words: one of many wordings, one of each of its alternatives, of all words or of one half of them.

`[a|b|]` in a wording is one of its alternatives, inside one another too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from random import Random
from typing import TypeVar

_CHOICE = re.compile(r"\[([^\[\]]*)\]")


WORDINGS = ("all", "first", "second")
"""What words may be taken from: all wordings and alternatives, or every other one, from the first or the second."""

_wordings: ContextVar[str] = ContextVar("blamespan_wordings", default="all")

_ItemT = TypeVar("_ItemT")


@contextmanager
def use_wordings(wordings: str) -> Iterator[None]:
    """Take words from one of `WORDINGS` only, in this context."""
    token = _wordings.set(wordings)
    try:
        yield
    finally:
        _wordings.reset(token)


def current_wordings() -> str:
    """Return which of `WORDINGS` words are taken from here."""
    return _wordings.get()


def choose(wordings: Sequence[str], rng: Random) -> str:
    """Take one of *wordings* and one of each of its alternatives."""
    return choose_alternatives(pick(wordings, rng), rng)


def pick(items: Sequence[_ItemT], rng: Random) -> _ItemT:
    """Take one of *items*, of the half that words are taken from here."""
    return rng.choice(select_half(items))


def select_half(items: Sequence[_ItemT]) -> Sequence[_ItemT]:
    """List those of *items* that words are taken from here: all, or one half; a single one is in both."""
    half = _wordings.get()
    if half == "all" or len(items) < 2:
        return items
    return items[0::2] if half == "first" else items[1::2]


def choose_alternatives(text: str, rng: Random) -> str:
    """Take one of each of the alternatives in *text*."""
    while match := _CHOICE.search(text):
        text = text[: match.start()] + pick(match.group(1).split("|"), rng) + text[match.end() :]
    return re.sub(r"\s+(?=[.,;:?!])", "", re.sub(r" {2,}", " ", text)).strip()
