"""Small runs with a mistake planted in one step: enough for a model of a million parameters to find it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from blamespan.importing.recorded import Fault, RecordedRun
from blamespan.taxonomy import AEGIS, EXTENSION, MAST, ErrorMode
from blamespan_lab.language_model.examples import Example, examples_of
from blamespan_lab.language_model.recipe import CausalData, CausalRecipe
from blamespan_tracer.causal.prompts import StepAnswer
from tests.tracer_model.runs import trace

SAYS = {
    "X1": "I invent a figure.",
    "FM-3.2": "I do not check.",
    "FM-2.4": "I hide the details.",
}
"""What somebody says who makes a mistake of that kind."""

SOUND = ("All is right.", "It agrees.")


def planted(n_runs: int, *, seed: int = 0, n_steps: int = 3) -> list[RecordedRun]:
    """Runs of three agents who take turns; four of five fail by one step, the others are sound."""
    draw = random.Random(seed)
    runs = []
    for number in range(1, n_runs + 1):
        said = [(f"agent{place % 3}", draw.choice(SOUND)) for place in range(n_steps)]
        code, wrong = draw.choice(list(SAYS)), draw.randrange(n_steps)
        is_sound = draw.random() < 0.2
        if not is_sound:
            said[wrong] = (said[wrong][0], SAYS[code])
        run = trace(*said, task=f"list {seed} {number}", number=seed * 100_000 + number)
        outcome = "succeeded" if is_sound else "failed"
        faults = () if is_sound else (Fault(said[wrong][0], _mode(code), wrong),)
        runs.append(RecordedRun(f"planted:{number}", replace(run, outcome=outcome), faults))
    return runs


def in_aegis(run: RecordedRun) -> RecordedRun:
    """The same run, labelled as AEGIS does: agents and its own modes, no steps."""
    faults = tuple(Fault(one.agent, AEGIS[_AEGIS[one.mode.code]]) for one in run.faults or () if one.mode is not None)
    return replace(run, faults=faults)


def examples(recipe: CausalRecipe, n_runs: int, *, seed: int = 0, n_steps: int = 3) -> list[Example]:
    """The same, as a model learns from them."""
    runs = planted(n_runs, seed=seed, n_steps=n_steps)
    return list(examples_of(map(in_aegis, runs) if recipe.question == "pairs" else runs, recipe))


def with_drawn_answers(given: Sequence[Example], share: float, *, seed: int = 0) -> list[Example]:
    """The same with the answer of some, a *share* of all, drawn from those that are possible: labels with noise."""
    draw, found = random.Random(seed), []
    for each in given:
        if draw.random() < share:
            agent, step = draw.choice([*each.decisions, (0, 0)])
            code = draw.choice(list(SAYS)) if agent else None
            found.append(replace(each, step=StepAnswer(agent, step, code)))
        else:
            found.append(each)
    return found


def recipe(**changes: object) -> CausalRecipe:
    """A recipe for them."""
    data = CausalData(corpora=("none",), is_brief=True, context=320)
    return replace(CausalRecipe("planted", data=data, checkpointing=False, save_every=10_000), **changes)


_AEGIS = {"X1": "FM-2.6", "FM-3.2": "FM-3.2", "FM-2.4": "FM-2.4"}


def _mode(code: str) -> ErrorMode:
    return EXTENSION[code] if code in EXTENSION else MAST[code]
