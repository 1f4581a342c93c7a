"""A corpus on disk: what it was made from, its runs, its labels; written so that nothing is half done.

corpus.json              the recipe, its digest, versions, and what came of it
labels.jsonl             one label per run, when everything is made
runs/0000.jsonl.gz       what is kept of one block's runs, one OTLP-JSON document each
runs/.0000.gz            all of them, until everything is made
runs/.0000.made          their labels and tally until then: the block is done if this is there
"""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from blamespan.errors import BlamespanError, ConfigError, UnreadableInput
from blamespan.importing.recorded import RecordedRun, load_importer
from blamespan_lab.corpus.choice import Candidate, kept_runs
from blamespan_lab.corpus.recipe import CorpusRecipe
from blamespan_lab.recorded_runs import is_held_out
from blamespan_lab.replay.labels import RunLabel

__all__ = ["LABELS", "MANIFEST", "CorpusFolder", "MadeBlock", "read_corpus", "read_manifest", "read_sides"]

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
    candidates: tuple[Candidate, ...]
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
    def opened(self) -> Iterator[None]:
        """Take the folder over for making the corpus, or for going on with it.

        Raises:
            ConfigError: if something else is in it, it cannot be written, or another process is at it.
        """
        try:
            self._make_sure_it_is_ours()
            (self.path / "runs").mkdir(parents=True, exist_ok=True)
            lock = os.open(self.path / _LOCK, os.O_CREAT | os.O_RDWR, 0o644)
        except OSError as error:
            raise ConfigError(_unwritable(self.path, error)) from error
        try:
            _lock(lock, self.path)
            if not (self.path / MANIFEST).exists():
                self._describe({})
            for left in (self.path / "runs").glob(".*.part"):
                left.unlink()
            if self.is_finished():
                self._forget_what_was_not_kept()
            yield
        finally:
            os.close(lock)

    def is_finished(self) -> bool:
        """Tell whether everything was made."""
        return bool(read_manifest(self.path).get("made")) and (self.path / LABELS).is_file()

    def done(self) -> dict[int, int]:
        """Count the runs of each block that is done, by its number."""
        return {number: len(kept["candidates"]) for number, kept in self._markers().items()}

    def keep(self, made: MadeBlock) -> None:
        """Write a block: its runs first, then the marker that says it is done.

        Raises:
            ConfigError: if the disk does not take it; what was kept before stays.
        """
        packed = _packed(made.documents)
        marker = {
            "number": made.number,
            "sha256": sha256(packed).hexdigest(),
            "tally": dict(made.tally),
            "cpu_s": made.cpu_s,
            "candidates": [[each.label.as_json(), each.pull, each.surface] for each in made.candidates],
        }
        self._write(self._all_of(made.number), packed)
        self._write(self._marker(made.number), json.dumps(marker, ensure_ascii=False).encode())

    def finish(self) -> dict[str, Any]:
        """Choose among all runs, write those that are kept, their labels and what came of it. Returns the description.

        What was made stays until all that is written: a second call after an interruption does the same again.
        """
        markers = self._markers()
        candidates = {number: [_candidate(row) for row in kept["candidates"]] for number, kept in markers.items()}
        chosen = kept_runs(self.recipe, [each for rows in candidates.values() for each in rows])
        tally = sum((Counter(kept["tally"]) for kept in markers.values()), Counter())
        labels: list[str] = []
        for number, rows in candidates.items():
            documents = gzip.decompress(self._all_of(number).read_bytes()).decode("utf-8").splitlines()
            kept = [(document, each.label) for document, each in zip(documents, rows, strict=True)]
            kept = [(document, label) for document, label in kept if label.trace_id in chosen]
            tally.update(f"kept: {label.purpose}" for _, label in kept)
            if kept:
                self._write(self._shard(number), _packed([document for document, _ in kept]))
            labels += [json.dumps(_with_twin(label, chosen).as_json(), ensure_ascii=False) for _, label in kept]
        self._write(self.path / LABELS, "".join(row + "\n" for row in labels).encode("utf-8"))
        self._describe({"runs": len(labels), "tally": dict(sorted(tally.items()))})
        self._forget_what_was_not_kept()
        return read_manifest(self.path)

    def _forget_what_was_not_kept(self) -> None:
        for path in (self.path / "runs").glob(".*"):
            path.unlink()

    def _markers(self) -> dict[int, dict[str, Any]]:
        """Read what is known of the blocks that are done, by number, ascending."""
        found = {}
        for path in sorted((self.path / "runs").glob(".*.made")):
            marker = json.loads(path.read_text(encoding="utf-8"))
            runs = self._all_of(marker["number"])
            if runs.is_file() and sha256(runs.read_bytes()).hexdigest() == marker["sha256"]:
                found[int(marker["number"])] = marker
        return found

    def _make_sure_it_is_ours(self) -> None:
        """Refuse a folder that holds anything else."""
        entries = {entry.name for entry in self.path.iterdir()} if self.path.exists() else set()
        if not (self.path / MANIFEST).is_file():
            if entries - {_LOCK, "runs", f".{MANIFEST}.part"} or any((self.path / "runs").glob("*")):
                raise ConfigError(
                    f"expected --out to be new, empty or a corpus of this recipe, got {str(self.path)!r} with other "
                    "files in it. Name another folder"
                )
            return
        found, ours = read_manifest(self.path), self._identity()
        for key in ("digest", "versions"):
            if found.get(key) != ours[key]:
                shown = "versions" if key == "versions" else "recipe"
                raise ConfigError(
                    f"expected a corpus of the same {shown} in {str(self.path)!r}, got {_shown(found.get(shown))} "
                    f"where {_shown(ours[shown])} is to be made. Name another folder, or remove this one"
                )

    def _identity(self) -> dict[str, Any]:
        recipe = json.loads(json.dumps(asdict(self.recipe)))
        return {"blamespan_corpus": 1, "recipe": recipe, "digest": self.recipe.digest, "versions": _versions()}

    def _describe(self, made: Mapping[str, Any]) -> None:
        described = {**self._identity(), "made": dict(made)}
        self._write(self.path / MANIFEST, (json.dumps(described, ensure_ascii=False, indent=1) + "\n").encode("utf-8"))

    def _shard(self, number: int) -> Path:
        return self.path / "runs" / f"{number:04}.jsonl.gz"

    def _all_of(self, number: int) -> Path:
        return self.path / "runs" / f".{number:04}.gz"

    def _marker(self, number: int) -> Path:
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


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read what the corpus in *folder* was made from.

    Raises:
        ConfigError: if there is none.
    """
    path = folder / MANIFEST
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"expected a corpus in {str(folder)!r}, got {error}. Make one: blamespan generate small --out {folder}"
        ) from error
    if not isinstance(found, dict) or found.get("blamespan_corpus") != 1:
        raise ConfigError(f"expected the description of a corpus in {str(path)!r}, got {str(found)[:80]!r}")
    return found


def read_corpus(folder: Path, side: Literal["all", "train", "held-out"] = "all") -> Iterator[RecordedRun]:
    """Yield the labelled runs of the corpus in *folder*, in the order of its files.

    Args:
        folder: As `blamespan generate` left it.
        side: Which runs, by what the corpus's recipe holds out; a failure and its twin are on the same side.

    Raises:
        ConfigError: if there is no corpus, it is not finished, or a run of it cannot be read.
    """
    for run, is_out in _sided(folder):
        if side == "all" or is_out == (side == "held-out"):
            yield run


def read_sides(folder: Path) -> tuple[list[RecordedRun], list[RecordedRun]]:
    """Read what `read_corpus` gives as "train" and as "held-out", in one go.

    Raises:
        ConfigError: as `read_corpus` does.
    """
    sides: tuple[list[RecordedRun], list[RecordedRun]] = ([], [])
    for run, is_out in _sided(folder):
        sides[is_out].append(run)
    return sides


def _sided(folder: Path) -> Iterator[tuple[RecordedRun, bool]]:
    """Yield every run with whether the corpus's recipe holds it out."""
    held_out = read_manifest(folder)["recipe"]["held_out"]
    if not (folder / LABELS).is_file():
        raise ConfigError(
            f"expected a finished corpus in {str(folder)!r}, got one without {LABELS}. Go on with it: run the same "
            "`blamespan generate` again"
        )
    importer = load_importer("generated")
    for path in sorted((folder / "runs").glob("*.jsonl.gz")):
        try:
            for run in importer.read(path):
                if isinstance(run, UnreadableInput):
                    raise run
                yield run, _is_held_out(run, held_out)
        except BlamespanError as error:
            raise ConfigError(f"{error}. Generate the corpus again") from error


def _packed(documents: Sequence[str]) -> bytes:
    return gzip.compress("".join(document + "\n" for document in documents).encode("utf-8"), compresslevel=6, mtime=0)


def _candidate(row: Sequence[Any]) -> Candidate:
    label, pull, surface = row
    return Candidate(RunLabel.from_json(label), tuple(pull), tuple(surface))


def _with_twin(label: RunLabel, kept: Collection[str]) -> RunLabel:
    """Name no twin that is not kept."""
    return label if label.twin in kept or not label.twin else replace(label, twin="")


def _is_held_out(run: RecordedRun, held_out: Mapping[str, Any]) -> bool:
    origin = run.origin
    if origin is not None and (origin.family in held_out["families"] or origin.topology in held_out["topologies"]):
        return True
    return is_held_out(run.trace.task, percent=held_out["percent"], seed=0)


def _shown(part: object) -> str:
    """Name a recipe, with enough of its content to tell it from an edited one; versions as they are."""
    if not isinstance(part, dict) or "name" not in part:
        return str(part)
    return f"{part['name']!r} ({part.get('runs')} runs, {sha256(json.dumps(part).encode()).hexdigest()[:8]})"


def _versions() -> dict[str, str]:
    """List the versions that decide what comes out, of what is installed."""
    found = {}
    for package in _VERSIONED:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _lock(lock: int, path: Path) -> None:
    try:
        import fcntl
    except ImportError:  # not on Windows: there nobody is kept out
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise ConfigError(
            f"expected {str(path)!r} to be free, got another `blamespan generate` at work in it. Wait for it to end"
        ) from error


def _unwritable(path: Path, error: OSError) -> str:
    return (
        f"expected a folder that can be written, got {error.strerror or error} at {str(path)!r}. Mend that and run the "
        "same command again: what was made so far is kept"
    )
