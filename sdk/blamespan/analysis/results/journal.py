"""What was done of an analysis, kept beside its output until all is done: `results.parquet.journal`.

Lines, each begun by a letter: `P` the plan, `R` a row as it goes out, `S` the spans of the row before, `D` that a run
came before, `E` another error, `W` the spans of a part that may go on in another piece, `F` the end of a piece. A piece
counts once its `F` stands there; what follows the last `F` was interrupted, and is done again. So it does not matter
where the writer was killed.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias

from blamespan.analysis.outcomes import Finished, Outcome
from blamespan.analysis.results.repeats import RepeatedRun
from blamespan.analysis.sources import Piece
from blamespan.errors import ConfigError, NotWritten, UnreadableInput
from blamespan.importing.parts import runs_of_spans
from blamespan.importing.recorded import RecordedRun
from blamespan.otlp import spans_from_json, spans_to_json

_Key: TypeAlias = tuple[str, int | None, int]


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One line of a finished piece: a row, its spans, that a run came before, an error, or a part. Others are empty."""

    row: str = ""
    spans: str = ""
    repeated: str = ""
    error: str = ""
    part: RecordedRun | None = None


class Journal:
    """The journal of one analysis; open it with `Journal.open`."""

    def __init__(self, path: Path, file: IO[bytes], finished: dict[_Key, tuple[int, int]], end: int) -> None:
        self._path = path
        self._file = file
        self._finished = finished
        self._order: dict[_Key, None] = {}
        self._start = self._end = end
        self.skipped = 0

    @classmethod
    def open(cls, path: Path, plan: Mapping[str, Any], *, resume: bool) -> Journal:
        """Begin a journal, or go on with the one that is there.

        Args:
            path: Where.
            plan: What decides the results beside the pieces: plain values, as JSON has them.
            resume: Whether to go on.

        Raises:
            ConfigError: if there is one and *resume* is not asked for, it has another plan, or somebody writes it.
        """
        try:
            file = path.open("r+b" if path.exists() else "w+b")
            _lock(file, path)
            kept, finished, end = _scan(file)
        except OSError as error:
            raise ConfigError(
                f"expected to write {str(path)!r}, where interrupted work is kept, got {error.strerror}. "
                "Choose another output"
            ) from error
        plan = json.loads(json.dumps(plan))
        try:
            if finished and not resume:
                raise ConfigError(
                    f"expected no interrupted work, got {len(finished)} pieces of it in {str(path)!r}. "
                    "Go on with --resume, or delete that file to begin anew"
                )
            if finished and kept != plan:
                raise ConfigError(_other_plan(kept, plan, path))
        except ConfigError:
            file.close()
            raise
        if not finished:
            file.seek(0)
            end = file.write(b"P" + json.dumps(plan).encode() + b"\n")
        file.truncate(end)
        file.seek(end)
        return cls(path, file, finished, end)

    def unfinished(self, pieces: Iterable[Piece]) -> Iterator[Piece]:
        """Yield the pieces that are not done yet, and remember the order of all."""
        for piece in pieces:
            key = _key(piece)
            self._order.setdefault(key)
            if key in self._finished:
                self.skipped += 1
            else:
                yield piece

    def add(self, outcome: Outcome) -> None:
        """Keep an outcome; a piece counts with its `Finished`.

        Raises:
            NotWritten: if there is no room.
        """
        if isinstance(outcome, Finished):
            self._write(b"F", json.dumps(_key(outcome.piece)), at_once=True)
            self._finished[_key(outcome.piece)] = (self._start, self._end)
            self._order.setdefault(_key(outcome.piece))
            self._start = self._end
        elif isinstance(outcome, RecordedRun):
            self._write(b"W", json.dumps([outcome.source, spans_to_json(outcome.spans)]))
        elif isinstance(outcome, UnreadableInput):
            self._write(b"D" if isinstance(outcome, RepeatedRun) else b"E", json.dumps(str(outcome)))
        else:
            self._write(b"R", outcome.line)
            if outcome.spans:
                self._write(b"S", outcome.spans)

    def entries(self) -> Iterator[JournalEntry]:
        """Yield what the pieces gave, in the order in which they were asked for; at last, of one that was not read to
        its end, what there is.
        """
        for key in self._order:
            if key in self._finished:
                yield from self._entries_of(*self._finished[key])
        yield from self._entries_of(self._start, self._end)

    def kept(self) -> Iterator[JournalEntry]:
        """Yield what all finished pieces gave, in the order in which they were finished."""
        for offset in list(self._finished.values()):
            yield from self._entries_of(*offset)

    def close(self) -> None:
        """Keep it, for a later `--resume`; one that holds nothing goes."""
        self._let_go()
        if not self._finished:
            self.delete()

    def delete(self) -> None:
        """All is done."""
        self._let_go()
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()

    def _let_go(self) -> None:
        with contextlib.suppress(OSError):  # no room for the piece under way: it is done again
            self._file.close()

    def _write(self, kind: bytes, text: str, *, at_once: bool = False) -> None:
        try:
            self._end += self._file.write(kind + text.encode("utf-8", "replace") + b"\n")
            if at_once:
                self._file.flush()
        except OSError as error:
            raise NotWritten(
                f"expected to keep what is done in {str(self._path)!r}, got {error.strerror or error}. "
                "Make room, and go on with --resume"
            ) from error

    def _entries_of(self, start: int, end: int) -> Iterator[JournalEntry]:
        self._file.flush()
        with self._path.open("rb") as file:
            file.seek(start)
            while file.tell() < end:
                line = file.readline()
                text = line[1:-1].decode()
                if line[:1] == b"R":
                    yield JournalEntry(row=text)
                elif line[:1] == b"S":
                    yield JournalEntry(spans=text)
                elif line[:1] == b"D":
                    yield JournalEntry(repeated=json.loads(text))
                elif line[:1] == b"E":
                    yield JournalEntry(error=json.loads(text))
                elif line[:1] == b"W":
                    source, document = json.loads(text)
                    yield from (JournalEntry(part=run) for run in runs_of_spans(source, spans_from_json(document)))


def _key(piece: Piece) -> _Key:
    """Identify a piece by its name, its size and when its file was last written."""
    try:
        changed_ns = os.stat(piece.name).st_mtime_ns  # noqa: PTH116  # the name may be a URL, and no path
    except (OSError, ValueError):
        changed_ns = 0
    return piece.name, piece.size, changed_ns


def _scan(file: IO[bytes]) -> tuple[Any, dict[_Key, tuple[int, int]], int]:
    """Find the plan, where each finished piece stands, and the end of the last one."""
    plan: Any = None
    finished: dict[_Key, tuple[int, int]] = {}
    start = end = at = 0
    for line in file:
        at += len(line)
        try:
            if not line.endswith(b"\n"):
                break
            if line[:1] == b"P" and plan is None:
                plan = json.loads(line[1:])
                start = end = at
            elif line[:1] == b"F":
                name, size, changed_ns = json.loads(line[1:])
                finished[(name, size, changed_ns)] = (start, at)
                start = end = at
        except (ValueError, TypeError):
            break
    return plan, finished, end


def _other_plan(kept: Any, plan: Mapping[str, Any], path: Path) -> str:
    before = kept if isinstance(kept, dict) else {}
    differing = [key for key in {**before, **plan} if before.get(key) != plan.get(key)]
    differences = ", ".join(f"{key} {plan.get(key)!r} instead of {before.get(key)!r}" for key in differing)
    return (
        f"expected to go on with the analysis in {str(path)!r}, got {differences}. Use what was used before, "
        "or delete that file to begin anew"
    )


def _lock(file: IO[bytes], path: Path) -> None:
    try:
        import fcntl
    except ImportError:  # not on Windows
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.close()
        raise ConfigError(
            f"expected to write {str(path)!r} alone, got another analysis at it. Wait for it, or choose another output"
        ) from error
