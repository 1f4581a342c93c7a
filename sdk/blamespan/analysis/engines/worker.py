"""What a worker process of the local engine does: gets units of work, answers each with frames.

Between the answers stand notes of how far a file has been read.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from blamespan.analysis.outcomes import Found, Wanted, failed, found_in, made, outcomes_of
from blamespan.analysis.outcomes import done as done_of
from blamespan.analysis.sources import Piece
from blamespan.errors import TracerUnavailable
from blamespan.importing.reading import has_read, share_memory, watched_reading
from blamespan.importing.recorded import RecordedRun
from blamespan.tracers import Tracer, load_tracer, settings_of
from blamespan.worker_processes import Channel

_NOTE_EVERY_S = 0.25
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
class PieceAttributor:
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
            done_of(failed(item, tracer, reason), self.wanted, self.before)
            if isinstance(item, RecordedRun) and not item.may_go_on_elsewhere
            else item
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


def serve(channel: Channel) -> None:
    """Work on units until the parent has gone; the first request says with which tracer, among how many readers."""
    with watched_reading(_Notes(channel)):
        source: TracerOf | None
        source, readers = channel.receive()
        share_memory(readers)
        tracer = source.load() if source else None
        while True:
            for answer in channel.receive().frames(tracer):
                channel.send(answer)
            channel.send_end()


def pass_note(note: tuple[Path, int]) -> None:
    """Pass a worker's note on to whoever watches what this process reads (`blamespan.importing.reading`)."""
    has_read(*note)


class _Notes:
    """Sends how far files have been read between the answers, now and then."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._thread = threading.get_ident()
        self._last_s = 0.0

    def __call__(self, path: Path, size_bytes: int) -> None:
        now_s = time.monotonic()
        if now_s - self._last_s < _NOTE_EVERY_S or threading.get_ident() != self._thread:
            return  # another thread may send in the midst of an answer
        self._last_s = now_s
        self._channel.send_note((path, size_bytes))
