"""How many sound runs break each bundled check: `blamespan evaluate checks`."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypedDict

from blamespan.trace import MessageActionTrace
from blamespan_tracer.checks import CONTRACTS, apply_checks

__all__ = ["CheckRates", "count_broken", "write_rates"]


class CheckRates(TypedDict):
    """How many sound runs there are, and how many of them break each check, by corpus.

    A run counts where it breaks the check, also if it puts that right later. A corpus that never breaks it is left out.
    """

    runs: dict[str, int]
    broken: dict[str, dict[str, int]]


def count_broken(corpora: Mapping[str, Iterable[MessageActionTrace]]) -> CheckRates:
    """Count on sound runs, by the name of their corpus."""
    sizes: dict[str, int] = {}
    broken: dict[str, Counter[str]] = defaultdict(Counter)
    for corpus, runs in corpora.items():
        for run in runs:
            sizes[corpus] = sizes.get(corpus, 0) + 1
            for name in {result.check.name for result in apply_checks(CONTRACTS, run) if result.outcome == "fail"}:
                broken[name][corpus] += 1
    return {"runs": sizes, "broken": {check.name: dict(broken[check.name]) for check in CONTRACTS}}


def write_rates(rates: CheckRates, path: Path) -> None:
    """Write the file that the tracer `auto` reads."""
    path.write_text(json.dumps(rates, indent=1) + "\n", encoding="utf-8")
