"""What was measured of feedback, as a table."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

__all__ = ["print_measured"]


def print_measured(found: Mapping[str, Any]) -> None:
    """Print the share of tasks solved by each round, with its interval, a line for each arm."""
    rounds = len(found["arms"]["feedback"]["solved"])
    heed = f", heed {found['heed']:g}, stubborn {found['stubborn']:g}" if found["heed"] is not None else ""
    table = Table(
        title=f"{found['tasks']} tasks, {found['agents']} agents{heed}, tracer {found['tracer']['name']}\n"
        "solved by round, % (95 % interval over tasks)",
        title_justify="left",
        box=None,
        pad_edge=False,
    )
    table.add_column("", no_wrap=True)
    for number in range(1, rounds + 1):
        table.add_column(str(number), justify="right", no_wrap=True)
    for name, figures in found["arms"].items():
        cells = [
            f"{share:.0f} ({low:.0f}-{high:.0f})"
            for share, (low, high) in zip(figures["solved"], figures["solved_ci"], strict=True)
        ]
        table.add_row(name, *cells)
    console = Console(file=sys.stdout)
    console.print(table)
    told = found["arms"]["feedback"]
    if told["named_who_erred"] is not None:
        console.print(
            f"feedback named an agent that had made a mistake in {told['named_who_erred']:.0f} % of "
            f"{told['verdicts']} verdicts"
        )
    won, lost = told["won"][-1], told["lost"][-1]
    console.print(f"in the end feedback solved {won} tasks that no feedback did not, and missed {lost} that it did")
    if found["void"]:
        console.print(f"{found['void']} tasks left out, as a run of theirs never ended or got no answer")
