"""Texts of a run inside a prompt: cut, measured, and kept from meaning anything to a model or its chat template."""

from __future__ import annotations

import json
import re
import string
from collections.abc import Iterable

ANSWER_TAGS = ("<think>", "</think>", "<answer>", "</answer>", "<mode>", "</mode>")
"""What an answer of a causal model is made of; in a run's own text they mean nothing."""

_NAME_CHARS = 80
"""Longer names of agents are cut."""

_MOST_SHOWN_NAME_CHARS = 200

_BRACKETED = re.compile(r"\[(?=/?(?!(?:true|false|null)\])[A-Za-z]\w*[\]~])")
""""[" where no JSON has it by itself: of `[INST]`, `[gMASK]`, `[e~[` and their like."""
_SMALL = (string.ascii_lowercase + " ").encode()
_CAPITAL = string.ascii_uppercase.encode()
_ASCII = bytes(range(128))


def as_data(document: object) -> str:
    """Write *document* as JSON in which no chat template finds a control token of its own.

    `<` and the brackets of `[INST]`, `]~b]` and their like stand as JSON escapes: `<|im_end|>` in what an agent said is
    data like the rest, even for servers that read control tokens wherever they stand.
    """
    text = _unicode(json.dumps(document, ensure_ascii=False))
    return _BRACKETED.sub(r"\\u005b", text.replace("<", "\\u003c").replace("]~", "\\u005d~"))


def inert(text: str, marks: Iterable[str] = ()) -> str:
    """Break what would mean something to a model in *text*: a space after its first character.

    Args:
        text: Of a run, laid out.
        marks: Strings that must not stand in it as they are, beside `ANSWER_TAGS`.
    """
    every = sorted({*ANSWER_TAGS, *(mark for mark in marks if len(mark.strip()) > 2)}, key=lambda mark: -len(mark))
    return re.sub("|".join(map(re.escape, every)), _break_mark, text, flags=re.IGNORECASE)


def indent_lines(text: str, margin: str = "  ") -> list[str]:
    """Indent every line, whatever ends lines there; text that is no Unicode becomes question marks."""
    return [margin + line for line in _unicode(text).splitlines()]


def name_of(agent: str) -> str:
    """Write an agent's name as one JSON string on one line, cut short."""
    return _unicode(json.dumps(" ".join(agent[: 2 * _NAME_CHARS].split())[:_NAME_CHARS], ensure_ascii=False))


def shown_name(agent: str) -> str:
    """Write an agent's name for a document: whole, but for one that is far longer than any name."""
    return cut(agent, _MOST_SHOWN_NAME_CHARS)


def cut(text: str, most_chars: int | None) -> str:
    """Leave out the middle of a text longer than *most_chars*, saying how much; None leaves it whole."""
    if most_chars is None or len(text) <= most_chars:
        return text
    half = most_chars // 2
    return f"{text[:half]} [... {len(text) - 2 * half:,} characters left out ...] {text[len(text) - half :]}"


def estimated_tokens(text: str) -> int:
    """Estimate from above how many tokens *text* is, without any model's tokenizer.

    A small letter or blank counts a third, a capital and a byte beyond ASCII a half, every digit and sign one. For
    prose and JSON of the common tokenizers that is 20 to 60 % too many.
    """
    data = text.encode("utf-8", "replace")
    small = len(data) - len(data.translate(None, _SMALL))
    capital = len(data) - len(data.translate(None, _CAPITAL))
    beyond = len(data.translate(None, _ASCII))
    return small // 3 + (capital + beyond) // 2 + (len(data) - small - capital - beyond) + 1


def _unicode(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def _break_mark(match: re.Match[str]) -> str:
    mark = match.group()
    return f"{mark[0]} {mark[1:]}"
