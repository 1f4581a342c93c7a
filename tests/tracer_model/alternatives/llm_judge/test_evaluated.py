"""A judge whose answers are right as often as scripted is measured to be right as often."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from blamespan.cli import cli
from blamespan_lab.recorded_runs import SUBSETS
from tests.tracer_model.alternatives.llm_judge.serving import SUM, WRONG, run, served_as_judge, write_file

N_RUNS, N_RIGHT = 12, 9


def test_measured_accuracy_is_the_scripted_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Step and agent come out exactly as scripted, and nothing is an abstention."""
    for subset in SUBSETS:
        write(tmp_path / subset)
    monkeypatch.setenv("BLAMESPAN_JUDGE_EMBEDDED", "none")
    with served_as_judge(monkeypatch, {"find": WRONG}):
        asked = ["lab", "evaluate", "who-and-when", "--data", str(tmp_path), "--tracer", "judge", "--json"]
        done = CliRunner().invoke(cli, asked, catch_exceptions=False)

    for figures in json.loads(done.stdout).values():
        assert (figures["n"], figures["abstained"]) == (N_RUNS, 0)
        assert (figures["step"], figures["agent"]) == (100 * N_RIGHT / N_RUNS, 100 * N_RIGHT / N_RUNS)


def write(folder: Path) -> None:
    """Write runs: in some, the words that the server looks for stand in the labelled step; in the others, elsewhere."""
    folder.mkdir()
    for number in range(N_RUNS):
        texts = [(step.agent, step.content.replace(WRONG, "it is 84")) for step in SUM.steps]
        wrong = 2 + number % 3
        shown = wrong if number < N_RIGHT else 1
        texts[shown] = (texts[shown][0], f"Done: {WRONG}.")
        write_file(folder / f"{number}.json", run(texts, task=f"{SUM.task} {number}"), wrong)
