"""What the network is trained on: corpora, labelled agents and steps, outcomes and transcripts, split by task.

The lexicon's scores are among the network's features. A lexicon is surer of runs it was fitted to than of any other, so
each half of the runs whose agents are labelled is read by one that was fitted to the other half.

A program that emits spans also records who was told what, what was a plan, and what failed; many logs hold nothing of
it. The second judge learns from each transcript both ways, or what a log leaves out would mislead it (decision 037).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from blamespan.errors import ConfigError
from blamespan.importing.recorded import RecordedRun
from blamespan.trace import Step
from blamespan_lab.corpus.storage import read_sides
from blamespan_lab.lexical.labelled_agents import labelled_runs
from blamespan_lab.lexical.recipe import Recipe
from blamespan_lab.lexical.training import fit_lexicon
from blamespan_lab.network.examples import SOUND, NetworkExample, examples_of
from blamespan_lab.network.recipe import NetworkRecipe
from blamespan_lab.recorded_runs import is_held_out, read_recorded, read_runs
from blamespan_tracer.alternatives.lexicon import Lexicon
from blamespan_tracer.alternatives.network.inputs import Vocabulary, feature_names

__all__ = ["Examples", "agent_examples", "bare_run", "mistake_examples", "read_examples", "split_by_task"]


@dataclass(frozen=True, slots=True)
class Examples:
    """What to train on.

    Attributes:
        fitted: Learnt from.
        tasks: Held out by their task.
        recipes: Held out by the recipes of their corpora.
        agents: AEGIS runs held out by their question.
        reasoning: Runs with a labelled mistake, held out by their task.
        transcripts: Runs that language models wrote, their decisive step labelled: for the second judge alone.
        bare: The same, run by run, as a bare log tells them.
        simulated: Of those fitted to, the ones that the network learns steps from, by where they come from, and
        written: others that language models wrote, likewise: the gate tells the two apart.
    """

    fitted: Sequence[NetworkExample]
    tasks: Sequence[NetworkExample]
    recipes: Sequence[NetworkExample] = ()
    agents: Sequence[NetworkExample] = ()
    reasoning: Sequence[NetworkExample] = ()
    transcripts: Sequence[NetworkExample] = ()
    bare: Sequence[NetworkExample] = ()
    simulated: Sequence[Sequence[NetworkExample]] = ()
    written: Sequence[Sequence[NetworkExample]] = ()


def read_examples(recipe: NetworkRecipe, data: Path, lexicon: Lexicon, vocabulary: Vocabulary) -> Examples:
    """Read the corpora and the other runs, and part them."""
    percent_out = recipe.data.held_out_percent
    generated_examples: list[NetworkExample] = []
    apart: list[NetworkExample] = []
    outcomes: list[NetworkExample] = []
    for name in recipe.data.corpora:
        train, held_out = read_sides(data / name)
        generated_examples += examples_of(train, lexicon, vocabulary, feature_names(lexicon), what=f"reading {name}")
        apart += examples_of(held_out, lexicon, vocabulary, feature_names(lexicon), what=f"reading {name}")
    for name in recipe.data.outcomes:
        outcomes += examples_of(
            read_recorded(data / name), lexicon, vocabulary, feature_names(lexicon), what=f"reading {name}"
        )
    aegis: list[NetworkExample] = []
    if recipe.data.agents:
        aegis = agent_examples(
            data / recipe.data.agents,
            lexicon,
            vocabulary,
            most=recipe.data.agents_most,
            penalty=recipe.data.agents_penalty,
            seed=recipe.seed,
        )
    mistakes = mistake_examples(
        [data / name for name in recipe.data.mistakes],
        lexicon,
        vocabulary,
        most=recipe.data.mistakes_most,
        seed=recipe.seed,
    )
    transcripts: list[NetworkExample] = []
    bare: list[NetworkExample] = []
    for name in recipe.data.transcripts:
        runs = list(read_recorded(Path(name)))
        transcripts += examples_of(runs, lexicon, vocabulary, feature_names(lexicon), what=f"reading {Path(name).name}")
        bare += examples_of(
            map(bare_run, runs), lexicon, vocabulary, feature_names(lexicon), what=f"reading {Path(name).name}, bare"
        )
    sides = [
        split_by_task(part, percent=percent_out, seed=recipe.seed)
        for part in (generated_examples, outcomes, aegis, mistakes)
    ]
    (generated, tasks), (_, more), (_, agents), (reasoned, reasoning) = sides
    return Examples(
        fitted=[example for fitted, _ in sides for example in fitted],
        tasks=tasks + more,
        recipes=apart,
        agents=agents,
        reasoning=reasoning,
        transcripts=transcripts,
        bare=bare,
        simulated=(generated, reasoned),
        written=tuple(fitted for fitted, _ in sides[1:3]),
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
        fitted = fit_lexicon(list(labelled_runs(others)), Recipe("half"), penalty)
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


def bare_run(run: RecordedRun) -> RecordedRun:
    """Leave out recipients, status, errors, what is a plan, and inputs but for those of tools' answers."""
    return replace(run, trace=replace(run.trace, steps=tuple(_bare(step) for step in run.trace.steps)))


def _bare(step: Step) -> Step:
    is_tool = step.kind in ("tool_call", "tool_result")
    return replace(
        step,
        kind=step.kind if is_tool else "message",
        recipients=(),
        inputs=step.inputs if step.kind == "tool_result" else (),
        status="unset",
        error=None,
    )
