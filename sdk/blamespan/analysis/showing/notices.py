"""What commands say beside their data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

import click

from blamespan.analysis.showing.legible import clean
from blamespan.errors import UnreadableInput

_RunT = TypeVar("_RunT")


def notice(message: object) -> None:
    """Print a message on stderr, an error perhaps; it may hold untrusted text, and lists on lines of their own.

    Further lines are indented, so that untrusted text cannot pose as a message of ours.
    """
    first, *more = clean(str(message)).splitlines() or [""]
    click.echo("\n".join([f"blamespan: {first}", *(f"  {text.strip()}" for text in more)]), err=True)


def readable(items: Iterable[_RunT | UnreadableInput], refused: list[UnreadableInput]) -> Iterator[_RunT]:
    """Pass on what could be read; what could not is named on stderr and kept in *refused*."""
    for item in items:
        if isinstance(item, UnreadableInput):
            notice(item)
            refused.append(item)
        else:
            yield item
