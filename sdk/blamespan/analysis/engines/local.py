"""The engine of one machine: small work in this process, the rest on all cores.

Many pieces: each worker process reads some and attributes their runs. One piece that is most of the work: this process
reads it, the workers attribute. A tracer on an accelerator: the workers read, this process attributes in its batches.
"""

from __future__ import annotations

import pickle  # only asks whether a tracer can be sent to our own workers
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import chain, islice
from typing import Any

from blamespan.analysis.engines.units import Giant, units_of, weight
from blamespan.analysis.engines.worker import Attribute, PieceAttributor, Read, TracerOf
from blamespan.analysis.engines.workers import Answers, WorkerDied, Workers
from blamespan.analysis.outcomes import (
    Finished,
    Found,
    Outcome,
    Wanted,
    batch_runs_of,
    batches,
    found_in,
    made,
    outcomes_of,
    runs_of_piece,
)
from blamespan.analysis.sources import Piece
from blamespan.cores import cores
from blamespan.errors import ConfigError, UnreadableInput
from blamespan.tracers import Tracer, settings_of

_WORTH_A_PROCESS_BYTES = 4 * 1024 * 1024
"""Less is done before a worker process has started."""
_WORTH_A_PROCESS_BATCHES = 4
_AHEAD = 4
"""Units at work or waiting to be read, for each process."""
_GIANT_SHARE = 1.2
"""A piece larger than so many even shares of all is read here, and its runs attributed in all processes."""
_UNKNOWN_TOTAL_GIANT_BYTES = 1024 * 1024 * 1024


def tracer_for_others(tracer: Tracer, name: str = "") -> TracerOf | None:
    """Say how another process gets *tracer*; None where it cannot.

    Args:
        tracer: The tracer.
        name: Under which it was loaded, if it was.
    """
    if name:
        return TracerOf(name, None, tracer.identity.weights, settings_of(tracer))
    if type(tracer).__module__ == "__main__":
        return None  # its class is only here
    try:
        pickle.dumps(tracer)
    except Exception:  # whatever a tracer of others raises when it cannot be pickled
        return None
    return TracerOf("", tracer, tracer.identity.weights, settings_of(tracer))


class LocalEngine:
    """Attributes the runs of pieces on this machine.

    Args:
        tracer: Who attributes.
        sent: How worker processes get it; None where they cannot.
        processes: How many to use; 1 for none beside this one, None for as many as there are cores and work for.

    Raises:
        ConfigError: if *processes* is below 1, or above where the tracer cannot be sent to others.
    """

    def __init__(self, tracer: Tracer, sent: TracerOf | None, processes: int | None = None) -> None:
        if processes is not None and processes < 1:
            raise ConfigError(f"expected 1 process or more, got {processes!r}. Leave it out to use all cores")
        if sent is None and processes is not None and processes > 1:
            raise ConfigError(
                f"expected a tracer that other processes can load, to use {processes} of them, got "
                f"{type(tracer).__qualname__!r}, which cannot be pickled. Define it in a module, or use processes=1"
            )
        self._tracer = tracer
        self._sent = sent
        self._is_asked = processes is not None
        self._processes = 1 if sent is None else processes or cores()

    def outcomes(self, pieces: Iterable[Piece], wanted: Wanted) -> Generator[Outcome, None, None]:
        """Read and attribute pieces.

        Yields:
            Outcomes in the order of the pieces: after those of each its `Finished`.
        """
        given = iter(pieces)
        head = list(given if isinstance(pieces, Sequence) else islice(given, 2))
        if self._processes == 1 or (isinstance(pieces, Sequence) and not self._is_much(head)):
            for batch in outcomes_of(chain(head, given), self._tracer, wanted):
                yield from batch
            return
        only = head[0] if len(head) == 1 else None
        total = sum(map(weight, head)) if isinstance(pieces, Sequence) else None
        on_accelerator = getattr(self._tracer, "device", "cpu") != "cpu"
        with closing(_Pool(self._processes, None if on_accelerator else self._sent, self._tracer, wanted)) as pool:
            units = units_of(chain(head, given), self._giant_bytes(total), only)
            yield from pool.read_elsewhere(units) if on_accelerator else pool.outcomes(units)

    def _is_much(self, pieces: Sequence[Piece]) -> bool:
        return self._is_asked or sum(map(weight, pieces)) >= _WORTH_A_PROCESS_BYTES

    def _giant_bytes(self, total: int | None) -> float:
        return _UNKNOWN_TOTAL_GIANT_BYTES if total is None else _GIANT_SHARE * total / self._processes


class _Pool:
    """The workers at one analysis, and what they were asked for and nobody read yet."""

    def __init__(self, processes: int, sent: TracerOf | None, tracer: Tracer, wanted: Wanted) -> None:
        self._workers = Workers(processes, sent)
        self._ahead = _AHEAD * processes
        self._tracer = tracer
        self._batch_runs = batch_runs_of(tracer)
        self._wanted = wanted
        self._waiting: deque[tuple[Any, Answers]] = deque()

    def close(self) -> None:
        """End the workers."""
        for _, answers in self._waiting:
            answers.close()
        self._workers.close()

    def outcomes(self, units: Iterable[tuple[Piece, ...]]) -> Iterator[Outcome]:
        """Yield the outcomes of units, in their order."""
        for unit in units:
            if isinstance(unit, Giant):
                yield from self._read(0)
                yield from self._giant(unit[0])
            else:
                self._ask(unit, PieceAttributor(unit, self._wanted))
                yield from self._read(self._ahead)
        yield from self._read(0)

    def read_elsewhere(self, units: Iterable[tuple[Piece, ...]]) -> Iterator[Outcome]:
        """Yield the outcomes of units that the workers read and this process attributes."""
        before = 0
        for batch in batches(self._found(units), self._batch_runs):
            yield from made(batch, self._tracer, self._wanted, before)
            before = runs_of_piece(batch, before)

    def _found(self, units: Iterable[tuple[Piece, ...]]) -> Iterator[Found]:
        for unit in units:
            if isinstance(unit, Giant):
                yield from self._read(0)
                yield from found_in(unit, with_spans=self._wanted.spans)
            else:
                self._ask(unit, Read(unit, self._wanted.spans))
                yield from self._read(self._ahead)
        yield from self._read(0)

    def _ask(self, pieces: tuple[Piece, ...], work: PieceAttributor | Read) -> None:
        self._waiting.append((work, self._workers.submit(work, tries=2 if len(pieces) == 1 else 1)))

    def _read(self, most: int) -> Iterator[Any]:
        """Read what was asked for first until no more than *most* units wait."""
        while len(self._waiting) > most:
            work, answers = self._waiting[0]
            yield from self._all_of(work, answers)
            answers.close()
            self._waiting.popleft()

    def _all_of(self, work: PieceAttributor | Read, answers: Answers) -> Iterator[Any]:
        """Yield what a unit gives; where its worker dies, what each of its pieces gives alone."""
        finished = since = 0
        try:
            for frame in answers:
                for item in frame:
                    yield item
                    finished, since = (finished + 1, 0) if isinstance(item, Finished) else (finished, since + 1)
        except WorkerDied as died:
            left = work.pieces[finished:]
            if len(work.pieces) == 1:
                yield from _lost(left, died)
                return
            for piece in left:
                yield from islice(self._alone(work, piece), since, None)
                since = 0

    def _alone(self, work: PieceAttributor | Read, piece: Piece) -> Iterator[Any]:
        alone = (
            PieceAttributor((piece,), work.wanted)
            if isinstance(work, PieceAttributor)
            else Read((piece,), work.with_spans)
        )
        with closing(self._workers.submit(alone, tries=1)) as answers:
            yield from self._all_of(alone, answers)

    def _giant(self, piece: Piece) -> Iterator[Outcome]:
        """Read a piece here; its first batches are attributed here too, the others by the workers."""
        before = 0
        found = found_in([piece], with_spans=self._wanted.spans)
        for number, batch in enumerate(batches(found, self._batch_runs)):
            if number < _WORTH_A_PROCESS_BATCHES:
                yield from made(batch, self._tracer, self._wanted, before)
            else:
                unit = Attribute(tuple(batch), self._wanted, before)
                self._waiting.append((unit, self._workers.submit(unit)))
                yield from self._read_batches(self._ahead)
            before = runs_of_piece(batch, before)
        yield from self._read_batches(0)

    def _read_batches(self, most: int) -> Iterator[Outcome]:
        while len(self._waiting) > most:
            work, answers = self._waiting[0]
            try:
                for frame in answers:
                    yield from frame
            except WorkerDied as died:
                reason = f"the worker process was {died}, twice, on the batch that this run stands in"
                yield from work.given_up(self._tracer, reason)
            answers.close()
            self._waiting.popleft()


def _lost(pieces: Iterable[Piece], died: WorkerDied) -> Iterator[Outcome]:
    for piece in pieces:
        yield UnreadableInput(
            f"{piece.name}: expected to read and attribute it, got a worker process that was {died}, twice. "
            "Was there enough memory? Try it alone with --processes 1"
        )
        yield Finished(piece)
