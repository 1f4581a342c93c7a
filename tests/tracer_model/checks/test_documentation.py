from __future__ import annotations

import re
from pathlib import Path

from blamespan_tracer.checks import Check, apply_checks, read_toml_checks
from tests.tracer_model.teams import team

PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "checks.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The page's code blocks of one language."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_example_file_is_read_and_judges(tmp_path: Path) -> None:
    """The page's TOML is valid and does what it says."""
    path = tmp_path / "ours.toml"
    path.write_text(blocks("toml")[0], encoding="utf-8")
    run = team(("user", "Please refund it."), ("Assistant", "refund({})", "tool_call"), roles={"user": "user"})
    verdicts = apply_checks(read_toml_checks(path), run)

    assert [(v.check.name, v.outcome) for v in verdicts] == [
        ("search-before-answer", "inconclusive"),
        ("no-refund-by-itself", "fail"),
        ("nobody-guesses", "pass"),
    ]


def test_example_in_python_runs() -> None:
    """The page's Python gives a check that breaks where it says."""
    scope: dict[str, object] = {}
    exec(blocks("python")[0], scope)
    refunds_are_small = scope["refunds_are_small"]
    assert isinstance(refunds_are_small, Check)
    run = team(("clerk", 'refund({"amount": 1000})', "tool_call"))

    assert [(v.outcome, v.step) for v in apply_checks([refunds_are_small], run)] == [("fail", 0)]
