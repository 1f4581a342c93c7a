"""The policy to begin with leaves recorded sound runs alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from blamespan.analysis.sources import runs_in
from blamespan.errors import UnreadableInput
from blamespan.guarding.policy import read_policy
from blamespan.guarding.trying import try_run

POLICY = Path(__file__).parents[3] / "examples" / "guard" / "findings.toml"
MOST_DISTURBED = 1 / 50


@pytest.mark.slow
@pytest.mark.parametrize(
    "file",
    [
        "tau_bench/gpt-4o-airline.json.xz",
        "agentrx/tau_retail_full.json.xz",
        "outcomes/medagentbench.jsonl.xz",
        "outcomes/agentclinic.jsonl.xz",
    ],
)
def test_policy_to_begin_with_disturbs_hardly_any_sound_run(recorded_runs: Path, file: str) -> None:
    """At most one in fifty of the runs that succeeded gets anything but a record."""
    policy = read_policy(POLICY)
    runs = [run for run in runs_in([str(recorded_runs / file)]) if not isinstance(run, UnreadableInput)]
    sound = [run.trace for run in runs if run.trace.outcome == "succeeded"]
    disturbed = sum(try_run([policy], trace).is_disturbed for trace in sound)

    assert len(sound) >= 50
    assert disturbed <= MOST_DISTURBED * len(sound)
