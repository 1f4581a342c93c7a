"""What commands say beside their data."""

from __future__ import annotations

import click

from blamespan.analysis.showing.legible import clean


def notice(message: object) -> None:
    """Print a message on stderr, an error perhaps; it may hold untrusted text, and lists on lines of their own."""
    click.echo(f"blamespan: {clean(str(message))}", err=True)
