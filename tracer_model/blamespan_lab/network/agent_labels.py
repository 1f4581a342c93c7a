"""Runs whose agents are labelled, and not their steps, as the network learns from them.

The lexicon's scores are among the network's features. A lexicon is surer of runs it was fitted to than of any other, so
each half of the runs is read by one that was fitted to the other half.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import numpy as np

from blamespan_lab.lexical.labelled_agents import labelled_runs
from blamespan_lab.lexical.recipe import Recipe
from blamespan_lab.lexical.training import fit_lexicon
from blamespan_lab.network.examples import Example, examples_of
from blamespan_lab.recorded_runs import is_held_out, read_runs
from blamespan_tracer.lexicon import Lexicon
from blamespan_tracer.network.inputs import Vocabulary

__all__ = ["agent_examples"]

_log = logging.getLogger(__name__)


def agent_examples(
    path: Path, lexicon: Lexicon, vocabulary: Vocabulary, *, most: int, penalty: float, seed: int
) -> list[Example]:
    """Read AEGIS runs.

    Args:
        path: `train.jsonl.xz`.
        lexicon: The one that the network will read with; the two that are fitted here answer on its scale.
        vocabulary: The words that the network will know.
        most: How many are given, drawn at random; 0 for all. The lexicons are fitted to all.
        penalty: L2 penalty of the lexicons.
        seed: Chooses the halves and what is drawn.

    Raises:
        ConfigError: if the file is missing or none of it can be read.
    """
    runs = [run for run in read_runs("aegis", path) if run.faults]
    in_first = [is_held_out(run.trace.task, percent=50, seed=seed) for run in runs]
    drawn = set(np.random.default_rng(seed).permutation(len(runs))[: most or None].tolist())
    examples: list[Example] = []
    for side in (False, True):
        others = [run for run, first in zip(runs, in_first, strict=True) if first != side]
        own = [run for row, run in enumerate(runs) if row in drawn and in_first[row] == side]
        fitted = fit_lexicon(list(labelled_runs(others)), Recipe("half"), penalty)
        reader = replace(fitted, slope=lexicon.slope, offset=lexicon.offset)
        _log.info("%d runs read by a lexicon of %d others", len(own), len(others))
        examples += examples_of(own, reader, vocabulary, what=f"reading {path.name}")
    return examples
