"""A piece of what is to be analyzed: read on its own, in any order, in another process too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from blamespan.errors import ConfigError, MissingExtra, UnreadableInput
from blamespan.importing.recorded import RecordedRun
from blamespan.importing.selection import Selection

ALL = Selection()

Found: TypeAlias = "RecordedRun | UnreadableInput"
"""What a source holds in one place."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of what is to be analyzed: one file, or some traces of a back end. It can be pickled.

    Attributes:
        name: Its path or URL, without anything secret: the same each time.
        size: In bytes as stored, where that is known.
        path: The file of this machine that is read for it, where it is one.
    """

    name: str
    size: int | None
    _runs: Callable[[bool], Iterator[Found]] = field(repr=False)
    _selection: Selection = field(default=ALL, repr=False)
    path: Path | None = field(default=None, repr=False)

    def read(self, *, with_spans: bool = False) -> Iterator[RecordedRun | UnreadableInput]:
        """Yield the wanted runs; for whatever cannot be read, an error in its place. It raises none itself.

        A part of a run that may go on in another piece counts as wanted: only the whole run says whether it is.

        Args:
            with_spans: Whether runs come with the spans of their source, where it has some.
        """
        taken = 0
        try:
            for item in self._runs(with_spans):
                if isinstance(item, UnreadableInput) or item.may_go_on_elsewhere:
                    yield item
                elif self._selection.takes(item):
                    yield item
                    taken += 1
                    if taken == self._selection.limit:
                        return
        except UnreadableInput as error:
            yield error
        except (ConfigError, MissingExtra, OSError) as error:
            yield UnreadableInput(f"{self.name}: {error}")
        except Exception as error:  # an importer is a plugin, and what it reads may be anything
            yield UnreadableInput(
                f"{self.name}: expected recorded runs, got {type(error).__name__} from its importer: {error}. "
                "Leave it out, or tell the importer's makers"
            )
