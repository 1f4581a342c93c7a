"""A corpus on disk: what it was made from, its runs, its labels; written so that nothing is half done.

corpus.json              the recipe, its digest, versions, and what came of it
labels.jsonl             one label per run, when everything is made
runs/0000.jsonl.gz       what is kept of one block's runs, one OTLP-JSON document each
runs/.0000.made          all of them, below a line with their labels and tally, until everything is made
"""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from blamespan.errors import BlamespanError, ConfigError, UnreadableInput, reason_of
from blamespan.importing.recorded import RecordedRun, load_importer
from blamespan_lab.make.corpus.balance import CandidateRun, choose_kept_runs
from blamespan_lab.make.corpus.recipe import CorpusRecipe
from blamespan_lab.make.run_labels import RunLabel
from blamespan_lab.recorded_runs import is_held_out

MANIFEST = "corpus.json"
"""Describes a corpus."""

LABELS = "labels.jsonl"
"""Labels of all its runs."""

_LOCK = ".generating"
_VERSIONED = ("blamespan", "autogen-agentchat", "langgraph", "langchain-core")


@dataclass(frozen=True, slots=True)
class MadeBlock:
    """A block's outcome.

    Attributes:
        number: The block's.
        documents: One OTLP-JSON document per run.
        candidates: One per run, in the same order: its label, and what the choice among all runs goes by.
        tally: What was counted while it was made, by name.
        cpu_s: Processor seconds it took.
    """

    number: int
    documents: tuple[str, ...]
    candidates: tuple[CandidateRun, ...]
    tally: Mapping[str, int]
    cpu_s: float


class CorpusFolder:
    """The folder that a corpus is made in.

    Args:
        path: Empty, new, or of the same recipe and versions.
        recipe: What it is made from.
    """

    def __init__(self, path: Path, recipe: CorpusRecipe) -> None:
        self.path = path
        self.recipe = recipe

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Take the folder over for making the corpus, or for going on with it.

        Raises:
            ConfigError: if something else is in it, it cannot be written, or another process is at it.
        """
        try:
            self._check_ownership()
            (self.path / "runs").mkdir(parents=True, exist_ok=True)
            lock_file = os.open(self.path / _LOCK, os.O_CREAT | os.O_RDWR, 0o644)
        except OSError as error:
            raise ConfigError(_unwritable(self.path, error)) from error
        try:
            _lock(lock_file, self.path)
            if not (self.path / MANIFEST).exists():
                self._describe({})
            for left in (self.path / "runs").glob(".*.part"):
                left.unlink()
            if self.is_finished():
                self._delete_unkept()
            yield
        finally:
            os.close(lock_file)

    def is_finished(self) -> bool:
        """Return whether everything was made."""
        return bool(read_manifest(self.path).get("made")) and (self.path / LABELS).is_file()

    def done(self) -> dict[int, int]:
        """Count the runs of each block that is done, by its number."""
        return {number: len(marker["candidates"]) for number, marker in self._read_markers().items()}

    def keep(self, block: MadeBlock) -> None:
        """Write a block, which then is done.

        Raises:
            ConfigError: if the disk does not take it; what was kept before stays.
        """
        marker = {
            "number": block.number,
            "tally": dict(block.tally),
            "cpu_s": block.cpu_s,
            "candidates": [
                [candidate.label.as_json(), candidate.imbalance, candidate.surface] for candidate in block.candidates
            ],
        }
        self._write(self._block_path(block.number), compress_documents([json.dumps(marker), *block.documents]))

    def finish(self) -> dict[str, Any]:
        """Choose among all runs, write those that are kept, their labels and what came of it. Returns the description.

        What was made stays until all that is written: a second call after an interruption does the same again.
        """
        markers = self._read_markers()
        candidates = {number: [_candidate(row) for row in marker["candidates"]] for number, marker in markers.items()}
        chosen = choose_kept_runs(self.recipe, [candidate for rows in candidates.values() for candidate in rows])
        tally = sum((Counter(marker["tally"]) for marker in markers.values()), Counter())
        labels: list[str] = []
        for number, rows in candidates.items():
            _, *documents = gzip.decompress(self._block_path(number).read_bytes()).decode("utf-8").splitlines()
            pairs = [(document, candidate.label) for document, candidate in zip(documents, rows, strict=True)]
            pairs = [(document, label) for document, label in pairs if label.trace_id in chosen]
            tally.update(f"kept: {label.purpose}" for _, label in pairs)
            if pairs:
                self._write(self._shard_path(number), compress_documents([document for document, _ in pairs]))
            labels += [
                json.dumps(_drop_missing_twin(label, chosen).as_json(), ensure_ascii=False) for _, label in pairs
            ]
        self._write(self.path / LABELS, "".join(row + "\n" for row in labels).encode("utf-8"))
        self._describe({"runs": len(labels), "tally": dict(sorted(tally.items()))})
        self._delete_unkept()
        return read_manifest(self.path)

    def _delete_unkept(self) -> None:
        for path in (self.path / "runs").glob(".*"):
            path.unlink()

    def _read_markers(self) -> dict[int, dict[str, Any]]:
        """Read what is known of the blocks that are done, by number, ascending."""
        markers = {}
        for path in sorted((self.path / "runs").glob(".*.made")):
            with suppress(OSError, EOFError, ValueError), gzip.open(path, "rt", encoding="utf-8") as file:
                marker = json.loads(file.readline())
                markers[int(marker["number"])] = marker
        return markers

    def _check_ownership(self) -> None:
        """Refuse a folder that holds anything else."""
        entries = {entry.name for entry in self.path.iterdir()} if self.path.exists() else set()
        if not (self.path / MANIFEST).is_file():
            if entries - {_LOCK, "runs", f".{MANIFEST}.part"} or any((self.path / "runs").glob("*")):
                raise ConfigError(
                    f"expected --out to be new, empty or a corpus of this recipe, got {str(self.path)!r} with other "
                    "files in it. Name another folder"
                )
            return
        theirs, ours = read_manifest(self.path), self._identity()
        for key in ("digest", "versions"):
            if theirs.get(key) != ours[key]:
                shown = "versions" if key == "versions" else "recipe"
                raise ConfigError(
                    f"expected a corpus of the same {shown} in {str(self.path)!r}, got "
                    f"{_describe_part(theirs.get(shown))} where {_describe_part(ours[shown])} is to be made. "
                    "Name another folder, or remove this one"
                )

    def _identity(self) -> dict[str, Any]:
        recipe = json.loads(json.dumps(asdict(self.recipe)))
        return {"blamespan_corpus": 1, "recipe": recipe, "digest": self.recipe.digest, "versions": _versions()}

    def _describe(self, summary: Mapping[str, Any]) -> None:
        described = {**self._identity(), "made": dict(summary)}
        self._write(self.path / MANIFEST, (json.dumps(described, ensure_ascii=False, indent=1) + "\n").encode("utf-8"))

    def _shard_path(self, number: int) -> Path:
        return self.path / "runs" / f"{number:04}.jsonl.gz"

    def _block_path(self, number: int) -> Path:
        return self.path / "runs" / f".{number:04}.made"

    def _write(self, path: Path, content: bytes) -> None:
        """Write *content* so that *path* holds all of it or is as it was, whenever the process or machine stops."""
        part = path.with_name(f".{path.name.lstrip('.')}.part")
        try:
            with part.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        except OSError as error:
            raise BlamespanError(_unwritable(path, error)) from error


def check_is_new(out: Path) -> None:
    """Check that a folder to make is not there yet, or is empty.

    Raises:
        ConfigError: if it holds anything.
    """
    if out.exists() and any(out.iterdir()):
        raise ConfigError(f"expected --out to be new or empty, got {str(out)!r} with files in it. Name another folder")


def compress_documents(documents: Sequence[str]) -> bytes:
    """Return a file of `runs` with a document on each line; the same documents give the same bytes."""
    return gzip.compress("".join(document + "\n" for document in documents).encode("utf-8"), compresslevel=6, mtime=0)


def write_ending(
    out: Path, labels: Sequence[RunLabel], recipe: Mapping[str, Any], tally: Mapping[str, int]
) -> dict[str, Any]:
    """Write the labels and the description of a corpus whose runs are written, and return the description.

    Raises:
        OSError: if they cannot be written.
    """
    rows = "".join(json.dumps(label.as_json(), ensure_ascii=False) + "\n" for label in labels)
    (out / LABELS).write_text(rows, encoding="utf-8")
    made = {"runs": len(labels), "tally": dict(sorted(tally.items()))}
    manifest = {"blamespan_corpus": 1, "recipe": dict(recipe), "made": made}
    (out / MANIFEST).write_text(json.dumps(manifest, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return manifest


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read what the corpus in *folder* was made from.

    Raises:
        UnreadableInput: if there is none.
    """
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UnreadableInput(
            f"expected a corpus in {str(folder)!r}, got none ({MANIFEST}: {reason_of(error)}). Make one: blamespan lab "
            f"generate small --out {folder}"
        ) from error
    if not isinstance(manifest, dict) or manifest.get("blamespan_corpus") != 1:
        raise UnreadableInput(f"expected the description of a corpus in {str(path)!r}, got {str(manifest)[:80]!r}")
    return manifest


def read_corpus(folder: Path, side: Literal["all", "train", "held-out"] = "all") -> Iterator[RecordedRun]:
    """Yield the labelled runs of the corpus in *folder*, in the order of its files.

    Args:
        folder: As `blamespan lab generate` left it.
        side: Which runs, by what the corpus's recipe holds out; a failure and its twin are on the same side.

    Raises:
        UnreadableInput: if there is no corpus, it is not finished, or a run of it cannot be read.
    """
    for run, is_out in _read_with_side(folder):
        if side == "all" or is_out == (side == "held-out"):
            yield run


def _read_with_side(folder: Path) -> Iterator[tuple[RecordedRun, bool]]:
    """Yield every run with whether the corpus's recipe holds it out."""
    held_out = read_manifest(folder)["recipe"]["held_out"]
    if not (folder / LABELS).is_file():
        raise UnreadableInput(
            f"expected a finished corpus in {str(folder)!r}, got one without {LABELS}. Go on with it: run the same "
            "`blamespan lab generate` again"
        )
    importer = load_importer("generated")
    for path in sorted((folder / "runs").glob("*.jsonl.gz")):
        try:
            for run in importer.read(path):
                if isinstance(run, UnreadableInput):
                    raise run
                yield run, _is_held_out(run, held_out)
        except BlamespanError as error:
            raise UnreadableInput(f"{error}. Generate the corpus again") from error


def _candidate(row: Sequence[Any]) -> CandidateRun:
    label, pull, surface = row
    return CandidateRun(RunLabel.from_json(label), tuple(pull), tuple(surface))


def _drop_missing_twin(label: RunLabel, chosen: Collection[str]) -> RunLabel:
    """Name no twin that is not kept."""
    return label if label.twin in chosen or not label.twin else replace(label, twin="")


def _is_held_out(run: RecordedRun, held_out: Mapping[str, Any]) -> bool:
    origin = run.origin
    if origin is not None and (origin.family in held_out["families"] or origin.topology in held_out["topologies"]):
        return True
    return is_held_out(run.trace.task, percent=held_out["percent"], seed=0)


def _describe_part(part: object) -> str:
    """Name a recipe, with enough of its content to tell it from an edited one; versions as they are."""
    if not isinstance(part, dict) or "name" not in part:
        return str(part)
    return f"{part['name']!r} ({part.get('runs')} runs, {sha256(json.dumps(part).encode()).hexdigest()[:8]})"


def _versions() -> dict[str, str]:
    """List the versions that decide what comes out, of what is installed."""
    versions = {}
    for package in _VERSIONED:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


def _lock(lock_file: int, path: Path) -> None:
    try:
        import fcntl
    except ImportError:  # not on Windows: there nobody is kept out
        return
    try:
        fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise ConfigError(
            f"expected {str(path)!r} to be free, got another `blamespan lab generate` at work in it. Wait for it to end"
        ) from error


def _unwritable(path: Path, error: OSError) -> str:
    return (
        f"expected a folder that can be written, got {error.strerror or error} at {str(path)!r}. Mend that and run the "
        "same command again: what was made so far is kept"
    )
