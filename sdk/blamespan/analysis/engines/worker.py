"""A worker process: gets units of work on its standard input and answers with frames on its standard output.

A frame is 8 bytes of length and a pickle; both ends are ours, on one machine, connected by pipes nobody else can open.
An empty frame ends the answers to a unit. Between them stand notes of how far a file has been read.
"""

from __future__ import annotations

import os
import pickle  # frames only ever come from the process at the other end of our own pipe
import struct
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Protocol

from blamespan.analysis.engines.outcomes import Found, Wanted, failed, found_in, made, outcomes_of
from blamespan.analysis.engines.outcomes import done as done_of
from blamespan.analysis.sources import Piece
from blamespan.errors import TracerUnavailable
from blamespan.importing.reading import has_read, share_memory, watched_reading
from blamespan.importing.recorded import RecordedRun
from blamespan.tracers import Tracer, load_tracer, settings_of

__all__ = ["Attribute", "Attributes", "Read", "TracerOf", "Unit", "main", "read_frame", "write_frame"]

_LENGTH = struct.Struct("<Q")
_NOTE = 1 << 63
"""Set in the length of a note."""
_NOTE_EVERY_S = 0.25
_WATCH_S = 1.0
_READ_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class TracerOf:
    """Where another process gets the tracer from: by name, or as it is.

    Attributes:
        name: Name of an installed tracer; empty where `tracer` is given.
        tracer: The tracer itself, which can be pickled.
        weights: Digest of the weights that it must have.
        settings: What else must decide its verdicts there, as `settings_of` says it.
    """

    name: str
    tracer: Tracer | None
    weights: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def load(self) -> Tracer:
        """Get the tracer.

        Raises:
            TracerUnavailable: if it is another than the one asked for.
        """
        tracer = load_tracer(self.name) if self.tracer is None else self.tracer
        if tracer.identity.weights != self.weights:
            raise TracerUnavailable(
                f"expected tracer {self.name!r} with weights {self.weights!r}, got {tracer.identity.weights!r}. "
                "Install the same blamespan on every machine"
            )
        if settings_of(tracer) != self.settings:
            raise TracerUnavailable(
                f"expected tracer {self.name!r} with settings {self.settings!r}, got {settings_of(tracer)!r}. "
                "Set the same BLAMESPAN_* variables on every machine"
            )
        return tracer


class Unit(Protocol):
    """Work that can be done again elsewhere: it gives the same frames."""

    def frames(self, tracer: Tracer) -> Iterator[object]:
        """Do it."""
        ...


@dataclass(frozen=True, slots=True)
class Attributes:
    """Read pieces and attribute their runs."""

    pieces: tuple[Piece, ...]
    wanted: Wanted

    def frames(self, tracer: Tracer) -> Iterator[object]:
        """Yield lists of outcomes."""
        return outcomes_of(self.pieces, tracer, self.wanted)


@dataclass(frozen=True, slots=True)
class Attribute:
    """Attribute runs that were read elsewhere."""

    batch: tuple[Found, ...]
    wanted: Wanted
    before: int

    def frames(self, tracer: Tracer) -> Iterator[object]:
        """Yield one list of outcomes."""
        yield made(self.batch, tracer, self.wanted, self.before)

    def given_up(self, tracer: Tracer, reason: str) -> list[object]:
        """Make outcomes without a verdict."""
        return [
            done_of(failed(item, tracer, reason), self.wanted, self.before) if isinstance(item, RecordedRun) else item
            for item in self.batch
        ]


@dataclass(frozen=True, slots=True)
class Read:
    """Read pieces; their runs are attributed elsewhere."""

    pieces: tuple[Piece, ...]
    with_spans: bool

    def frames(self, tracer: Tracer) -> Iterator[object]:
        """Yield lists of what is found."""
        del tracer
        held: list[Found] = []
        for item in found_in(self.pieces, with_spans=self.with_spans):
            held.append(item)
            if len(held) >= _READ_AT_ONCE:
                yield held
                held = []
        if held:
            yield held


def main() -> None:
    """Work until standard input ends, as it does when the process at its other end has gone."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=1 << 16)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a tracer prints must not stand among the answers
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    try:
        with watched_reading(_Notes(answers)):
            _serve(sys.stdin.buffer, answers)
    except (BrokenPipeError, EOFError):
        os._exit(0)


def write_frame(file: IO[bytes], value: object) -> None:
    """Write *value* as one frame."""
    data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    file.write(_LENGTH.pack(len(data)))
    file.write(data)


def read_frame(file: IO[bytes]) -> bytes:
    """Read the pickle of one frame, not unpickled; empty at the end of the answers to a unit.

    Notes before it go to whoever watches what this process reads (`blamespan.reading`).

    Raises:
        EOFError: if the other end has gone.
    """
    while True:
        (size,) = _LENGTH.unpack(_taken(file, _LENGTH.size))
        data = _taken(file, size & ~_NOTE)
        if not size & _NOTE:
            return data
        path, read_bytes = pickle.loads(data)  # noqa: S301  # from our own worker
        has_read(path, read_bytes)


def _taken(file: IO[bytes], size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise EOFError("the other end has gone")
    return data


class _Notes:
    """Writes how far files have been read between the answers, now and then."""

    def __init__(self, answers: IO[bytes]) -> None:
        self._answers = answers
        self._thread = threading.get_ident()
        self._last = 0.0

    def __call__(self, path: Path, size_bytes: int) -> None:
        now = time.monotonic()
        if now - self._last < _NOTE_EVERY_S or threading.get_ident() != self._thread:
            return  # another thread may write in the midst of an answer
        self._last = now
        data = pickle.dumps((path, size_bytes))
        self._answers.write(_LENGTH.pack(_NOTE | len(data)) + data)
        self._answers.flush()


def _serve(asked: IO[bytes], answers: IO[bytes]) -> None:
    source: TracerOf | None
    source, readers = pickle.loads(read_frame(asked))  # noqa: S301  # from our own parent
    share_memory(readers)
    tracer = source.load() if source else None
    while True:
        unit: Any = pickle.loads(read_frame(asked))  # noqa: S301
        for frame in unit.frames(tracer):
            write_frame(answers, frame)
            answers.flush()
        answers.write(_LENGTH.pack(0))
        answers.flush()


def _end_with(parent: int) -> None:
    """End when the parent has gone, even in the midst of a large file."""
    while os.getppid() == parent:
        time.sleep(_WATCH_S)
    os._exit(1)
