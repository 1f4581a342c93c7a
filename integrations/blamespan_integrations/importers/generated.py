"""Runs that `blamespan lab generate` made: OTLP-JSON lines in `runs/`, a label per run in `labels.jsonl` above."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from blamespan.errors import BlamespanError, UnreadableInput
from blamespan.importing.files import head_of, read_lines
from blamespan.importing.recorded import Fault, Origin, RecordedRun
from blamespan.taxonomy import mode
from blamespan.trace import Outcome
from blamespan_integrations.importers._records import parse_object
from blamespan_integrations.importers.otlp_json import OtlpJsonImporter

_LABELS = "labels.jsonl"
_EXPECTED = "the label of a generated run"
_OUTCOMES: Mapping[str, Outcome] = {"success": "succeeded", "failure": "failed"}

_Labels = Mapping[str, Mapping[str, Any]]  # Any: a file's JSON, checked field by field


class GeneratedImporter:
    """Reads a file of runs with the labels that lie beside it: every error with its agent, step and mode.

    A run without a label is given without. The labels and the description of a corpus hold no run: a folder is read
    by its files of runs.
    """

    name = "generated"
    description = "runs made by `blamespan lab generate`, with verified labels of steps; loses nothing"

    def __init__(self) -> None:
        self._spans = OtlpJsonImporter()

    def matches(self, path: Path, head: bytes) -> bool:
        """Check the first keys for a corpus's description or labels, and the labels beside a file of runs."""
        start = head.lstrip()[:4_096]
        if _is_beside_runs(start):
            return True
        return self._spans.matches(path, head) and _labels_beside(path) is not None

    def read(self, path: Path) -> Iterator[RecordedRun | UnreadableInput]:
        """Yield every run of the file with its label; for one that cannot be read, the error in its place.

        Raises:
            UnreadableInput: if the file or its labels cannot be opened or are cut off.
        """
        return _with_labels(path, self._spans.read)

    def read_with_spans(self, path: Path) -> Iterator[RecordedRun | UnreadableInput]:
        """Read as `read` does, each run with its spans.

        Raises:
            UnreadableInput: as `read` does.
        """
        return _with_labels(path, self._spans.read_with_spans)


def _with_labels(
    path: Path, read: Callable[[Path], Iterator[RecordedRun | UnreadableInput]]
) -> Iterator[RecordedRun | UnreadableInput]:
    start = head_of(path).lstrip()[:4_096]
    if _is_beside_runs(start):
        return
    beside = _labels_beside(path)
    labels, troubles = _labels(beside, beside.stat().st_mtime_ns) if beside is not None else ({}, ())
    yield from troubles
    for run in read(path):
        if isinstance(run, UnreadableInput) or run.trace.trace_id not in labels:
            yield run
            continue
        try:
            yield _add_label(run, labels[run.trace.trace_id])
        except UnreadableInput as error:
            yield error


def _labels_beside(path: Path) -> Path | None:
    """Find the labels of the runs in *path*: in the folder above it, or its own."""
    for folder in (path.resolve().parent.parent, path.resolve().parent):
        labels = folder / _LABELS
        try:
            if labels.is_file() and _is_label(head_of(labels).lstrip()[:4_096]):
                return labels
        except UnreadableInput:
            continue
    return None


def _is_beside_runs(start: bytes) -> bool:
    """Return whether this is a corpus's description, its labels or those that people add: they hold no run."""
    return bool(re.match(rb'\{\s*"blamespan_corpus"', start)) or _is_label(start) or _is_persons(start)


def _is_label(start: bytes) -> bool:
    line = start.split(b"\n", 1)[0]
    return line.startswith(b'{"trace_id"') and b'"outcome"' in line and b'"purpose"' in line


def _is_persons(start: bytes) -> bool:
    line = start.split(b"\n", 1)[0]
    return line.startswith(b'{"trace_id"') and b'"outcome"' in line and b'"by"' in line


@lru_cache(maxsize=4)
def _labels(path: Path, changed_ns: int) -> tuple[_Labels, tuple[UnreadableInput, ...]]:
    """Read the labels by trace id, once for all files of runs; *changed_ns* tells a newer file of the same name."""
    del changed_ns
    labels: dict[str, Mapping[str, Any]] = {}
    troubles = []
    for number, line in read_lines(path):
        try:
            label = parse_object(line, f"{path.name}:{number}", _EXPECTED)
        except UnreadableInput as error:
            troubles.append(error)
            continue
        labels[str(label.get("trace_id"))] = label
    return labels, tuple(troubles)


def _add_label(run: RecordedRun, label: Mapping[str, Any]) -> RecordedRun:
    decisive = label.get("decisive")
    rows = [decisive] if decisive is not None else []
    rows += [row for row in _read_field(label, "faults", list, run.source) if not _is_same_step(row, decisive)]
    outcome = _OUTCOMES.get(str(label.get("outcome")))
    if outcome is None:
        raise _wrong(run.source, f"'outcome' as one of {', '.join(_OUTCOMES)}", label.get("outcome"))
    origin = Origin(
        **{key: _read_field(label, key, str, run.source) for key in ("purpose", "family", "topology", "framework")},
        **{key: _read_field(label, key, str, run.source) for key in ("cast", "recipe", "twin")},
        decisive=_step(decisive, run) if decisive is not None else None,
        carried_by=tuple(_index(item, run) for item in _read_field(label, "carried_by", list, run.source)),
        is_verified=_read_field(label, "verified", bool, run.source),
    )
    faults = tuple(fault for row in rows for fault in _faults(row, run))
    return replace(run, trace=replace(run.trace, outcome=outcome), faults=faults, origin=origin)


def _is_same_step(row: object, decisive: object) -> bool:
    """Return whether *row* says again what is said of the decisive step."""
    if not isinstance(row, dict) or not isinstance(decisive, dict):
        return False
    return all(row.get(key) == decisive.get(key) for key in ("step", "agent", "modes"))


def _faults(row: object, run: RecordedRun) -> Sequence[Fault]:
    step = _step(row, run)
    assert isinstance(row, dict)  # _step has looked
    modes = _read_field(row, "modes", list, run.source)
    try:
        named = [mode(_text(item, run.source)) for item in modes]
    except BlamespanError as error:
        raise UnreadableInput(f"{run.source}: {error}") from error
    return [Fault(_read_field(row, "agent", str, run.source), item, step) for item in named]


def _step(row: object, run: RecordedRun) -> int | None:
    """Read which step *row* means, and make sure that the trace has it there."""
    if not isinstance(row, dict):
        raise _wrong(run.source, "a labelled error as an object", row)
    if row.get("step") is None:
        return None
    index = _index(row.get("step"), run)
    span, step = row.get("span_id"), run.trace.steps[index]
    if span and span != step.span_id:
        raise _wrong(run.source, f"step {index} to be span {span!r}, as the label says", step.span_id)
    return index


def _index(value: object, run: RecordedRun) -> int:
    if type(value) is not int or not 0 <= value < len(run.trace.steps):
        raise _wrong(run.source, f"the index of a step below {len(run.trace.steps)}", value)
    return value


def _text(value: object, source: str) -> str:
    if not isinstance(value, str):
        raise _wrong(source, "a text", value)
    return value


def _read_field(row: Mapping[str, Any], key: str, kind: type, source: str) -> Any:
    if not isinstance(row.get(key), kind):
        raise _wrong(source, f"{key!r} of type {kind.__name__}", row.get(key))
    return row[key]


def _wrong(source: str, expected: str, got: object) -> UnreadableInput:
    return UnreadableInput(
        f"{source}: expected {_EXPECTED} with {expected}, got {str(got)[:80]!r}. Generate the corpus again"
    )
