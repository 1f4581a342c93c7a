"""What the network is trained on: corpora, labelled agents and steps, and outcomes, split by task.

The lexicon's scores are among the network's features. A lexicon is surer of runs it was fitted to than of any other, so
each half of the runs whose agents are labelled is read by one that was fitted to the other half.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from blamespan.errors import ConfigError
from blamespan.importing.recorded import RecordedRun
from blamespan_lab.make.corpus.storage import read_sides
from blamespan_lab.recorded_runs import is_held_out, read_recorded, read_runs
from blamespan_lab.train.lexical.labelled_agents import labelled_runs
from blamespan_lab.train.lexical.recipe import LexicalRecipe
from blamespan_lab.train.lexical.training import fit_lexicon
from blamespan_lab.train.network.examples import SOUND, NetworkExample, examples_of
from blamespan_lab.train.network.recipe import NetworkRecipe
from blamespan_tracer.alternatives.lexicon import Lexicon
from blamespan_tracer.alternatives.network.inputs import Vocabulary, feature_names

__all__ = ["Examples", "agent_examples", "mistake_examples", "read_examples", "split_by_task"]


@dataclass(frozen=True, slots=True)
class Examples:
    """What to train on.

    Attributes:
        fitted: Learnt from.
        tasks: Held out by their task.
        recipes: Held out by the recipes of their corpora.
        agents: AEGIS runs held out by their question.
        reasoning: Runs with a labelled mistake, held out by their task.
    """

    fitted: Sequence[NetworkExample]
    tasks: Sequence[NetworkExample]
    recipes: Sequence[NetworkExample] = ()
    agents: Sequence[NetworkExample] = ()
    reasoning: Sequence[NetworkExample] = ()


def read_examples(recipe: NetworkRecipe, data: Path, lexicon: Lexicon, vocabulary: Vocabulary) -> Examples:
    """Read the corpora and the other runs, and part them."""
    wanted, features = recipe.data, feature_names(lexicon)
    corpora, apart, outcomes = list[NetworkExample](), list[NetworkExample](), list[NetworkExample]()
    for name in wanted.corpora:
        for examples, runs in zip((corpora, apart), read_sides(data / name), strict=True):
            examples += examples_of(runs, lexicon, vocabulary, features, what=f"reading {name}")
    for name in wanted.outcomes:
        outcomes += examples_of(read_recorded(data / name), lexicon, vocabulary, features, what=f"reading {name}")
    aegis = (
        agent_examples(
            data / wanted.agents,
            lexicon,
            vocabulary,
            most=wanted.agents_most,
            penalty=wanted.agents_penalty,
            seed=recipe.seed,
        )
        if wanted.agents
        else []
    )
    paths = [data / name for name in wanted.mistakes]
    mistakes = mistake_examples(paths, lexicon, vocabulary, most=wanted.mistakes_most, seed=recipe.seed)
    sides = [
        split_by_task(part, percent=wanted.held_out_percent, seed=recipe.seed)
        for part in (corpora, outcomes, aegis, mistakes)
    ]
    (_, tasks), (_, more), (_, agents), (_, reasoning) = sides
    return Examples(
        fitted=[example for fitted, _ in sides for example in fitted],
        tasks=tasks + more,
        recipes=apart,
        agents=agents,
        reasoning=reasoning,
    )


def split_by_task(
    examples: Sequence[NetworkExample], *, percent: int, seed: int
) -> tuple[list[NetworkExample], list[NetworkExample]]:
    """Part runs into those to fit on and those held out; runs of one task stay together."""
    is_out = [is_held_out(example.group, percent=percent, seed=seed + 1) for example in examples]
    return (
        [example for example, out in zip(examples, is_out, strict=True) if not out],
        [example for example, out in zip(examples, is_out, strict=True) if out],
    )


_log = logging.getLogger(__name__)


def agent_examples(
    path: Path, lexicon: Lexicon, vocabulary: Vocabulary, *, most: int, penalty: float, seed: int
) -> list[NetworkExample]:
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
    examples: list[NetworkExample] = []
    for side in (False, True):
        others = [run for run, first in zip(runs, in_first, strict=True) if first != side]
        own = [run for row, run in enumerate(runs) if row in drawn and in_first[row] == side]
        fitted = fit_lexicon(list(labelled_runs(others)), LexicalRecipe("half"), penalty)
        reader = replace(fitted, slope=lexicon.slope, offset=lexicon.offset)
        _log.info("%d runs read by a lexicon of %d others", len(own), len(others))
        examples += examples_of(own, reader, vocabulary, feature_names(reader), what=f"reading {path.name}")
    return examples


def mistake_examples(
    paths: Sequence[Path], lexicon: Lexicon, vocabulary: Vocabulary, *, most: int, seed: int
) -> list[NetworkExample]:
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
    return [
        _first_alone(example)
        for example in examples_of(runs, lexicon, vocabulary, feature_names(lexicon), what="reading mistakes")
    ]


def _is_labelled(run: RecordedRun) -> bool:
    if run.faults is None or not run.trace.steps:
        return False
    steps = {fault.step for fault in run.faults}
    return not steps or (len(steps) == 1 and None not in steps)


def _first_alone(example: NetworkExample) -> NetworkExample:
    if example.decisive == SOUND:
        return example
    fault = example.fault.copy()
    fault[example.decisive + 1 :] = np.nan
    return replace(example, fault=fault)
