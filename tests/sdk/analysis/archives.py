"""Small archives of recorded runs, for tests of the offline line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from blamespan.trace import MessageActionTrace
from tests.sdk.builders import otlp_lines, small_run


def numbered_run(number: int) -> MessageActionTrace:
    """A run of its own: its number is its trace id, its task and what is said."""
    steps = tuple(
        replace(step, content=step.content.replace("2", str(number)) + "!" * (number % 7 if not step.index else 0))
        for step in small_run().steps
    )
    return replace(small_run(), trace_id=f"{number:032x}", task=f"task {number}", steps=steps)


def archive(folder: Path, files: Iterable[Iterable[int]]) -> Path:
    """Write a folder of files, each with runs of these numbers."""
    folder.mkdir()
    for place, numbers in enumerate(files):
        (folder / f"{place:03d}.jsonl").write_text(otlp_lines(*map(numbered_run, numbers)))
    return folder
