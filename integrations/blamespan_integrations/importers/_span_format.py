"""What the importers of formats that hold spans have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path

from blamespan.errors import UnreadableInput
from blamespan.importing.recorded import RecordedRun
from blamespan_integrations.importers._grouping import Told, rebuilt_runs

__all__ = ["SpanFormat"]


class SpanFormat(ABC):
    """Rebuilds the runs of a file from what it tells, spans in any order; a subclass says what that is."""

    def read(self, path: Path) -> Iterator[RecordedRun | UnreadableInput]:
        """Yield what cannot be read, then every run, in the order in which the traces begin.

        Raises:
            UnreadableInput: if the file cannot be opened.
        """
        return rebuilt_runs(path, self._told(path))

    def read_with_spans(self, path: Path) -> Iterator[RecordedRun | UnreadableInput]:
        """Read as `read` does, each run with its spans.

        Raises:
            UnreadableInput: if the file cannot be opened.
        """
        return rebuilt_runs(path, self._told(path), keeps_spans=True)

    @abstractmethod
    def _told(self, path: Path) -> Iterable[Told]:
        """Yield what the file tells; whatever cannot be read is an error in its place, or raised and the end."""
