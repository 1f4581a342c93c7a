"""`blamespan analyze` reads every file it can, names those it cannot, and prints data alone on stdout."""

from __future__ import annotations

import gzip
import json
import lzma
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from rich.cells import cell_len

from blamespan.analysis.command import analyze
from blamespan.analysis.showing.legible import printable
from blamespan.errors import ConfigError
from blamespan.rebuilding.emit import emit
from blamespan.trace import Agent, MessageActionTrace, Step
from tests.sdk.builders import TRACE_ID, otlp_lines, small_run, span
from tests.sdk.fixed_tracer import LongestStepTracer


@pytest.fixture(autouse=True)
def fixed_tracer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blamespan.analysis.command.load_tracer", lambda name: LongestStepTracer())


def run(*arguments: object) -> Result:
    return CliRunner().invoke(analyze, [str(a) for a in arguments])


def lines(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_json_gives_one_object_per_run(tmp_path: Path) -> None:
    """Programs get the whole verdict, a run per line, and nothing else on stdout."""
    (tmp_path / "a.jsonl").write_text(otlp_lines(small_run()))

    result = run(tmp_path, "--json")

    [found] = lines(result)
    assert (found["agent"], found["step"], found["mode"]["code"], found["outcome"]) == ("solver", 1, "FM-2.3", "failed")
    assert found["tracer"] == {"name": "longest", "version": "1", "weights": ""}
    assert sum(step["score"] for step in found["steps"]) == pytest.approx(1, abs=1e-5)
    assert result.exit_code == 0


def test_trace_spread_over_lines_is_one_run(tmp_path: Path) -> None:
    """Exporters flush when they like: the spans of a run may stand on many lines."""
    (tmp_path / "a.jsonl").write_text(otlp_lines(*([item] for item in emit(small_run()))))

    assert len(lines(run(tmp_path, "--json"))) == 1


def test_document_over_several_lines_is_read(tmp_path: Path) -> None:
    """A file that a person has formatted is the same file."""
    (tmp_path / "a.json").write_text(json.dumps(json.loads(otlp_lines(small_run())), indent=2))

    assert len(lines(run(tmp_path, "--json"))) == 1


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_compressed_files_are_read(tmp_path: Path, suffix: str, pack: Any) -> None:
    """Archives need no unpacking."""
    (tmp_path / f"a.jsonl{suffix}").write_bytes(pack(otlp_lines(small_run()).encode()))

    assert len(lines(run(tmp_path, "--json"))) == 1


def test_unreadable_files_are_named_and_the_others_still_run(tmp_path: Path) -> None:
    """One bad file costs one file, and the exit code says that something was lost."""
    cut, packed, good = (otlp_lines(replace(small_run(), trace_id=f"{number:032x}")) for number in (1, 2, 3))
    (tmp_path / "a_empty.json").write_text("")
    (tmp_path / "b_other.json").write_text('{"hello": 1}')
    (tmp_path / "c_cut.jsonl").write_text(cut + cut[:100])
    (tmp_path / "d_packed.jsonl.xz").write_bytes(lzma.compress(packed.encode())[:-20])
    (tmp_path / "e_good.jsonl").write_text(good)

    result = run(tmp_path, tmp_path / "f_missing.jsonl", "--json")

    read = [Path(found["source"].split(":")[0]).name for found in lines(result)]
    assert read == ["c_cut.jsonl", "d_packed.jsonl.xz", "e_good.jsonl"]  # of a torn file, what came before the tear
    assert result.exit_code == 1
    for expected in (
        "a_empty.json: expected recorded runs in a known format, got an empty file",
        "b_other.json: expected recorded runs in a known format, got something that begins with b'{\"hello\": 1}'",
        "c_cut.jsonl:2: expected OTLP-JSON, got no JSON",
        "d_packed.jsonl.xz",
        "f_missing.jsonl",
        "3 runs attributed, 5 could not be read",
    ):
        assert expected in result.stderr


def test_folder_without_recorded_runs_is_a_failure(tmp_path: Path) -> None:
    """Silence would look like success."""
    result = run(tmp_path)

    assert result.exit_code == 1
    assert "expected recorded runs, got none" in result.stderr


def test_one_run_is_printed_by_its_steps(tmp_path: Path) -> None:
    """A single run is shown whole: who said what, and who is to blame."""
    (tmp_path / "a.jsonl").write_text(otlp_lines(small_run()))

    text = run(tmp_path / "a.jsonl").stdout

    assert "failed   5 steps   3 agents   failure 1.00" in text
    assert ">1" in text


def test_headings_stand_over_their_columns_and_one_is_said_as_one(tmp_path: Path) -> None:
    """Names shorter than their heading move no column; one step of one agent is no "1 steps" of "1 agents"."""
    step = Step(0, "1" * 16, "ann", content="It is 6.")
    trace = MessageActionTrace(TRACE_ID, "Add 2 and 3.", (step,), (Agent("ann"),), outcome="failed")
    (tmp_path / "a.jsonl").write_text(otlp_lines(trace))

    result = run(tmp_path / "a.jsonl")
    head, names, row = result.stdout.splitlines()[:3]

    assert "   1 step   1 agent   " in head
    assert (row.index("message"), row.index("1.00") - 1) == (names.index("kind"), names.index("blame"))


def test_many_runs_are_printed_a_line_each_and_the_rest_is_counted(tmp_path: Path) -> None:
    """A table says what it leaves out."""
    runs = [MessageActionTrace(f"{i:032x}", "", small_run().steps, small_run().agents) for i in range(1, 61)]
    (tmp_path / "a.jsonl").write_text(otlp_lines(*runs))

    assert "10 more runs: --all shows them" in run(tmp_path).stdout
    assert "more runs" not in run(tmp_path, "--all").stdout


def run_of(number: int, **changes: Any) -> MessageActionTrace:
    """Make a run like the small one, under an id that begins with *number* as eight hex digits."""
    return replace(small_run(), trace_id=f"{number:08x}" * 4, **changes)


def test_table_names_each_run_on_one_line(tmp_path: Path) -> None:
    """A run is named by the first digits of its id, which `show` takes; the file that all are of stands above once."""
    (tmp_path / "a.jsonl").write_text(otlp_lines(run_of(10), run_of(11)))
    first, _, *rows = run(tmp_path / "a.jsonl").stdout.splitlines()

    assert first.endswith("/a.jsonl")
    assert [row.split()[0] for row in rows if "…" in row] == ["0000000a…", "0000000b…"]


def test_table_leaves_out_the_folder_that_all_files_share(tmp_path: Path) -> None:
    """What is the same in every line says nothing."""
    for name, number in (("a.jsonl", 10), ("b.jsonl", 11)):
        (tmp_path / name).write_text(otlp_lines(run_of(number)))

    _, *rows = run(tmp_path).stdout.splitlines()

    assert [row.split()[0] for row in rows if "…" in row] == ["a.jsonl:0000000a…", "b.jsonl:0000000b…"]


@pytest.mark.parametrize("width", [50, 80, 120, 240])
def test_table_takes_one_line_a_run_at_any_width(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    """Long names and wide characters are cut, never wrapped, and no line is wider than the terminal."""
    monkeypatch.setenv("COLUMNS", str(width))
    runs = [run_of(i, task="数える " * 60, resource={"service.name": "a" * 90}) for i in (10, 11)]
    (tmp_path / "a.jsonl").write_text(otlp_lines(*runs))

    lines = [line for line in run(tmp_path / "a.jsonl").stdout.splitlines() if line.startswith("0000")]

    assert len(lines) == len(runs)
    assert max(map(cell_len, lines)) <= width


def test_table_says_task_service_and_outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sees which program ran, what it was asked, and how it ended."""
    monkeypatch.setenv("COLUMNS", "160")
    runs = [run_of(10, task="Count them", resource={"service.name": "desk"}), run_of(11, outcome="unknown")]
    (tmp_path / "a.jsonl").write_text(otlp_lines(*runs))

    known, unknown = (line.split() for line in run(tmp_path / "a.jsonl").stdout.splitlines()[2:])

    assert known[1:5] == ["Count", "them", "desk", "failed"]
    assert "failed" not in unknown


def test_table_names_the_columns_it_had_no_room_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left out in silence."""
    monkeypatch.setenv("COLUMNS", "60")
    (tmp_path / "a.jsonl").write_text(otlp_lines(run_of(10), run_of(11)))

    assert "left out at this width: service, blame" in run(tmp_path / "a.jsonl").stdout


def test_empty_source_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty variable in a script does not mean the folder one happens to be in."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.jsonl").write_text(otlp_lines(small_run()))
    result = run("")

    assert result.exit_code == 1
    assert "expected a path, got ''" in result.stderr


def test_traces_without_an_agent_give_no_run(tmp_path: Path) -> None:
    """An ordinary service's spans in an export are nothing to attribute, and no error either."""
    (tmp_path / "a.jsonl").write_text(otlp_lines([span(1, "GET /", trace_id=f"{7:032x}")], small_run()))

    result = run(tmp_path, "--json")

    assert [found["trace_id"] for found in lines(result)] == [TRACE_ID]
    assert result.exit_code == 0


def test_hostile_text_cannot_command_the_terminal(tmp_path: Path) -> None:
    """What an agent said is data: no escape sequence reaches the terminal."""
    said = "\x1b[2J\x1b]0;owned\x07\u202eevil [red]markup[/red]"
    hostile = MessageActionTrace(
        TRACE_ID, "", (Step(0, f"{2:016x}", "a\x1b[31m", content=said),), (Agent("a\x1b[31m"),)
    )
    (tmp_path / "a.jsonl").write_text(otlp_lines(hostile))

    text = " ".join(run(tmp_path).stdout.split())

    assert not set(text) & set("\x1b\x07\u202e")
    assert "[red]markup[/red]" in text


def test_printable_keeps_words() -> None:
    """Only what a terminal obeys is taken out."""
    assert printable("a\tb\nc\x00 é 漢 👍") == "a b c é 漢 👍"


def test_unknown_format_is_misuse() -> None:
    """A wrong name is answered with the right ones."""
    with pytest.raises(ConfigError, match=r"offers .*otlp-json.*; got 'nope'"):
        CliRunner().invoke(analyze, ["x", "--format", "nope"], catch_exceptions=False)
