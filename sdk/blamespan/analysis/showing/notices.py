"""What commands say beside their data."""

from __future__ import annotations

import click

from blamespan.analysis.showing.legible import printable


def notice(message: object) -> None:
    """Print one line on stderr; *message*, an error perhaps, may hold untrusted text."""
    click.echo(f"blamespan: {printable(str(message))}", err=True)
