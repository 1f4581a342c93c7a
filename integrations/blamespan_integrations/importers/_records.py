"""The records of a file, however it holds them: JSON in any form, CSV, or parquet.

JSON values stand one per line, in one array, after each other, or as one document. Each is read on its own, so that a
file of any size takes the memory of its largest value.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

from blamespan import json_text
from blamespan.errors import UnreadableInput
from blamespan.importing.files import MAX_LINE_BYTES, head_of, open_bytes, read_errors
from blamespan.importing.recorded import RecordedRun
from blamespan.json_text import MAX_NESTING, is_deep, may_hold_half_pairs, without_half_pairs

_READ_BYTES = 1 << 18
_BLANK = re.compile(r"[ \t\r\n]*")
_NOT_UTF8 = re.compile("[\udc80-\udcff]")
"""What a byte that is no UTF-8 is decoded to; JSON itself would have to write these as escapes."""
PARQUET_MAGIC = b"PAR1"
"""First bytes of a parquet file."""

_BATCH_ROWS = 256
_LEAST_ROW_BYTES = 8
"""A row of spans has a random id, which no compression makes smaller: more rows than that are somebody's bomb."""

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")
Record: TypeAlias = tuple[str, dict[str, Any]]
"""Where a record stands, and its fields: whatever the file holds, checked by whoever reads them."""


@dataclass(frozen=True, slots=True)
class JsonValue:
    """One value of a file.

    Attributes:
        location: The file and the line on which it begins; within an array, its index too.
        group: Which of the file's outermost values it is, or is an element of, from 0.
        value: As `json.loads` gives it, nested at most `MAX_NESTING` deep, halves of surrogate pairs as U+FFFD.
        text: As it stands in the file.
        is_element: Whether it is an element of an outermost array.
    """

    location: str
    group: int
    value: Any
    text: str
    is_element: bool


def json_objects(path: Path, expected: str) -> Iterator[JsonValue | UnreadableInput]:
    """Yield every object of a file; for whatever else stands there, an error in its place.

    Args:
        path: The file.
        expected: What each should be, for the message: `a LangSmith run`.

    Raises:
        UnreadableInput: if the file cannot be opened.
    """
    return _objects(json_values(path, expected), expected)


def objects_in(value: object) -> list[dict[str, Any]]:
    """List the objects in a JSON array; none where it is no array."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def wrong_field(record: JsonValue, what: str, expected: str, value: object) -> UnreadableInput:
    """Return the error of a record, *what* it should be, with a field that is not as *expected*."""
    return UnreadableInput(
        f"{record.location}: expected {what} with {expected}, got {str(value)[:60]!r}. "
        "Correct the line or remove it, or name another format with analyze --format."
    )


def runs_of_objects(
    path: Path, expected: str, run_of: Callable[[JsonValue], RecordedRun]
) -> Iterator[RecordedRun | UnreadableInput]:
    """Yield one run per object of a file; for what is none, the error in its place.

    Args:
        path: The file.
        expected: As for `json_objects`.
        run_of: Makes the run, or raises `UnreadableInput`.

    Raises:
        UnreadableInput: if the file cannot be opened.
    """
    return read_each(json_objects(path, expected), lambda item: (run_of(item),))


def read_each(
    items: Iterable[ItemT | UnreadableInput], read: Callable[[ItemT], Iterable[ResultT]]
) -> Iterator[ResultT | UnreadableInput]:
    """Yield what *read* makes of each item; where there is an error in its place, or *read* raises one, the error.

    Args:
        items: Each, or the error in its place.
        read: Makes any number of results of an item, or raises `UnreadableInput`.
    """
    for item in items:
        if isinstance(item, UnreadableInput):
            yield item
            continue
        try:
            yield from read(item)
        except UnreadableInput as error:
            yield error


def json_objects_of(document: bytes, location: str, expected: str) -> Iterator[JsonValue | UnreadableInput]:
    """Yield every object of *document*, likewise.

    Args:
        document: In UTF-8.
        location: What it is called, for messages.
        expected: What each should be, for the message.
    """
    return _objects(_values(_TextWindow(location, io.BytesIO(document), expected)), expected)


def _objects(values: Iterator[JsonValue | UnreadableInput], expected: str) -> Iterator[JsonValue | UnreadableInput]:
    for item in values:
        if isinstance(item, JsonValue) and not isinstance(item.value, dict):
            yield UnreadableInput(
                f"{item.location}: expected {expected}, a JSON object, got {item.text[:60]!r}. "
                "Is this another format? Name it with --format."
            )
        else:
            yield item


def json_values(path: Path, expected: str) -> Iterator[JsonValue | UnreadableInput]:
    """Yield every outermost value of a file, of an outermost array its elements.

    Where one cannot be read there is an error in its place, and the next that begins a line is read on.

    Args:
        path: The file.
        expected: What each should be, for the message.

    Raises:
        UnreadableInput: if the file cannot be opened.
    """
    with open_bytes(path) as file:
        text = _TextWindow(path, file, expected)
        try:
            yield from _values(text)
        except UnreadableInput as error:
            yield error


def value_groups(
    path: Path, expected: str, as_group: Callable[[JsonValue], Any], most: int
) -> Iterator[tuple[str, Any] | UnreadableInput]:
    """Yield the values of a file in groups, each with its place: what holds a group, or all loose ones in a row.

    Args:
        path: The file.
        expected: As for `json_values`.
        as_group: Returns the group that a value holds; None for one that belongs to the loose ones.
        most: Loose values that are held; of more, no more than show that there are.

    Raises:
        UnreadableInput: if the file cannot be opened.
    """
    loose: list[Any] = []
    group, location = -1, str(path)
    for item in json_values(path, expected):
        if isinstance(item, UnreadableInput):
            yield item
            continue
        if item.is_element and item.group != group and loose:
            yield location, loose
            loose = []
        group = item.group
        if (found := as_group(item)) is not None:
            yield item.location, found
        else:
            location = location if loose else item.location
            if len(loose) <= most:
                loose.append(item.value)
    if loose:
        yield location, loose


def _values(text: _TextWindow) -> Iterator[JsonValue | UnreadableInput]:
    group, index = -1, -1  # the index is below 0 outside of an array
    while mark := text.skip_blank():
        if index >= 0 and mark in ",]":
            text.skip(1)
            index = index if mark == "," else -1
            continue
        if index < 0:
            group += 1
            if mark == "[":
                text.skip(1)
                index = 0
                continue
        try:
            yield text.value(group, index)
            index += index >= 0
        except _UnreadableValue as error:
            yield UnreadableInput(f"{error.location}: {error}")
            if not error.can_go_on:
                index = -1
                text.skip_to_line_that_begins_a_value()


class _UnreadableValue(Exception):
    """A value that cannot be taken.

    Attributes:
        location: Where it stands.
        can_go_on: Whether what follows it can be read.
    """

    def __init__(self, location: str, message: str, *, can_go_on: bool = False) -> None:
        super().__init__(message)
        self.location = location
        self.can_go_on = can_go_on


class _TextWindow:
    """A file's text as a window that moves on: never more of it in memory than one value needs."""

    def __init__(self, path: Path | str, file: io.BufferedIOBase, expected: str) -> None:
        self._path = path
        self._file = file
        self._expected = expected
        self._decode = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode
        self._decode_json = json.JSONDecoder().raw_decode
        self._buffer = ""
        self._at = 0
        self._line = 1
        self._is_at_end = False
        self._trouble: UnreadableInput | None = None

    def skip_blank(self) -> str:
        """Go on to the next character that is not blank, and give it; empty at the file's end."""
        while True:
            blank = _BLANK.match(self._buffer, self._at)
            self.skip((blank.end() if blank else self._at) - self._at)
            if self._at < len(self._buffer):
                return self._buffer[self._at]
            if not self._read_more():
                return ""

    def skip(self, count: int) -> None:
        """Go on by *count* characters."""
        self._line += self._buffer.count("\n", self._at, self._at + count)
        self._at += count

    def skip_to_line_that_begins_a_value(self) -> None:
        """Go on to the next line that begins with a bracket: within a broken value nothing else can be told."""
        while True:
            end = self._buffer.find("\n", self._at)
            self.skip((end + 1 if end >= 0 else len(self._buffer)) - self._at)
            if self._at == len(self._buffer) and not self._read_more():
                return
            if end >= 0 and self._buffer[self._at] in "{[":
                return

    def value(self, group: int, index: int) -> JsonValue:
        """Read the value that begins here.

        Raises:
            _UnreadableValue: if it is none.
            UnreadableInput: if the file breaks off.
        """
        location = f"{self._path}:{self._line}" + (f"[{index}]" if index >= 0 else "")
        value, end = self._parse(location)
        text = self._buffer[self._at : end]
        self.skip(end - self._at)
        bad = None if text.isascii() else _NOT_UTF8.search(text)
        if bad:
            raise _UnreadableValue(
                location,
                f"expected UTF-8, got the byte {ord(bad[0]) - 0xDC00:#x} in {text[max(0, bad.start() - 20) :][:40]!a}. "
                "Convert the file, e.g. with iconv -f latin1 -t utf-8.",
                can_go_on=True,
            )
        if text.count("[") + text.count("{") > MAX_NESTING and is_deep(value):
            raise _UnreadableValue(
                location, f"expected JSON nested at most {MAX_NESTING} deep, got more", can_go_on=True
            )
        if may_hold_half_pairs(text):
            value = without_half_pairs(value)
        return JsonValue(location, group, value, text, index >= 0)

    def _parse(self, location: str) -> tuple[Any, int]:
        while True:
            try:
                value, end = self._decode_json(self._buffer, self._at)
                if end < len(self._buffer) or not self._read_more():
                    return value, end
            except RecursionError as error:
                raise _UnreadableValue(
                    location, f"expected JSON nested at most {MAX_NESTING} deep, got more"
                ) from error
            except ValueError as error:
                if self._is_broken(error) or not self._read_more():
                    start = self._buffer[self._at : self._at + 60].partition("\n")[0]
                    reason = error.msg if isinstance(error, json.JSONDecodeError) else error
                    raise _UnreadableValue(
                        location,
                        f"expected {self._expected}, got no JSON: {start!a} ({reason}). Export the file again, "
                        "or remove what is broken.",
                    ) from error
            if len(self._buffer) - self._at > MAX_LINE_BYTES:
                raise _UnreadableValue(
                    location,
                    f"expected a value of at most {MAX_LINE_BYTES} characters, got more. Export fewer runs at a time, "
                    "or one per line.",
                )

    def _is_broken(self, error: ValueError) -> bool:
        """Return whether more text could not mend it."""
        if not isinstance(error, json.JSONDecodeError):
            return True
        return error.pos < len(self._buffer) - 16 and not error.msg.startswith("Unterminated string")

    def _read_more(self) -> bool:
        """Read on; twice as much each time, so that a long value is not parsed over and over."""
        unread = self._buffer[self._at :]
        if self._trouble is not None:
            raise self._trouble
        if self._is_at_end:
            return False
        raw = self._read(max(_READ_BYTES, len(unread)))
        self._is_at_end = not raw and self._trouble is None
        self._buffer, self._at = unread + self._decode(raw, final=not raw), 0
        return len(self._buffer) > len(unread) or (self._trouble is not None and self._read_more())

    def _read(self, size: int) -> bytes:
        """Read up to *size* bytes; where the file breaks off before, what there is: the trouble is raised later."""
        pieces: list[bytes] = []
        try:
            with read_errors(Path(self._path)):
                while size > 0 and (piece := self._file.read1(size)):
                    pieces.append(piece)
                    size -= len(piece)
        except UnreadableInput as error:
            self._trouble = error
        return b"".join(pieces)


def parse_object(text: bytes, source: str, expected: str) -> dict[str, Any]:
    """Parse *text* as one JSON object; the values are whatever the file holds.

    Args:
        text: UTF-8.
        source: Where it comes from, for the message.
        expected: What it should be, for the message: `an AEGIS run`.

    Raises:
        UnreadableInput: if it is anything else.
    """
    try:
        value = json_text.parse_json(text.decode("utf-8-sig"))
    except ValueError as error:
        raise UnreadableInput(
            f"{source}: expected {expected} as a JSON object, got {text[:60]!r} ({error}). "
            "Export the file again, or remove what is broken."
        ) from error
    if not isinstance(value, dict):
        raise UnreadableInput(
            f"{source}: expected {expected} as a JSON object, got {type(value).__name__} {text[:60]!r}. "
            "Is this another format? Name it with --format."
        )
    return value


def iter_records(path: Path, expected: str) -> Iterator[Record | UnreadableInput]:
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
        yield from read_each(json_objects(path, expected), lambda item: ((item.location, item.value),))
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
            rows, size_bytes = file.metadata.num_rows, path.stat().st_size
            if rows * _LEAST_ROW_BYTES > size_bytes:
                yield UnreadableInput(
                    f"{path}: expected rows with an id of their own, at least {_LEAST_ROW_BYTES} bytes each, "
                    f"got {rows} rows in {size_bytes} bytes. Export the table again"
                )
                return
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


def _fields(location: str, names: list[str], row: list[str]) -> Record | UnreadableInput:
    if len(row) != len(names):
        return UnreadableInput(f"{location}: expected {len(names)} fields, as the first line names, got {len(row)}")
    if any("\udc80" <= mark <= "\udcff" for field in row for mark in field if not mark.isascii()):
        return UnreadableInput(
            f"{location}: expected UTF-8, got other bytes. Convert the file, e.g. with iconv -t utf-8."
        )
    return location, {name: field for name, field in zip(names, row, strict=True) if field}
