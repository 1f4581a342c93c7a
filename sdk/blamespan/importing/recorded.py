"""Runs recorded elsewhere: what an importer yields, and what evaluation and training read."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Final, Protocol, TypeAlias, cast, runtime_checkable

from blamespan.errors import BlamespanError, UnreadableInput
from blamespan.plugins import broken_entry, find_part, load_entry, load_part, load_plugin, plugins
from blamespan.spans import Span
from blamespan.taxonomy import ErrorMode
from blamespan.trace import MessageActionTrace

STORE_FORMAT: Final = "store"
"""Name of the format of our own store of runs."""
_STORE_IMPORTER: Final = "store_importer"
_GROUP: Final = "blamespan.importers"
_logger = logging.getLogger("blamespan.importing")

PartId: TypeAlias = tuple[str, str]
"""Names a part of a run: its trace, and the span that stands for the part."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One labelled error of a run: who, which kind, at which step, as far as the label says.

    Attributes:
        agent: The name as the label spells it, which need not be a name in the trace.
        mode: The kind of error, or None where the label gives none.
        step: Index of the step, or None where the label gives none.
    """

    agent: str
    mode: ErrorMode | None = None
    step: int | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """How a run came about that was made on purpose, for training and measuring.

    Attributes:
        purpose: Why it is there: `clean`, `faulty`, `harmless`, `natural`, `several` or `decoy`.
        family: Of the task.
        topology: Of the team.
        framework: That ran it.
        cast: Kind of names that the agents have.
        recipe: Name of the recipe it was made by.
        twin: Trace id of the same run without the faults; empty where that is not kept.
        decisive: Index of the earliest step whose correction alone makes it succeed; None where there is none.
        carried_by: Indices of later steps that say something else because of it.
        is_verified: Whether replay confirmed the label.
    """

    purpose: str
    family: str
    topology: str
    framework: str
    cast: str = ""
    recipe: str = ""
    twin: str = ""
    decisive: int | None = None
    carried_by: tuple[int, ...] = ()
    is_verified: bool = False


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A run from a file or a back end, with its labels if it has any.

    Attributes:
        source: File and place in it, for messages: `validation.jsonl.xz:17`.
        trace: The run; of one that paused, all of its parts joined.
        faults: Labelled errors, a decisive one first; empty means labelled as free of errors, None not labelled.
        origin: How it came about, where it was made on purpose.
        root_id: Id of the span that stands for the run itself, where its source has one.
        spans: What its source tells of the run, model calls and other programs' spans among it; empty where that is
            no spans, or nobody asked for them.
        waits: Whether it waits for an answer from outside, so that it is not judged yet.
        verdict_ids: Ids of the spans in its trace that stand for verdicts: what was written back before.
        parts: The parts that `trace` is joined of, the first one first; empty of a run that never paused.
        goes_on_from: Trace and root of the part that it goes on from, where that does not stand in the same place.
    """

    source: str
    trace: MessageActionTrace
    faults: tuple[Fault, ...] | None = None
    origin: Origin | None = None
    root_id: str | None = None
    spans: tuple[Span, ...] = field(default=(), repr=False)
    waits: bool = False
    verdict_ids: frozenset[str] = field(default=frozenset(), repr=False)
    parts: tuple[RecordedRun, ...] = field(default=(), repr=False)
    goes_on_from: PartId | None = None

    @property
    def earlier(self) -> tuple[MessageActionTrace, ...]:
        """Nothing: `trace` is the whole run already."""
        return ()

    @property
    def may_go_on_elsewhere(self) -> bool:
        """Whether another file may hold what went before it, or the answer that it waits for."""
        return self.goes_on_from is not None or (self.waits and self.root_id is not None and bool(self.spans))


class Importer(Protocol):
    """Reads one file format. Offered as an entry point of the group `blamespan.importers`."""

    name: str
    """Word for `--format`."""
    description: str
    """One line: what it reads and what the source loses."""

    def matches(self, path: Path, head: bytes) -> bool:
        """Check from the file's first bytes (decompressed) whether this importer can read it."""
        ...

    def read(self, path: Path) -> Iterator[RecordedRun | UnreadableInput]:
        """Yield every run of the file; for one that cannot be read, the error in its place.

        Raises:
            UnreadableInput: if nothing of the file can be read.
        """
        ...


class StoreReader(Importer, Protocol):
    """The importer of our own store, which reads single traces, too."""

    def read_traces(self, path: Path, trace_ids: Iterable[str]) -> Iterator[RecordedRun | UnreadableInput]:
        """Yield the runs of some stored traces; for what cannot be read, the error in its place."""
        ...


@runtime_checkable
class SpanImporter(Importer, Protocol):
    """An importer of a format that holds spans, and can give them along."""

    def read_with_spans(self, path: Path) -> Iterator[RecordedRun | UnreadableInput]:
        """Read as `read` does, each run with its spans (`RecordedRun.spans`).

        Raises:
            UnreadableInput: as `read` does.
        """
        ...


def importers() -> Iterator[Importer]:
    """Load the installed importers as they are asked for, by name, then that of our own store of runs.

    One that cannot be loaded is left out, and named on the log once.
    """
    for _, importer in offered_importers():
        if isinstance(importer, BlamespanError):
            _warn_once(str(importer))
        else:
            yield importer


def offered_importers() -> Iterator[tuple[str, Importer | BlamespanError]]:
    """Yield the name and the importer of each that is installed; for one that cannot be loaded, the error in its place.

    They are loaded as they are asked for, by name; that of our own store of runs comes last.
    """
    for name, entry in plugins(_GROUP).items():
        yield name, _make_importer(entry)
    if (store := find_part(_STORE_IMPORTER, _logger, "stores of runs are not read")) is not None:
        yield STORE_FORMAT, store()


@cache
def _make_importer(entry: EntryPoint) -> Importer | BlamespanError:
    try:
        return cast(Importer, load_entry(entry)())
    except BlamespanError as error:
        return error
    except Exception as error:  # a third party's; the others still work
        return broken_entry(entry, error)


@cache
def _warn_once(text: str) -> None:
    _logger.warning("%s", text)


def load_importer(name: str) -> Importer:
    """Load the importer installed under *name*.

    Raises:
        ConfigError: if no installed package offers it.
        MissingExtra: if it needs a package that is not installed.
    """
    if name == STORE_FORMAT:
        return cast(Importer, load_part(_STORE_IMPORTER)())
    return cast(Importer, load_plugin(_GROUP, name, ours=[STORE_FORMAT])())
