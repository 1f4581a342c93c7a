"""`blamespan.analyze` gives results one by one; files of them are whole, repeatable, and read back as they were."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet
import pytest
from click.testing import CliRunner
from click.testing import Result as Ran

import blamespan
from blamespan.analysis.command import analyze as command
from blamespan.analysis.results.journal import Journal
from blamespan.analysis.results.rows import ROW_DEFAULTS, as_arrow, read_rows, row_of
from blamespan.annotate import read_verdict
from blamespan.errors import ConfigError, NotWritten, UnreadableInput
from blamespan.importing.recorded import RecordedRun
from blamespan.otlp import spans_from_json
from blamespan.rebuilding.runs import split_runs
from blamespan.tracers import ask_tracer
from tests.faults.disk import Disk
from tests.sdk.analysis.archives import archive, numbered_run
from tests.sdk.analysis.failing_tracers import PickyTracer
from tests.sdk.builders import otlp_lines
from tests.sdk.fixed_tracer import LongestStepTracer

TRACER = LongestStepTracer()


@pytest.fixture(autouse=True)
def fixed_tracer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blamespan.analysis.command.load_tracer", lambda name: TRACER)


def run(*arguments: object) -> Ran:
    return CliRunner().invoke(command, [*map(str, arguments), "--processes", "1"])


def tasks(rows: Iterator[dict[str, Any]]) -> list[str]:
    return [row["task"] for row in rows]


# the Python interface


def test_results_come_one_by_one(tmp_path: Path) -> None:
    """Each holds the run, the verdict and its row; what cannot be read is collected, not raised."""
    folder = archive(tmp_path / "a", [range(1, 3)])
    (folder / "b.json").write_text("{}")

    with blamespan.analyze(folder, tracer=TRACER) as found:
        results = list(found)

    assert [result.run.trace for result in results] == [numbered_run(1), numbered_run(2)]
    assert [result.verdict for result in results] == ask_tracer(TRACER, [result.run.trace for result in results])
    assert results[0].row() == row_of(results[0].run, results[0].verdict)
    assert ["b.json: expected" in str(error) for error in found.unreadable] == [True]
    assert found.unreadable_count == 1


def test_dataframes_hold_a_run_in_each_row(tmp_path: Path) -> None:
    """What is left of the results becomes a table, of the same columns even where it is empty."""
    folder = archive(tmp_path / "a", [range(1, 4)])
    found = blamespan.analyze(folder, tracer=TRACER)
    next(found)

    frame = found.to_pandas()

    assert list(frame.task) == ["task 2", "task 3"]
    assert list(blamespan.analyze(folder, tracer=TRACER, limit=1).to_arrow().schema.names) == list(ROW_DEFAULTS)
    assert len(found.to_arrow()) == 0


def test_limit_and_filters_choose_runs(tmp_path: Path) -> None:
    """A number, counted over all pieces, and what runs must be like."""
    folder = archive(tmp_path / "a", [range(1, 4), range(4, 8)])

    five = blamespan.analyze(folder, tracer=TRACER, limit=5)
    one = blamespan.analyze(folder, tracer=TRACER, filters={"trace_id": f"{6:032x}"})

    assert [result.run.trace.task for result in five] == [f"task {number}" for number in range(1, 6)]
    assert [result.run.trace.task for result in one] == ["task 6"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"engine": "spark"}, "expected the engine 'local' or 'ray', got 'spark'"),
        ({"processes": 0}, "expected 1 process or more, got 0"),
        ({"limit": 0}, "expected a limit of 1 or more, got 0"),
        ({"format": "nope"}, "got 'nope'"),
        ({"since": "yesterday-ish"}, "expected a time, got 'yesterday-ish'"),
    ],
)
def test_wrong_arguments_are_refused_at_once(tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    """Before anything is read, with what to do."""
    with pytest.raises(ConfigError, match=message):
        blamespan.analyze(tmp_path, tracer=TRACER, **arguments)


# files


@pytest.mark.parametrize("name", ["r.jsonl", "r.jsonl.gz", "r.jsonl.zst", "r.parquet", "folder"])
def test_results_come_back_as_they_were(tmp_path: Path, name: str) -> None:
    """Every format holds every key of every row, and a second run changes no byte."""
    folder = archive(tmp_path / "a", [range(1, 4), range(4, 6)])
    out = tmp_path / name

    assert run(folder, "--out", out).exit_code == 0
    first = {file.name: file.read_bytes() for file in ([out] if out.is_file() else out.iterdir())}

    rows = [result.row() for result in blamespan.analyze(folder, tracer=TRACER)]
    assert list(read_rows(out)) == rows
    assert [list(row) for row in rows] == [list(ROW_DEFAULTS)] * 5
    assert run(folder, "--out", out).exit_code == 0
    assert first == {file.name: file.read_bytes() for file in ([out] if out.is_file() else out.iterdir())}
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["a", name])


def test_times_survive_parquet(tmp_path: Path) -> None:
    """A run's start comes back to the microsecond; a clock beyond all calendars is none."""
    start_ns, end_ns = 1_767_225_600_123_456_789, 1_767_225_601_623_456_789
    steps = tuple(replace(step, start_ns=start_ns, end_ns=end_ns) for step in numbered_run(1).steps)
    runs = [replace(numbered_run(1), steps=steps)]
    runs += [replace(numbered_run(2), steps=tuple(replace(s, start_ns=2**70, end_ns=2**70) for s in steps))]
    rows = [row_of(RecordedRun("x", one), *TRACER.attribute([one])) for one in runs]
    pyarrow.parquet.write_table(as_arrow(rows), tmp_path / "r.parquet")

    assert [(row["started"], row["duration_s"]) for row in rows] == [("2026-01-01T00:00:00.123456Z", 1.5), (None, 0.0)]
    assert list(read_rows(tmp_path / "r.parquet")) == rows


def test_half_a_surrogate_pair_does_not_break_parquet(tmp_path: Path) -> None:
    """Text that is none becomes a question mark there."""
    hostile = replace(numbered_run(1), task="\ud83d torn")

    row = row_of(RecordedRun("x", hostile), *TRACER.attribute([hostile]))

    assert as_arrow([row]).to_pylist()[0]["task"] == "? torn"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{torn", "1: expected a result as JSON, got b'{torn'"),
        ('{"hello": 1}', "expected a result of `blamespan analyze`"),
        ('{"source": "a", "trace_id": "b", "steps": 7}', "got steps = '7'"),
        ('{"source": "a", "trace_id": "b", "failure_score": true}', "got failure_score = 'True'"),
    ],
)
def test_what_is_no_result_is_named(tmp_path: Path, text: str, message: str) -> None:
    """With its line, and what was expected there."""
    (tmp_path / "r.jsonl").write_text(text)

    with pytest.raises(UnreadableInput, match=r"r\.jsonl:1") as caught:
        list(read_rows(tmp_path / "r.jsonl"))

    assert message in str(caught.value)


def test_older_results_are_read(tmp_path: Path) -> None:
    """A key that they lack has its default."""
    (tmp_path / "r.jsonl").write_text('{"source": "a", "trace_id": "b"}\n')

    [row] = read_rows(tmp_path / "r.jsonl")

    assert row == {**ROW_DEFAULTS, "source": "a", "trace_id": "b"}


def test_annotated_spans_hold_run_and_verdict(tmp_path: Path) -> None:
    """Each line is OTLP-JSON that tells the run and, to whoever reads verdicts, who is to blame."""
    folder = archive(tmp_path / "a", [range(1, 3)])

    assert run(folder, "--annotated", tmp_path / "o.jsonl").exit_code == 0

    lines = (tmp_path / "o.jsonl").read_text().splitlines()
    spans = [spans_from_json(line) for line in lines]
    read = [result.run.trace.task for result in blamespan.analyze(tmp_path / "o.jsonl", tracer=TRACER)]
    [of_first] = split_runs(spans[0])
    verdict = read_verdict(of_first)
    [expected] = TRACER.attribute([numbered_run(1)])
    assert verdict is not None
    assert (verdict.decisive_step, verdict.tracer) == (expected.decisive_step, expected.tracer)
    assert (len(spans), read) == (2, ["task 1", "task 2"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "{0}/r.txt"], "expected a file that ends in .jsonl"),
        (["--out", "{0}/nowhere/r.parquet"], "Make it first"),
        (["--out", "{0}/a"], "with other files"),
        (["--annotated", "{0}/r.parquet"], "expected a file that ends in .json, .jsonl"),
        (["--out", "{0}/r.json", "--annotated", "{0}/r.jsonl"], "expected one file of spans"),
        (["--out", "{0}/r.jsonl", "--annotated", "{0}/r.jsonl"], "need two paths"),
        (["--out", "s3://bucket/r.parquet"], "expected a path on this machine"),
        (["--resume"], "Add --out results.parquet"),
        (["--filter", "agent"], "--filter takes KEY=VALUE, got 'agent'"),
        (["--filter", "outcome=faild"], "expected outcome to be one of succeeded, failed, unknown, got 'faild'"),
    ],
)
def test_wrong_outputs_are_refused_before_reading(tmp_path: Path, arguments: list[str], message: str) -> None:
    """Hours of work must not end in a name that cannot be written."""
    folder = archive(tmp_path / "a", [range(1, 3)])

    found = run(folder, *(argument.format(tmp_path) for argument in arguments))

    assert isinstance(found.exception, ConfigError)
    assert message in str(found.exception)


# runs that stand in several places


def test_same_run_in_two_files_counts_once(tmp_path: Path) -> None:
    """Exports overlap: the second is named and left out."""
    folder = archive(tmp_path / "a", [range(1, 4), range(3, 6)])

    found = run(folder, "--out", tmp_path / "r.jsonl")

    assert tasks(read_rows(tmp_path / "r.jsonl")) == [f"task {number}" for number in range(1, 6)]
    assert "001.jsonl:00000000000000000000000000000003: expected a run once, got that of" in found.stderr
    assert "5 runs attributed, 1 stood in several places" in found.stderr
    assert found.exit_code == 1


def test_trace_told_differently_in_two_files_is_kept_twice(tmp_path: Path) -> None:
    """Nobody knows which is right: both stay, each with its source, and are named."""
    folder = archive(tmp_path / "a", [range(1, 3)])
    other = replace(numbered_run(9), trace_id=f"{2:032x}")
    (folder / "b.jsonl").write_text(otlp_lines(other))

    found = run(folder, "--out", tmp_path / "r.jsonl")

    assert tasks(read_rows(tmp_path / "r.jsonl")) == ["task 1", "task 2", "task 9"]
    assert "Both are kept" in found.stderr
    assert found.exit_code == 1


def test_run_that_the_tracer_fails_on_is_a_row_with_its_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named and counted, and stands in the results without a verdict."""
    monkeypatch.setattr("blamespan.analysis.command.load_tracer", lambda name: PickyTracer("task 2"))
    folder = archive(tmp_path / "a", [range(1, 4)])

    found = run(folder, "--out", tmp_path / "r.parquet")

    rows = list(read_rows(tmp_path / "r.parquet"))
    assert [row["error"] is None for row in rows] == [True, False, True]
    assert rows[1]["abstained"] == rows[1]["error"]
    assert "2 runs attributed, 1 made the tracer fail" in found.stderr
    assert found.exit_code == 1


# interrupted work


class Killed(Exception):
    """Ends a program as nothing in it can stop."""


def interrupted(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Have the program end when so many outcomes were kept."""
    kept = Journal.add
    left = [after]

    def add(self: Journal, outcome: Any) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise Killed
        kept(self, outcome)

    monkeypatch.setattr(Journal, "add", add)


def test_full_disk_is_named_and_finished_work_is_kept(tmp_path: Path) -> None:
    """Without room for what is done the command says so; with room, it goes on where it was."""
    folder = archive(tmp_path / "a", [[number] for number in range(1, 30)])
    disk = Disk(tmp_path / "disk")
    try:
        if not disk.can_fill:
            pytest.skip("needs the right to mount")
        disk.fill(leave_bytes=12_288)
        full = run(folder, "--out", disk.folder / "r.jsonl")
        disk.empty()
        found = run(folder, "--out", disk.folder / "r.jsonl", "--resume")
        shutil.copy(disk.folder / "r.jsonl", tmp_path)
    finally:
        disk.close()

    assert isinstance(full.exception, NotWritten)
    assert str(full.exception).endswith("got No space left on device. Make room, and go on with --resume")
    assert "pieces were done before" in found.stderr
    assert len((tmp_path / "r.jsonl").read_text().splitlines()) == 29


@pytest.mark.parametrize("name", ["r.jsonl", "r.parquet"])
def test_interrupted_work_is_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Finished pieces are not read again, the torn one is, and the output is that of a run without a break."""
    folder = archive(tmp_path / "a", [range(1, 4), range(3, 7), range(7, 9)])
    (folder / "000b.json").write_text("{}")
    whole = tmp_path / f"whole-{name}"
    run(folder, "--out", whole)
    with monkeypatch.context() as patch:
        interrupted(patch, 8)  # three runs, the end of their piece, an error and its end, two outcomes of the next
        assert isinstance(run(folder, "--out", tmp_path / name).exception, Killed)
    assert not (tmp_path / name).exists()
    with (tmp_path / f"{name}.journal").open("ab") as journal:
        journal.write(b"R{torn")

    refused = run(folder, "--out", tmp_path / name)
    other = run(folder, "--out", tmp_path / name, "--resume", "--limit", "9")
    found = run(folder, "--out", tmp_path / name, "--resume")

    assert "Go on with --resume" in str(refused.exception)
    assert "got limit 9 instead of None" in str(other.exception)
    assert "2 pieces were done before" in found.stderr
    assert "8 runs attributed, 1 could not be read, 1 stood in several places" in found.stderr
    assert (tmp_path / name).read_bytes() == whole.read_bytes()
    assert not list(tmp_path.glob("*.journal"))


def test_other_settings_are_not_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a tracer says under another budget, say, is another result: it is refused with what differs."""
    folder = archive(tmp_path / "a", [range(1, 4), range(4, 7)])
    loaded = SimpleNamespace(identity=TRACER.identity, attribute=TRACER.attribute, settings={"max_false_alarms": 0.05})
    monkeypatch.setattr("blamespan.analysis.command.load_tracer", lambda name: loaded)
    with monkeypatch.context() as patch:
        interrupted(patch, 5)
        run(folder, "--out", tmp_path / "r.jsonl")
    loaded.settings = {"max_false_alarms": 0.2}
    refused = run(folder, "--out", tmp_path / "r.jsonl", "--resume")
    loaded.settings = {"max_false_alarms": 0.05}
    found = run(folder, "--out", tmp_path / "r.jsonl", "--resume")

    assert isinstance(refused.exception, ConfigError)
    assert "got settings {'max_false_alarms': 0.2} instead of {'max_false_alarms': 0.05}" in str(refused.exception)
    assert "1 piece was done before" in found.stderr


def test_changed_file_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A piece is what it was when it was done: by name, size and time."""
    folder = archive(tmp_path / "a", [range(1, 4), range(4, 7)])
    with monkeypatch.context() as patch:
        interrupted(patch, 5)
        run(folder, "--out", tmp_path / "r.jsonl")
    (folder / "000.jsonl").write_text(otlp_lines(numbered_run(77)))

    run(folder, "--out", tmp_path / "r.jsonl", "--resume")

    assert tasks(read_rows(tmp_path / "r.jsonl")) == ["task 77", "task 4", "task 5", "task 6"]


def test_nothing_to_go_on_with_begins(tmp_path: Path) -> None:
    """`--resume` may always be given."""
    folder = archive(tmp_path / "a", [range(1, 3)])

    assert run(folder, "--out", tmp_path / "r.jsonl", "--resume").exit_code == 0


def test_limited_work_keeps_what_there_is(tmp_path: Path) -> None:
    """A piece that is not read to its end gives what was read of it."""
    folder = archive(tmp_path / "a", [range(1, 4), range(4, 8)])

    found = run(folder, "--out", tmp_path / "r.jsonl", "--limit", "5", "--json")

    assert tasks(read_rows(tmp_path / "r.jsonl")) == [f"task {number}" for number in range(1, 6)]
    assert [json.loads(line)["task"] for line in found.stdout.splitlines()] == [f"task {n}" for n in range(1, 6)]
