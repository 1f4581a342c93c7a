"""Regular expressions mean the same in every Python that we support."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
POSSESSIVE_GROUP = re.compile(r"\)(?:[?*+]|\{[\d,{}]+\})\+|\(\?>")


def test_no_group_is_possessive() -> None:
    """Python before 3.11.5 loses matches of possessive groups (cpython issue 106052), and Debian 12 has 3.11.2."""
    folders = ("sdk", "integrations", "collector", "tracer_model")
    lines = [
        f"{path.relative_to(ROOT)}:{number}"
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if POSSESSIVE_GROUP.search(line)
    ]

    assert not lines
