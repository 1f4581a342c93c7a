"""Labelled runs as the network learns from them.

Dims: N merged steps of a run, K modes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from blamespan.importing.recorded import Fault, RecordedRun
from blamespan.taxonomy import canonical
from blamespan_lab.agent_names import resolve
from blamespan_lab.console import show_progress
from blamespan_tracer.alternatives.lexicon import Lexicon
from blamespan_tracer.alternatives.network.inputs import RunInputs, Vocabulary, read_inputs, scale_features
from blamespan_tracer.modes import MODES

__all__ = ["SOMEWHERE", "SOUND", "UNKNOWN", "NetworkExample", "examples_of", "mode_columns", "scaled_examples"]

_COLUMN = {str(mode): column for column, mode in enumerate(MODES)}

SOUND = -1
"""Stands for the decisive step of a run that did not fail."""

UNKNOWN = -2
"""Stands for the decisive step where no label says which."""

SOMEWHERE = -3
"""Stands for the decisive step of a run that failed by one of its agents, nobody knows which."""

_BATCH_RUNS = 64

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class NetworkExample:
    """One run to learn from.

    Attributes:
        inputs: What the network reads.
        decisive: The merged step that decided the failure, or `SOUND`, `UNKNOWN` or `SOMEWHERE`.
        fault: (N,) 1 where something is wrong, 0 where nothing is, NaN where nobody knows.
        modes: (N, K) 1 for the modes of a step that is wrong, else 0.
        culprits: Where only agents are labelled: columns of the modes of each agent at fault, by its number.
        trace_id: The run's.
        twin: Trace id of the same run without the fault, or empty.
        group: Runs of one group are never on both sides of a split: its task.
        origin: `recipe/family/topology/framework/purpose`, or the name of the corpus.
    """

    inputs: RunInputs
    decisive: int
    fault: Floats
    modes: Floats
    culprits: dict[int, frozenset[int]] = field(default_factory=dict)
    trace_id: str = ""
    twin: str = ""
    group: str = ""
    origin: str = ""


def examples_of(
    runs: Iterable[RecordedRun],
    lexicon: Lexicon,
    vocabulary: Vocabulary,
    features: tuple[str, ...],
    *,
    what: str = "reading",
) -> list[NetworkExample]:
    """Read labelled runs, and those that are known to have failed; others, and those without a step, are left out.

    Args:
        runs: With labels or outcomes.
        lexicon: The one that the network reads with.
        vocabulary: The words that it knows.
        features: Names of the columns that it reads, in its order.
        what: Shown as progress.
    """
    labelled = [run for run in runs if run.trace.steps and (run.faults is not None or run.trace.outcome == "failed")]
    examples: list[NetworkExample] = []
    for start in show_progress(range(0, len(labelled), _BATCH_RUNS), what):
        batch = labelled[start : start + _BATCH_RUNS]
        inputs = read_inputs([run.trace for run in batch], lexicon, vocabulary, features)
        examples += [_example(run, run_input) for run, run_input in zip(batch, inputs, strict=True)]
    return examples


def scaled_examples(examples: Iterable[NetworkExample], mean: Floats, spread: Floats) -> list[NetworkExample]:
    """Scale the features of runs by their (F,) mean and spread in training."""
    return [
        replace(example, inputs=replace(example.inputs, features=scale_features(example.inputs.features, mean, spread)))
        for example in examples
    ]


def mode_columns(faults: Sequence[Fault]) -> frozenset[int]:
    """List the columns of the modes that *faults* carry, as far as the network knows them."""
    canonical_modes = (canonical(fault.mode)[0] for fault in faults if fault.mode is not None)
    return frozenset(_COLUMN[str(mode)] for mode in canonical_modes if mode is not None and str(mode) in _COLUMN)


def _example(run: RecordedRun, inputs: RunInputs) -> NetworkExample:
    merged = {step: row for row, steps in enumerate(inputs.origins) for step in steps}
    fault = np.zeros(len(inputs), np.float32)
    modes = np.zeros((len(inputs), len(MODES)), np.float32)
    decisive, culprits = SOUND, dict[int, frozenset[int]]()
    if run.origin is not None:
        fault[[merged[step] for step in run.origin.carried_by if step in merged]] = np.nan
        if run.origin.decisive is not None:
            decisive = merged.get(run.origin.decisive, UNKNOWN)
        elif run.trace.outcome == "failed":
            decisive = UNKNOWN
    elif run.faults is None:
        decisive = SOMEWHERE
        fault[:] = np.nan
    elif run.faults:
        steps = {fault_label.step for fault_label in run.faults}
        decisive = merged.get(steps.pop() or 0, UNKNOWN) if len(steps) == 1 and None not in steps else UNKNOWN
        if decisive == UNKNOWN:
            culprits = _culprits(run, inputs)
            fault[:] = np.nan
    for fault_label in run.faults or ():
        if fault_label.step in merged:
            row = merged[fault_label.step]
            fault[row] = 1
            modes[row, list(mode_columns([fault_label]))] = 1
    origin = run.origin
    return NetworkExample(
        inputs,
        decisive,
        fault,
        modes,
        culprits,
        trace_id=run.trace.trace_id,
        twin=origin.twin if origin else "",
        group=run.trace.task,
        origin="/".join((origin.recipe, origin.family, origin.topology, origin.framework, origin.purpose))
        if origin
        else run.source.partition(":")[0],
    )


def _culprits(run: RecordedRun, inputs: RunInputs) -> dict[int, frozenset[int]]:
    """Match labels of agents to the run's agents; who never speaks cannot be learnt from."""
    assert run.faults is not None
    numbers: dict[str, int] = {}
    for row, steps in enumerate(inputs.origins):
        if inputs.can_be_blamed[row]:
            numbers.setdefault(run.trace.steps[steps[0]].agent, int(inputs.agent[row]))
    culprits: dict[int, frozenset[int]] = {}
    for fault in run.faults:
        name = resolve(fault.agent, list(numbers))
        if name in numbers:
            culprits[numbers[name]] = culprits.get(numbers[name], frozenset()) | mode_columns([fault])
    return culprits
