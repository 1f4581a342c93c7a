"""Make a folder of pairs, and read it back."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatch
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeAlias

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from blamespan.errors import BlamespanError, ConfigError, UnreadableInput
from blamespan.importing.recorded import RecordedRun, load_importer
from blamespan.otlp import request_to_json, spans_to_proto
from blamespan.rebuilding.emit import emit
from blamespan.trace import MessageActionTrace
from blamespan_lab.console import show_progress
from blamespan_lab.make.corpus.storage import MANIFEST, check_is_new, compress_documents, write_ending
from blamespan_lab.make.edits.kinds import KINDS, EditableRun, find_edits
from blamespan_lab.make.edits.pairs import Pair, join_written, make_pair
from blamespan_lab.make.edits.recipe import EditRecipe
from blamespan_lab.make.edits.sources import SourceFile, read_sound_runs, read_written_failures, source_files
from blamespan_lab.make.run_labels import Decisive, FaultLabel, Purpose, RunLabel

Side: TypeAlias = Literal["all", "train", "every-kind", "held-out", "new-sources"]
"""Which pairs: of kinds *and* sources held out (`held-out`), of known kinds in sources held out (`new-sources`), of
known kinds in known sources (`train`), or of every kind in known sources (`every-kind`)."""

_HELD_OUT: Mapping[str, Collection[tuple[bool, bool]]] = {
    "train": {(False, False)},
    "every-kind": {(False, False), (True, False)},
    "held-out": {(True, True)},
    "new-sources": {(False, True)},
}
"""Whether the kind and the source are held out."""

_NAMES_PER_RUN = 3
"""Names of each run that may stand for others elsewhere."""


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """A pair as it is read back.

    Attributes:
        kind: Kind of the edit.
        source: Name of the file that the run is from.
        step: Index of the wrong step in the edited run; the decoy's step of that index says the same.
        untouched: The run as it was.
        edited: The run with the mistake.
        decoy: The run in which the same words are right; None where there is none.
    """

    kind: str
    source: str
    step: int
    untouched: RecordedRun
    edited: RecordedRun
    decoy: RecordedRun | None

    @property
    def untouched_step(self) -> int | None:
        """Find the step of the untouched run that was changed; None where the edit put a step in."""
        wanted = self.edited.trace.steps[self.step].span_id
        return next((step.index for step in self.untouched.trace.steps if step.span_id == wanted), None)


def generate_edits(recipe: EditRecipe, folders: Sequence[Path], out: Path) -> dict[str, Any]:
    """Make the pairs of *recipe* in *out*, the same for the same recipe and files, and return their description.

    Args:
        recipe: What to make.
        folders: Data folders, each searched for the recipe's files.
        out: New or empty.

    Raises:
        ConfigError: if files are missing, or *out* holds anything.
        BlamespanError: if *out* cannot be written.
    """
    check_is_new(out)
    sources = _find_sources(recipe, folders)
    names = _collect_names(sources)
    tally: Counter[str] = Counter()
    labels: list[RunLabel] = []
    try:
        (out / "runs").mkdir(parents=True, exist_ok=True)
        for number, source in enumerate(show_progress(sources, "editing")):
            documents: list[str] = []
            written = read_written_failures(source)
            for run in read_sound_runs(source):
                pairs = list(_edit_run(recipe, run.trace, source, names))
                pairs += filter(
                    None, (join_written(run.trace, failed, source.name) for failed in written[run.trace.trace_id])
                )
                rows = [row for pair in pairs for row in _label_pair(recipe, pair)]
                if rows:
                    rows.insert(0, (pairs[0].untouched, _label(recipe, pairs[0], pairs[0].untouched, "clean", "")))
                tally.update(f"kept: {label.purpose}" for _, label in rows)
                tally.update(f"kind: {pair.edit.kind}" for pair in pairs)
                documents += [_write_document(trace) for trace, _ in rows]
                labels += [label for _, label in rows]
            if documents:
                (out / "runs" / f"{number:04}.jsonl.gz").write_bytes(compress_documents(documents))
        return write_ending(out, labels, asdict(recipe), tally)
    except OSError as error:
        raise BlamespanError(f"expected a folder that can be written, got {error}. Name another with --out") from error


def read_pairs(folder: Path, side: Side = "all") -> Iterator[LabelledPair]:
    """Yield the pairs in *folder*, in the order of its files.

    Args:
        folder: As `generate_edits` left it.
        side: See `Side`.

    Raises:
        ConfigError: if there is no finished folder of pairs, or a run of it cannot be read.
    """
    held_out = _read_manifest(folder)["recipe"]["held_out"]
    importer = load_importer("generated")
    for path in sorted((folder / "runs").glob("*.jsonl.gz")):
        runs = {}
        for run in importer.read(path):
            if isinstance(run, UnreadableInput):
                raise ConfigError(f"{run}. Generate the pairs again")
            runs[run.trace.trace_id] = run
        decoys = {run.origin.twin: run for run in runs.values() if run.origin and run.origin.purpose == "decoy"}
        for run in runs.values():
            if run.origin is None or run.origin.purpose != "faulty" or run.origin.decisive is None:
                continue
            kind, source = run.origin.family, run.origin.topology
            is_kind_out = kind in held_out["kinds"]
            is_source_out = any(fnmatch(source, pattern) for pattern in held_out["sources"])
            if side == "all" or (is_kind_out, is_source_out) in _HELD_OUT[side]:
                decoy = decoys.get(run.trace.trace_id)
                yield LabelledPair(kind, source, run.origin.decisive, runs[run.origin.twin], run, decoy)


def _read_manifest(folder: Path) -> dict[str, Any]:
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if manifest["recipe"]["kind"] != "edits":
            raise ValueError("a corpus of another kind")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"expected pairs in {str(folder)!r}, got {error}. Make them: blamespan lab generate edits --data DIR --out "
            f"{folder}"
        ) from error
    return dict(manifest)


def _find_sources(recipe: EditRecipe, folders: Sequence[Path]) -> list[SourceFile]:
    return [
        source
        for key, patterns in asdict(recipe.data).items()
        for pattern in patterns
        for source in source_files(folders, key, pattern)
    ]


def _collect_names(sources: Sequence[SourceFile]) -> list[str]:
    """List names of people and things, a few of each run, to stand for others."""
    names: dict[str, None] = {}
    for source in sources:
        for run in read_sound_runs(source):
            values = (value.text for row in EditableRun(run.trace).values for value in row if value.form == "name")
            names |= dict.fromkeys(islice(values, _NAMES_PER_RUN))
    return list(names)


def _edit_run(
    recipe: EditRecipe, trace: MessageActionTrace, source: SourceFile, names: Sequence[str]
) -> Iterator[Pair]:
    """Yield the edits of one run, its kinds in random order and one of each before the second of any."""
    run = EditableRun(trace, names)
    kinds = list(KINDS)
    _random_stream(recipe, trace, "kinds").shuffle(kinds)
    finders = {kind: find_edits(run, kind, _random_stream(recipe, trace, kind)) for kind in kinds}
    count = 0
    for _ in range(recipe.most_per_kind):
        for kind in kinds:
            pair = next((pair for edit in finders[kind] if (pair := make_pair(trace, edit, source.name))), None)
            if pair is not None:
                yield pair
                count += 1
                if count == recipe.most_per_run:
                    return


def _random_stream(recipe: EditRecipe, trace: MessageActionTrace, purpose: str) -> random.Random:
    return random.Random(f"{recipe.seed} {trace.trace_id} {purpose}")  # noqa: S311  # draws places, no secrets


def _write_document(trace: MessageActionTrace) -> str:
    return request_to_json(ExportTraceServiceRequest(resource_spans=spans_to_proto(emit(trace))))


def _label_pair(recipe: EditRecipe, pair: Pair) -> Iterator[tuple[MessageActionTrace, RunLabel]]:
    yield pair.edited, _label(recipe, pair, pair.edited, "faulty", pair.untouched.trace_id)
    if pair.decoy is not None:
        yield pair.decoy, _label(recipe, pair, pair.decoy, "decoy", pair.edited.trace_id)


def _label(recipe: EditRecipe, pair: Pair, trace: MessageActionTrace, purpose: Purpose, twin: str) -> RunLabel:
    decisive: Decisive | None = None
    faults: tuple[FaultLabel, ...] = ()
    if purpose == "faulty":
        step = trace.steps[pair.edit.step]
        place = (step.agent, step.index, step.span_id, (str(pair.edit.mode),))
        decisive, faults = Decisive(*place), (FaultLabel(*place, "response", f"edit:{pair.edit.kind}"),)
    return RunLabel(
        trace_id=trace.trace_id,
        outcome="failure" if purpose == "faulty" else "success",
        purpose=purpose,
        family=pair.edit.kind if purpose != "clean" else "",
        topology=pair.source,
        framework="recorded",
        cast="",
        seed=recipe.seed,
        decisive=decisive,
        faults=faults,
        carried_by=(),
        twin=twin,
        verified=purpose == "faulty",
        recipe=recipe.name,
    )


def runs_of_pairs(pairs: Sequence[LabelledPair]) -> list[RecordedRun]:
    """List every run of *pairs* once: many pairs share their untouched run."""
    runs = {
        run.trace.trace_id: run
        for pair in pairs
        for run in (pair.untouched, pair.edited, pair.decoy)
        if run is not None
    }
    return list(runs.values())
