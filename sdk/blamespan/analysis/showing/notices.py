"""What commands say beside their data."""

from __future__ import annotations

import click

from blamespan.analysis.showing.legible import printable

__all__ = ["notice"]


def notice(said: object) -> None:
    """Say one line on stderr; *said*, an error perhaps, may hold untrusted text."""
    click.echo(f"blamespan: {printable(str(said))}", err=True)
