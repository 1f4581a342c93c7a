"""Runs recorded elsewhere: what an importer yields, and what evaluation and training read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, cast, runtime_checkable

from blamespan.errors import UnreadableInput
from blamespan.plugins import load_plugin, plugins
from blamespan.spans import Span
from blamespan.taxonomy import ErrorMode
from blamespan.trace import MessageActionTrace

__all__ = ["Fault", "Importer", "Origin", "RecordedRun", "SpanImporter", "importers", "load_importer"]


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
        trace: The run.
        faults: Labelled errors, a decisive one first; empty means labelled as free of errors, None not labelled.
        origin: How it came about, where it was made on purpose.
        root_id: Id of the span that stands for the run itself, where its source has one.
        spans: What its source tells of the run, model calls and other programs' spans among it; empty where that is
            no spans, or nobody asked for them.
        waits: Whether it waits for an answer from outside, so that it is not judged yet.
        earlier: The parts of the run before it, the first one first, as far as its source has them.
        verdict_ids: Ids of the spans in its trace that stand for verdicts: what was written back before.
    """

    source: str
    trace: MessageActionTrace
    faults: tuple[Fault, ...] | None = None
    origin: Origin | None = None
    root_id: str | None = None
    spans: tuple[Span, ...] = field(default=(), repr=False)
    waits: bool = False
    earlier: tuple[MessageActionTrace, ...] = field(default=(), repr=False)
    verdict_ids: frozenset[str] = field(default=frozenset(), repr=False)


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


@runtime_checkable
class SpanImporter(Importer, Protocol):
    """An importer of a format that holds spans, and can give them along."""

    def read_with_spans(self, path: Path) -> Iterator[RecordedRun | UnreadableInput]:
        """Read as `read` does, each run with its spans (`RecordedRun.spans`).

        Raises:
            UnreadableInput: as `read` does.
        """
        ...


def importers() -> list[Importer]:
    """Load every installed importer, in the order of their names."""
    return [load_importer(name) for name in plugins("blamespan.importers")]


def load_importer(name: str) -> Importer:
    """Load the importer installed under *name*.

    Raises:
        ConfigError: if no installed package offers it.
    """
    return cast(Importer, load_plugin("blamespan.importers", name)())
