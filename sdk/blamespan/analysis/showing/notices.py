"""What commands say beside their data."""

from __future__ import annotations

import click

from blamespan.analysis.showing.legible import clean


def notice(message: object) -> None:
    """Print a message on stderr, an error perhaps; it may hold untrusted text, and lists on lines of their own.

    Further lines are indented, so that untrusted text cannot pose as a message of ours.
    """
    first, *more = clean(str(message)).splitlines() or [""]
    click.echo("\n".join([f"blamespan: {first}", *(f"  {text.strip()}" for text in more)]), err=True)
