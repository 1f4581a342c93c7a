"""Make a folder of pairs, and read it back: a recorded run with one mistake in one step, and its sound twins."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatch
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeAlias

from blamespan.errors import BlamespanError, ConfigError, UnreadableInput, reason_of
from blamespan.importing.recorded import RecordedRun, load_importer
from blamespan.otlp import spans_to_json
from blamespan.rebuilding.emit import emit
from blamespan.trace import MessageActionTrace
from blamespan_lab.console import show_progress
from blamespan_lab.make.corpus.storage import MANIFEST, check_is_new, compress_documents, write_ending
from blamespan_lab.make.edits.kinds import KINDS, EditableRun, find_edits
from blamespan_lab.make.edits.pairs import Pair, join_written, make_pair
from blamespan_lab.make.run_labels import Decisive, FaultLabel, Purpose, RunLabel
from blamespan_lab.recipes import Count, Listed, PositiveCount, require_known


@dataclass(frozen=True, slots=True)
class EditData:
    """Files of runs to edit: patterns, each looked for in every data folder.

    Attributes:
        transcripts: Runs written down as text.
        tau_bench: Runs of tau-bench.
        mistakes: Files of BIG-Bench-Mistake.
        outcomes: JSON lines of task, outcome and steps.
    """

    transcripts: Listed[str] = ()
    tau_bench: Listed[str] = ()
    mistakes: Listed[str] = ()
    outcomes: Listed[str] = ()


@dataclass(frozen=True, slots=True)
class HeldOutEdits:
    """What nothing learns from.

    Attributes:
        kinds: Of edits.
        sources: Patterns of the names of files.
    """

    kinds: Listed[str] = ()
    sources: Listed[str] = ()


@dataclass(frozen=True, slots=True)
class EditRecipe:
    """Everything that decides what pairs come out.

    Attributes:
        name: The recipe's.
        kind: `edits`: tells these recipes from those of simulated runs.
        seed: Chooses among the places of each run.
        most_per_run: Most edits of one run.
        most_per_kind: Most of these of one kind.
        data: Runs to edit.
        held_out: What nothing learns from.

    Raises:
        ConfigError: if it names no file, or an unknown kind.
    """

    name: str
    kind: Literal["edits"] = "edits"
    seed: Count = 0
    most_per_run: PositiveCount = 24
    most_per_kind: PositiveCount = 3
    data: EditData = field(default_factory=EditData)
    held_out: HeldOutEdits = field(default_factory=HeldOutEdits)

    def __post_init__(self) -> None:
        if not any(asdict(self.data).values()):
            raise ConfigError(f"{self.name}: expected [data] to name files, got none. Name runs to edit")
        require_known(self.name, "held_out.kinds", self.held_out.kinds, list(KINDS))


IMPORTERS: Mapping[str, str] = {
    "transcripts": "transcript",
    "tau_bench": "tau-bench",
    "mistakes": "bigbench-mistake",
    "outcomes": "steps",
}
"""The importer for the files of each key of a recipe's `data`."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of runs, some of which are known to be sound.

    Attributes:
        path: The file.
        importer: Name of the importer that reads it.
    """

    path: Path
    importer: str

    @property
    def name(self) -> str:
        """Name the file without its endings; sources are held out by it."""
        return self.path.name.partition(".")[0]


def source_files(folders: Sequence[Path], key: str, pattern: str) -> list[SourceFile]:
    """List the files that *pattern* matches below any of *folders*.

    Args:
        folders: Data folders.
        key: Of `IMPORTERS`.
        pattern: Relative to each folder.

    Raises:
        ConfigError: if it matches none.
    """
    files = [SourceFile(path, IMPORTERS[key]) for folder in folders for path in sorted(folder.glob(pattern))]
    if not files:
        raise ConfigError(
            f"expected files {pattern!r} below {', '.join(map(str, folders))}, got none. Name the folder that holds "
            f"them with --data, or take the pattern out of the recipe's data.{key}"
        )
    return files


def read_sound_runs(source: SourceFile) -> Iterator[RecordedRun]:
    """Yield the runs of *source* that succeeded or are labelled as free of errors, in their order.

    Raises:
        UnreadableInput: if nothing of the file can be read.
    """
    for run in load_importer(source.importer).read(source.path):
        if isinstance(run, RecordedRun) and len(run.trace.steps) > 1 and is_sound(run):
            yield run


def read_written_failures(source: SourceFile) -> dict[str, list[RecordedRun]]:
    """Return the failed runs of *source* that were written beside a sound twin, by the twin's trace id.

    Raises:
        UnreadableInput: if nothing of the file can be read.
    """
    failures: dict[str, list[RecordedRun]] = defaultdict(list)
    for run in load_importer(source.importer).read(source.path):
        if isinstance(run, RecordedRun) and run.origin is not None and run.origin.twin and run.faults:
            failures[run.origin.twin].append(run)
    return failures


def is_sound(run: RecordedRun) -> bool:
    """Check whether a run succeeded, or is labelled as free of errors."""
    return run.trace.outcome == "succeeded" or (run.trace.outcome == "unknown" and run.faults == ())


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
        UnreadableInput: if there is no finished folder of pairs, or a run of it cannot be read.
    """
    held_out = _read_manifest(folder)["recipe"]["held_out"]
    importer = load_importer("generated")
    for path in sorted((folder / "runs").glob("*.jsonl.gz")):
        runs = {}
        for run in importer.read(path):
            if isinstance(run, UnreadableInput):
                raise UnreadableInput(f"{run}. Generate the pairs again")
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
        raise UnreadableInput(
            f"expected pairs in {str(folder)!r}, got none ({MANIFEST}: {reason_of(error)}). Make them: blamespan lab "
            f"generate edits --data DIR --out {folder}"
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
    return spans_to_json(emit(trace))


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
