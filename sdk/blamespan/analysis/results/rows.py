"""A result as one row: what `blamespan analyze` writes as JSON lines and parquet, and how it is read again.

A row is one attributed run. It says who spoke (`tracer`), of what (`source`, `trace_id`, `started`, `duration_s`,
`service`, `framework`, `task`), and what it says (`verdict` to `abstained`). `content` is the head of the decisive
step; `error` is set where the tracer failed on the run, and then `abstained` gives the same reason. `guard` lists the
steps on which a guard decided while the run went on, `verified` the suspects that were put to the test, `opinions` who
said what where several were asked, `instruction_conflicts` where instructions disagree and which of them an agent
obeyed, `known_failures` those of the user's error schemata that the run shows; runs with the same `likeness` fail
alike. `usage` is the run's tokens and, as far as prices are known, US dollars; of each agent likewise. `cause` is what
the run failed by where no agent is to blame: then `agent`, `step` and `mode` are empty.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Final

from blamespan.analysis.showing.findings import DecidedConflict, KnownFailure
from blamespan.analysis.spending import spending_of
from blamespan.annotate import read_verifications
from blamespan.attribution import Attribution, Cause
from blamespan.errors import MissingExtra, UnreadableInput
from blamespan.guarding.recorded import read_guard_marks
from blamespan.importing.files import read_lines
from blamespan.importing.recorded import RecordedRun
from blamespan.likeness import likeness_of
from blamespan.taxonomy import ErrorMode
from blamespan.trace import MessageActionTrace, Step

MAX_HEAD_CHARACTERS: Final = 500
"""How much of the task and of the decisive step's content a row quotes."""

_NOTHING: Final = object()
_NUMBER: Final = (int, float)
_KEYS: Final[Mapping[str, tuple[Any, type | tuple[type, ...]]]] = {
    "source": (_NOTHING, str),
    "trace_id": (_NOTHING, str),
    "outcome": ("unknown", str),
    "verdict": ("", str),
    "failure_score": (0.0, _NUMBER),
    "unaided_score": (None, _NUMBER),
    "agent": (None, str),
    "step": (None, int),
    "span_id": (None, str),
    "mode": (None, dict),
    "agents": ([], list),
    "steps": ([], list),
    "modes": ([], list),
    "step_set": ([], list),
    "coverage": (0.0, _NUMBER),
    "evidence": ([], list),
    "tracer": ({"name": "", "version": "", "weights": ""}, dict),
    "revision": (0, int),
    "abstained": (None, str),
    "started": (None, str),
    "duration_s": (None, _NUMBER),
    "service": (None, str),
    "version": (None, str),
    "framework": (None, str),
    "task": ("", str),
    "content": (None, str),
    "error": (None, str),
    "likeness": ("", str),
    "usage": (None, dict),
    "cause": (None, dict),
    "guard": ([], list),
    "verified": ([], list),
    "opinions": ([], list),
    "instruction_conflicts": ([], list),
    "known_failures": ([], list),
}
"""Every key of a row, in its order: what stands for one that an older file lacks, and its type. `source` and `trace_id`
it cannot lack."""
ROW_DEFAULTS: Final[Mapping[str, Any]] = {key: default for key, (default, _) in _KEYS.items()}
"""What stands for each key that an older file lacks, in their order."""

_COUNTED: Final = ("repeats", "succeeded", "unchanged_repeats", "unchanged_succeeded")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PARQUET_MAGIC: Final = b"PAR1"


def row_of(
    run: RecordedRun,
    verdict: Attribution,
    error: str | None = None,
    known: Sequence[KnownFailure] = (),
    conflicts: Sequence[DecidedConflict] = (),
) -> dict[str, Any]:
    """Lay out a result as a row: plain values as JSON has them, scores with six decimals.

    Args:
        run: The run.
        verdict: What the tracer says of it.
        error: Why it says nothing, where the tracer failed on it.
        known: Known failures that the run shows.
        conflicts: Where instructions disagree in it.
    """
    trace = run.trace
    is_blamed = verdict.decisive_step is not None and verdict.cause is None
    content = trace.steps[verdict.decisive_step or 0].content if is_blamed else None
    known_here = next((one.name for one in known if one.step == verdict.decisive_step), "")
    return {
        **_verdict_json(run.source, trace, verdict),
        "started": started_at(trace),
        "duration_s": _duration_s(trace),
        "service": _text_of(trace.resource.get("service.name")),
        "version": _text_of(trace.resource.get("service.version")),
        "framework": run.origin.framework if run.origin else None,
        "task": trace.task[:MAX_HEAD_CHARACTERS],
        "content": None if content is None else content[:MAX_HEAD_CHARACTERS],
        "error": error,
        "likeness": likeness_of(trace, verdict, known_here),
        "usage": _usage_json(trace),
        "cause": _cause_json(verdict.cause),
        "guard": [asdict(mark) for mark in read_guard_marks(trace)],
        "verified": [asdict(item) for item in verdict.verified or read_verifications(trace)],
        "opinions": [{**asdict(item), "score": round(item.score, 6)} for item in verdict.opinions],
        "instruction_conflicts": [conflict.as_json() for conflict in conflicts],
        "known_failures": [one.as_json() for one in known],
    }


def started_at(trace: MessageActionTrace) -> str | None:
    """Format when a run's first step began, in UTC, `2026-01-31T08:00:00.000000Z`; None where no clock says so.

    A clock beyond the year 9999 is no clock.
    """
    if not trace.start_ns:
        return None
    try:
        moment = _EPOCH + timedelta(microseconds=trace.start_ns // 1_000)
    except OverflowError:
        return None
    return _iso(moment)


@cache
def arrow_schema() -> Any:
    """Return the schema of a row in Arrow and parquet: as in JSON, but `started` is a timestamp in microseconds, UTC.

    Raises:
        MissingExtra: if pyarrow is not installed.
    """
    pa = _pyarrow()
    text, number, whole = pa.string(), pa.float64(), pa.int64()
    mode = [("taxonomy", text), ("code", text), ("name", text), ("score", number)]
    step = [("index", whole), ("agent", text), ("kind", text), ("score", number), ("by_evidence", number)]
    spent = [("input_tokens", whole), ("output_tokens", whole), ("usd", number), ("unpriced", pa.list_(text))]
    contradicted = pa.struct([("index", whole), ("quote", text)])
    types = {
        "failure_score": number,
        "unaided_score": number,
        "step": whole,
        "mode": pa.struct(mode),
        "agents": pa.list_(pa.struct([("agent", text), ("score", number)])),
        "steps": pa.list_(pa.struct(step)),
        "modes": pa.list_(pa.struct([("agent", text), *mode])),
        "step_set": pa.list_(whole),
        "coverage": number,
        "evidence": pa.list_(
            pa.struct([("index", whole), ("quote", text), ("score", number), ("contradicts", contradicted)])
        ),
        "tracer": pa.struct([("name", text), ("version", text), ("weights", text)]),
        "revision": whole,
        "started": pa.timestamp("us", tz="UTC"),
        "duration_s": number,
        "guard": pa.list_(
            pa.struct([("step", whole), *((key, text) for key in ("agent", "action", "rule", "kind", "reason"))])
        ),
        "verified": pa.list_(pa.struct([("index", whole), ("outcome", text), *((key, whole) for key in _COUNTED)])),
        "opinions": pa.list_(pa.struct([("tracer", text), ("step", whole), ("score", number), ("note", text)])),
        "instruction_conflicts": pa.list_(
            pa.struct(
                [
                    ("step", whole),
                    *((key, text) for key in ("agent", "kind", "obeyed", "rule_by")),
                    ("rule_step", whole),
                    *((key, text) for key in ("rule", "request_by")),
                    ("request_step", whole),
                    ("request", text),
                ]
            )
        ),
        "known_failures": pa.list_(
            pa.struct([("schema", text), ("step", whole), ("score", number), ("seen_trace_id", text)])
        ),
        "cause": pa.struct(
            [
                *((key, text) for key in ("kind", "name")),
                ("step", whole),
                *((key, text) for key in ("quote", "reason")),
                ("against", contradicted),
                ("mode", pa.struct(mode[:3])),
            ]
        ),
        "usage": pa.struct([*spent, ("agents", pa.list_(pa.struct([("agent", text), *spent])))]),
    }
    return pa.schema([(name, types.get(name, text)) for name in ROW_DEFAULTS])


def as_arrow(rows: list[dict[str, Any]]) -> Any:
    """Lay out rows as a `pyarrow.Table` of `arrow_schema`; half of a surrogate pair comes as a question mark.

    Raises:
        MissingExtra: if pyarrow is not installed.
    """
    pa = _pyarrow()
    timed = [{**row, "started": _read_iso(row["started"])} for row in rows]
    try:
        return pa.Table.from_pylist(timed, schema=arrow_schema())
    except UnicodeEncodeError:
        return pa.Table.from_pylist([_encodable(row) for row in timed], schema=arrow_schema())


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a results file, in its order; every row has every key of `ROW_DEFAULTS`.

    Args:
        path: JSON lines, compressed or not; a parquet file; or a folder of such files, read by name.

    Raises:
        UnreadableInput: if it cannot be read, or a row is none; rows before it were yielded.
        MissingExtra: if it is parquet and pyarrow is not installed.
    """
    if path.is_dir():
        yield from _read_folder(path)
    elif _is_parquet(path):
        yield from _read_parquet(path)
    else:
        for number, line in read_lines(path):
            yield _row(_parse(line, f"{path}:{number}"), f"{path}:{number}")


def _read_folder(path: Path) -> Iterator[dict[str, Any]]:
    endings = (".parquet", ".jsonl", ".jsonl.zst", ".jsonl.gz", ".jsonl.xz")
    files = [file for file in sorted(path.rglob("*")) if file.name.endswith(endings) and file.is_file()]
    files = [file for file in files if not any(part.startswith((".", "_")) for part in file.relative_to(path).parts)]
    if not files:
        raise UnreadableInput(
            f"expected a folder with results (*.parquet or *.jsonl), got {str(path)!r}. "
            "Make one with: blamespan analyze TRACES --out RESULTS"
        )
    for file in files:
        yield from read_rows(file)


def _is_parquet(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_PARQUET_MAGIC)) == _PARQUET_MAGIC
    except OSError as error:
        raise UnreadableInput(
            f"expected a file of results, got {str(path)!r} ({error.strerror or error}). Check the path."
        ) from error


def _read_parquet(path: Path) -> Iterator[dict[str, Any]]:
    pa = _pyarrow()
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            number = 0
            for batch in file.iter_batches(batch_size=256):
                for row in batch.to_pylist():
                    number += 1
                    if isinstance(row.get("started"), datetime):
                        row["started"] = _iso(row["started"])
                    yield _row(row, f"{path}:{number}")
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, UnreadableInput):
            raise
        raise UnreadableInput(
            f"expected a parquet file of results, got {str(path)!r}, which cannot be read ({error}). Make it again."
        ) from error


def _parse(line: bytes, source: str) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UnreadableInput(f"{source}: expected a result as JSON, got {line[:40]!r} ({error})") from error


def _row(document: object, source: str) -> dict[str, Any]:
    if not isinstance(document, dict) or "source" not in document or "trace_id" not in document:
        raise UnreadableInput(
            f"{source}: expected a result of `blamespan analyze` (an object with 'source' and 'trace_id'), got "
            f"{str(document)[:60]!r}"
        )
    row = {}
    for key, (default, types) in _KEYS.items():
        value = document.get(key)
        if value is None and default is not _NOTHING:
            value = copy(default)
        elif not isinstance(value, types) or isinstance(value, bool):
            raise UnreadableInput(
                f"{source}: expected a result of `blamespan analyze`, got {key} = {str(value)[:60]!r}"
            )
        row[key] = value
    return row


def _verdict_json(source: str, trace: MessageActionTrace, verdict: Attribution) -> dict[str, Any]:
    """Lay out a verdict as one JSON object; scores with six decimals."""
    is_blamed = verdict.decisive_step is not None and verdict.cause is None
    decisive = verdict.steps[verdict.decisive_step] if is_blamed and verdict.decisive_step is not None else None
    blame = verdict.mode_of(decisive.agent) if decisive else None
    return {
        "source": source,
        "trace_id": trace.trace_id,
        "outcome": trace.outcome,
        "verdict": verdict.word,
        "failure_score": round(verdict.failure_score, 6),
        "unaided_score": None if verdict.unaided_score is None else round(verdict.unaided_score, 6),
        "agent": decisive.agent if decisive else None,
        "step": decisive.index if decisive else None,
        "span_id": decisive.span_id if decisive else None,
        "mode": _mode_json(blame.mode, blame.score) if blame else None,
        "agents": [{"agent": item.agent, "score": round(item.score, 6)} for item in verdict.agents],
        "steps": [
            {
                "index": item.index,
                "agent": item.agent,
                "kind": step.kind,
                "score": round(item.score, 6),
                "by_evidence": None if item.by_evidence is None else round(item.by_evidence, 6),
            }
            for step, item in zip(trace.steps, verdict.steps, strict=True)
        ],
        "modes": [{"agent": item.agent, **_mode_json(item.mode, item.score)} for item in verdict.modes],
        "step_set": list(verdict.step_set),
        "coverage": verdict.coverage,
        "evidence": [
            {
                "index": item.index,
                "quote": item.quote,
                "score": round(item.score, 6),
                "contradicts": None if item.contradicts is None else asdict(item.contradicts),
            }
            for item in verdict.evidence
        ],
        "tracer": {
            "name": verdict.tracer.name,
            "version": verdict.tracer.version,
            "weights": verdict.tracer.weights,
        },
        "revision": verdict.revision,
        "abstained": verdict.abstained,
    }


def _mode_json(mode: ErrorMode, score: float) -> Mapping[str, Any]:
    return {"taxonomy": mode.taxonomy, "code": mode.code, "name": mode.name, "score": round(score, 6)}


def _cause_json(cause: Cause | None) -> dict[str, Any] | None:
    if cause is None:
        return None
    mode = {"taxonomy": cause.mode.taxonomy, "code": cause.mode.code, "name": cause.mode.name}
    return {**asdict(cause), "mode": mode}


def _usage_json(trace: MessageActionTrace) -> dict[str, Any] | None:
    spent = spending_of(trace.steps)
    if spent is None:
        return None
    by_agent: dict[str, list[Step]] = {}
    for step in trace.steps:
        by_agent.setdefault(step.agent, []).append(step)
    each = ((agent, spending_of(steps)) for agent, steps in by_agent.items())
    return {**spent.as_json(), "agents": [{"agent": agent, **own.as_json()} for agent, own in each if own is not None]}


def _duration_s(trace: MessageActionTrace) -> float | None:
    if not trace.start_ns:
        return None
    return round((max(step.end_ns for step in trace.steps) - trace.start_ns) / 1e9, 6)


def _text_of(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _read_iso(text: str | None) -> datetime | None:
    try:
        return None if text is None else datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_encodable(item) for item in value]
    return {key: _encodable(item) for key, item in value.items()} if isinstance(value, dict) else value


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ModuleNotFoundError as error:
        raise MissingExtra(
            "parquet and dataframes need the package 'pyarrow', which is not installed. "
            "Install it with: pip install 'blamespan[importers]'"
        ) from error
    return pyarrow
