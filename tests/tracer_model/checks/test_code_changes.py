"""Code that somebody else changes on the way stands out; its author may change it as it likes."""

from __future__ import annotations

import pytest

from tests.tracer_model.representation.teams import feature, team

_LINES = ("def solve(values):", "    kept = sorted(values)", "    kept = kept[:3]", "    return kept")


def _fenced(*lines: str) -> str:
    return "Here it is:\n```python\n" + "\n".join(lines) + "\n```"


@pytest.mark.parametrize(
    ("author", "lines", "alters"),
    [
        ("checker", (_LINES[0], _LINES[2], _LINES[3]), 1.0),
        ("checker", (*_LINES[:2], "    kept = kept[:4]", _LINES[3]), 1.0),
        ("checker", _LINES, 0.0),
        ("coder", (_LINES[0], _LINES[2], _LINES[3]), 0.0),
        ("checker", ("import math", "print(math.pi)"), 0.0),
    ],
)
def test_code_of_another_with_a_line_changed_stands_out(author: str, lines: tuple[str, ...], alters: float) -> None:
    """A line less, a line otherwise; not the same code, one's own, or other code."""
    run = team(("coder", _fenced(*_LINES)), ("planner", "Please check it."), (author, _fenced(*lines)))

    assert feature(run, "alters another's code")[-1] == alters
