"""The registry: a check is one function in one file, and everything else follows from it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import blamespan_tracer
from blamespan.trace import MessageActionTrace
from blamespan_tracer.alternatives.lexical import LexicalTracer
from blamespan_tracer.alternatives.network.inputs import feature_names
from blamespan_tracer.alternatives.network.tracer import NetworkTracer
from blamespan_tracer.checks import CHECKS, EVIDENCE, VERDICT_CHECKS, ExaminedRun, Finding, check
from tests.tracer_model.representation.teams import team

_NEW = """
from blamespan_tracer.checks.check import Finding, check

@check("quiet", "Nobody shouts.", mode="mast:FM-1.2", trust=0.9)
def nobody_shouts(run):
    for step in run.decisions:
        yield Finding(step.index, "fail" if step.content.isupper() else "pass", step.content, "shouts")

@check("is loud", "A step has no exclamation mark.", is_evidence=True, is_share=True)
def steps_are_calm(run):
    return run.findings([step.origins[0].content.count("!") / 10 for step in run.analysis.steps])
"""

_REPORT = """
import json
from click.testing import CliRunner
from blamespan.analysis.showing.judges import rules_of
from blamespan_tracer.checks.command import checks
from blamespan_tracer.checks import ExaminedRun
from blamespan_tracer.alternatives.lexical import LexicalTracer
from blamespan_tracer.alternatives.network.inputs import feature_names
from blamespan_tracer.alternatives.network.step_features import step_features
from blamespan_tracer.alternatives.network.tracer import NetworkTracer
from tests.tracer_model.checks.test_registry import LOUD

tracer = NetworkTracer.bundled()
print(json.dumps({
    "names": feature_names(LexicalTracer.bundled().lexicon),
    "loudness": step_features(ExaminedRun(LOUD), ("is loud",)).ravel().tolist(),
    "listed": CliRunner().invoke(checks, []).stdout,
    "rules": [rule.name for rule in rules_of(LOUD)],
    "verdict": repr(tracer.attribute([LOUD])),
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
    assert {*VERDICT_CHECKS, *EVIDENCE} == {*CHECKS}


def test_new_check_is_one_function_in_one_file(tmp_path: Path) -> None:
    """It has its columns, is listed, and is a rule of the page; the bundled network's verdict stays as it was."""
    package = tmp_path / "blamespan_tracer"
    shutil.copytree(Path(blamespan_tracer.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "checks" / "bundled" / "shouting.py").write_text(_NEW, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(Path(__file__).parents[3])])}
    done = subprocess.run(
        [sys.executable, "-c", _REPORT], env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    added = set(report["names"]) - set(feature_names(LexicalTracer.bundled().lexicon))

    assert added == {"quiet: broken", "quiet: first", "quiet: so far", "is loud", "is loud, z"}
    assert report["loudness"] == pytest.approx([0, 0.1, 0, 0])
    assert "quiet" in report["listed"]
    assert "is loud" not in report["listed"]
    assert {"quiet", "sum-holds"} <= {*report["rules"]}
    assert report["verdict"] == repr(NetworkTracer.bundled().attribute([LOUD]))


def test_check_that_raises_has_no_strength() -> None:
    """Evidence that fails on a run is logged, and tells a model nothing."""

    @check("raising", "It does not raise.", is_evidence=True)
    def raising(run: ExaminedRun) -> Iterator[Finding]:
        yield Finding(0, "fail")
        raise KeyError(run.trace.trace_id)

    np.testing.assert_array_equal(raising.strengths(ExaminedRun(LOUD)), np.zeros(4))


def test_strength_of_a_step_is_its_strongest_finding() -> None:
    """Findings that pass, or are left open, have none."""

    @check("graded", "It is graded.", is_evidence=True)
    def graded(run: ExaminedRun) -> Iterator[Finding]:
        yield Finding(1, "fail", strength=0.25)
        yield Finding(1, "fail", strength=0.75)
        yield Finding(2, "pass")
        yield Finding(3, "inconclusive")

    np.testing.assert_array_equal(graded.strengths(ExaminedRun(LOUD)), [0, 0.75, 0, 0])


def test_contradiction_names_its_source() -> None:
    """Who contradicts a tool is shown with the words of the tool."""
    run = team(
        ("searcher", 'ask({"item": "red kettle"})', "tool_call"),
        ("searcher", "It is in the shop. The price of the red kettle is 48 euros.", "tool_result"),
        ("searcher", "The price of the red kettle is 84 euros."),
    )
    (believed,) = (check for check in VERDICT_CHECKS if check.name == "result-believed")
    (result,) = believed.apply(ExaminedRun(run))

    assert result.source is not None
    assert (result.source.step, result.source.quote) == (1, "The price of the red kettle is 48 euros.")
