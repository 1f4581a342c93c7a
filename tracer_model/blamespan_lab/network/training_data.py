"""What the network is trained on: corpora, labelled agents and steps, outcomes and transcripts, parted by task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from blamespan_lab.corpus.storage import read_sides
from blamespan_lab.network.agent_labels import agent_examples
from blamespan_lab.network.bare import bare_run
from blamespan_lab.network.examples import Example, examples_of
from blamespan_lab.network.mistakes import mistake_examples
from blamespan_lab.network.recipe import NetworkRecipe
from blamespan_lab.recorded_runs import is_held_out, read_recorded
from blamespan_tracer.lexicon import Lexicon
from blamespan_tracer.network.inputs import Vocabulary

__all__ = ["Examples", "read_examples", "split_by_task"]


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

    fitted: Sequence[Example]
    tasks: Sequence[Example]
    recipes: Sequence[Example] = ()
    agents: Sequence[Example] = ()
    reasoning: Sequence[Example] = ()
    transcripts: Sequence[Example] = ()
    bare: Sequence[Example] = ()
    simulated: Sequence[Sequence[Example]] = ()
    written: Sequence[Sequence[Example]] = ()


def read_examples(recipe: NetworkRecipe, data: Path, lexicon: Lexicon, vocabulary: Vocabulary) -> Examples:
    """Read the corpora and the other runs, and part them."""
    percent_out = recipe.data.held_out_percent
    generated_examples: list[Example] = []
    apart: list[Example] = []
    outcomes: list[Example] = []
    for name in recipe.data.corpora:
        train, held_out = read_sides(data / name)
        generated_examples += examples_of(train, lexicon, vocabulary, what=f"reading {name}")
        apart += examples_of(held_out, lexicon, vocabulary, what=f"reading {name}")
    for name in recipe.data.outcomes:
        outcomes += examples_of(read_recorded(data / name), lexicon, vocabulary, what=f"reading {name}")
    aegis: list[Example] = []
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
    transcripts: list[Example] = []
    bare: list[Example] = []
    for name in recipe.data.transcripts:
        runs = list(read_recorded(Path(name)))
        transcripts += examples_of(runs, lexicon, vocabulary, what=f"reading {Path(name).name}")
        bare += examples_of(map(bare_run, runs), lexicon, vocabulary, what=f"reading {Path(name).name}, bare")
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


def split_by_task(examples: Sequence[Example], *, percent: int, seed: int) -> tuple[list[Example], list[Example]]:
    """Part runs into those to fit on and those held out; runs of one task stay together."""
    is_out = [is_held_out(example.group, percent=percent, seed=seed + 1) for example in examples]
    return (
        [example for example, out in zip(examples, is_out, strict=True) if not out],
        [example for example, out in zip(examples, is_out, strict=True) if out],
    )
