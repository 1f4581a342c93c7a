"""Finding recorded runs: which files, in which format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from blamespan.errors import UnreadableInput
from blamespan.files import head_of
from blamespan.recorded import Importer, RecordedRun

__all__ = ["find_files", "read_runs"]

_COMPRESSED = {".gz", ".xz", ".zst"}
_DATA = {".json", ".jsonl", ".ndjson", ".log", ".pb", ".binpb", ".csv", ".parquet", ".sqlite", ".db"}


def find_files(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield every named file, and of every named folder the data files below it, sorted.

    In a folder, files count that end as exports do (`_DATA`), also as .gz, .xz or .zst; hidden ones do not.
    """
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        for found in sorted(path.rglob("*")):
            inner = found.with_suffix("") if found.suffix in _COMPRESSED else found
            if found.is_file() and inner.suffix in _DATA and not found.name.startswith("."):
                yield found


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


def _unknown(path: Path, head: bytes, importers: Sequence[Importer]) -> UnreadableInput:
    names = " or ".join(importer.name for importer in importers)
    begins = f"something that begins with {head[:40]!r}" if head else "an empty file"
    return UnreadableInput(f"{path}: expected {names}, got {begins}. `blamespan analyze --help` lists the formats")
