"""Names of the files beside a store that hold what was learnt of the teams whose runs are in it."""

from __future__ import annotations

from typing import Final

OUTCOME_HEAD_FILE: Final = "outcomes.safetensors"
"""A head for outcomes, in a run directory or a folder of one team; beside a store a team's own has another stem."""
OUTCOME_HEADS: Final = "outcomes*.safetensors"
"""Pattern of the heads for outcomes of all teams: `blamespan lab train --outcomes` and `blamespan learn` write them."""

STEP_HEAD_FILE: Final = "steps.safetensors"
"""Likewise a head for steps."""
STEP_HEADS: Final = "steps*.safetensors"
"""Pattern of those of all teams: `blamespan lab train --labels` and `blamespan learn` write them."""

JUDGE_HEAD_FILE: Final = "judge.safetensors"
"""Likewise a combination with an LLM's answers."""
JUDGE_HEADS: Final = "judge*.safetensors"
"""Pattern of those of all teams: `blamespan lab train --labels` writes them where an LLM is set."""

USUAL_COURSE_FILE: Final = "usual.json"
"""What is usual in sound runs: `blamespan learn` writes it."""

SCHEMATA_FILE: Final = "schemata.toml"
"""Known failures: `blamespan schemata` keeps them."""
