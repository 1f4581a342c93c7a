"""BIG-Bench-Mistake (arXiv 2311.08516): one model reasons line by line, and people labelled the first wrong line.

Source: github.com/WHGTyen/BIG-Bench-Mistake, its JSON lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from blamespan.errors import UnreadableInput
from blamespan.importing.recorded import Fault, RecordedRun
from blamespan_integrations.importers._conversation import Conversation
from blamespan_integrations.importers._records import JsonValue, runs_of_objects, wrong_field

_EXPECTED = "a BIG-Bench-Mistake run"

_AGENT = "assistant"
"""Who reasons; the source gives no name."""

_START = re.compile(rb'[\[\s]*\{\s*"(?:input|target|answer|steps|mistake_index)"\s*:')
_STEPS = re.compile(rb'"steps"\s*:\s*\[')
_LABEL = re.compile(rb'"mistake_index"\s*:')
_LONG = re.compile(rb'[\[\s]*\{\s*"input"\s*:\s*"[^\n]*\Z')
"""A first run longer than the head, whose label comes last."""


class BigBenchMistakeImporter:
    """Reads the files of the five tasks, compressed or not: one run per line, one step per line of reasoning.

    A run failed if a mistake is labelled in it, whatever it answered, or if its answer is not the right one. One
    without a mistake is labelled as free of errors if its answer is right; where it is wrong nobody says which step
    made it so, and the run has no label.
    """

    name = "bigbench-mistake"
    description = "BIG-Bench-Mistake JSON lines: one model's reasoning, its first wrong step labelled; no times"

    def matches(self, path: Path, head: bytes) -> bool:
        """Check the keys of the first run."""
        del path
        return bool(_START.match(head) and _STEPS.search(head) and (_LABEL.search(head) or _LONG.match(head)))

    def read(self, path: Path) -> Iterator[RecordedRun | UnreadableInput]:
        """Yield one run per object; for what is none, the error in its place."""
        return runs_of_objects(path, _EXPECTED, _run)


def _run(record: JsonValue) -> RecordedRun:
    conversation = Conversation(record.location)
    conversation.tasks.append(_text(record, "input"))
    lines = record.value.get("steps")
    if not isinstance(lines, list):
        raise wrong_field(record, _EXPECTED, "'steps' as a list of lines", lines)
    for index, line in enumerate(lines):
        if not isinstance(line, str):
            raise wrong_field(record, _EXPECTED, f"steps[{index}] as text", line)
        conversation.say(_AGENT, line)
    mistake, is_right = _mistake(record, len(lines)), _is_right(record)
    conversation.outcome = "succeeded" if mistake is None and is_right else "failed"
    faults: tuple[Fault, ...] | None = () if is_right else None
    if mistake is not None:
        faults = (Fault(_AGENT, step=mistake),)
    return RecordedRun(record.location, conversation.trace("bigbench-mistake"), faults)


def _mistake(record: JsonValue, n_steps: int) -> int | None:
    """Return the index of the first wrong step, or None where the label says that there is none."""
    index = record.value.get("mistake_index", "nothing")
    if index is None or (type(index) is int and 0 <= index < n_steps):
        return index
    raise wrong_field(record, _EXPECTED, f"'mistake_index' as an index below {n_steps}, or null", index)


def _is_right(record: JsonValue) -> bool:
    """Compare the answer with the right one, but for commas, a full stop, case and spaces; without one it is wrong."""
    answer = record.value.get("answer")
    return answer is not None and _bare(_text(record, "answer")) == _bare(_text(record, "target"))


def _bare(answer: str) -> str:
    return " ".join(answer.casefold().replace(",", " ").split()).removesuffix(".").rstrip()


def _text(record: JsonValue, key: str) -> str:
    value = record.value.get(key)
    if not isinstance(value, str):
        raise wrong_field(record, _EXPECTED, f"{key!r} as text", value)
    return value
