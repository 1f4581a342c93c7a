"""Code that somebody else changes on the way stands out; its author may change it as it likes."""

from __future__ import annotations

import pytest

from blamespan_tracer.representation import STEP_FEATURES, represent
from tests.tracer_model.representation.teams import team

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

    assert represent(run).features[-1, STEP_FEATURES.index("alters another's code")] == alters
