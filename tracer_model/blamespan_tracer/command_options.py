"""Flags of commands that take a tracer: other spellings of variables of the tracer `judge`.

Light: imported for the help of every such command. The judge's key has no flag, as everybody can read a command line.
"""

from __future__ import annotations

import os

import click


def _set_variable(context: click.Context, option: click.Parameter, value: str | None) -> None:
    del context
    if value is not None and isinstance(option.envvar, str):
        os.environ[option.envvar] = value


def _option(flag: str, variable: str, metavar: str, text: str, *more: str) -> click.Option:
    return click.Option(
        [flag, *more],
        envvar=f"BLAMESPAN_{variable}",
        metavar=metavar,
        help=text,
        expose_value=False,
        callback=_set_variable,
    )


JUDGE_OPTIONS = (
    _option("--judge-url", "JUDGE_URL", "URL", "Endpoint of the tracer judge, as http://localhost:8000/v1."),
    _option("--judge-model", "JUDGE_MODEL", "NAME", "Model that it asks there.", "--model"),
    _option(
        "--judge-gain", "JUDGE_LEAST_GAIN", "SHARE", "Least gain for which it asks, as 0.1; 0 asks of all failures."
    ),
    _option("--judge-budget", "JUDGE_BUDGET_TOKENS", "TOKENS", "Most tokens that it may use."),
    click.Option(
        ["--no-cache"],
        is_flag=True,
        expose_value=False,
        help="Ask the judge again what it answered before.",
        callback=lambda _context, _option, value: os.environ.update(BLAMESPAN_JUDGE_CACHE="off") if value else None,
    ),
)
"""What `blamespan analyze` and its like take for the tracer `judge`."""
