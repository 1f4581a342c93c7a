"""Compare what the evidence pointer may be asked for, on pairs whose kinds of edit and sources are held out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict, get_args

import numpy as np
from numpy.typing import NDArray

from blamespan.errors import ConfigError
from blamespan_lab.auto.claims import judge_pairs
from blamespan_lab.auto.evidence import EvidenceExample, fit_evidence, lay_out_pairs, observe_all
from blamespan_lab.auto.objectives import Paradigm
from blamespan_lab.auto.recipe import AutoRecipe
from blamespan_lab.edits.generate import LabelledPair, read_pairs
from blamespan_lab.measuring.pairs import runs_of_pairs
from blamespan_lab.statistics import interval, percent, separation
from blamespan_tracer.auto.observed_run import judge_claims
from blamespan_tracer.auto.step_model import EvidenceModel
from blamespan_tracer.numeric import softmax

__all__ = ["ParadigmFigures", "compare_paradigms", "evaluate_pointer"]


class ParadigmFigures(TypedDict):
    """How a pointer does on held-out pairs by its evidence alone; percent, but for `n`, `gain` and `auc`.

    `step` is how often it points at the edited step before all others; `gain` is the edited step's probability less
    that in the untouched run, by place; `decoys` is how often it points there in a decoy, rather than at nothing; `auc`
    is how well the probability of a mistake tells edited runs from sound ones.
    """

    n: int
    step: float
    step_ci: list[float]
    gain: float
    decoys: float
    auc: float


def compare_paradigms(recipe: AutoRecipe, folder: Path) -> dict[Paradigm, ParadigmFigures]:
    """Fit a pointer by each paradigm to the pairs to learn from, and measure it on those held out.

    Args:
        recipe: Size, epochs and seed; its paradigm does not count.
        folder: As `blamespan lab generate edits` left it.

    Raises:
        ConfigError: if there are no pairs on one of the sides.
    """
    train, held_out = list(read_pairs(folder, "train")), list(read_pairs(folder, "held-out"))
    if not train or not held_out:
        raise ConfigError(
            f"expected pairs to learn from and held-out ones in {str(folder)!r}, got {len(train)} and {len(held_out)}. "
            "Make them: blamespan lab generate edits"
        )
    runs = runs_of_pairs([*train, *held_out])
    observed = dict(zip((run.trace.trace_id for run in runs), observe_all(run.trace for run in runs), strict=True))
    judged = judge_pairs(train, observed, recipe.seed)
    examples = lay_out_pairs(train, judged.observed)
    strangers = {run.trace.trace_id for run in runs_of_pairs(held_out)}
    judged_strangers = {trace_id: judge_claims(observed[trace_id], judged.model) for trace_id in strangers}
    measured = lay_out_pairs(held_out, judged_strangers)
    return {
        paradigm: evaluate_pointer(
            fit_evidence(examples, n_hidden=recipe.hidden, epochs=recipe.epochs, seed=recipe.seed, paradigm=paradigm),
            held_out,
            measured,
        )
        for paradigm in get_args(Paradigm)
    }


def evaluate_pointer(
    pointer: EvidenceModel, pairs: Sequence[LabelledPair], examples: Sequence[Sequence[EvidenceExample]]
) -> ParadigmFigures:
    """Score a pointer on *pairs*, whose runs *examples* are, in the same order."""
    hits, gains, decoys = [], [], []
    edited: list[float] = []
    sound: list[float] = []
    for pair, runs in zip(pairs, examples, strict=True):
        probabilities = [_point(pointer, run) for run in runs]
        suspicions = [1.0 - float(shares[-1]) for shares in probabilities]
        edited.append(suspicions[0])
        sound += suspicions[1:]
        hits.append(int(probabilities[0][:-1].argmax()) == pair.step)
        if pair.untouched_step is not None:
            gains.append(float(probabilities[0][pair.step] - probabilities[1][pair.untouched_step]))
        decoys += [int(shares.argmax()) == pair.step for shares in probabilities[2:]]
    return {
        "n": len(hits),
        "step": percent(hits),
        "step_ci": list(interval(hits)),
        "gain": float(np.mean(gains)) if gains else 0.0,
        "decoys": percent(decoys),
        "auc": separation(np.array(edited), np.array(sound)),
    }


def _point(pointer: EvidenceModel, run: EvidenceExample) -> NDArray[np.float64]:
    """Return the (T + 1,) probabilities of the steps, and of "nothing is wrong"."""
    scores, nothing = pointer.score(run.features, run.n_claims, run.decides)
    return softmax(np.append(scores, nothing))
