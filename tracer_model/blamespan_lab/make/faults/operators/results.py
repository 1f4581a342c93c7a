"""Operators on what a tool answers: it fails, is late, or says nothing, too little, what was, or what was planted."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from types import MappingProxyType
from typing import TypeAlias

from blamespan.intercepting.boundaries import Answer
from blamespan_lab.make.wordings import choose, choose_alternatives, pick
from blamespan_lab.make.wordings.banks import FAULTS

ResultOperator: TypeAlias = Callable[[Answer, tuple[str, ...], Random], Answer | None]
"""Gives the faulty answer, from the answer and earlier ones of the same tool; None where it cannot be written."""

_EMPTY = ("", "[]", "null", "{}", "no results")


def tool_error(answer: Answer, earlier: tuple[str, ...], rng: Random) -> Answer | None:
    """Fail as services do."""
    error, wording = pick(FAULTS.errors, rng)
    return replace(answer, text=choose_alternatives(wording, rng), error=error)


def tool_timeout(answer: Answer, earlier: tuple[str, ...], rng: Random) -> Answer | None:
    """Fail to answer in time; the wait itself is kept short."""
    return replace(answer, text=choose(FAULTS.timeouts, rng), error="TimeoutError", delay_s=0.01)


def tool_empty(answer: Answer, earlier: tuple[str, ...], rng: Random) -> Answer | None:
    """Find nothing, in the notation of what was found."""
    text = answer.text.strip()
    if text in _EMPTY:
        return None
    own = {"[": "[]", "{": "{}"}.get(text[:1])
    return replace(answer, text=own or rng.choice(("", "null", "no results")))


def tool_stale(answer: Answer, earlier: tuple[str, ...], rng: Random) -> Answer | None:
    """Answer what it answered before."""
    other = [text for text in earlier if text != answer.text]
    return replace(answer, text=other[-1]) if other else None


def tool_partial(answer: Answer, earlier: tuple[str, ...], rng: Random) -> Answer | None:
    """Answer only the first part."""
    try:
        rows = json.loads(answer.text)
    except (ValueError, RecursionError):
        rows = None
    if isinstance(rows, list) and len(rows) >= 2:
        return replace(answer, text=json.dumps(rows[: len(rows) // 2], ensure_ascii=False))
    lines = answer.text.splitlines()
    if len(lines) >= 2:
        return replace(answer, text="\n".join(lines[: len(lines) // 2]))
    words = answer.text.split(" ")
    return replace(answer, text=" ".join(words[: len(words) // 2])) if len(words) >= 4 else None


def tool_poisoned(answer: Answer, earlier: tuple[str, ...], rng: Random) -> Answer | None:
    """Answer with an instruction in it that somebody outside has planted."""
    return replace(answer, text=f"{answer.text.rstrip()} {choose(FAULTS.planted, rng)}".strip())


RESULT_OPERATORS: Mapping[str, ResultOperator] = MappingProxyType(
    {
        operator.__name__.replace("_", "-"): operator
        for operator in (tool_error, tool_timeout, tool_empty, tool_stale, tool_partial, tool_poisoned)
    }
)
"""Operators on a tool's answer, by name."""

FAILING_OPERATORS = frozenset({"tool-error", "tool-timeout"})
"""Those by which a tool fails: they are written instead of calling it, and so before it has answered."""
