"""The registry: a check is one function in one file, and everything else follows from it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import blamespan_tracer
from blamespan.trace import MessageActionTrace
from blamespan_tracer.checks import CHECKS, ExaminedRun
from tests.tracer_model.teams import team

_NEW = """
from blamespan_tracer.checks.check import Finding, check

@check("quiet", "Nobody shouts.", mode="mast:FM-1.2", trust=0.9)
def nobody_shouts(run):
    for step in run.decisions:
        yield Finding(step.index, "fail" if step.content.isupper() else "pass", step.content, "shouts")
"""

_REPORT = """
import json
from click.testing import CliRunner
from blamespan.analysis.showing.findings import rules_of
from blamespan_tracer.checks.command import checks
from tests.tracer_model.checks.test_registry import LOUD

print(json.dumps({
    "listed": CliRunner().invoke(checks, []).stdout,
    "rules": [rule.name for rule in rules_of(LOUD).rules],
}))
"""

LOUD: MessageActionTrace = team(
    ("planner", "Please add up the boxes."),
    ("solver", "WE GET 12 * 3 = 35. FINE!"),
    ("checker", "I checked it, that is correct."),
    ("planner", "The final answer is 35."),
)


def test_names_are_unique_and_every_check_has_a_phrase() -> None:
    """A name means one check, and what it checks is a sentence."""
    names = [check.name for check in CHECKS]

    assert len(set(names)) == len(names)
    assert all(check.title[:1].isupper() and check.title.endswith(".") for check in CHECKS)
    assert all(0 <= check.trust <= 1 for check in CHECKS)


def test_new_check_is_one_function_in_one_file(tmp_path: Path) -> None:
    """It is listed, and is a rule of the page."""
    package = tmp_path / "blamespan_tracer"
    shutil.copytree(Path(blamespan_tracer.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "checks" / "bundled" / "shouting.py").write_text(_NEW, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(Path(__file__).parents[3])])}
    done = subprocess.run(
        [sys.executable, "-c", _REPORT], env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)

    assert "quiet" in report["listed"]
    assert {"quiet", "sum-holds"} <= {*report["rules"]}


def test_contradiction_names_its_source() -> None:
    """Who contradicts a tool is shown with the words of the tool."""
    run = team(
        ("searcher", 'ask({"item": "red kettle"})', "tool_call"),
        ("searcher", "It is in the shop. The price of the red kettle is 48 euros.", "tool_result"),
        ("searcher", "The price of the red kettle is 84 euros."),
    )
    (believed,) = (check for check in CHECKS if check.name == "result-believed")
    (result,) = believed.apply(ExaminedRun(run))

    assert result.source is not None
    assert (result.source.step, result.source.quote) == (1, "The price of the red kettle is 48 euros.")
