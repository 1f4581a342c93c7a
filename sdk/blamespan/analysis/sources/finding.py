"""Finding what sources name: files, folders, globs, standard input, anything fsspec opens, and back ends."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from glob import glob, has_magic
from pathlib import Path
from typing import cast

from blamespan.analysis.sources.files import data_files, is_data, runs_of_file
from blamespan.analysis.sources.piece import ALL, Found, Piece
from blamespan.analysis.sources.remote import check_url, fetched, public_url, remote_files
from blamespan.analysis.sources.spooling import spool_pipe, spool_stdin
from blamespan.errors import ConfigError, MissingExtra, UnreadableInput
from blamespan.importing.backends import SpanReader, is_backend, open_reader
from blamespan.importing.parts import SeparateParts, part_ids
from blamespan.importing.recorded import STORE_FORMAT, StoreReader, load_importer
from blamespan.importing.selection import Selection
from blamespan.plugins import load_part

_STDIN = "-"
_LOCAL = ("file", "local")
_TRACES_AT_ONCE = 16
"""Traces of a back end that make up a piece: enough for one answer, few enough to share out and to read again."""


def pieces(sources: Sequence[str], *, format_name: str | None = None, selection: Selection = ALL) -> Iterator[Piece]:
    """Find what *sources* name, in their order; each file once.

    A folder is walked for data files, a pattern (`exports/**/*.jsonl.zst`) matched, `-` is standard input, a URL is
    asked of the back end of that scheme or else opened by fsspec. What cannot be found is a piece that reads as an
    error, so that the rest goes on. Back ends and folders elsewhere are asked while the pieces are taken.

    What is no file names a run in this machine's store: by its id or the beginning of it, by the beginning of its task,
    or `last`. A file goes before.

    Args:
        sources: As a user writes them; none for all runs of this machine's store.
        format_name: Read every file in this format instead of telling by its content; back ends know their own.
        selection: Which runs are wanted.

    Raises:
        ConfigError: if the format or a URL is wrong, a back end's key is missing, a name means several stored runs, or
            there is no store where nothing is named; before anything is read.
        MissingExtra: if a source needs a package that is not installed.
    """
    if format_name is not None:
        load_importer(format_name)
    for source in sources:
        if is_backend(source):
            open_reader(source, selection).close()
        elif _is_elsewhere(source):
            check_url(source)
        elif is_stored_name(source):
            with suppress(UnreadableInput):  # named in its place
                _find_stored(source)
    return _each_once(sources or [str(_default_store())], format_name, selection)


def runs_in(
    sources: Iterable[str | Path], *, format_name: str | None = None, with_spans: bool = False
) -> Iterator[Found]:
    """Yield the runs of all that *sources* name, one after the other; for what cannot be read, an error in its place.

    A run whose parts stand in several files comes last.

    Args:
        sources: As for `pieces`.
        format_name: As for `pieces`.
        with_spans: Whether runs come with the spans of their source, where it has some.

    Raises:
        ConfigError: as `pieces` does.
        MissingExtra: as `pieces` does.
    """
    with closing(SeparateParts()) as parts:
        for piece in pieces([str(source) for source in sources], format_name=format_name):
            for item in piece.read(with_spans=with_spans):
                if not isinstance(item, UnreadableInput) and item.may_go_on_elsewhere:
                    parts.add(item)
                    continue
                if not isinstance(item, UnreadableInput):
                    parts.note_told(part_ids(item))
                yield item
        yield from parts.join()


@dataclass(frozen=True, slots=True)
class _LocalSource:
    """A file on this machine."""

    path: Path
    format_name: str | None
    shown_as: str = ""
    """What the file is called where its path is one of ours."""

    def __call__(self, with_spans: bool) -> Iterator[Found]:
        runs = runs_of_file(self.path, self.format_name, with_spans=with_spans)
        return _rename_sources(runs, str(self.path), self.shown_as) if self.shown_as else runs


@dataclass(frozen=True, slots=True)
class _RemoteSource:
    """A file elsewhere."""

    url: str
    name: str
    format_name: str | None

    def __call__(self, with_spans: bool) -> Iterator[Found]:
        with fetched(self.url) as path:
            runs = runs_of_file(path, self.format_name, with_spans=with_spans)
            yield from _rename_sources(runs, str(path), self.name)


@dataclass(frozen=True, slots=True)
class _Traces:
    """Traces of a back end."""

    url: str
    selection: Selection
    ids: tuple[str, ...]

    def __call__(self, with_spans: bool) -> Iterator[Found]:
        with closing(open_reader(self.url, self.selection)) as reader:
            if with_spans and isinstance(reader, SpanReader):
                yield from reader.runs_with_spans(self.ids)
            else:
                yield from reader.runs(self.ids)


@dataclass(frozen=True, slots=True)
class _StoredTrace:
    """A trace in a store of runs on this machine."""

    store: Path
    trace_id: str

    def __call__(self, with_spans: bool) -> Iterator[Found]:
        return cast(StoreReader, load_importer(STORE_FORMAT)).read_traces(self.store, [self.trace_id])


@dataclass(frozen=True, slots=True)
class _Trouble:
    """What could not be found."""

    message: str

    def __call__(self, with_spans: bool) -> Iterator[Found]:
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
            yield Piece("stdin", path.stat().st_size, _LocalSource(path, format_name, "stdin"), selection, path)
        elif is_backend(source):
            yield from _of_backend(source, selection)
        elif _is_elsewhere(source):
            for file in remote_files(source, is_data=is_data):
                yield Piece(file.name, file.size, _RemoteSource(file.url, file.name, format_name), selection)
        else:
            yield from _of_path(_without_scheme(source), format_name, selection)
    except UnreadableInput as error:
        yield Piece(_public_source(source), None, _Trouble(str(error)))


def _public_source(source: str) -> str:
    return public_url(source) if "://" in source else source


def _of_path(source: str, format_name: str | None, selection: Selection) -> Iterator[Piece]:
    if not source or "\0" in source:
        raise UnreadableInput(f"expected a path, got {source!r}. Check the path.")
    paths = _paths(source)
    if not paths:
        store, trace_id = _find_stored(source)
        yield Piece(f"{store}:{trace_id}", None, _StoredTrace(store, trace_id), selection)
        return
    is_empty = True
    for file in (file for path in paths for file in data_files(path)):
        is_empty = False
        yield _file_piece(file, format_name, selection)
    if is_empty:
        raise UnreadableInput(f"{source}: expected recorded runs, got none. Check the path")


def _paths(source: str) -> list[Path]:
    """List the files and folders that a source without a scheme names."""
    path = Path(source)
    try:
        if os.path.lexists(path):
            return [path]
    except ValueError:
        return []
    return [Path(match) for match in sorted(glob(source, recursive=True))] if has_magic(source) else []  # noqa: PTH207  # Path.glob takes no absolute pattern


def is_stored_name(source: str) -> bool:
    """Check whether *source* can only name a stored run: it is no file, pattern, URL or standard input."""
    if not source or "\0" in source or source == _STDIN or is_backend(source) or _is_elsewhere(source):
        return False
    return not _paths(_without_scheme(source))


def folder_of(source: str) -> Path | None:
    """Return the folder in which what belongs to a source lies, labels for example; None where it is elsewhere."""
    if is_stored_name(source):
        return _find_stored(source)[0].parent
    path = next(iter(_paths(_without_scheme(source))), None)
    return path if path is None or path.is_dir() else path.parent


def _find_stored(source: str) -> tuple[Path, str]:
    """Find the stored trace that a name means.

    Raises:
        ConfigError: if it means several.
        UnreadableInput: if it means none.
    """
    try:
        find: Callable[[str], tuple[Path, str]] = load_part("find_stored")
    except MissingExtra as error:
        raise UnreadableInput(f"{source}: expected a readable file, got no such file. Check the path") from error
    return find(source)


def _default_store() -> Path:
    """Return this machine's store.

    Raises:
        ConfigError: if there is none.
    """
    path: Path = load_part("default_store")()
    if not path.exists():
        raise ConfigError(
            "expected files, folders or URLs, or a store of runs on this machine, got nothing, and no store at "
            f"{str(path)!r}. Name some, or run a program with blamespan.instrument(embedded=True)"
        )
    return path


def _file_piece(path: Path, format_name: str | None, selection: Selection) -> Piece:
    name = str(path)
    try:
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode):
            spooled = spool_pipe(path)
            return Piece(name, spooled.stat().st_size, _LocalSource(spooled, format_name, name), selection, spooled)
    except UnreadableInput as error:
        return Piece(name, None, _Trouble(str(error)))
    except (OSError, ValueError):
        return Piece(name, None, _LocalSource(path, format_name), selection)  # reading says what is wrong
    return Piece(name, facts.st_size, _LocalSource(path, format_name), selection, path)


def _of_backend(url: str, selection: Selection) -> Iterator[Piece]:
    """Ask for the traces' ids, and share them out; a trouble on the way stands where it came."""
    with closing(open_reader(url, selection)) as reader:
        looked_for = replace(reader.remaining, limit=selection.limit)
        waiting: list[str] = []
        for number, trace_id in enumerate(reader.trace_ids()):
            if isinstance(trace_id, UnreadableInput):
                yield Piece(f"{url}#{number}", None, _Trouble(str(trace_id)))
                continue
            waiting.append(trace_id)
            if len(waiting) == _TRACES_AT_ONCE:
                yield _traces_piece(url, waiting, selection, looked_for)
                waiting = []
        if waiting:
            yield _traces_piece(url, waiting, selection, looked_for)


def _traces_piece(url: str, ids: Sequence[str], asked: Selection, looked_for: Selection) -> Piece:
    between = ids[0] if len(ids) == 1 else f"{ids[0]}..{ids[-1]}"
    return Piece(f"{url}#{between}", None, _Traces(url, asked, tuple(ids)), looked_for)


def _is_elsewhere(source: str) -> bool:
    scheme, separator, _ = source.partition("://")
    return bool(separator) and " " not in scheme and ("::" in source or scheme.lower() not in _LOCAL)


def _without_scheme(source: str) -> str:
    scheme, separator, path = source.partition("://")
    return path if separator and scheme.lower() in _LOCAL else source


def _rename_sources(runs: Iterable[Found], path: str, name: str) -> Iterator[Found]:
    """Put *name* where an importer writes the *path* of our temporary file."""
    try:
        for item in runs:
            if isinstance(item, UnreadableInput):
                yield UnreadableInput(str(item).replace(path, name))
            else:
                yield replace(item, source=item.source.replace(path, name))
    except UnreadableInput as error:
        yield UnreadableInput(str(error).replace(path, name))
