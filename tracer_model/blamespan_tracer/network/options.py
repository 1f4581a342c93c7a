"""Flags of commands that take a tracer: other spellings of `BLAMESPAN_DEVICE` and `BLAMESPAN_MAX_FALSE_ALARMS`.

Light: imported for the help of every such command.
"""

from __future__ import annotations

import os

import click

__all__ = ["OPTIONS"]


def _set(context: click.Context, option: click.Parameter, value: str | None) -> None:
    del context
    if value is not None and isinstance(option.envvar, str):
        os.environ[option.envvar] = value


def _option(flag: str, variable: str, metavar: str, text: str) -> click.Option:
    return click.Option([flag], envvar=variable, metavar=metavar, help=text, expose_value=False, callback=_set)


OPTIONS = (
    _option("--device", "BLAMESPAN_DEVICE", "NAME", "Where the tracer network computes: cpu, cuda, cuda:N or auto."),
    _option(
        "--max-false-alarms",
        "BLAMESPAN_MAX_FALSE_ALARMS",
        "SHARE",
        "Most sound runs that may get a verdict, as 0.05 or 5%; for tracers with an alarm, as network.",
    ),
)
"""What `blamespan analyze` and its like take for the tracer `network`."""
