"""Sound runs that language models wrote, to be edited."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from blamespan.errors import ConfigError
from blamespan.importing.recorded import RecordedRun, load_importer

__all__ = ["IMPORTERS", "SourceFile", "is_sound", "read_sound_runs", "read_written_failures", "source_files"]

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
