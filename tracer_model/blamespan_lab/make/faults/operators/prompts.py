"""Operators on what a model is sent: its instructions (mechanism `prompt`) and its history (`memory`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from types import MappingProxyType
from typing import TypeAlias

from blamespan.intercepting.boundaries import Line
from blamespan_lab.make.faults.operators.text import TEXT_OPERATORS, Utterance, apply_operator
from blamespan_lab.make.wordings import choose
from blamespan_lab.make.wordings.banks import FAULTS

Lines: TypeAlias = tuple[Line, ...]
LinesOperator: TypeAlias = Callable[[Lines, Utterance, Random], Lines | None]
"""Gives the lines as the model gets them, or None where it cannot be written."""

INSTRUCTION_PREFIX = "told-"
"""How the operators begin that tell an agent to err; the code of the AEGIS mode follows."""


def _make_text_operator(name: str) -> LinesOperator:
    """Make an operator that writes a text operator's fault into the latest message that offers it a hold."""
    operator = TEXT_OPERATORS[name]

    def change(lines: Lines, utterance: Utterance, rng: Random) -> Lines | None:
        for index in reversed([*_find_lines(lines, "system"), *_find_lines(lines, "user")]):
            spoken = replace(utterance, text=lines[index].text)
            if (text := apply_operator(operator, spoken, rng)) is not None:
                return _replace_text(lines, index, text)
        return None

    return change


def _make_adding_operator(wordings: Sequence[str]) -> LinesOperator:
    """Make an operator that adds a sentence to the agent's instructions, else to the latest message."""

    def change(lines: Lines, utterance: Utterance, rng: Random) -> Lines | None:
        indices = _find_lines(lines, "system") or _find_lines(lines, "user")
        if not indices:
            return None
        text = f"{lines[indices[-1]].text.rstrip()} {choose(wordings, rng)}".strip()
        return _replace_text(lines, indices[-1], text)

    return change


def _forget_early(lines: Lines, utterance: Utterance, rng: Random) -> Lines | None:
    """Lose the first half of the conversation, at least its first message."""
    groups = _group_lines(lines)
    return _drop_groups(lines, groups[: max(1, len(groups) // 2)]) if len(groups) >= 2 else None


def _forget_others(lines: Lines, utterance: Utterance, rng: Random) -> Lines | None:
    """Lose what others said, but for the task."""
    lost_groups = [
        group for group in _group_lines(lines)[1:] if all(_is_others(lines[index], utterance) for index in group)
    ]
    return _drop_groups(lines, lost_groups) if lost_groups else None


def _cut_context(lines: Lines, utterance: Utterance, rng: Random) -> Lines | None:
    """Keep the latest message only, and not all of that if it is long, as if the window were full."""
    groups = _group_lines(lines)
    shortened = _drop_groups(lines, groups[:-1]) if len(groups) >= 2 else lines
    indices = _find_lines(shortened, "user")
    words = shortened[indices[-1]].text.split(" ") if indices else []
    if len(words) >= 12:
        shortened = _replace_text(shortened, indices[-1], " ".join(words[len(words) // 2 :]))
    return shortened if shortened != lines else None


def _find_lines(lines: Lines, role: str) -> list[int]:
    return [index for index, line in enumerate(lines) if line.role == role and line.text.strip()]


def _replace_text(lines: Lines, index: int, text: str) -> Lines:
    return (*lines[:index], replace(lines[index], text=text), *lines[index + 1 :])


def _is_others(line: Line, utterance: Utterance) -> bool:
    return line.role == "user" or (line.role == "assistant" and line.sender in utterance.others)


def _group_lines(lines: Lines) -> list[list[int]]:
    """List what can only be lost together: a call and its answers, which endpoints refuse alone."""
    groups: list[list[int]] = []
    for index, line in enumerate(lines):
        if line.role == "tool" and groups:
            groups[-1].append(index)
        elif line.role != "system":
            groups.append([index])
    return groups


def _drop_groups(lines: Lines, groups: Sequence[Sequence[int]]) -> Lines:
    lost = {index for group in groups for index in group}
    return tuple(line for index, line in enumerate(lines) if index not in lost)


PROMPT_OPERATORS: Mapping[str, LinesOperator] = MappingProxyType(
    {
        **{name: _make_text_operator(name) for name in TEXT_OPERATORS},
        "blur-role": _make_adding_operator(FAULTS.blurred_roles),
        "trust-blindly": _make_adding_operator(FAULTS.trust),
        **{
            f"{INSTRUCTION_PREFIX}{code}": _make_adding_operator(wordings)
            for code, wordings in FAULTS.instructions.items()
        },
    }
)
"""Operators on an agent's instructions, by name."""

MEMORY_OPERATORS: Mapping[str, LinesOperator] = MappingProxyType(
    {"cut-context": _cut_context, "forget-early": _forget_early, "forget-others": _forget_others}
)
"""Operators on an agent's history, by name."""
