"""Error modes as a person types them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from blamespan.errors import ConfigError
from blamespan.taxonomy import EXTENSION, MAST, ErrorMode, mode

__all__ = ["MODES", "mode_typed"]

MODES: Final[tuple[ErrorMode, ...]] = (
    *MAST.values(),
    *(found for code, found in EXTENSION.items() if code.startswith("X")),
)
"""What an agent can be blamed for, in canonical words."""


def mode_typed(text: str) -> ErrorMode:
    """Read `mast:FM-3.2`, `fm-3.2`, `x3`, or the beginning of a name that only one mode has.

    Raises:
        ConfigError: if it is none of these; the message names what it might be.
    """
    said = " ".join(text.split()).casefold()
    found = list(_meant(said))
    if len(found) == 1:
        return found[0]
    if len(found) > 1:
        names = ", ".join(f"{one.name} ({one})" for one in found)
        raise ConfigError(f"expected one error mode, got {text!r}, which could be {names}. Type its code")
    return mode(text)


def _meant(said: str) -> Iterator[ErrorMode]:
    exact = [one for one in MODES if said in (one.code.casefold(), str(one).casefold(), one.name.casefold())]
    yield from exact or (one for one in MODES if said and one.name.casefold().startswith(said))
