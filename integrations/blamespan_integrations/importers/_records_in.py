"""The records of a file, however it holds them: JSON in any form, CSV, or parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias, cast

from blamespan.errors import UnreadableInput
from blamespan.importing.files import MAX_LINE_BYTES, head_of, open_bytes, read_errors
from blamespan_integrations.importers._json_values import json_objects

__all__ = ["PARQUET_MAGIC", "Record", "columns_of", "records_in"]

PARQUET_MAGIC = b"PAR1"
"""First bytes of a parquet file."""

_BATCH_ROWS = 256

Record: TypeAlias = tuple[str, dict[str, Any]]
"""Where a record stands, and its fields: whatever the file holds, checked by whoever reads them."""


def records_in(path: Path, expected: str) -> Iterator[Record | UnreadableInput]:
    """Yield every record of a file; for whatever else stands there, an error in its place.

    Args:
        path: The file.
        expected: What each should be, for the message.

    Raises:
        UnreadableInput: if the file cannot be opened.
    """
    head = head_of(path)
    if head.startswith(PARQUET_MAGIC):
        yield from _rows(path)
    elif head.lstrip()[:1] in (b"{", b"["):
        for found in json_objects(path, expected):
            yield found if isinstance(found, UnreadableInput) else (found.place, found.value)
    else:
        yield from _lines(path)


def columns_of(path: Path, head: bytes) -> frozenset[str]:
    """Name the columns of a table: parquet, or CSV; nothing where the file is none.

    Args:
        path: The file.
        head: Its first bytes.
    """
    if head.startswith(PARQUET_MAGIC):
        return _parquet_columns(path)
    first = head.lstrip()[:16_384].partition(b"\n")[0].decode("utf-8", "replace")
    try:
        return frozenset(next(csv.reader([first]), [])) if "," in first and first[:1] not in "{[" else frozenset()
    except csv.Error:
        return frozenset()


def _parquet_columns(path: Path) -> frozenset[str]:
    """Read a parquet file's columns; without the package for it, or of a broken one, whatever its end says."""
    try:
        import pyarrow.parquet

        return frozenset(pyarrow.parquet.read_schema(path).names)
    except ImportError:
        with open_bytes(path) as file:
            file.seek(max(0, path.stat().st_size - 65_536))
            end = file.read()
            return frozenset(name for name in _KNOWN_COLUMNS if name.encode() in end)
    except (OSError, ValueError):
        return frozenset()


_KNOWN_COLUMNS = ("context.span_id", "context.trace_id", "trace_id", "parent_observation_id")
"""What tells whose table it is, where the package that reads it is missing and must be named."""


def _rows(path: Path) -> Iterator[Record | UnreadableInput]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        yield UnreadableInput(
            f"{path}: reading parquet needs the package 'pyarrow', which is not installed. "
            "Install it with: pip install 'blamespan[importers]'"
        )
        return
    number = 0
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_BATCH_ROWS):
                for row in batch.to_pylist():
                    number += 1
                    yield f"{path}: row {number}", row
    except (OSError, ValueError, pyarrow.ArrowException) as error:
        yield UnreadableInput(
            f"{path}: expected a whole parquet file, got one that is damaged after row {number}: {error}"
        )


def _lines(path: Path) -> Iterator[Record | UnreadableInput]:
    """Read CSV with a line of names; a field may hold line ends, and be as long as a line of JSON."""
    csv.field_size_limit(MAX_LINE_BYTES)
    with open_bytes(path) as file, read_errors(path):
        reader = csv.reader(
            io.TextIOWrapper(io.BufferedReader(cast(io.RawIOBase, file)), "utf-8", "surrogateescape", newline="")
        )
        names = next(reader, [])
        while True:
            try:
                row = next(reader, None)
            except csv.Error as error:
                yield UnreadableInput(
                    f"{path}:{reader.line_num}: expected a line of CSV, got one that is none: {error}"
                )
                continue
            if row is None:
                return
            if row:
                yield _fields(f"{path}:{reader.line_num}", names, row)


def _fields(place: str, names: list[str], row: list[str]) -> Record | UnreadableInput:
    if len(row) != len(names):
        return UnreadableInput(f"{place}: expected {len(names)} fields, as the first line names, got {len(row)}")
    if any("\udc80" <= mark <= "\udcff" for field in row for mark in field if not mark.isascii()):
        return UnreadableInput(f"{place}: expected UTF-8, got other bytes. Convert the file, e.g. with iconv -t utf-8.")
    return place, {name: field for name, field in zip(names, row, strict=True) if field}
