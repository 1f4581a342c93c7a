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


def _run(tmp_path: Path, source: str) -> tuple[str, str]:
    program = tmp_path / "program.py"
    program.write_text(source)
    environment = {**os.environ, "HOME": str(tmp_path), "BLAMESPAN_STORE": str(tmp_path / "store")}
    ended = subprocess.run(  # our own example
        [sys.executable, str(program)], env=environment, capture_output=True, text=True, timeout=300, check=True
    )
    return ended.stdout, ended.stderr


@pytest.mark.parametrize("framework", ["agent_framework", "autogen", "langgraph"])
def test_quickstart_names_who_miscalculated(tmp_path: Path, framework: str) -> None:
    """The exit line and the spans name the solver, its step, its mode and its words; the sound twin has no alarm."""
    pytest.importorskip({"autogen": "autogen_agentchat"}.get(framework, framework))
    source = (EXAMPLES / f"{framework}_quickstart.py").read_text(encoding="utf-8")
    assert WRONG in source

    spans, said = _run(tmp_path, source)
    _, said_of_twin = _run(tmp_path, source.replace(WRONG, RIGHT).replace("1086", "1116"))

    assert "looks failed: solver at step 0, Reasoning-action mismatch" in said
    assert _lines(said) == _lines((ROOT / "README.md").read_text(encoding="utf-8")), "README shows what is printed"
    judged = [line for line in spans.splitlines() if line.startswith("invoke_")]
    assert len([line for line in judged if "blamespan.blame.score" in line]) == 2, spans
    assert [line for line in judged if "blamespan.blame.agent" in line and "solver" in line]
    assert "'blamespan.evidence': '12 * 31 = 362'" in spans
    assert "looks failed" not in said_of_twin


def _lines(text: str) -> list[str]:
    """The lines that a program wrote on its runs, without the id of the run."""
    lines = [line for line in text.splitlines() if line.startswith("blamespan: ")]
    return [re.sub(r"show [0-9a-f]{12}", "show ID", line) for line in lines]
