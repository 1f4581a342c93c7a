"""Error modes as a person types them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from blamespan.errors import ConfigError
from blamespan.taxonomy import EXTENSION, MAST, ErrorMode, mode

MODES: Final[tuple[ErrorMode, ...]] = (
    *MAST.values(),
    *(extension for code, extension in EXTENSION.items() if code.startswith("X")),
)
"""What an agent can be blamed for, in canonical words."""


def parse_mode(text: str) -> ErrorMode:
    """Read `mast:FM-3.2`, `fm-3.2`, `x3`, or the beginning of a name that only one mode has.

    Raises:
        ConfigError: if it is none of these; the message names what it might be.
    """
    typed = " ".join(text.split()).casefold()
    extension = list(_meant(typed))
    if len(extension) == 1:
        return extension[0]
    if len(extension) > 1:
        names = ", ".join(f"{match.name} ({match})" for match in extension)
        raise ConfigError(f"expected one error mode, got {text!r}, which could be {names}. Type its code")
    return mode(text)


def _meant(typed: str) -> Iterator[ErrorMode]:
    exact = [mode for mode in MODES if typed in (mode.code.casefold(), str(mode).casefold(), mode.name.casefold())]
    yield from exact or (mode for mode in MODES if typed and mode.name.casefold().startswith(typed))
