"""`blamespan lab modes`: every error mode with its code and meaning."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

import click
from rich.console import Console
from rich.table import Table

from blamespan.taxonomy import AEGIS, EXTENSION, MAST, ErrorMode, canonical

_TAXONOMIES: tuple[tuple[str, str, Mapping[str, ErrorMode]], ...] = (
    (
        "MAST",
        "The 14 modes of [MAST](https://arxiv.org/abs/2503.13657). Verdicts use these codes wherever MAST has one.",
        MAST,
    ),
    (
        "Extension",
        "What MAST lacks (`X1` to `X7` of agents, `X8` to `X10` of workflows), and two answers that are not an agent's "
        "error (`N0`, `N1`).",
        EXTENSION,
    ),
    (
        "AEGIS",
        "The 14 modes that [AEGIS](https://arxiv.org/abs/2509.14295) injects. It uses MAST's codes, several of them "
        "with another meaning: read the taxonomy beside the code. The tracer `lexical` answers with these.",
        AEGIS,
    ),
)


@click.command(
    epilog="""\b
Examples:
  blamespan lab modes
  blamespan lab modes --json
"""
)
@click.option("--json", "wants_json", is_flag=True, help="Print one JSON object per mode, each on a line.")
def modes(wants_json: bool) -> None:
    """List every error mode that a verdict can name."""
    if wants_json:
        for _, _, taxonomy in _TAXONOMIES:
            for mode in taxonomy.values():
                click.echo(json.dumps(_document(mode)))
        return
    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("code", no_wrap=True)
    table.add_column("name")
    table.add_column("meaning")
    for _, _, taxonomy in _TAXONOMIES:
        for mode in taxonomy.values():
            table.add_row(str(mode), mode.name, mode.definition)
    console.print(table)


def modes_page() -> str:
    """Write the page of error modes, as `scripts/docs` puts it into the reference."""
    lines = [
        "# Error modes",
        "",
        "What a verdict can name, as `blamespan.error.mode` on a span holds it: `taxonomy:code`.",
        "`blamespan lab modes` prints the same list.",
    ]
    for title, introduction, taxonomy in _TAXONOMIES:
        lines += ["", f"## {title}", "", introduction, "", *_rows(taxonomy.values(), has_mast=taxonomy is AEGIS)]
    return "\n".join(lines) + "\n"


def _rows(taxonomy: Iterable[ErrorMode], *, has_mast: bool) -> list[str]:
    if not has_mast:
        return [
            "| code | name | meaning |",
            "|---|---|---|",
            *(f"| `{mode}` | {mode.name} | {mode.definition} |" for mode in taxonomy),
        ]
    lines = ["| code | name | meaning | in MAST |", "|---|---|---|---|"]
    for mode in taxonomy:
        target, relation = canonical(mode)
        in_mast = "-" if target is None else f"`{target}`, {'the same' if relation == 'same' else 'near'}"
        lines.append(f"| `{mode}` | {mode.name} | {mode.definition} | {in_mast} |")
    return lines


def _document(mode: ErrorMode) -> dict[str, str | None]:
    target, relation = canonical(mode)
    return {
        "code": str(mode),
        "name": mode.name,
        "meaning": mode.definition,
        "canonical": None if target is None else str(target),
        "relation": relation,
    }
