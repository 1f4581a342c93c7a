"""Files of recorded runs: which of a folder are some, and which importer reads one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from blamespan.analysis.sources.piece import Found
from blamespan.errors import UnreadableInput
from blamespan.importing.files import head_of
from blamespan.importing.recorded import Importer, SpanImporter, importers, load_importer
from blamespan.sqlite_files import STORE_MARK, has_mark

_COMPRESSED = {".gz", ".xz", ".zst"}
_DATA = {".json", ".jsonl", ".ndjson", ".log", ".pb", ".binpb", ".csv", ".parquet", ".sqlite", ".db"}


def data_files(path: Path) -> Iterator[Path]:
    """Yield *path*; of a folder the data files below it, sorted, one folder in memory at a time.

    Of a folder with a store of runs only that: what else lies there belongs to it.
    Links to folders are not followed. What cannot be listed comes as it is: reading it says what is wrong.
    """
    if not path.is_dir():
        yield path
        return
    if (store := store_in(path)) is not None:
        yield store
        return
    try:
        entries = sorted(path.iterdir(), key=lambda entry: entry.name)
    except OSError:
        yield path
        return
    for entry in entries:
        if entry.is_dir() and not entry.is_symlink():
            yield from data_files(entry)
        elif is_data(entry) and entry.is_file():
            yield entry


def store_in(path: Path) -> Path | None:
    """Return the store of runs that a path is, or that lies in the folder it is; None where there is none."""
    files = sorted(path.glob("*.db")) if path.is_dir() else [path]
    return next((file for file in files if file.is_file() and has_mark(file, STORE_MARK)), None)


def is_data(path: Path) -> bool:
    """Check whether a file in a folder ends as exports do, also as .gz, .xz or .zst; hidden ones do not count."""
    inner = path.with_suffix("") if path.suffix in _COMPRESSED else path
    return inner.suffix in _DATA and not path.name.startswith(".")


def runs_of_file(path: Path, format_name: str | None = None, *, with_spans: bool = False) -> Iterator[Found]:
    """Yield the runs of one file.

    Args:
        path: The file.
        format_name: Its format; else the first importer that knows it reads it.
        with_spans: Whether runs come with their spans, where the format holds some.

    Raises:
        UnreadableInput: if nobody knows it, or it cannot be read further.
        ConfigError: if there is no such format.
    """
    if format_name is not None:
        yield from _read(load_importer(format_name), path, with_spans=with_spans)
        return
    head = head_of(path)
    importer = next((importer for importer in importers() if importer.matches(path, head)), None)
    if importer is None:
        raise _unknown(path, head)
    yield from _read(importer, path, with_spans=with_spans)


def _read(importer: Importer, path: Path, *, with_spans: bool) -> Iterator[Found]:
    if with_spans and isinstance(importer, SpanImporter):
        return importer.read_with_spans(path)
    return importer.read(path)


def _unknown(path: Path, head: bytes) -> UnreadableInput:
    begins = f"something that begins with {head[:40]!r}" if head else "an empty file"
    return UnreadableInput(
        f"{path}: expected recorded runs in a known format, got {begins}. `blamespan analyze --help` lists the formats"
    )
