"""What is to be analyzed: files, folders, globs, standard input, anything fsspec opens, and back ends that are asked.

All of them come as pieces: each is read on its own, in any order, in another process too.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cache
from glob import glob, has_magic
from pathlib import Path
from typing import TypeAlias

from blamespan.analysis.remote import check_url, fetched, public_url, remote_files
from blamespan.analysis.selection import Selection
from blamespan.analysis.spooling import spool_pipe, spool_stdin
from blamespan.backends import is_backend, open_reader
from blamespan.errors import ConfigError, MissingExtra, UnreadableInput
from blamespan.files import head_of
from blamespan.recorded import Importer, RecordedRun, importers, load_importer

__all__ = ["Piece", "Selection", "find_files", "pieces", "read_runs"]

_STDIN = "-"
_LOCAL = ("file", "local")
_ALL = Selection()
_TRACES_AT_ONCE = 16
"""Traces of a back end that make up a piece: enough for one answer, few enough to share out and to read again."""
_COMPRESSED = {".gz", ".xz", ".zst"}
_DATA = {".json", ".jsonl", ".ndjson", ".log", ".pb", ".binpb", ".csv", ".parquet", ".sqlite", ".db"}

_Found: TypeAlias = "RecordedRun | UnreadableInput"


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of what is to be analyzed: one file, or some traces of a back end. It can be pickled.

    Attributes:
        name: Its path or URL, without anything secret: the same each time.
        size: In bytes as stored, where that is known.
    """

    name: str
    size: int | None
    _runs: Callable[[], Iterator[_Found]] = field(repr=False)
    _selection: Selection = field(default=_ALL, repr=False)

    def read(self) -> Iterator[RecordedRun | UnreadableInput]:
        """Yield the wanted runs; for whatever cannot be read, an error in its place. It raises none itself."""
        taken = 0
        try:
            for item in self._runs():
                if isinstance(item, UnreadableInput):
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


def pieces(sources: Sequence[str], *, format_name: str | None = None, selection: Selection = _ALL) -> Iterator[Piece]:
    """Find what *sources* name, in their order; each file once.

    A folder is walked for data files, a pattern (`exports/**/*.jsonl.zst`) matched, `-` is standard input, a URL is
    asked of the back end of that scheme or else opened by fsspec. What cannot be found is a piece that reads as an
    error, so that the rest goes on. Back ends and folders elsewhere are asked while the pieces are taken.

    Args:
        sources: As a user writes them.
        format_name: Read every file in this format instead of telling by its content; back ends know their own.
        selection: Which runs are wanted.

    Raises:
        ConfigError: if the format or a URL is wrong, or a back end's key is missing; before anything is read.
        MissingExtra: if a source needs a package that is not installed.
    """
    if format_name is not None:
        load_importer(format_name)
    for source in sources:
        if is_backend(source):
            open_reader(source, selection).close()
        elif _is_elsewhere(source):
            check_url(source)
    return _each_once(sources, format_name, selection)


def find_files(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield every named file, and of every named folder the data files below it, sorted.

    In a folder, files count that end as exports do (`_DATA`), also as .gz, .xz or .zst; hidden ones do not.
    """
    for path in paths:
        if path.is_dir():
            yield from _walked(path)
        else:
            yield path


def read_runs(path: Path, importers: Sequence[Importer]) -> Iterator[RecordedRun | UnreadableInput]:
    """Yield the runs of one file, by the first importer that knows it; for what cannot be read, the error."""
    try:
        head = head_of(path)
        importer = next((importer for importer in importers if importer.matches(path, head)), None)
        if importer is None:
            raise _unknown(path, head, importers)
        yield from importer.read(path)
    except UnreadableInput as error:
        yield error


@dataclass(frozen=True, slots=True)
class _File:
    """A file on this machine."""

    path: Path
    format_name: str | None
    shown_as: str = ""
    """What the file is called where its path is one of ours."""

    def __call__(self) -> Iterator[_Found]:
        found = _in_format(self.path, self.format_name)
        return _renamed(found, str(self.path), self.shown_as) if self.shown_as else found


@dataclass(frozen=True, slots=True)
class _RemoteFile:
    """A file elsewhere."""

    url: str
    name: str
    format_name: str | None

    def __call__(self) -> Iterator[_Found]:
        with fetched(self.url) as path:
            yield from _renamed(_in_format(path, self.format_name), str(path), self.name)


@dataclass(frozen=True, slots=True)
class _Traces:
    """Traces of a back end."""

    url: str
    selection: Selection
    ids: tuple[str, ...]

    def __call__(self) -> Iterator[_Found]:
        with closing(open_reader(self.url, self.selection)) as reader:
            yield from reader.runs(self.ids)


@dataclass(frozen=True, slots=True)
class _Trouble:
    """What could not be found."""

    message: str

    def __call__(self) -> Iterator[_Found]:
        yield UnreadableInput(self.message)


def _each_once(sources: Sequence[str], format_name: str | None, selection: Selection) -> Iterator[Piece]:
    seen: set[str] = set()
    for source in sources:
        for piece in _pieces_of(source, format_name, selection):
            if piece.name not in seen:
                seen.add(piece.name)
                yield piece


def _pieces_of(source: str, format_name: str | None, selection: Selection) -> Iterator[Piece]:
    try:
        if source == _STDIN:
            path = spool_stdin()
            yield Piece("stdin", path.stat().st_size, _File(path, format_name, "stdin"), selection)
        elif is_backend(source):
            yield from _of_backend(source, selection)
        elif _is_elsewhere(source):
            for file in remote_files(source, is_data=_is_data):
                yield Piece(file.name, file.size, _RemoteFile(file.url, file.name, format_name), selection)
        else:
            yield from _of_path(_without_scheme(source), format_name, selection)
    except UnreadableInput as error:
        yield Piece(_shown(source), None, _Trouble(str(error)))


def _shown(source: str) -> str:
    return public_url(source) if "://" in source else source


def _of_path(source: str, format_name: str | None, selection: Selection) -> Iterator[Piece]:
    if "\0" in source:
        raise UnreadableInput(f"expected a path, got {source!r}. Check the path.")
    path = Path(source)
    if has_magic(source) and not path.exists():
        matches = sorted(glob(source, recursive=True))  # noqa: PTH207  # Path.glob takes no absolute pattern
        if not matches:
            raise UnreadableInput(f"{source}: expected recorded runs, got no file of that pattern. Check the path.")
        paths = [Path(match) for match in matches]
    else:
        paths = [path]
    for file in find_files(paths):
        yield _file_piece(file, format_name, selection)


def _file_piece(path: Path, format_name: str | None, selection: Selection) -> Piece:
    name = str(path)
    try:
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode):
            spooled = spool_pipe(path)
            return Piece(name, spooled.stat().st_size, _File(spooled, format_name, name), selection)
    except UnreadableInput as error:
        return Piece(name, None, _Trouble(str(error)))
    except (OSError, ValueError):
        return Piece(name, None, _File(path, format_name), selection)  # reading says what is wrong
    return Piece(name, facts.st_size, _File(path, format_name), selection)


def _of_backend(url: str, selection: Selection) -> Iterator[Piece]:
    """Ask for the traces' ids, and share them out; a trouble on the way stands where it came."""
    with closing(open_reader(url, selection)) as reader:
        looked_for = replace(reader.remaining, limit=selection.limit)
        waiting: list[str] = []
        for number, found in enumerate(reader.trace_ids()):
            if isinstance(found, UnreadableInput):
                yield Piece(f"{url}#{number}", None, _Trouble(str(found)))
                continue
            waiting.append(found)
            if len(waiting) == _TRACES_AT_ONCE:
                yield _traces_piece(url, waiting, selection, looked_for)
                waiting = []
        if waiting:
            yield _traces_piece(url, waiting, selection, looked_for)


def _traces_piece(url: str, ids: Sequence[str], asked: Selection, looked_for: Selection) -> Piece:
    between = ids[0] if len(ids) == 1 else f"{ids[0]}..{ids[-1]}"
    return Piece(f"{url}#{between}", None, _Traces(url, asked, tuple(ids)), looked_for)


def _walked(folder: Path) -> Iterator[Path]:
    """Yield the data files below *folder*, sorted; one folder in memory at a time."""
    try:
        entries = sorted(folder.iterdir(), key=lambda entry: entry.name)
    except OSError:
        yield folder  # reading it says what is wrong
        return
    for entry in entries:
        if entry.is_dir() and not entry.is_symlink():
            yield from _walked(entry)
        elif _is_data(entry) and entry.is_file():
            yield entry


def _is_data(path: Path) -> bool:
    inner = path.with_suffix("") if path.suffix in _COMPRESSED else path
    return inner.suffix in _DATA and not path.name.startswith(".")


def _is_elsewhere(source: str) -> bool:
    scheme, separator, _ = source.partition("://")
    return bool(separator) and ("::" in source or scheme.lower() not in _LOCAL)


def _without_scheme(source: str) -> str:
    scheme, separator, path = source.partition("://")
    return path if separator and scheme.lower() in _LOCAL else source


def _in_format(path: Path, format_name: str | None) -> Iterator[_Found]:
    return read_runs(path, _known_formats()) if format_name is None else load_importer(format_name).read(path)


@cache
def _known_formats() -> tuple[Importer, ...]:
    return tuple(importers())


def _renamed(found: Iterable[_Found], path: str, name: str) -> Iterator[_Found]:
    """Say *name* where an importer says the *path* of our temporary file."""
    try:
        for item in found:
            if isinstance(item, UnreadableInput):
                yield UnreadableInput(str(item).replace(path, name))
            else:
                yield replace(item, source=item.source.replace(path, name))
    except UnreadableInput as error:
        yield UnreadableInput(str(error).replace(path, name))


def _unknown(path: Path, head: bytes, importers: Sequence[Importer]) -> UnreadableInput:
    names = " or ".join(importer.name for importer in importers)
    begins = f"something that begins with {head[:40]!r}" if head else "an empty file"
    return UnreadableInput(f"{path}: expected {names}, got {begins}. `blamespan analyze --help` lists the formats")
