"""`blamespan lab evaluate steps` scores a tracer on recorded runs whose labels name a step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from blamespan.errors import UnreadableInput
from blamespan_lab.command import evaluate


def reasoning(number: int, **changed: Any) -> dict[str, Any]:
    return {
        "input": f"{number} + 1 =",
        "steps": ["We add one.", f"{number} plus one is {number + 2}.", f"So the answer is {number + 2}"],
        "target": f"{number + 1}",
        "answer": f"{number + 2}",
        "mistake_index": 1,
        **changed,
    }


def write(path: Path, *records: Any) -> Path:
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    return path


def run(*arguments: object) -> str:
    return CliRunner().invoke(evaluate, ["steps", *map(str, arguments)], catch_exceptions=False).stdout


def test_files_are_measured_apart_and_together(tmp_path: Path) -> None:
    """Runs without a labelled step are not asked about; chance is one step of three."""
    one = write(tmp_path / "one.jsonl", reasoning(1), reasoning(2, mistake_index=None), reasoning(3, mistake_index=0))
    two = write(tmp_path / "two.jsonl", reasoning(4))

    found = json.loads(run(one, two, "--json"))

    assert found["tracer"] == "auto"
    assert {path: figures["n"] for path, figures in found["files"].items()} == {str(one): 2, str(two): 1}
    assert (found["all"]["n"], found["all"]["agent"]) == (3, 100.0)
    assert found["all"]["baselines"]["random"]["step"] == pytest.approx(100 / 3)
    assert found["files"][str(one)]["baselines"]["best_constant_step"]["step"] == 50.0


def test_file_named_twice_counts_once(tmp_path: Path) -> None:
    """What a shell's pattern and a name give together is one file."""
    path = write(tmp_path / "one.jsonl", reasoning(1))

    assert json.loads(run(path, path, "--json"))["all"]["n"] == 1


def test_name_of_a_file_is_no_markup(tmp_path: Path) -> None:
    """Brackets in it are shown as they stand."""
    path = write(tmp_path / "[bold]a[x].jsonl", reasoning(1))

    shown = run(path)

    assert "[bold]a[x].jsonl, 1 run," in shown
    assert "random " in shown


def test_file_without_labelled_steps_is_refused(tmp_path: Path) -> None:
    """There is nothing to measure, and where people's labels go is said."""
    path = write(tmp_path / "one.jsonl", reasoning(1, mistake_index=None))

    with pytest.raises(UnreadableInput, match=r"labelled step in '.*one\.jsonl', got 1 without.*evaluate labels"):
        run(path)
