"""What was measured of feedback, as a table."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

__all__ = ["print_measured"]


def print_measured(measured: Mapping[str, Any]) -> None:
    """Print the share of tasks solved by each round, with its interval, a line for each arm."""
    rounds = len(measured["arms"]["feedback"]["solved"])
    heed = f", heed {measured['heed']:g}, stubborn {measured['stubborn']:g}" if measured["heed"] is not None else ""
    table = Table(
        title=f"{measured['tasks']} tasks, {measured['agents']} agents{heed}, tracer {measured['tracer']['name']}\n"
        "solved by round, % (95 % interval over tasks)",
        title_justify="left",
        box=None,
        pad_edge=False,
    )
    table.add_column("", no_wrap=True)
    for number in range(1, rounds + 1):
        table.add_column(str(number), justify="right", no_wrap=True)
    for name, figures in measured["arms"].items():
        cells = [
            f"{share:.0f} ({low:.0f}-{high:.0f})"
            for share, (low, high) in zip(figures["solved"], figures["solved_ci"], strict=True)
        ]
        table.add_row(name, *cells)
    console = Console(file=sys.stdout)
    console.print(table)
    with_feedback = measured["arms"]["feedback"]
    if with_feedback["named_who_erred"] is not None:
        console.print(
            f"feedback named an agent that had made a mistake in {with_feedback['named_who_erred']:.0f} % of "
            f"{with_feedback['verdicts']} verdicts"
        )
    won, lost = with_feedback["won"][-1], with_feedback["lost"][-1]
    console.print(f"in the end feedback solved {won} tasks that no feedback did not, and missed {lost} that it did")
    if measured["void"]:
        console.print(f"{measured['void']} tasks left out, as a run of theirs never ended or got no answer")
