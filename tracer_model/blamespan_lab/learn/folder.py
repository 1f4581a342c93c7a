"""The folder of a campaign: runs, labels, and a journal of what was done, so that a killed one goes on where it was.

Each line is added in one go, and the journal's after all that it speaks of. A line that a crash cut off is skipped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

from blamespan.analysis.sources import runs_in
from blamespan.appending import append_line
from blamespan.errors import BlamespanError, ConfigError, UnreadableInput
from blamespan.importing.recorded import RecordedRun
from blamespan.labels.file import LABELS_FILE, LabelsFile
from blamespan.labels.people import PersonLabel
from blamespan.otlp import spans_to_json
from blamespan.spans import Span
from blamespan_lab.learn.worker import WrittenFault

_RUNS, _JOURNAL = "runs.jsonl", "journal.jsonl"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Done:
    """What became of one order.

    Attributes:
        key: Which order.
        what: `clean`; a fault that `flipped` the outcome, or was `harmless`; one that was `missed`, as it could not be
            written; a run that `hung` or took its process along; or a `void` one, which says nothing.
        reason: Why, in a clause.
        trace_id: Of the run; empty where it is not kept.
        answer: What it gave.
        succeeded: Whether that is right; None where nobody can tell.
        error: What broke the run, or the check.
        fault: What was put in.
        decisive: Index of the step that decided the failure, and
        is_replayed: whether running again with it put right showed that; else it is where the fault was put.
        runs: How many runs it took.
        calls: How many times models were asked.
        tokens: That models say they read and wrote.
        usd: What these cost in US dollars; None where no price is known.
        is_sandbox: Whether the factory lets tools run whenever they are called.
    """

    key: str
    what: Literal["clean", "flipped", "harmless", "missed", "hung", "void"]
    reason: str = ""
    trace_id: str = ""
    answer: str = ""
    succeeded: bool | None = None
    error: str = ""
    fault: WrittenFault | None = None
    decisive: int | None = None
    is_replayed: bool = False
    runs: int = 1
    calls: int = 0
    tokens: int = 0
    usd: float | None = 0.0
    is_sandbox: bool = False

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Done:
        """Read a line of the journal."""
        fault = record.get("fault")
        made = WrittenFault(**{**fault, "modes": tuple(fault["modes"])}) if fault is not None else None
        return cls(**{**record, "fault": made})


class LearnFolder:
    """A campaign's folder.

    Args:
        path: It need not be there yet.
        team: What decides what is done: the program, the check, the tasks, the seed.

    Raises:
        ConfigError: if it holds another campaign, or cannot be written.
    """

    def __init__(self, path: Path, team: Mapping[str, object]) -> None:
        self.path = path
        self._labels = LabelsFile(path / LABELS_FILE)
        self.done: dict[str, Done] = {}
        try:
            path.mkdir(parents=True, exist_ok=True)
            lines = self._read_journal()
        except OSError as error:
            raise ConfigError(
                f"expected a folder that can be written, got {str(path)!r} ({error.strerror or error}). "
                "Choose another with --out FOLDER"
            ) from error
        about = {"version": _VERSION, **team}
        if lines and lines[0] != json.loads(json.dumps(about)):
            differing = [key for key in about if lines[0].get(key) != json.loads(json.dumps(about[key]))]
            raise ConfigError(
                f"expected a folder of this campaign, got {str(path)!r}, which was begun with another "
                f"{', '.join(differing) or 'version'}. Choose another with --out FOLDER, or delete it"
            )
        if not lines:
            self._append(_JOURNAL, about)
        try:
            self.done = {record["key"]: Done.from_json(record) for record in lines[1:]}
        except (TypeError, LookupError) as error:
            raise ConfigError(
                f"expected a folder of this version, got {str(path)!r}, which holds records of another one ({error}). "
                "Choose another with --out FOLDER, or delete it"
            ) from error

    @property
    def labels_path(self) -> Path:
        """Return where the labels are."""
        return self._labels.path

    def add(self, done: Done, spans: Sequence[Span] = (), label: PersonLabel | None = None) -> None:
        """Keep what became of an order: its run, its label, and that it was done.

        Raises:
            BlamespanError: if the disk is full, or the folder cannot be written any more.
        """
        if spans:
            self._append(_RUNS, json.loads(spans_to_json(spans)))
        if label is not None:
            self._labels.add(label)
        self._append(_JOURNAL, asdict(done))
        self.done[done.key] = done

    def runs(self) -> dict[str, RecordedRun]:
        """Read the runs that are kept, with their spans, by trace id."""
        if not (self.path / _RUNS).exists():
            return {}
        kept = {done.trace_id for done in self.done.values()}
        runs = [run for run in runs_in([self.path / _RUNS], with_spans=True) if not isinstance(run, UnreadableInput)]
        return {run.trace.trace_id: run for run in runs if run.trace.trace_id in kept}

    def _read_journal(self) -> list[dict[str, Any]]:
        path = self.path / _JOURNAL
        if not path.exists():
            return []
        lines = []
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                lines.append(json.loads(line))
            except ValueError:  # a crash cut it off
                continue
        return lines

    def _append(self, name: str, record: Mapping[str, Any]) -> None:
        path = self.path / name
        text = json.dumps(record, ensure_ascii=True).encode() + b"\n"
        try:
            with path.open("a+b", buffering=0) as file:
                append_line(file, text)
        except OSError as error:
            raise BlamespanError(
                f"expected room for {str(path)!r}, got {error.strerror or error}. "
                "Make room and run the same command again: it goes on where it was"
            ) from error
