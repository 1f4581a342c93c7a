"""Train the tracer `network`: data, batches, losses, the fit, calibration, weights.

Corpora, runs with labelled agents or steps, and runs of which only the outcome is known are split by task. Nothing is
chosen on any other file. What the corpora's recipes hold out is not fitted to, but calibrated on, in other words:
families, topologies and wordings that were not learnt from tell how sure to be of new runs. Probabilities are fitted to
near words, as strangers use who speak of the same things; alarms and step sets hold for any words at all.

Dims: B runs, S steps of the longest, N merged steps of a run, F features, R relations, D width, W tokens, V words, M
width of a meaning, E width of a word bag, K modes.
"""

from __future__ import annotations

import json
import logging
import math
import platform
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from blamespan.errors import ConfigError
from blamespan.importing.recorded import Fault, RecordedRun
from blamespan.taxonomy import canonical
from blamespan_lab.agent_names import resolve
from blamespan_lab.console import show_progress
from blamespan_lab.make.corpus.storage import read_sides
from blamespan_lab.recipes import Count, Listed, Number, PositiveCount, PositiveNumber
from blamespan_lab.recorded_runs import is_held_out, read_recorded, read_runs
from blamespan_lab.statistics import percent
from blamespan_lab.train.calibrating import (
    SOMEWHERE,
    SOUND,
    UNKNOWN,
    Pointed,
    alarm_for,
    alarms_for,
    blamed,
    mass_ahead,
    mass_for,
    temperature_of,
)
from blamespan_lab.train.lexical import LexicalRecipe, fit_lexicon, labelled_runs
from blamespan_lab.train.words import Meanings
from blamespan_tracer.alternatives.lexical import LexicalTracer
from blamespan_tracer.alternatives.lexicon import Lexicon
from blamespan_tracer.alternatives.network.inputs import (
    RELATIONS,
    RunInputs,
    SentenceTokens,
    Vocabulary,
    feature_names,
    lay_out_relations,
    read_inputs,
    scale_features,
)
from blamespan_tracer.alternatives.network.model import Scores, Shape, StepInputs, Weights, forward
from blamespan_tracer.alternatives.network.weights import Network, round_weights
from blamespan_tracer.modes import MODES
from blamespan_tracer.numeric import pointer_shares


@dataclass(frozen=True, slots=True)
class Schedule:
    """How the network is trained.

    Attributes:
        epochs: Passes over the runs by labels (and against twins).
        rate: AdamW's learning rate at its highest; it rises over a tenth of the steps and falls as a cosine.
        decay: AdamW's weight decay, of matrices alone.
        most_runs: Per batch.
        dropout: Of what attention adds.
        feature_dropout: Share of columns that are silent for a whole run: no feature may be indispensable.
        word_keep: Share of words read.
        meaning_noise: Spread of what is added to words' meanings, whose own is 1: near words are to be read alike.
        sigma: Width in steps of what counts as nearly the decisive step.
        margin: By how many log-odds a faulty step must stand above its clean twin.
        agent: Weight of the loss of the same name, where the pointer's is 1; likewise
        fault: this,
        modes: this,
        mode: this,
        culprit: this, and
        contrast: this; 0 leaves the clean twins out.
    """

    epochs: Count = 12
    rate: Number = 1e-3
    decay: Number = 0.05
    most_runs: Count = 48
    dropout: Number = 0.1
    feature_dropout: Number = 0.1
    word_keep: Number = 0.7
    meaning_noise: Number = 0.0
    sigma: Number = 0.4
    margin: Number = 2.0
    agent: Number = 0.5
    fault: Number = 0.5
    modes: Number = 0.3
    mode: Number = 0.6
    culprit: Number = 0.3
    contrast: Number = 0.3


@dataclass(frozen=True, slots=True)
class NetworkData:
    """What to train on.

    Attributes:
        corpora: Folders that `blamespan lab generate` made, relative to the data folder; what their recipes hold out is
            not learnt from: calibration, alarms and step sets are fitted to it.
        agents: File of AEGIS runs, whose agents are labelled and whose steps are not, relative to the data folder;
            empty for none.
        agents_most: How many of these are read, drawn at random; 0 for all.
        agents_penalty: L2 penalty of the lexicons that read one half of them and were fitted to the other.
        outcomes: Files of runs, of any format, of which only the outcome is known, relative to the data folder.
        mistakes: Files of runs, of any format, whose first wrong step is labelled, relative to the data folder. Naming
            none that the network will be measured on is up to whoever writes the recipe.
        mistakes_most: How many of these are read, drawn at random; 0 for all.
        held_out_percent: Share of the tasks, and of AEGIS's questions, that are kept aside too.
    """

    corpora: Listed[str] = ("default",)
    agents: str = ""
    agents_most: Count = 0
    agents_penalty: PositiveNumber = 0.1
    outcomes: Listed[str] = ()
    mistakes: Listed[str] = ()
    mistakes_most: Count = 0
    held_out_percent: Count = 12


@dataclass(frozen=True, slots=True)
class NetworkSize:
    """How large the network is; see `blamespan_tracer.alternatives.network.model.Shape`."""

    bag_width: PositiveCount = 32
    sentence_width: PositiveCount = 64
    width: PositiveCount = 96
    n_heads: PositiveCount = 4
    n_layers: PositiveCount = 2


@dataclass(frozen=True, slots=True)
class NetworkRecipe:
    """Everything that decides what weights come out.

    Attributes:
        name: Names the run directory and the weights.
        model: `network`: tells these recipes from those of other models.
        seed: Chooses what is held out, the first weights and every draw.
        data: What to train on.
        size: How large.
        schedule: How to train.
        max_false_alarms: Percent of sound held-out runs that may be called failed.
        coverage: Percent of failed held-out runs whose decisive step the step set is to hold.
    """

    name: str
    model: str = "network"
    seed: Count = 0
    data: NetworkData = field(default_factory=NetworkData)
    size: NetworkSize = field(default_factory=NetworkSize)
    schedule: Schedule = field(default_factory=Schedule)
    max_false_alarms: Number = 5.0
    coverage: Number = 90.0


_COLUMN = {str(mode): column for column, mode in enumerate(MODES)}

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


_MAX_BATCH_CELLS = 400_000
"""Most relation cells of one batch that `split_by_size` makes."""


@dataclass(frozen=True, slots=True)
class PaddedBatch:
    """B runs, padded to the longest.

    Attributes:
        features: (B, S, F).
        relations: (B, R, S, S).
        agent: (B, S) int64, -1 on padding.
        is_real: (B, S) bool.
        can_be_blamed: (B, S) bool.
        tokens: (W,) int64 rows of the embedding, sentence by sentence, and
        starts: where the tokens of each sentence begin, and
        owner: which of the B * S steps a sentence belongs to, ascending.
    """

    features: Tensor
    relations: Tensor
    agent: Tensor
    is_real: Tensor
    can_be_blamed: Tensor
    tokens: Tensor
    starts: Tensor
    owner: Tensor

    def steps(
        self, weights: Weights, *, word_keep: float = 1.0, generator: torch.Generator | None = None
    ) -> StepInputs:
        """Look the embeddings up for `forward`; a token is dropped with probability 1 - *word_keep*."""
        dropout = None
        if word_keep < 1:
            dropout = (torch.rand(len(self.tokens), generator=generator) < word_keep).float() / word_keep
        runs, steps = self.is_real.shape
        sums = functional.embedding_bag(
            self.tokens, weights["embedding"], self.starts, mode="sum", per_sample_weights=dropout
        )
        sizes = torch.diff(self.starts, append=torch.tensor([len(self.tokens)]))
        size = runs * steps
        n_tokens = sizes.new_zeros(size).index_add(0, self.owner, sizes)
        bags = (
            sums.new_zeros(size, sums.shape[1]).index_add(0, self.owner, sums) / n_tokens.clamp(min=1).sqrt()[:, None]
        )
        sentences = self._read_sentences(sums / sizes.clamp(min=1).sqrt()[:, None], weights)
        return StepInputs(
            self.features,
            bags.reshape(runs, steps, -1),
            self.relations,
            self.is_real,
            self.can_be_blamed,
            sentences.reshape(runs, steps, -1),
        )

    def _read_sentences(self, bags: Tensor, weights: Weights) -> Tensor:
        activations = functional.relu(bags @ weights["sentence.weight"] + weights["sentence.bias"])
        highest = activations.new_zeros(self.is_real.numel(), activations.shape[1])
        return highest.scatter_reduce(0, self.owner[:, None].expand_as(activations), activations, "amax")


def split_by_size(order: Sequence[int], sizes: Sequence[int], most_runs: int) -> Iterator[list[int]]:
    """Split runs that are ordered by length into batches that fit in memory when padded.

    Args:
        order: Their indices, the shortest first.
        sizes: How many steps each has, by index.
        most_runs: Of a batch; a run that does not fit beside another is a batch of its own.
    """
    batch: list[int] = []
    for row in order:
        if batch and (len(batch) >= most_runs or (len(batch) + 1) * sizes[row] ** 2 > _MAX_BATCH_CELLS):
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def pad(runs: Sequence[RunInputs]) -> PaddedBatch:
    """Pad runs to the longest."""
    longest = max(len(run) for run in runs)
    shape = (len(runs), longest)
    features = np.zeros((*shape, runs[0].features.shape[1]), np.float32)
    relations = np.zeros((len(runs), len(RELATIONS), longest, longest), np.float32)
    agent = np.full(shape, -1, np.int64)
    blamable = np.zeros(shape, bool)
    for row, run in enumerate(runs):
        n_steps = len(run)
        features[row, :n_steps] = run.features
        relations[row, :, :n_steps, :n_steps] = lay_out_relations(run)
        agent[row, :n_steps] = run.agent
        blamable[row, :n_steps] = run.can_be_blamed
    tokens = SentenceTokens.concatenate([run.tokens for run in runs])
    steps = np.concatenate([row * longest + np.arange(len(run)) for row, run in enumerate(runs)])
    owner = np.repeat(steps, np.diff(tokens.first_sentence))
    arrays = (features, relations, agent, agent >= 0, blamable, tokens.rows, tokens.first_token[:-1], owner)
    return PaddedBatch(*map(torch.from_numpy, arrays))


@dataclass(frozen=True, slots=True)
class Targets:
    """What B runs teach.

    Attributes:
        pointer: (B,) int64 the decisive step, S for a sound run, -100 where unknown.
        fault: (B, S) 0, 1 or NaN.
        modes: (B, S, K).
        culprit: (B, S) 1 on the steps of agents labelled at fault, 0 on other agents', NaN where no agent is labelled.
        agent_modes: (B, S, K) on these steps the modes of their agent.
        somewhere: (B,) bool, where a run failed and nobody knows by whom.
    """

    pointer: Tensor
    fault: Tensor
    modes: Tensor
    culprit: Tensor
    agent_modes: Tensor
    somewhere: Tensor


def batches(
    examples: Sequence[NetworkExample], rng: np.random.Generator, most_runs: int
) -> Iterator[list[NetworkExample]]:
    """Put runs of like length together, twins side by side, in random order."""
    order = sorted(
        range(len(examples)),
        key=lambda row: (len(examples[row].inputs) + rng.random() * 3, examples[row].twin or examples[row].trace_id),
    )
    parts = list(split_by_size(order, [len(example.inputs) for example in examples], most_runs))
    for number in rng.permutation(len(parts)):
        yield [examples[row] for row in parts[number]]


def targets_of(examples: Sequence[NetworkExample]) -> Targets:
    """Put what the runs teach side by side, as `pad` does."""
    longest = max(len(example.inputs) for example in examples)
    n_modes = examples[0].modes.shape[1]
    pointer = np.full(len(examples), -100, np.int64)
    fault = np.full((len(examples), longest), np.nan, np.float32)
    modes = np.zeros((*fault.shape, n_modes), np.float32)
    culprit = np.full_like(fault, np.nan)
    agent_modes = np.zeros_like(modes)
    for row, example in enumerate(examples):
        n_steps = len(example.inputs)
        if example.decisive not in (UNKNOWN, SOMEWHERE):
            pointer[row] = longest if example.decisive == SOUND else example.decisive
        fault[row, :n_steps] = np.where(example.inputs.can_be_blamed, example.fault, np.nan)
        modes[row, :n_steps] = example.modes
        if example.culprits:
            _mark(example, culprit[row], agent_modes[row])
    somewhere = np.array([example.decisive == SOMEWHERE for example in examples])
    arrays = (pointer, fault, modes, culprit, agent_modes, somewhere)
    return Targets(*map(torch.from_numpy, arrays))


def _mark(example: NetworkExample, culprit: NDArray[np.float32], modes: NDArray[np.float32]) -> None:
    for step, agent in enumerate(example.inputs.agent.tolist()):
        if example.inputs.can_be_blamed[step]:
            culprit[step] = agent in example.culprits
            modes[step, list(example.culprits.get(agent, ()))] = 1


_UNKNOWN = -100
"""Pointer target of runs whose decisive step nobody knows."""


def supervised_losses(scores: Scores, targets: Targets, padded: PaddedBatch, *, sigma: float) -> dict[str, Tensor]:
    """Compute each loss, averaged over what it applies to; 0 where it applies to nothing.

    - pointer: cross-entropy to the decisive step, smeared over its neighbours by a Gaussian of *sigma* steps.
    - agent: that of the pointer's mass on the decisive step's agent; where only agents
      are labelled, on any of these; where only the failure is known, on any step.
    - fault, modes: binary cross-entropy per step, for modes on faulty steps alone.
    - mode: on faulty steps, cross-entropy to any of the labelled modes, of which one is said.
    - culprit: where only agents are labelled, that of the chance that any of an agent's steps is wrong.
    """
    log_shares = torch.log_softmax(scores.pointer, dim=1)  # (B, S + 1)
    is_known = targets.pointer != _UNKNOWN
    return {
        "pointer": _pointer(log_shares, targets.pointer, padded, is_known, sigma),
        "agent": _agent(log_shares, targets, padded),
        "fault": _fault(scores.fault, targets.fault),
        "modes": _modes(scores.modes, targets),
        "mode": _mode(scores.modes, targets),
        "culprit": _culprit(scores, targets, padded),
    }


def contrastive_loss(scores: Scores, examples: Sequence[NetworkExample], margin: float) -> Tensor:
    """Hold a faulty step above the same step of its clean twin, where both are in the batch.

    Up to the fault both runs are the same, so the steps correspond by place.
    """
    rows = {example.trace_id: row for row, example in enumerate(examples)}
    pairs = [
        (row, rows[example.twin], example.decisive)
        for row, example in enumerate(examples)
        if example.decisive >= 0
        and example.twin in rows
        and example.decisive < len(examples[rows[example.twin]].inputs)
    ]
    if not pairs:
        return torch.zeros((), device=scores.fault.device)
    faulty, clean, step = torch.tensor(pairs, device=scores.fault.device).T
    return functional.softplus(margin - (scores.fault[faulty, step] - scores.fault[clean, step])).mean()


def _pointer(log_shares: Tensor, gold: Tensor, padded: PaddedBatch, is_known: Tensor, sigma: float) -> Tensor:
    steps = log_shares.shape[1] - 1
    indices = torch.arange(steps + 1, device=gold.device)
    kernel = torch.exp(-((indices[None, :] - gold[:, None]).float() ** 2) / (2 * max(sigma, 1e-3) ** 2))
    allowed = functional.pad(padded.can_be_blamed, (0, 1), value=False)
    kernel = torch.where(allowed, kernel, 0.0)
    sharp = (indices[None, :] == gold[:, None]).float()
    smeared = torch.where((gold == steps)[:, None], sharp, kernel)
    smeared = torch.where(smeared.sum(dim=1, keepdim=True) > 0, smeared, sharp)
    smeared = smeared / smeared.sum(dim=1, keepdim=True).clamp(min=1e-9)
    losses = -(smeared * log_shares.clamp(min=-1e4)).sum(dim=1)
    return (losses * is_known).sum() / is_known.sum().clamp(min=1)


def _agent(log_shares: Tensor, targets: Targets, padded: PaddedBatch) -> Tensor:
    steps = padded.agent.shape[1]
    gold = targets.pointer
    points_at_step = (gold != _UNKNOWN) & (gold < steps)
    owner = padded.agent.gather(1, gold.clamp(0, steps - 1)[:, None])
    may_be = (targets.culprit == 1) | targets.somewhere[:, None]
    right = torch.where(points_at_step[:, None], padded.agent == owner, may_be) & padded.can_be_blamed
    is_failure = right.any(dim=1)
    mass = torch.logsumexp(log_shares[:, :-1].masked_fill(~right, -1e4), dim=1)
    return -(mass * is_failure).sum() / is_failure.sum().clamp(min=1)


def _fault(logits: Tensor, fault: Tensor) -> Tensor:
    is_known = ~fault.isnan()
    losses = functional.binary_cross_entropy_with_logits(logits, fault.nan_to_num(), reduction="none")
    return (losses * is_known).sum() / is_known.sum().clamp(min=1)


def _modes(logits: Tensor, targets: Targets) -> Tensor:
    is_wrong = (targets.modes.sum(dim=-1) > 0).float()
    losses = functional.binary_cross_entropy_with_logits(logits, targets.modes, reduction="none").sum(dim=-1)
    return (losses * is_wrong).sum() / is_wrong.sum().clamp(min=1)


def _mode(logits: Tensor, targets: Targets) -> Tensor:
    is_labelled = targets.modes > 0
    log_shares = torch.log_softmax(logits, dim=-1)
    right = torch.logsumexp(log_shares.masked_fill(~is_labelled, -1e4), dim=-1)
    is_wrong = is_labelled.any(dim=-1)
    return -(right * is_wrong).sum() / is_wrong.sum().clamp(min=1)


def _culprit(scores: Scores, targets: Targets, padded: PaddedBatch) -> Tensor:
    """Learn from agents' labels: an agent is at fault if any of its steps is, with a mode if any is with that mode."""
    is_known = ~targets.culprit.isnan()
    if not is_known.any():
        return torch.zeros((), device=scores.fault.device)
    chance = torch.sigmoid(scores.fault) * is_known  # (B, S)
    with_mode = chance[..., None] * torch.sigmoid(scores.modes)
    n_agents = int(padded.agent.max()) + 1
    losses = []
    for agent in range(n_agents):
        own = (padded.agent == agent) & is_known
        is_there = own.any(dim=1)
        if not is_there.any():
            continue
        label = torch.where(own, targets.culprit, 0.0).amax(dim=1)
        modes = torch.where(own[..., None], targets.agent_modes, 0.0).amax(dim=1)
        at_fault = 1 - torch.prod(torch.where(own, 1 - chance, 1.0), dim=1)
        with_modes = 1 - torch.prod(torch.where(own[..., None], 1 - with_mode, 1.0), dim=1)
        loss = functional.binary_cross_entropy(at_fault.clamp(1e-5, 1 - 1e-5), label, reduction="none")
        loss = loss + functional.binary_cross_entropy(with_modes.clamp(1e-5, 1 - 1e-5), modes, reduction="none").sum(
            dim=-1
        )
        losses.append(loss[is_there])
    return torch.cat(losses).mean()


_Ints = NDArray[np.int64]

_NEAREST = 5
_AT_ONCE = 1_000
"""Words compared with all others at a time: bounds memory."""


def with_strange_words(examples: Sequence[NetworkExample], n_words: int, seed: int) -> list[NetworkExample]:
    """Put every word in the place of another: what was learnt of words helps no more."""
    return _reword(examples, np.random.default_rng(seed).permutation(n_words))


def with_near_words(
    examples: Sequence[NetworkExample], meanings: NDArray[np.float32], seed: int
) -> list[NetworkExample]:
    """Change every word for one of the five that mean most like it: the same said otherwise.

    Args:
        examples: The runs.
        meanings: (V, M) what each word means.
        seed: Chooses among the five, once for each word.
    """
    others, n_near = np.arange(len(meanings)), min(_NEAREST, len(meanings) - 1)
    used = np.unique(np.concatenate([example.inputs.tokens.rows for example in examples] or [others[:0]]))
    rng = np.random.default_rng(seed)
    directions = meanings / np.linalg.norm(meanings, axis=1, keepdims=True).clip(min=1e-9)
    for start in range(0, len(used) if n_near > 0 else 0, _AT_ONCE):
        some = used[start : start + _AT_ONCE]
        likeness = directions[some] @ directions.T
        likeness[np.arange(len(some)), some] = -np.inf
        nearest = np.argpartition(-likeness, n_near, axis=1)[:, :n_near]
        others[some] = nearest[np.arange(len(some)), rng.integers(0, n_near, len(some))]
    return _reword(examples, others)


def _reword(examples: Sequence[NetworkExample], others: _Ints) -> list[NetworkExample]:
    return [replace(example, inputs=_in_words(example.inputs, others)) for example in examples]


def _in_words(run: RunInputs, others: _Ints) -> RunInputs:
    return replace(run, tokens=replace(run.tokens, rows=others[run.tokens.rows]))


_WORD = "word."
"""Begins the names of the weights that make the word table, and are gone when it is made."""

_MEANING_WIDTH = 128
"""Width of the layer between a word's meaning and its row of the word table."""


def initial_weights(shape: Shape, seed: int) -> dict[str, Tensor]:
    """Draw weights: matrices as wide as keeps the variance, outputs of layers small, norms 1, biases 0."""
    generator = torch.Generator().manual_seed(seed)
    weights = {}
    for name, size in shape.parameters().items():
        last = name.rpartition(".")[2]
        if last in ("bias", "shift") or last.endswith("_bias"):
            value = torch.zeros(size)
        elif last == "scale":
            value = torch.ones(size)
        else:
            spread = 0.05 if name == "embedding" else 1 / math.sqrt(size[0])
            if name.endswith((".attention.output", ".mlp.down")):
                spread /= math.sqrt(2 * shape.n_layers)
            value = torch.randn(size, generator=generator) * spread
        weights[name] = value.requires_grad_()
    return weights


def fit_network(
    examples: Sequence[NetworkExample], shape: Shape, schedule: Schedule, *, meanings: NDArray[np.float32], seed: int
) -> dict[str, Tensor]:
    """Train on runs whose features are scaled already, in one thread: the same bits each time, and faster.

    Args:
        examples: The runs.
        shape: The network's.
        schedule: How to train.
        meanings: (V, M) what each word means: the word table is what two layers make of it.
        seed: Chooses the first weights and every draw.
    """
    torch.set_num_threads(1)
    word_meanings = torch.from_numpy(meanings)
    weights = initial_weights(shape, seed)
    del weights["embedding"]
    weights |= _initial_words(meanings.shape[1], shape.bag_width, seed)
    rng, generator = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    optimizer = _optimizer(weights, schedule)
    planned = [list(batches(examples, rng, schedule.most_runs)) for _ in range(schedule.epochs)]
    total, done = sum(map(len, planned)), 0
    for epoch, parts in enumerate(planned):
        sums: dict[str, float] = {}
        for part in parts:
            done += 1
            for group in optimizer.param_groups:
                group["lr"] = schedule.rate * _warm_cosine(done / total)
            losses = _losses_of_batch(part, weights, word_meanings, shape, schedule, generator)
            optimizer.zero_grad()
            sum(losses.values(), torch.zeros(())).backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(weights.values(), 1.0)
            optimizer.step()
            for name, loss in losses.items():
                sums[name] = sums.get(name, 0.0) + float(loss.detach()) / len(parts)
        shown = ", ".join(f"{name} {value:.3f}" for name, value in sums.items() if value)
        _log.info("pass %d of %d: %s", epoch + 1, schedule.epochs, shown)
    table = _word_table(weights, word_meanings)
    return {"embedding": table.detach()} | {
        name: value.detach() for name, value in weights.items() if not name.startswith(_WORD)
    }


def _initial_words(meaning: int, width: int, seed: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed + 1)
    first = torch.randn((meaning, _MEANING_WIDTH), generator=generator) / math.sqrt(meaning)
    second = torch.randn((_MEANING_WIDTH, width), generator=generator) * (0.15 / math.sqrt(_MEANING_WIDTH))
    weights = {f"{_WORD}in": first, f"{_WORD}bias": torch.zeros(_MEANING_WIDTH), f"{_WORD}out": second}
    return {name: value.requires_grad_() for name, value in weights.items()}


def _word_table(weights: Mapping[str, Tensor], meanings: Tensor) -> Tensor:
    """Make the rows of the word table for words of these (V, M) meanings: (V, E)."""
    inner = functional.relu(meanings @ weights[f"{_WORD}in"] + weights[f"{_WORD}bias"])
    return inner @ weights[f"{_WORD}out"]


@torch.no_grad()
def predict(examples: Sequence[NetworkExample], weights: Mapping[str, Tensor], shape: Shape) -> list[Scores]:
    """Score runs; one entry per example, cut to its own steps."""
    predictions: dict[int, Scores] = {}
    sizes = [len(example.inputs) for example in examples]
    for rows in split_by_size(sorted(range(len(examples)), key=sizes.__getitem__), sizes, 32):
        scores = forward(weights, shape, pad([examples[row].inputs for row in rows]).steps(weights))
        for at, row in enumerate(rows):
            size = sizes[row]
            pointer = torch.cat([scores.pointer[at, :size], scores.pointer[at, -1:]])
            predictions[row] = Scores(pointer, scores.fault[at, :size], scores.modes[at, :size])
    return [predictions[row] for row in range(len(examples))]


def _losses_of_batch(
    part: Sequence[NetworkExample],
    weights: Mapping[str, Tensor],
    meanings: Tensor,
    shape: Shape,
    schedule: Schedule,
    generator: torch.Generator,
) -> dict[str, Tensor]:
    padded, targets = pad([example.inputs for example in part]), targets_of(part)
    runs, steps = padded.is_real.shape

    def draw_kept(share: float, *size: int) -> Tensor:
        return (torch.rand(size, generator=generator) < share).float()

    padded.features.mul_(draw_kept(1 - schedule.feature_dropout, runs, 1, padded.features.shape[2]))
    used, rows = torch.unique(padded.tokens, return_inverse=True)
    meant = meanings[used]
    meant = meant + schedule.meaning_noise * torch.randn(meant.shape, generator=generator)
    inputs = replace(padded, tokens=rows).steps(
        {**weights, "embedding": _word_table(weights, meant)}, word_keep=schedule.word_keep, generator=generator
    )
    drop = draw_kept(1 - schedule.dropout, runs, steps, shape.width) / (1 - schedule.dropout)
    scores = forward(weights, shape, inputs, keep=drop)
    losses = supervised_losses(scores, targets, padded, sigma=schedule.sigma)
    losses |= {"contrast": contrastive_loss(scores, part, schedule.margin)}
    return {name: loss * (1.0 if name == "pointer" else getattr(schedule, name)) for name, loss in losses.items()}


def _optimizer(weights: Mapping[str, Tensor], schedule: Schedule) -> torch.optim.Optimizer:
    matrices = [value for value in weights.values() if value.dim() > 1]
    others = [value for value in weights.values() if value.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": schedule.decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=schedule.rate)


def _warm_cosine(done: float) -> float:
    return min(done / 0.1, 0.5 * (1 + math.cos(math.pi * max(0.0, done - 0.1) / 0.9)))


WEIGHTS_FILE = "network.safetensors"

_LEAST_SPREAD = 1e-3
"""A feature that hardly varies in training is not blown up."""


@dataclass(frozen=True, slots=True)
class HeldOutRights:
    """Figures on runs not fitted to, percent but for `n` and `sound`; `mode` is None where no label names one."""

    n: int
    step: float
    agent: float
    mode: float | None
    sound: int
    false_alarms: float
    coverage: float


@dataclass(frozen=True, slots=True)
class NetworkFigures:
    """Figures on held-out tasks, on what the corpora's recipes hold out, and on what else was kept aside.

    Attributes:
        tasks: Tasks of families and topologies that were learnt from; calibration saw them, with other words.
        recipes: Families and topologies that were not, likewise; None where the recipes hold nothing out.
        agents: Percent of AEGIS runs whose most blamed agent is one that is labelled; None without such runs.
        reasoning: Held-out tasks of runs with a labelled mistake, which calibration has not seen; None without such.
    """

    tasks: HeldOutRights
    recipes: HeldOutRights | None = None
    agents: float | None = None
    reasoning: HeldOutRights | None = None


@dataclass(frozen=True, slots=True)
class TrainedNetwork:
    """What training made: the model, its held-out figures, and where it lies."""

    network: Network
    held_out: NetworkFigures
    weights: Path


def train_network(recipe: NetworkRecipe, data: Path, out: Path) -> TrainedNetwork:
    """Train by *recipe* on what lies under *data*; leave recipe, versions, metrics and weights in *out*.

    Raises:
        ConfigError: if a corpus or file is missing, not finished, or too small to hold anything out.
    """
    start_s = time.perf_counter()
    lexicon = LexicalTracer.bundled().lexicon
    meanings = Meanings.bundled()
    examples = read_examples(recipe, data, lexicon, meanings.vocabulary)
    _log.info("runs read in %.0f s", time.perf_counter() - start_s)
    network, held_out = train_network_on(examples, recipe, lexicon, meanings)
    out.mkdir(parents=True, exist_ok=True)
    digest = network.save(out / WEIGHTS_FILE)
    about = {
        **asdict(recipe),
        **{package: version(package) for package in ("torch", "numpy", "blamespan")},
        "python": platform.python_version(),
    }
    _write(out / "recipe.json", about)
    wall_s = round(time.perf_counter() - start_s, 1)
    _write(out / "metrics.jsonl", {**asdict(held_out), "weights": digest, "wall_s": wall_s})
    return TrainedNetwork(replace(network, digest=digest), held_out, out / WEIGHTS_FILE)


def train_network_on(
    examples: Examples, recipe: NetworkRecipe, lexicon: Lexicon, meanings: Meanings
) -> tuple[Network, NetworkFigures]:
    """Train on runs in memory.

    Raises:
        ConfigError: if a side of the split has no failed run.
    """
    if not all(any(part.decisive >= 0 for part in part) for part in (examples.fitted, examples.tasks)):
        raise ConfigError(
            f"expected failed runs of enough tasks to hold {recipe.data.held_out_percent} % of them out, got "
            f"{len(examples.fitted)} runs to fit on and {len(examples.tasks)} held out. Generate a larger corpus, or "
            "change data.held_out_percent"
        )
    _log.info("%d runs to fit on, %d held out by task", len(examples.fitted), len(examples.tasks))
    mean, spread = _feature_scale(examples.fitted)
    shape = Shape(
        n_features=len(mean),
        n_words=len(meanings.vocabulary),
        n_relations=len(RELATIONS),
        n_modes=len(MODES),
        **asdict(recipe.size),
    )
    fitted = scaled_examples(examples.fitted, mean, spread)
    trained = fit_network(fitted, shape, recipe.schedule, meanings=meanings.vectors, seed=recipe.seed)
    weights = round_weights({name: value.numpy() for name, value in trained.items()})
    held_out = scaled_examples([*examples.tasks, *examples.recipes], mean, spread)
    as_worded = _ScoredRuns.of(held_out, weights, shape)
    near = _ScoredRuns.of(with_near_words(held_out, meanings.vectors, recipe.seed), weights, shape)
    strange = _ScoredRuns.of(with_strange_words(held_out, shape.n_words, recipe.seed), weights, shape)
    temperature = temperature_of(near.pointed)
    both = (as_worded.pointed, strange.pointed)  # what holds for either holds for both
    network = Network(
        shape=shape,
        weights=weights,
        vocabulary=meanings.vocabulary,
        mean=mean,
        spread=spread,
        features=feature_names(lexicon),
        modes=tuple(map(str, MODES)),
        lexicon=lexicon.digest,
        temperature=temperature,
        set_mass=max(mass_for(part, temperature, recipe.coverage) for part in both),
        alarm=max(alarm_for(part, temperature, recipe.max_false_alarms) for part in both),
        false_alarms=recipe.max_false_alarms / 100,
        alarms=alarms_for(both, temperature),
        notes={"recipe": recipe.name, "seed": str(recipe.seed), "runs": str(len(fitted))},
    )
    tasks, recipes = as_worded.split(len(examples.tasks))
    agents, reasoning = (
        _ScoredRuns.of(scaled_examples(part, mean, spread), weights, shape)
        for part in (examples.agents, examples.reasoning)
    )
    return network, NetworkFigures(
        tasks=_measure(tasks, network),
        recipes=_measure(recipes, network) if recipes.has_failures else None,
        agents=_agents_right(agents) if agents.examples else None,
        reasoning=_measure(reasoning, network) if reasoning.has_failures else None,
    )


@dataclass(frozen=True, slots=True)
class _ScoredRuns:
    """Runs and what the network says of them."""

    examples: Sequence[NetworkExample]
    scores: Sequence[Scores]
    pointed: Sequence[Pointed]

    @classmethod
    def of(cls, examples: Sequence[NetworkExample], weights: Mapping[str, Floats], shape: Shape) -> _ScoredRuns:
        scores = predict(examples, {name: torch.from_numpy(value) for name, value in weights.items()}, shape)
        pointed = [
            Pointed(score.pointer.double().numpy(), example.decisive)
            for example, score in zip(examples, scores, strict=True)
        ]
        return cls(examples, scores, pointed)

    @property
    def has_failures(self) -> bool:
        return any(example.decisive >= 0 for example in self.examples)

    def split(self, row: int) -> tuple[_ScoredRuns, _ScoredRuns]:
        return (
            _ScoredRuns(self.examples[:row], self.scores[:row], self.pointed[:row]),
            _ScoredRuns(self.examples[row:], self.scores[row:], self.pointed[row:]),
        )


def _feature_scale(examples: Sequence[NetworkExample]) -> tuple[Floats, Floats]:
    features = np.concatenate([example.inputs.features for example in examples])
    spread = features.std(axis=0)
    return features.mean(axis=0), np.where(spread > _LEAST_SPREAD, spread, 1).astype(np.float32)


def _agents_right(scored: _ScoredRuns) -> float:
    """Count how often the most blamed agent is one that is labelled, in percent."""
    is_right = []
    for example, point in zip(scored.examples, scored.pointed, strict=True):
        shares, _ = pointer_shares(point.scores, 1.0)
        is_right.append(blamed(example.inputs.agent, shares)[0] in example.culprits)
    return percent(is_right)


def _measure(scored: _ScoredRuns, network: Network) -> HeldOutRights:
    steps, agents, modes, covered, alarms = [], [], [], [], []
    has_mode = False
    for example, score, point in zip(scored.examples, scored.scores, scored.pointed, strict=True):
        shares, failed = pointer_shares(point.scores, network.temperature)
        if example.decisive == SOUND:
            alarms.append(failed >= network.alarm)
        if example.decisive < 0:
            continue
        agent, step = blamed(example.inputs.agent, shares)
        own = np.where(example.inputs.agent == agent, shares, 0)
        chances = (own[:, None] * torch.sigmoid(score.modes).numpy()).sum(axis=0)
        steps.append(step == example.decisive)
        agents.append(agent == example.inputs.agent[example.decisive])
        modes.append(bool(example.modes[example.decisive, int(chances.argmax())]))
        has_mode |= bool(example.modes[example.decisive].any())
        covered.append(mass_ahead(shares, example.decisive) < network.set_mass)
    return HeldOutRights(
        n=len(steps),
        step=percent(steps),
        agent=percent(agents),
        mode=percent(modes) if has_mode else None,
        sound=len(alarms),
        false_alarms=percent(alarms),
        coverage=percent(covered),
    )


def _write(path: Path, record: dict[str, Any]) -> None:
    path.write_text(json.dumps(record) + "\n", encoding="utf-8")
