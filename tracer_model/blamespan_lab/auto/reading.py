"""Train the reader: a language model reads pairs of runs, and the evidence pointer learns what its doubts are worth.

What was read is kept beside the weights, so that training goes on where it was cut short.
"""

from __future__ import annotations

import json
import logging
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from blamespan.errors import ConfigError
from blamespan.json_text import parse_json
from blamespan.trace import MessageActionTrace
from blamespan_lab.auto.claims import judge_pairs
from blamespan_lab.auto.evidence import fit_pointer, lay_out_pairs, observe_all
from blamespan_lab.auto.recipe import ReaderRecipe
from blamespan_lab.auto.training import calibrate_prose, choose_alarm
from blamespan_lab.edits.generate import LabelledPair, read_pairs
from blamespan_lab.measuring.pairs import runs_of_pairs
from blamespan_tracer.auto.observations import ObservedRun, observe
from blamespan_tracer.auto.tracer import BUNDLED
from blamespan_tracer.auto.weights import AutoWeights
from blamespan_tracer.checks import CHECKS, apply_checks
from blamespan_tracer.ledger import read_ledger
from blamespan_tracer.network.tracer import NetworkTracer
from blamespan_tracer.reader.layout import ClaimReader, Expectation, RunText, lay_out_run

__all__ = ["KeptReader", "TrainedPointer", "train_reader"]

WEIGHTS_FILE = "reader.safetensors"
READINGS_FILE = "readings.jsonl"

_DIGITS = 4
_NOT_READ = -1.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TrainedPointer:
    """What training made.

    Attributes:
        path: The weights file, and
        digest: its digest.
        n_pairs: How many pairs the language model read.
        n_claims: How many claims of sound runs it read.
    """

    path: Path
    digest: str
    n_pairs: int
    n_claims: int


class KeptReader:
    """A reader that keeps in a file what it read, and does not read it again.

    Args:
        model: Reads.
        path: The file: a line for each run.

    Raises:
        ConfigError: if what is kept was read by another model.
    """

    def __init__(self, model: ClaimReader, path: Path) -> None:
        self._model, self._path = model, path
        self._kept: dict[str, list[float]] = {}
        for row in _read_lines(path):
            if row["model"] != model.digest:
                raise ConfigError(
                    f"expected what the model {model.digest!r} read in {str(path)!r}, got what {row['model']!r} did. "
                    "Name another folder by --out"
                )
            self._kept[row["text"]] = row["doubts"]

    @property
    def digest(self) -> str:
        """Fingerprint of the model."""
        return self._model.digest

    def read(self, run: RunText, shares: Sequence[float] = ()) -> list[Expectation]:
        """Return what the model expects in the place of each claim, as it was kept."""
        text = sha256(run.text.encode()).hexdigest()[:32]
        if text not in self._kept:
            read = {id(one.claim): round(one.doubt, _DIGITS) for one in self._model.read(run, shares)}
            self._kept[text] = [read.get(id(placed.claim), _NOT_READ) for placed in run.claims]
            row = {"text": text, "model": self.digest, "doubts": self._kept[text]}
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        return [
            Expectation(placed.claim, doubt)
            for placed, doubt in zip(run.claims, self._kept[text], strict=True)
            if doubt != _NOT_READ
        ]


def train_reader(recipe: ReaderRecipe, data: Path, out: Path, model: ClaimReader) -> TrainedPointer:
    """Train by *recipe* on the pairs in *data* beside the bundled weights of `auto`, and write weights into *out*.

    Args:
        recipe: Decides what comes out.
        data: Folder with the pairs that the recipe names.
        out: Folder; what the model read is kept there.
        model: Reads.

    Raises:
        ConfigError: if data is missing, or *out* holds what another model read.
    """
    pairs = list(read_pairs(data / recipe.pairs, "every-kind"))
    chosen = choose_pairs(list(read_pairs(data / recipe.pairs, "train")), recipe)
    if not chosen:
        raise ConfigError(f"expected pairs to learn from in {str(data / recipe.pairs)!r}, got none")
    reader = KeptReader(model, out / READINGS_FILE)
    judged = judge_pairs(pairs, _observe(pairs, _observe_read(chosen, reader)), recipe.seed)
    examples = lay_out_pairs([replace(pair, decoy=None) for pair in chosen], judged.observed, judged.tables)
    pointer = fit_pointer(
        examples, n_hidden=recipe.hidden, epochs=recipe.epochs, seed=recipe.seed, paradigm=recipe.paradigm
    )
    beside = AutoWeights.load(BUNDLED)
    weights = replace(
        beside,
        table=judged.table,
        claims=judged.model,
        pointer=pointer,
        alarm=choose_alarm(pointer, [one for pair in examples for one in pair], recipe.max_false_alarms / 100),
        reader=reader.digest,
        about={"recipe": asdict(recipe), "beside": beside.digest},
    )
    edited = [(pair.edited.trace, example[0]) for pair, example in zip(chosen, examples, strict=True)]
    weights = calibrate_prose(weights, edited, NetworkTracer.bundled(), recipe.coverage)
    return TrainedPointer(out / WEIGHTS_FILE, weights.save(out / WEIGHTS_FILE), len(chosen), int(judged.table.n_read))


def choose_pairs(pairs: Sequence[LabelledPair], recipe: ReaderRecipe) -> list[LabelledPair]:
    """Choose as many pairs of each kind as the recipe says, none of one run and kind, and none of long runs."""
    draws = random.Random(recipe.seed)  # noqa: S311  # draws runs, no secrets
    by_kind: dict[str, list[LabelledPair]] = defaultdict(list)
    for pair in pairs:
        by_kind[pair.kind].append(pair)
    chosen: list[LabelledPair] = []
    for _, group in sorted(by_kind.items()):
        draws.shuffle(group)
        runs: dict[str, LabelledPair] = {}
        for pair in group:
            if len(runs) < recipe.most_per_kind and _count_chars(pair.untouched.trace) <= recipe.most_chars:
                runs.setdefault(pair.untouched.trace.trace_id, pair)
        chosen += runs.values()
    return chosen


def _count_chars(trace: MessageActionTrace) -> int:
    return len(trace.task) + sum(len(step.content) for step in trace.steps)


def _observe_read(pairs: Sequence[LabelledPair], reader: KeptReader) -> dict[str, ObservedRun]:
    """Observe the runs of pairs, decoys left out, with what the reader expected in them."""
    ordered = sorted(pairs, key=lambda pair: pair.untouched.trace.trace_id)  # what they have in common is read once
    observed: dict[str, ObservedRun] = {}
    for number, pair in enumerate(ordered):
        for trace in (pair.untouched.trace, pair.edited.trace):
            if trace.trace_id not in observed:
                ledger = read_ledger(trace)
                expectations = reader.read(lay_out_run(trace, ledger))
                observed[trace.trace_id] = observe(trace, apply_checks(CHECKS, trace), ledger, expectations)
        if number % 20 == 0:
            _log.info("%d of %d pairs read", number, len(ordered))
    return observed


def _observe(pairs: Sequence[LabelledPair], read: Mapping[str, ObservedRun]) -> dict[str, ObservedRun]:
    """Return what is observed of the runs of pairs, by trace id: of what was read also by the reader."""
    rest = [run.trace for run in runs_of_pairs(pairs) if run.trace.trace_id not in read]
    return {**read, **dict(zip((trace.trace_id for trace in rest), observe_all(rest), strict=True))}


def _read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield what is kept; a last line that was cut short is taken away."""
    if not path.is_file():
        return
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole, encoding="utf-8")
    yield from map(parse_json, whole.splitlines())
