"""Data in TOML files beside the code: word lists, themes and catalogues, read into typed records and checked."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter

from blamespan.errors import ConfigError

_RecordT = TypeVar("_RecordT")


def read_data_file(kind: type[_RecordT], path: Path) -> _RecordT:
    """Read the TOML file at *path* into *kind*, a dataclass whose fields are the keys at its top.

    Raises:
        ConfigError: if the file is missing or no TOML, or a key is missing, unknown or has a value of another type.
    """
    try:  # as JSON: strict, but a list stands for a tuple
        text = json.dumps(tomllib.loads(path.read_text(encoding="utf-8")))
        return TypeAdapter(kind).validate_json(text, strict=True, extra="forbid")
    except (OSError, ValueError) as error:  # what pydantic refuses is a ValueError, too
        raise ConfigError(
            f"expected a data file that fits {kind.__name__} at {str(path)!r}, got {error}. Install blamespan anew"
        ) from error
