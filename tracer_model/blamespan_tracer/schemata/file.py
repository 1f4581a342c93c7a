"""The file of schemata: TOML that people edit and share. Writers take turns; a file appears whole, or not at all.

A schema is added at the end of the file, and changed where it stands: what people wrote beside it, comments among it,
stays.
"""

from __future__ import annotations

import json
import logging
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Final, cast

from blamespan.appending import hold_lock, sync_folder
from blamespan.errors import BlamespanError, ConfigError, reason_of
from blamespan.learnt_files import SCHEMATA_FILE
from blamespan.plugins import load_part
from blamespan.strict_tables import refuse_unknown_keys
from blamespan_tracer.schemata.schema import ErrorSchema, SeenFailure, Signature, read_schema

SCHEMATA_VARIABLE: Final = "BLAMESPAN_SCHEMATA"
"""Environment variable: the file; `none` for none."""

_MAX_BYTES: Final = 8 * 1024 * 1024
_MAX_SCHEMATA: Final = 2_000
_BLOCK = re.compile(r"(?m)^[ \t]*\[\[[ \t]*schema[ \t]*\]\][ \t]*(?:#.*)?$")
_HEAD: Final = (
    "# Error schemata: failures that are known, and how to know them again. To be edited: docs/how-to/schemata.md.\n"
)

_log = logging.getLogger("blamespan.schemata")


class SchemataFile:
    """A file of schemata.

    Args:
        path: The file; need not be there yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> tuple[ErrorSchema, ...]:
        """Read every schema, in order; none where there is no file.

        Raises:
            ConfigError: if it cannot be read, is no TOML, or has an unknown key, a wrong value or a name twice.
        """
        return self._parse(self._load())

    def add(self, schema: ErrorSchema) -> None:
        """Add a schema at the end; it is on the disk when this returns.

        Raises:
            ConfigError: as `read`; if there is one of this name, or the file cannot be written.
        """
        with self._writing() as text:
            known = self._parse(text)
            if any(one.name == schema.name for one in known):
                raise ConfigError(f"expected a name that is not in {str(self.path)!r}, got {schema.name!r}. "
                                  "Choose another with --name")  # fmt: skip
            body = text if text.endswith("\n") or not text else text + "\n"
            self._replace((body or _HEAD) + "\n" + write_schema(schema), [*known, schema])

    def add_seen(self, name: str, seen: SeenFailure) -> None:
        """Note that a schema was seen once more; one that is known already stays as it is.

        Raises:
            ConfigError: as `read`; if the file cannot be written.
            ValueError: if there is no such schema.
        """
        with self._writing() as text:
            known = list(self._parse(text))
            place = [schema.name for schema in known].index(name)
            schema = known[place]
            if all((one.trace_id, one.step) != (seen.trace_id, seen.step) for one in schema.seen):
                known[place] = replace(schema, seen=(*schema.seen, seen))
                self._replace(_replace_block(text, place, write_schema(known[place])), known)

    def _load(self) -> str:
        try:
            if not self.path.exists():
                return ""
            if self.path.stat().st_size > _MAX_BYTES:
                raise ConfigError(f"expected a file of up to {_MAX_BYTES} bytes, got {str(self.path)!r}. Part it")
            return self.path.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            if isinstance(error, ConfigError):
                raise
            raise ConfigError(
                f"expected schemata in TOML at {str(self.path)!r}, got {reason_of(error)}. Choose another with --file"
            ) from error

    def _parse(self, text: str) -> tuple[ErrorSchema, ...]:
        try:
            document = tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            raise ConfigError(
                f"expected schemata in TOML at {str(self.path)!r}, got {error}. docs/how-to/schemata.md shows the form"
            ) from error
        where = self.path.name
        refuse_unknown_keys(document, ("schema",), where)
        entries = document.get("schema", [])
        if not isinstance(entries, list) or len(entries) > _MAX_SCHEMATA:
            raise ConfigError(f"{where}: expected up to {_MAX_SCHEMATA} tables [[schema]], got {str(entries)[:60]!r}")
        schemata = tuple(read_schema(entry, f"{where}, schema {number}") for number, entry in enumerate(entries, 1))
        names = [schema.name for schema in schemata]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ConfigError(f"{where}: expected every name once, got {twice!r} twice. Rename one of them")
        return schemata

    @contextmanager
    def _writing(self) -> Iterator[str]:
        """Hold the file for one writer, and give what is in it now.

        The lock is a file of its own: the file itself is replaced.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.with_name(f".{self.path.name}.lock").open("a") as lock, hold_lock(lock.fileno()):
                yield self._load()
        except OSError as error:
            raise ConfigError(
                f"expected a file of schemata that can be written, got {str(self.path)!r} ({error.strerror or error}). "
                "Choose another with --file"
            ) from error

    def _replace(self, text: str, expected: Sequence[ErrorSchema]) -> None:
        """Put a new text in the file's place, if it says what is expected; else write that anew, without comments."""
        try:
            is_right = self._parse(text) == tuple(expected)
        except ConfigError:
            is_right = False
        if not is_right:
            text = "\n".join([_HEAD, *(write_schema(schema) for schema in expected)])
            if self._parse(text) != tuple(expected):
                raise ConfigError(f"expected a schema that can be written to {str(self.path)!r}, got one that cannot. "
                                  "Correct it")  # fmt: skip
        made = self.path.with_name(f".{self.path.name}.{os.getpid()}.tmp")
        try:
            with made.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            made.replace(self.path)
            sync_folder(self.path.parent)
        finally:
            with suppress(FileNotFoundError):
                made.unlink()


def write_schema(schema: ErrorSchema) -> str:
    """Write a schema as TOML; what is empty is left out."""
    lines = ["[[schema]]", *_write_texts(schema, ("name", "title", "mode")), f"threshold = {schema.threshold!r}"]
    lines += _write_texts(schema, ("example",))
    signature = schema.signature
    lines += ["", "[schema.signature]"]
    for name in (field.name for field in fields(Signature)):
        if name == "findings":
            lines += (
                ["findings = [", *(f"    {_quote(finding)}," for finding in signature.findings), "]"]
                if signature.findings
                else []
            )
        else:
            lines += _write_texts(signature, (name,))
    for seen in schema.seen:
        lines += ["", "[[schema.seen]]", f"trace_id = {_quote(seen.trace_id)}", f"step = {seen.step}"]
        lines += _write_texts(seen, ("at", "by"))
    return "\n".join(lines) + "\n"


def schemata_file() -> Path | None:
    """Return the file of schemata: what `BLAMESPAN_SCHEMATA` says, else the one beside this user's store.

    Returns:
        None where the variable says `none`, or nobody knows of a store. The file need not be there.
    """
    named = os.environ.get(SCHEMATA_VARIABLE, "").strip()
    if named:
        return None if named.lower() == "none" else Path(named).expanduser()
    try:
        return cast("Callable[[], Path]", load_part("store_folder"))() / SCHEMATA_FILE
    except BlamespanError:
        return None


def schemata_in_use() -> tuple[ErrorSchema, ...]:
    """Read the schemata of `schemata_file`; none where there is no file, or it is damaged, which the log says once."""
    path = schemata_file()
    try:
        found = None if path is None else path.stat()
    except OSError:
        return ()
    if path is None or found is None:
        return ()
    return _read_cached(path, found.st_mtime_ns, found.st_size, found.st_ino)


@lru_cache(maxsize=4)
def _read_cached(path: Path, *changed: int) -> tuple[ErrorSchema, ...]:
    del changed
    try:
        return SchemataFile(path).read()
    except ConfigError as error:
        _log.error("no failure is known again: %s", error)
        return ()


def _replace_block(text: str, place: int, block: str) -> str:
    """Put *block* in the place of the schema number *place* of a text; comments before the next one stay with it."""
    starts = [match.start() for match in _BLOCK.finditer(text)]
    if place >= len(starts):
        return ""
    end = starts[place + 1] if place + 1 < len(starts) else len(text)
    own = text[starts[place] : end]
    kept = re.search(r"(?:[ \t]*#.*\n|[ \t]*\n)*\Z", own)
    after = kept.group() if kept is not None else ""
    return text[: starts[place]] + block + after + text[end:]


def _write_texts(record: ErrorSchema | Signature | SeenFailure, names: Sequence[str]) -> list[str]:
    return [f"{name} = {_quote(text)}" for name in names if (text := getattr(record, name))]


def _quote(text: str) -> str:
    """Write a text as TOML does: its basic strings are JSON's, but for a character that JSON lets stand."""
    return json.dumps(text.encode("utf-8", "replace").decode(), ensure_ascii=False).replace("\x7f", "\\u007f")
