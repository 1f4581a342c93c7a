"""Runs of any format whose labels name the step of the first mistake, as the network learns from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from blamespan.errors import ConfigError
from blamespan.importing.recorded import RecordedRun
from blamespan_lab.network.examples import SOUND, Example, examples_of
from blamespan_lab.recorded_runs import read_recorded
from blamespan_tracer.lexicon import Lexicon
from blamespan_tracer.network.inputs import Vocabulary

__all__ = ["mistake_examples"]


def mistake_examples(
    paths: Sequence[Path], lexicon: Lexicon, vocabulary: Vocabulary, *, most: int, seed: int
) -> list[Example]:
    """Read runs whose first wrong step is labelled, and those that are labelled as free of errors; others are left out.

    What follows the first mistake nobody has judged: whether those steps are wrong is not learnt from them.

    Args:
        paths: Files, each of any format.
        lexicon: The one that the network will read with.
        vocabulary: The words that the network will know.
        most: How many are given, drawn at random from all files together; 0 for all.
        seed: Chooses what is drawn.

    Raises:
        ConfigError: if a file is missing, cannot be read, or has no such label.
    """
    labelled: list[RecordedRun] = []
    for path in paths:
        runs_of_file = [run for run in read_recorded(path) if _is_labelled(run)]
        if not any(run.faults for run in runs_of_file):
            raise ConfigError(
                f"expected runs with a labelled step in {str(path)!r}, got none. Name another file in data.mistakes, "
                "or this one in data.outcomes if only the outcome is known"
            )
        labelled += runs_of_file
    drawn = np.random.default_rng(seed).permutation(len(labelled))[: most or None]
    runs = [labelled[row] for row in sorted(drawn.tolist())]
    return [_first_alone(example) for example in examples_of(runs, lexicon, vocabulary, what="reading mistakes")]


def _is_labelled(run: RecordedRun) -> bool:
    if run.faults is None or not run.trace.steps:
        return False
    steps = {fault.step for fault in run.faults}
    return not steps or (len(steps) == 1 and None not in steps)


def _first_alone(example: Example) -> Example:
    if example.decisive == SOUND:
        return example
    fault = example.fault.copy()
    fault[example.decisive + 1 :] = np.nan
    return replace(example, fault=fault)
