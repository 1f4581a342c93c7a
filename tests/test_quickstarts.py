"""The programs of `examples/` say on their first run which agent erred, and nothing of their sound twins."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
WRONG, RIGHT = "12 * 31 = 362, so 3 crates hold 1086 lamps.", "12 * 31 = 372, so 3 crates hold 1116 lamps."


BOTH = """
import runpy
runpy.run_path("wrong.py", run_name="__main__")
runpy.run_path("right.py", run_name="__main__")
"""


@pytest.mark.parametrize("framework", ["agent_framework", "autogen", "langgraph"])
def test_quickstart_names_who_miscalculated(tmp_path: Path, framework: str) -> None:
    """The exit line and the spans name the solver, its step, its mode and its words; the twin shows no failure."""
    pytest.importorskip({"autogen": "autogen_agentchat"}.get(framework, framework))
    source = (EXAMPLES / f"{framework}_quickstart.py").read_text(encoding="utf-8")
    assert WRONG in source

    (tmp_path / "wrong.py").write_text(source)
    (tmp_path / "right.py").write_text(source.replace(WRONG, RIGHT).replace("1086", "1116"))
    environment = {**os.environ, "HOME": str(tmp_path), "BLAMESPAN_STORE": str(tmp_path / "store")}
    ended = subprocess.run(  # our own example
        [sys.executable, "-c", BOTH],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )

    *said, said_of_twin = _lines(ended.stderr)
    judged = [line for line in ended.stdout.splitlines() if line.startswith("invoke_")]
    assert "looks failed: solver at step 0, Reasoning-action mismatch" in said[0]
    assert said == _lines((ROOT / "README.md").read_text(encoding="utf-8")), "README shows what is printed"
    assert len([line for line in judged if "blamespan.blame.score" in line]) == 2 * 2, ended.stdout
    assert ["solver" in line for line in judged if "blamespan.blame.agent" in line] == [True]
    assert "'blamespan.evidence': '12 * 31 = 362'" in ended.stdout
    assert said_of_twin == "blamespan: 1 run, no sign of failure. See them: blamespan open"


def _lines(text: str) -> list[str]:
    """The lines that a program wrote on its runs, without the id of the run."""
    lines = [line for line in text.splitlines() if line.startswith("blamespan: ")]
    return [re.sub(r"show [0-9a-f]{12}", "show ID", line) for line in lines]
