"""The file of people's labels: lines are added, by any number of writers at once, and never changed.

A later line of the same person on the same run counts in place of an earlier one. A line is written in one go under a
lock and synced before anybody is told that it is kept; one that a crash cut off is skipped, and said.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

from blamespan.appending import append_line, hold_lock, sync_folder
from blamespan.errors import ConfigError, UnreadableInput
from blamespan.importing.files import read_lines
from blamespan.labels.people import PersonLabel

LABELS_FILE: Final = "labels.jsonl"
"""Name of the file beside the traces, where nobody says another."""

_FIRST_BYTES: Final = b'{"trace_id": '


class LabelsFile:
    """A labels file: lines are added, by any number of writers at once.

    Args:
        path: The file; need not be there yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, label: PersonLabel) -> None:
        """Add a label; it is on the disk when this returns.

        Raises:
            ConfigError: if the file cannot be written, or holds the labels of a generated corpus.
        """
        text = json.dumps(label.as_json(), ensure_ascii=True).encode() + b"\n"
        try:
            is_new = not self.path.exists()
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a+b", buffering=0) as file, hold_lock(file.fileno()):
                file.seek(0)
                if first := file.readline(1 << 20):
                    self._check_first(first)
                append_line(file, text)
                os.fsync(file.fileno())
            if is_new:
                sync_folder(self.path.parent)
        except OSError as error:
            raise self._unwritable(error) from error

    def check(self) -> None:
        """Make sure that labels can be added, before anybody is asked for one.

        Raises:
            ConfigError: as `add`.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self.path.exists():
                with self.path.open("r+b") as file:
                    first = file.readline(1 << 20)
                if first:
                    self._check_first(first)
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> ConfigError:
        return ConfigError(
            f"expected a labels file that can be written, got {str(self.path)!r} ({error.strerror or error}). "
            "Choose another with --labels FILE"
        )

    def _check_first(self, line: bytes) -> None:
        """Refuse to add to what is not ours: a corpus whose labels we changed could not be read again."""
        try:
            first = json.loads(line)
            is_ours = isinstance(first, dict) and "trace_id" in first and ("by" in first or "operator" in first)
        except ValueError:
            is_ours = line.startswith(_FIRST_BYTES)  # a crash cut it off
        if not is_ours:
            raise ConfigError(
                f"expected a file of labels, got {str(self.path)!r}, which holds something else (a corpus of "
                "`blamespan lab generate` has one of that name). Choose another with --labels FILE"
            )

    def read(self, refused: list[UnreadableInput] | None = None) -> list[PersonLabel]:
        """Read what counts: of each person and run the last label, in the order these were added; none without a file.

        Args:
            refused: Where given, lines that are no label are skipped and their errors added here.

        Raises:
            UnreadableInput: if the file cannot be read; without *refused*, at a line that is no label.
        """
        return read_labels(self.path, refused) if self.path.exists() else []


def read_labels(path: Path, refused: list[UnreadableInput] | None = None) -> list[PersonLabel]:
    """Read a labels file, of people or of a generated corpus, as `LabelsFile.read`.

    Raises:
        UnreadableInput: if there is none, or it cannot be read.
    """
    last: dict[tuple[str, str, str, str], PersonLabel] = {}
    for number, line in read_lines(path, refused=refused):
        try:
            label = PersonLabel.from_json(json.loads(line))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            trouble = UnreadableInput(
                f"{path}:{number}: expected a label with trace_id, answer and by, got {line[:60]!r} ({error}). "
                "Labels are made with: blamespan annotate"
            )
            if refused is None:
                raise trouble from error
            refused.append(trouble)
            continue
        several = label.decisive.span_id if label.answer == "injected" and label.decisive is not None else ""
        key = (label.by, label.trace_id, label.first_span_id, several)
        last.pop(key, None)
        last[key] = label
    return list(last.values())
