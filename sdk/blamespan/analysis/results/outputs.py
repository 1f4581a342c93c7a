"""Results as files: JSON lines, parquet, a folder of parquet, ATIF. A file appears whole, or not at all."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO

from blamespan.analysis.results.rows import arrow_schema, as_arrow
from blamespan.errors import ConfigError, NotWritten
from blamespan.plugins import require

_LINES = (".jsonl", ".jsonl.gz", ".jsonl.zst")
_SCHEME = re.compile(r"[A-Za-z][\w+.-]+:/")
"""Begins a URL; a path object holds one slash of it."""
_TRACE_FILE = re.compile(r"[0-9a-f]{32}\.json")
_ROWS_AT_ONCE = 1_000
_PART_ROWS = 50_000
"""Rows of each file of a folder."""


def is_atif(path: Path) -> bool:
    """Check whether a path's name asks for ATIF: `x.atif.json`, `x.atif.jsonl`, or a folder `x.atif`."""
    return path.name.endswith((".atif", ".atif.json", *(f".atif{ending}" for ending in _LINES)))


def check_output(path: Path, *, rows: bool) -> None:
    """Make sure that *path* can be written, before anything is read.

    Args:
        path: Where to.
        rows: Whether rows are written, which may be parquet; else lines of text.

    Raises:
        ConfigError: if its name says no format, its folder is not there, or it is a folder of other things.
        MissingExtra: if the format needs a package that is not installed.
    """
    kinds = ", ".join(_LINES if rows else (".json", *_LINES)) + (
        ", .parquet, .json for spans, or a folder as in results/" if rows else ""
    )
    is_folder = path.suffix == ".atif" if is_atif(path) else rows and _is_folder(path)
    if not is_folder and not path.name.endswith((*_LINES, ".parquet" if rows else ".json")):
        raise ConfigError(f"expected a file that ends in {kinds}, got {str(path)!r}")
    if _SCHEME.match(str(path)):
        raise ConfigError(f"expected a path on this machine, got {str(path)!r}. Write it here and copy it there")
    if not path.parent.is_dir():
        raise ConfigError(f"expected a folder {str(path.parent)!r} to write to, got none. Make it first")
    if path.is_dir() and not is_folder:
        raise ConfigError(f"expected a file, got the folder {str(path)!r}. Name a file in it")
    if is_folder and path.is_dir() and any(not _is_part(entry, path) for entry in path.iterdir()):
        raise ConfigError(
            f"expected a new folder or one with results ({'*.json' if is_atif(path) else 'part-*.parquet'}), got "
            f"{str(path)!r} with other files. "
            "Choose another"
        )
    if (is_folder and not is_atif(path)) or path.suffix == ".parquet":
        require("pyarrow", "importers")
    if path.suffix == ".zst":
        require("zstandard", "importers")


def write_rows(path: Path, lines: Iterable[str]) -> None:
    """Write rows, each given as its JSON, in the format that the name says.

    Raises:
        NotWritten: if there is no room, or the folder has gone.
    """
    if _is_folder(path):
        _write_folder(path, lines)
    elif path.suffix == ".parquet":
        with _whole(path) as made:
            _write_parquet(made, lines)
    else:
        write_lines(path, lines)


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write text, a line each, compressed as the name says; the same lines give the same bytes.

    Raises:
        NotWritten: as `write_rows`.
    """
    with _whole(path) as made, _compressing(made, path.suffix) as file:
        for line in lines:
            file.write(line.encode("utf-8", "replace") + b"\n")


def write_spans(path: Path, documents: Iterable[str]) -> None:
    """Write OTLP-JSON, each document on a line; all of them as one where the name ends in `.json`.

    ATIF has a document a run: a line or, in a folder, a file `TRACE_ID.json` each.

    Raises:
        NotWritten: as `write_rows`.
    """
    if path.suffix == ".atif":
        with _whole(path) as made:
            made.mkdir()
            for document in documents:
                trace_id = json.loads(document)["extra"]["blamespan"]["verdict"]["trace_id"]
                write_lines(made / f"{trace_id}.json", [document])
        return
    if path.suffix != ".json" or is_atif(path):
        write_lines(path, documents)
        return
    with _whole(path) as made, made.open("wb") as file:
        before = b'{"resourceSpans":[\n'
        for document in documents:
            for spans in json.loads(document)["resourceSpans"]:
                file.write(before + json.dumps(spans).encode())
                before = b",\n"
        file.write((before if before[:1] == b"{" else b"\n") + b"]}\n")


@contextmanager
def _compressing(made: Path, suffix: str) -> Iterator[IO[bytes]]:
    with made.open("wb") as raw:
        if suffix == ".gz":
            with gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed:
                yield packed  # type: ignore[misc]  # typeshed: a GzipFile is no IO
        elif suffix == ".zst":
            import zstandard

            with zstandard.ZstdCompressor(level=3).stream_writer(raw, closefd=False) as packed:
                yield packed
        else:
            yield raw


def _write_folder(path: Path, lines: Iterable[str]) -> None:
    with _whole(path) as made:
        made.mkdir()
        given = iter(lines)
        number = 0
        while (part := list(islice(given, _PART_ROWS))) or not number:
            _write_parquet(made / f"part-{number:05d}.parquet", part)
            number += 1


def _write_parquet(path: Path, lines: Iterable[str]) -> None:
    from pyarrow import parquet

    given = iter(lines)
    with parquet.ParquetWriter(path, arrow_schema(), compression="zstd") as writer:
        while rows := [json.loads(line) for line in islice(given, _ROWS_AT_ONCE)]:
            writer.write_table(as_arrow(rows))


@contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """Return a path to write to, which takes the place of *path* when all went well."""
    made = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        try:
            yield made
            _replace(made, path)
        except OSError as error:
            raise NotWritten(
                f"expected to write {str(path)!r}, got {error.strerror or error}. "
                "What was done is kept: make room, and go on with --resume"
            ) from error
    finally:
        _remove(made)


def _replace(made: Path, path: Path) -> None:
    if not path.is_dir():
        made.replace(path)
        return
    old = path.with_name(f".{path.name}.{os.getpid()}.old")
    path.rename(old)
    made.rename(path)
    _remove(old)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()


def _is_folder(path: Path) -> bool:
    return path.is_dir() or not path.suffix


def _is_part(entry: Path, folder: Path) -> bool:
    if is_atif(folder):
        return _TRACE_FILE.fullmatch(entry.name) is not None
    return entry.name.startswith("part-") and entry.suffix == ".parquet"
