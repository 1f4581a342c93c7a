"""The file of an injection's labels: one JSON line for each fault, there as soon as the fault is.

A program may be killed at any moment, and a label that was only to be written at the end would be lost. But
which step of the run a fault is in shows only once its span has ended. So a line is added at once, with room, and
what was not known yet is filled in later at its place. Several processes may add to one file.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from blamespan.appending import append_line, hold_lock, write_whole
from blamespan.errors import ConfigError, reason_of
from blamespan.host_safety import shield_host
from blamespan.intercepting.boundaries import Applied

_ROOM = 16
"""Blanks at the end of a line whose step is not known yet: a longer number is none of a run."""


@dataclass(slots=True)
class _LabelLine:
    fault: Applied
    at: int
    text: bytes


class FaultLabels:
    """Writes labels to *path*, from one process; made ready before anything runs.

    Raises:
        ConfigError: if the file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._open: list[_LabelLine] = []
        try:
            path.open("ab").close()
        except OSError as error:
            raise ConfigError(
                f"labels must be a file that can be written, got {str(path)!r}: {reason_of(error)}"
            ) from error

    def add(self, fault: Applied) -> None:
        """Write the label of *fault* now; those before it whose step has ended are completed."""
        with shield_host("injection: write a label"):
            self.settle()
            text = _text(fault)
            is_done = fault.where is None or fault.step is not None
            text = text + b"\n" if is_done else text + b" " * _ROOM + b"\n"
            with self._path.open("a+b", buffering=0) as file, hold_lock(file.fileno()):
                at = append_line(file, text)
            if not is_done:
                self._open.append(_LabelLine(fault, at, text))

    def settle(self) -> None:
        """Complete every label whose step is known by now."""
        for line in [line for line in self._open if line.fault.step is not None]:
            self._open.remove(line)
            with shield_host("injection: complete a label"):
                self._complete(line)

    def _complete(self, line: _LabelLine) -> None:
        text = _text(line.fault).ljust(len(line.text) - 1) + b"\n"
        if len(text) != len(line.text):
            return  # a span's ids and a step's number fit; what does not is not ours
        with self._path.open("r+b", buffering=0) as file:
            file.seek(line.at)
            if file.read(len(line.text)) == line.text:  # else somebody has moved the file on meanwhile
                file.seek(line.at)
                write_whole(file, text)


def _text(fault: Applied) -> bytes:
    """Write a label as JSON; half characters, which UTF-8 has none for, are escaped as JSON does."""
    return json.dumps(fault.label(), ensure_ascii=False).encode("utf-8", "backslashreplace")
