"""Operators on what a model is sent: its instructions (mechanism `prompt`) and its history (`memory`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from types import MappingProxyType
from typing import TypeAlias

from blamespan.injecting.boundaries import Line
from blamespan_lab.faults.operators.text import TEXT_OPERATORS, Utterance, written
from blamespan_lab.wordings import choose
from blamespan_lab.wordings.banks import FAULTS

__all__ = ["MEMORY_OPERATORS", "PROMPT_OPERATORS", "TOLD", "LinesOperator"]

Lines: TypeAlias = tuple[Line, ...]
LinesOperator: TypeAlias = Callable[[Lines, Utterance, Random], Lines | None]
"""Gives the lines as the model gets them, or None where it cannot be written."""

TOLD = "told-"
"""How the operators begin that tell an agent to err; the code of the AEGIS mode follows."""


def _by_text(name: str) -> LinesOperator:
    """Make an operator that writes a text operator's fault into the latest message that offers it a hold."""
    operator = TEXT_OPERATORS[name]

    def change(lines: Lines, utterance: Utterance, rng: Random) -> Lines | None:
        for place in reversed([*_places(lines, "system"), *_places(lines, "user")]):
            spoken = replace(utterance, text=lines[place].text)
            if (text := written(operator, spoken, rng)) is not None:
                return _with_text(lines, place, text)
        return None

    return change


def _by_adding(wordings: Sequence[str]) -> LinesOperator:
    """Make an operator that adds a sentence to the agent's instructions, else to the latest message."""

    def change(lines: Lines, utterance: Utterance, rng: Random) -> Lines | None:
        places = _places(lines, "system") or _places(lines, "user")
        if not places:
            return None
        text = f"{lines[places[-1]].text.rstrip()} {choose(wordings, rng)}".strip()
        return _with_text(lines, places[-1], text)

    return change


def _forget_early(lines: Lines, utterance: Utterance, rng: Random) -> Lines | None:
    """Lose the first half of the conversation, at least its first message."""
    groups = _groups(lines)
    return _without(lines, groups[: max(1, len(groups) // 2)]) if len(groups) >= 2 else None


def _forget_others(lines: Lines, utterance: Utterance, rng: Random) -> Lines | None:
    """Lose what others said, but for the task."""
    told = [group for group in _groups(lines)[1:] if all(_is_others(lines[place], utterance) for place in group)]
    return _without(lines, told) if told else None


def _cut_context(lines: Lines, utterance: Utterance, rng: Random) -> Lines | None:
    """Keep the latest message only, and not all of that if it is long, as if the window were full."""
    groups = _groups(lines)
    kept = _without(lines, groups[:-1]) if len(groups) >= 2 else lines
    places = _places(kept, "user")
    words = kept[places[-1]].text.split(" ") if places else []
    if len(words) >= 12:
        kept = _with_text(kept, places[-1], " ".join(words[len(words) // 2 :]))
    return kept if kept != lines else None


def _places(lines: Lines, role: str) -> list[int]:
    return [place for place, line in enumerate(lines) if line.role == role and line.text.strip()]


def _with_text(lines: Lines, place: int, text: str) -> Lines:
    return (*lines[:place], replace(lines[place], text=text), *lines[place + 1 :])


def _is_others(line: Line, utterance: Utterance) -> bool:
    return line.role == "user" or (line.role == "assistant" and line.sender in utterance.others)


def _groups(lines: Lines) -> list[list[int]]:
    """List what can only be lost together: a call and its answers, which endpoints refuse alone."""
    groups: list[list[int]] = []
    for place, line in enumerate(lines):
        if line.role == "tool" and groups:
            groups[-1].append(place)
        elif line.role != "system":
            groups.append([place])
    return groups


def _without(lines: Lines, groups: Sequence[Sequence[int]]) -> Lines:
    lost = {place for group in groups for place in group}
    return tuple(line for place, line in enumerate(lines) if place not in lost)


PROMPT_OPERATORS: Mapping[str, LinesOperator] = MappingProxyType(
    {
        **{name: _by_text(name) for name in TEXT_OPERATORS},
        "blur-role": _by_adding(FAULTS.blurred_roles),
        "trust-blindly": _by_adding(FAULTS.trust),
        **{f"{TOLD}{code}": _by_adding(wordings) for code, wordings in FAULTS.instructions.items()},
    }
)
"""Operators on an agent's instructions, by name."""

MEMORY_OPERATORS: Mapping[str, LinesOperator] = MappingProxyType(
    {"cut-context": _cut_context, "forget-early": _forget_early, "forget-others": _forget_others}
)
"""Operators on an agent's history, by name."""
