"""Labelled runs as a language model learns from them."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from blamespan.errors import ConfigError
from blamespan.importing.recorded import RecordedRun
from blamespan.taxonomy import AEGIS, canonical
from blamespan.trace import MessageActionTrace
from blamespan_lab.agent_names import resolve
from blamespan_lab.console import show_progress
from blamespan_lab.corpus.storage import read_corpus
from blamespan_lab.language_model.recipe import CausalRecipe
from blamespan_lab.recorded_runs import is_held_out, read_runs
from blamespan_tracer.abstention import abstention_reason
from blamespan_tracer.alternatives.rendering import RenderedRun
from blamespan_tracer.causal.prompts import MODE_OF, NOBODY, StepAnswer, render_for_model

__all__ = ["Example", "examples_of", "read_examples", "thought_about"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Example:
    """One run to learn from.

    Attributes:
        trace: The run.
        run: As it is shown.
        step: Who decided the failure, `NOBODY` for a sound run; None where no label says.
        pairs: (agent's number, AEGIS code) of all that erred; None where no label says.
    """

    trace: MessageActionTrace
    run: RenderedRun
    step: StepAnswer | None
    pairs: tuple[tuple[int, str], ...] | None

    @property
    def is_sound(self) -> bool:
        """Whether nobody is to blame."""
        return self.step == NOBODY or self.pairs == ()

    @property
    def decisions(self) -> list[tuple[int, int]]:
        """What an answer may name: (agent, step)."""
        return [(decision.agent, decision.step) for decision in self.run.decisions]


def read_examples(recipe: CausalRecipe, data: Path) -> tuple[list[Example], list[Example]]:
    """Read what *recipe* trains on from the folder *data*, and part it by task.

    Returns:
        Runs to fit on, in a drawn order, and runs held out.

    Raises:
        ConfigError: if something is missing, or a side has no failed run.
    """
    examples = [*examples_of(_read_labelled(recipe, data), recipe)]
    percent, seed = recipe.data.held_out_percent, recipe.seed + 1
    held_out = [example for example in examples if is_held_out(example.trace.task, percent=percent, seed=seed)]
    fitted = [example for example in examples if not is_held_out(example.trace.task, percent=percent, seed=seed)]
    if not any(not example.is_sound for example in fitted) or not any(not example.is_sound for example in held_out):
        raise ConfigError(
            f"expected failed runs of enough tasks to hold {percent} % of them out, got {len(fitted)} runs to fit on "
            f"and {len(held_out)} held out. Give more data, or change data.held_out_percent"
        )
    _log.info("%d runs to fit on, %d held out by task", len(fitted), len(held_out))
    random.Random(recipe.seed).shuffle(fitted)  # noqa: S311  # a draw, no secret
    fitted = _balance(fitted, recipe.data.sound_percent)
    return fitted[: recipe.data.most_runs or None], held_out


def examples_of(runs: Iterable[RecordedRun], recipe: CausalRecipe) -> Iterator[Example]:
    """Read labelled runs, leaving out those without anybody to blame or without a label for the question."""
    for run in runs:
        if run.faults is None or abstention_reason(run.trace) is not None:
            continue
        shown = render_for_model(run.trace, names_findings=recipe.data.contracts)
        asks_pairs = recipe.question == "pairs"
        step = None if asks_pairs else _step(run, shown)
        pairs = _pairs(run, shown) if asks_pairs else None
        if step is not None or pairs is not None:
            yield Example(run.trace, shown, step, pairs)


def thought_about(example: Example) -> str:
    """Put the label of *example* into words, as a thought to be taught."""
    if example.step is not None and example.step.mode is not None:
        mode = MODE_OF[example.step.mode]
        return f"Step {example.step.step} by agent {example.step.agent} decided it. {mode.name}: {mode.definition}"
    if example.step is not None:
        return "No agent's step made it fail." if example.is_sound else f"Step {example.step.step} decided it."
    return " ".join(f"Agent {agent}: {AEGIS[code].name}." for agent, code in example.pairs or ())


def _read_labelled(recipe: CausalRecipe, data: Path) -> Iterator[RecordedRun]:
    for name in recipe.data.corpora:
        yield from show_progress(read_corpus(data / name, "train"), f"reading {name}")
    for name in recipe.data.aegis:
        yield from show_progress(read_runs("aegis", data / name), f"reading {name}")


def _step(run: RecordedRun, shown: RenderedRun) -> StepAnswer | None:
    """Say who decided the failure; None where no label says, or it was nobody's decision."""
    assert run.faults is not None  # the caller has looked
    step = run.origin.decisive if run.origin is not None else next((fault.step for fault in run.faults), None)
    if step is None:
        return NOBODY if run.trace.outcome == "succeeded" else None
    decisive = next((decision for decision in shown.decisions if step in shown.origins[decision.step]), None)
    if decisive is None:
        return None
    modes = [canonical(fault.mode)[0] for fault in run.faults if fault.step == step and fault.mode is not None]
    codes = [mode.code for mode in modes if mode is not None and mode.code in MODE_OF]
    return StepAnswer(decisive.agent, decisive.step, codes[0] if codes else None)


def _pairs(run: RecordedRun, shown: RenderedRun) -> tuple[tuple[int, str], ...] | None:
    """List who erred how, without silent agents and modes of other taxonomies; None where nothing is left."""
    assert run.faults is not None
    deciding = list(dict.fromkeys(shown.names[decision.agent - 1] for decision in shown.decisions))
    pairs = [
        (shown.names.index(name) + 1, fault.mode.code)
        for fault in run.faults
        for name in [resolve(fault.agent, deciding)]
        if name in deciding and fault.mode is not None and fault.mode.taxonomy == "aegis"
    ]
    return tuple(dict.fromkeys(pairs)) if pairs or run.trace.outcome == "succeeded" else None


def _balance(examples: Sequence[Example], sound_percent: int) -> list[Example]:
    """Leave out sound runs beyond their share."""
    n_failed = sum(not example.is_sound for example in examples)
    most = n_failed * sound_percent // max(100 - sound_percent, 1)
    balanced, n_sound = [], 0
    for example in examples:
        n_sound += example.is_sound
        if not example.is_sound or n_sound <= most:
            balanced.append(example)
    return balanced
