"""Code from requirements: what a coder writes who knows some of them, and falls back on habit for the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any, TypeAlias

from blamespan_lab.make.data_files import read_data_file

__all__ = ["TEMPLATES", "CodeTemplate", "Requirement", "run_written_code", "write_code"]

_ARGUMENTS = ("values", "numbers", "items")

_WriteBody: TypeAlias = Callable[[Mapping[str, str | float], str], Sequence[str]]
_DrawExample: TypeAlias = Callable[[Random], object]


@dataclass(frozen=True, slots=True)
class Requirement:
    """One thing that a function must do; its first value is what one does who was not told.

    Attributes:
        key: Unique in its template.
        phrase: What it is called.
        values: Words after the phrase, or amounts.
    """

    key: str
    phrase: str
    values: tuple[str | float, ...]


@dataclass(frozen=True, slots=True)
class CodeTemplate:
    """A kind of function.

    Attributes:
        name: Unique.
        opening: What the question says it is for; `{name}` is the function.
        requirements: In the order in which the code sees to them.
        write: Gives the lines of the body from each requirement's value and the argument's name.
        example: Draws one argument.
    """

    name: str
    opening: str
    requirements: tuple[Requirement, ...]
    write: _WriteBody
    example: _DrawExample


@dataclass(frozen=True, slots=True)
class _TemplateRow:
    name: str
    opening: str
    requirements: tuple[Requirement, ...]


@dataclass(frozen=True, slots=True)
class _TemplateBank:
    templates: tuple[_TemplateRow, ...]


def write_code(operation: str, values: Mapping[str, object]) -> str:
    """Write the function that *operation* (`implement:template:name:style`) is, as far as its needs are known."""
    _, template_name, name, style = operation.split(":")
    template = TEMPLATES[template_name]
    argument = _ARGUMENTS[int(style) % len(_ARGUMENTS)]
    wants = {need.key: _fit_value(values.get(need.key), need) for need in template.requirements}
    body = "\n".join(f"    {line}" for line in template.write(wants, argument))
    return f"def {name}({argument}):\n{body}\n"


def run_written_code(operation: str, values: Mapping[str, object], examples: Sequence[object]) -> tuple[object, ...]:
    """Return what the function that `write_code` writes makes of *examples*; our own code needs no sandbox."""
    names: dict[str, Any] = {}
    exec(compile(write_code(operation, values), "<reference>", "exec"), names)  # noqa: S102  # written right above
    return tuple(names[operation.split(":")[2]](example) for example in examples)


def _fit_value(value: object, need: Requirement) -> str | float:
    return value if isinstance(value, str | float) and type(value) is type(need.values[0]) else need.values[0]


def _number(value: str | float) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _aggregate(wants: Mapping[str, str | float], argument: str) -> list[str]:
    lines = [
        f"kept = [v for v in {argument} if v >= 0]" if wants["negatives"] == "skipped" else f"kept = list({argument})"
    ]
    if wants["duplicates"] == "counted once":
        lines.append("kept = list(dict.fromkeys(kept))")
    if wants["zeros"] == "left out":
        lines.append("kept = [v for v in kept if v != 0]")
    if wants["cap"]:
        lines.append(f"kept = [min(v, {_number(wants['cap'])}) for v in kept]")
    lines += ["if not kept:", f"    return {_number(wants['empty'])}"]
    combined = {"added": "sum(kept)", "multiplied": "math.prod(kept)", "compared for the largest": "max(kept)"}
    if wants["rest"] == "multiplied":
        lines.insert(0, "import math")
    return [*lines, f"return {combined[str(wants['rest'])]} * {_number(wants['factor'])}"]


def _arrange(wants: Mapping[str, str | float], argument: str) -> list[str]:
    lines = [f"kept = list({argument})"]
    if wants["negatives"] != "kept":
        change = "[abs(v) for v in kept]" if wants["negatives"] == "made positive" else "[v for v in kept if v >= 0]"
        lines.append(f"kept = {change}")
    if wants["duplicates"] == "removed":
        lines.append("kept = list(dict.fromkeys(kept))")
    if wants["evens"] != "kept":
        lines.append(
            "kept = [v for v in kept if v % 2]"
            if wants["evens"] == "dropped"
            else "kept = [v // 2 if v % 2 == 0 else v for v in kept]"
        )
    lines.append("kept = sorted(kept)" if wants["order"] == "ascending" else "kept = sorted(kept, reverse=True)")
    if wants["shift"]:
        lines.append(f"kept = [v + {_number(wants['shift'])} for v in kept]")
    return [*lines, f"return kept[:{_number(wants['length'])}]" if wants["length"] else "return kept"]


def _tidy(wants: Mapping[str, str | float], argument: str) -> list[str]:
    split = "','" if wants["parts"] == "split at commas" else ""
    lines = [f"parts = [p.strip() for p in {argument}.split({split})]"]
    if wants["empty"] == "dropped":
        lines.append("parts = [p for p in parts if p]")
    if wants["letters"] != "left as they are":
        lines.append(f"parts = [p.{'lower' if wants['letters'] == 'written small' else 'upper'}() for p in parts]")
    if wants["duplicates"] == "removed":
        lines.append("parts = list(dict.fromkeys(parts))")
    if wants["longest"]:
        lines.append(f"parts = [p[:{_number(wants['longest'])}] for p in parts]")
    if wants["order"] != "left in order":
        lines.append("parts = sorted(parts)" if wants["order"] == "sorted" else "parts = parts[::-1]")
    joint = {"joined by a dash": "'-'", "joined by a slash": "'/'", "joined by a blank": "' '"}[str(wants["words"])]
    return [*lines, f"return {joint}.join(parts)"]


def _draw_numbers(rng: Random) -> object:
    drawn = [rng.randint(-9, 30) for _ in range(rng.choice((0, 3, 5, 7, 9)))]
    return drawn + rng.sample(drawn, k=min(2, len(drawn))) + ([0] if rng.random() < 0.4 else [])


def _draw_text(rng: Random) -> object:
    words = [
        rng.choice(("Red fox", "owl", "Hare", "elk", "Marten", "bee", "Newt", "")) for _ in range(rng.randint(2, 6))
    ]
    return ", ".join(words + words[:1])


_WRITERS: Mapping[str, tuple[_WriteBody, _DrawExample]] = MappingProxyType(
    {"aggregate": (_aggregate, _draw_numbers), "arrange": (_arrange, _draw_numbers), "tidy": (_tidy, _draw_text)}
)
"""By template: what writes the body, and what draws an example."""


def _read_templates() -> dict[str, CodeTemplate]:
    rows = read_data_file(_TemplateBank, Path(__file__).with_suffix(".toml")).templates
    return {row.name: CodeTemplate(row.name, row.opening, row.requirements, *_WRITERS[row.name]) for row in rows}


TEMPLATES: Mapping[str, CodeTemplate] = MappingProxyType(_read_templates())
"""Every kind of function by its name."""
