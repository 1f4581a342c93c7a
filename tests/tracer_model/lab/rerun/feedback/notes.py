"""Reads feedback as a program that is told it can."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from blamespan.errors import ConfigError
from blamespan.taxonomy import ErrorMode, mode
from blamespan_lab.rerun.feedback.writing import BEGIN, END

_BLOCK = re.compile(rf"{re.escape(BEGIN)}\n(.*?)\n{re.escape(END)}", re.DOTALL)
_BLAMED = re.compile(r'^(?:Most likely to blame|First suspect): ("(?:[^"\\]|\\.)*")', re.MULTILINE)
_KIND = re.compile(r"^Kind of error(?:, perhaps)?: .*\((\w+:[\w.-]+)\)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Note:
    """What a reader makes of feedback.

    Attributes:
        agent: Whom it blames; None where it is for all.
        mode: For which kind of error; None where it names none.
    """

    agent: str | None
    mode: ErrorMode | None


def notes_in(text: str) -> list[Note]:
    """Read every feedback in a text, as a program can."""
    return [_note(block) for block in _BLOCK.findall(text)]


def _note(block: str) -> Note:
    blamed, kind = _BLAMED.search(block), _KIND.search(block)
    try:
        meant = mode(kind[1]) if kind else None
    except ConfigError:
        meant = None
    return Note(json.loads(blamed[1]) if blamed else None, meant)
