"""The judge's instructions, from `prompts.toml`, and the form of its answers.

The instructions are ours alone: nothing of a run stands in them. A run is the user's message, one JSON document.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from blamespan.taxonomy import AEGIS, EXTENSION, MAST, ORCHESTRATION, ErrorMode
from blamespan_tracer.alternatives.llm_judge.settings import JudgeTaxonomy

_DATA: Final = tomllib.loads(Path(__file__).with_name("prompts.toml").read_text(encoding="utf-8"))

VERSION: Final[str] = _DATA["version"]
"""Of the words: it stands in every verdict that they led to."""
AGAIN: Final[str] = _DATA["again"].strip()
"""Added where an answer could not be read."""
MORE: Final[str] = _DATA["questions"]["more"].strip()
"""Stands before a document that shows what the model asked to see."""

_CHANCE: Mapping[str, Any] = {"type": "number", "minimum": 0, "maximum": 1}
_TEXT: Mapping[str, Any] = {"type": "string"}
_TRUTH: Mapping[str, Any] = {"type": "boolean"}
_NUMBER: Mapping[str, Any] = {"type": "integer"}


@dataclass(frozen=True, slots=True)
class Form:
    """One kind of question.

    Attributes:
        name: In a word: of its words in `prompts.toml`, and of the schema.
        schema: The form of the answer. `reasoning` comes first: a model reasons before it decides, or not at all.
    """

    name: str
    schema: Mapping[str, Any]

    @property
    def words(self) -> str:
        """What is asked."""
        words: str = _DATA["questions"][self.name].strip()
        return words


def _record(**fields: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


def _list(of: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"type": "array", "items": of}


_SUSPECT = _record(step=_NUMBER, agent=_TEXT, confidence=_CHANCE, modes=_list(_TEXT), quote=_TEXT)
_VERDICT = {"reasoning": _TEXT, "failed": _TRUTH, "confidence": _CHANCE, "suspects": _list(_SUSPECT)}

VERDICT = Form("verdict", _record(**_VERDICT))
WINDOWS = Form("windows", _record(**_VERDICT, see=_list(_NUMBER)))
CORRECTION = Form("correction", _record(reasoning=_TEXT, message=_TEXT, sentence=_TEXT))
ADVICE = Form("advice", _record(reasoning=_TEXT, advice=_TEXT))

_EXAMPLES: Mapping[str, str] = {"number": "0.8", "integer": "4", "boolean": "true", "string": '"..."'}


def offered_modes(taxonomy: JudgeTaxonomy) -> list[str]:
    """List the codes that an answer may name."""
    return [str(mode) for mode in _modes_of(taxonomy)]


def instructions(form: Form, taxonomy: JudgeTaxonomy) -> str:
    """Write the instructions for a question."""
    modes = "\n".join(f"{mode} {mode.name}: {mode.definition}" for mode in _modes_of(taxonomy))
    preamble, how = _DATA["preamble"].strip(), _DATA["form"].strip()
    return f"{preamble}\n\n{form.words}\n\n{how}\n{modes}\n\nThe form: {_example(form.schema)}"


def _modes_of(taxonomy: JudgeTaxonomy) -> list[ErrorMode]:
    chosen = MAST if taxonomy == "mast" else AEGIS
    extension = [mode for code, mode in EXTENSION.items() if code.startswith("X") and code not in ORCHESTRATION]
    return [*chosen.values(), *extension]


def _example(schema: Mapping[str, Any]) -> str:
    """Show the form by an example, for servers that take no schema."""
    kind = schema["type"]
    if kind == "object":
        return "{" + ", ".join(f'"{name}": {_example(field)}' for name, field in schema["properties"].items()) + "}"
    return f"[{_example(schema['items'])}]" if kind == "array" else _EXAMPLES[kind]
