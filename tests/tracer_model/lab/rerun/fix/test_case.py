"""`blamespan case`: the test that it writes fails on the faulty program, and passes on the mended one."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import blamespan
from blamespan.cli import cli
from blamespan.errors import BlamespanError, ConfigError, NotReplayed
from blamespan.testing import Finding, replay
from blamespan.trace import Agent, MessageActionTrace, Step
from blamespan_lab.rerun.fix.case_file import FailureCase, write_case
from blamespan_lab.rerun.script import script_of
from tests.tracer_model.lab.rerun.fix import programs
from tests.tracer_model.lab.rerun.fix.conftest import run_graph
from tests.tracer_model.lab.rerun.fix.programs import CALLS, MOOD, TASK
from tests.tracer_model.lab.rerun.recording import record

_HERE = "tests.tracer_model.lab.rerun.fix.programs"
_CHECK = ("--check", f"{_HERE}:is_42")
_STOCK = {"tool": "stock", "arguments": {"of": "birds"}, "answers": "40"}


def _case(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["case", *map(str, arguments)])


def _written(*arguments: object) -> str:
    result = _case(*arguments)
    assert result.exception is None, result.exception
    return result.stdout


def _run_test(text: str, file: Path | None = None) -> None:
    """Run the test of a file, as pytest would."""
    names: dict[str, Any] = {"__file__": str(file)}
    exec(compile(text, str(file), "exec"), names)  # what we have just written
    [test] = [value for name, value in names.items() if name.startswith("test_")]
    test()


@pytest.mark.parametrize(
    ("run", "program"),
    [("graph_run", "graph"), ("graph_run", "graph_later"), ("team_run", "team"), ("team_run", "team_later")],
)
def test_written_test_fails_until_the_program_is_mended(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, run: str, program: str
) -> None:
    """In both frameworks, from sync and async factories; the tool is not called again."""
    monkeypatch.setenv(CALLS, str(tmp_path / "calls"))
    path = request.getfixturevalue(run)
    (tmp_path / "calls").unlink()
    text = _written(path, f"{_HERE}:{program}", *_CHECK)
    with pytest.raises(AssertionError):
        _run_test(text)
    monkeypatch.setenv(MOOD, "mended")
    _run_test(text)

    assert not (tmp_path / "calls").exists()
    assert len(text.splitlines()) <= 40


def test_finding_alone_is_enough(graph_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a check the test asserts that the finding is gone, and says nothing of the answer."""
    text = _written(graph_run, f"{_HERE}:graph")
    with pytest.raises(AssertionError):
        _run_test(text)
    monkeypatch.setenv(MOOD, "mended")
    _run_test(text)

    assert 'run.findings(agent="adder", check="sum-holds") == []' in text
    assert "is_right" not in text


def test_program_whose_answer_is_wrong_for_another_reason_fails_by_the_check(graph_run: Path) -> None:
    """A step that shows no finding is tested by the check alone."""
    text = _written(graph_run, f"{_HERE}:graph", *_CHECK, "--step", 5)

    assert "findings" not in text
    with pytest.raises(AssertionError, match=r"The answer is 52"):
        _run_test(text)


def test_many_texts_stand_in_a_file_beside_it(graph_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With --out; a file that is there is not written over."""
    monkeypatch.setattr("blamespan_lab.rerun.fix.case_file._MOST_LINES", 2)
    monkeypatch.setattr("blamespan_lab.rerun.fix.command._CASE_RUNS", 0)
    out = tmp_path / "test_birds.py"
    _written(graph_run, f"{_HERE}:graph", *_CHECK, "--out", out)
    records = json.loads(out.with_suffix(".json").read_text())
    monkeypatch.setenv(MOOD, "mended")
    _run_test(out.read_text(), out)
    again = _case(graph_run, f"{_HERE}:graph", *_CHECK, "--out", out)

    assert records[1] == _STOCK
    assert "expected a new file, got" in str(again.exception)


def test_call_that_was_not_recorded_runs_only_in_a_sandbox(
    graph_run: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Else the test says so, and names the line to add; with the line it is answered from there."""
    monkeypatch.setenv(MOOD, "counts cats")
    monkeypatch.setenv(CALLS, str(tmp_path / "calls"))
    result = _case(graph_run, f"{_HERE}:graph", *_CHECK)
    recorded: list[dict[str, Any]] = [{"agent": "clerk", "says": "The stock of birds is 40, and 2 more came today."}]
    with pytest.raises(NotReplayed, match="sandbox = True") as refused:
        replay(f"{_HERE}:graph", TASK, recorded, agent="adder")
    line = json.loads(str(refused.value).partition("recorded: ")[2])
    with_line = replay(f"{_HERE}:graph", TASK, [*recorded, line], agent="adder", check=f"{_HERE}:is_42")
    is_called = (tmp_path / "calls").exists()
    replay(f"{_HERE}:graph_with_sandbox", TASK, recorded, agent="adder")

    assert "the test cannot tell yet" in result.stderr
    assert line == {"tool": "stock", "arguments": {"of": "cats"}, "answers": "..."}
    assert (with_line.answer, with_line.is_right) == ("The answer is 52.", False)
    assert not is_called
    assert (tmp_path / "calls").read_text() == "cats\n"


def test_program_that_hangs_is_left_behind(graph_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says after how long; another run is not disturbed."""
    monkeypatch.setenv(MOOD, "hangs")
    monkeypatch.setattr(programs, "let_go", threading.Event())
    result = _case(graph_run, f"{_HERE}:graph", *_CHECK, "--timeout", 0.5)
    monkeypatch.setenv(MOOD, "mended")
    run = replay(f"{_HERE}:graph", TASK, [_STOCK], agent="adder", check=f"{_HERE}:is_42")
    programs.let_go.set()
    [left_behind] = [thread for thread in threading.enumerate() if thread.name == "blamespan-replay"]
    left_behind.join(60)

    assert isinstance(result.exception, NotReplayed)
    assert "expected the program to end within 0.5 s" in str(result.exception)
    assert (run.is_right, run.found) == (True, ())


def test_program_that_wavers_is_tested_several_times(graph_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the command says how often it failed."""
    monkeypatch.setenv(MOOD, "wavers")
    result = _case(graph_run, f"{_HERE}:graph", *_CHECK)

    assert "fails 1 of 2 times" in result.stderr
    assert '@pytest.mark.parametrize("attempt", range(5))' in result.stdout


def test_mended_program_is_said_to_pass(graph_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is written all the same."""
    monkeypatch.setenv(MOOD, "mended")
    result = _case(graph_run, f"{_HERE}:graph", *_CHECK)

    assert "the test passes: it is mended already" in result.stderr
    assert "def test_adder_step_4_" in result.stdout


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("tests.tracer_model.lab.rerun.user_programs:graph", "2 recorded answers were not asked for"),
        (
            "tests.tracer_model.lab.rerun.user_programs:plain",
            "to come to where 'adder' erred, got a run in which it did",
        ),
        ("tests.tracer_model.lab.rerun.user_programs:raises", "raised RuntimeError: no key"),
        ("tests.nowhere:make", "module 'tests.nowhere' cannot be imported"),
    ],
)
def test_other_program_is_refused(team_run: Path, program: str, said: str) -> None:
    """In one sentence, and no file is written."""
    result = _case(team_run, program, *_CHECK)

    assert isinstance(result.exception, BlamespanError)
    assert said in str(result.exception)
    assert result.stdout == ""


def test_run_without_sign_of_failure_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody knows that it failed."""
    monkeypatch.setenv(MOOD, "mended")
    path = record(tmp_path / "sound.jsonl", run_graph)
    result = _case(path, f"{_HERE}:graph")

    assert isinstance(result.exception, ConfigError)
    assert "no sign of it. Name a check" in str(result.exception)


@pytest.mark.parametrize("command", ["case", "fix"])
def test_run_without_verdict_is_one_sentence(tmp_path: Path, command: str) -> None:
    """Contents were withheld, so that nobody can be blamed."""
    path = record(tmp_path / "withheld.jsonl", run_graph, capture_content=False)
    result = CliRunner().invoke(cli, [command, str(path), f"{_HERE}:graph", *_CHECK])

    assert isinstance(result.exception, ConfigError)
    assert "expected somebody to blame for run" in str(result.exception)


def test_hostile_texts_stay_texts(tmp_path: Path) -> None:
    """Quotes, line ends, control characters, half characters and code in a run can end no string of the file."""
    hostile = "\"\"\"\nimport os\nos.abort()\n'''\\\x00\x1b[31m\ud800\u202e{1/0} \N{SNOWMAN}" * 3
    said = [Step(0, "1" * 16, hostile, content=hostile), Step(1, "2" * 16, f"a{hostile}", content=f"{hostile} end")]
    trace = MessageActionTrace("f" * 32, hostile, tuple(said), (Agent(hostile), Agent(f"a{hostile}")), "failed")
    case = FailureCase(
        *(script_of(trace), 1, Finding(f"a{hostile}", 1, hostile, hostile, hostile), 'my-app.x:make"', None, hostile),
        *(5.0, "auto"),
    )
    text = write_case(case, None, f"blamespan case {hostile}", is_checked=True, is_repeatable=True)
    names: dict[str, Any] = {}
    exec(compile(text, "case", "exec"), names)  # it must define names and do nothing
    out = tmp_path / "test_hostile.py"
    write_case(replace(case, task="T"), out, "c", is_checked=True, is_repeatable=True)

    assert names["TASK"] == hostile
    assert names["RECORDED"] == [{"agent": hostile, "says": hostile}]
    assert [name for name in names if name.startswith("test_")] == [
        "test_a_import_os_os_abort_31m_1_0_import_os_o_step_1_ffffffff"
    ]
    assert not {char for char in out.read_text() if not char.isprintable()} - {"\n"}


def test_record_that_is_none_is_named() -> None:
    """With what a record looks like."""
    with pytest.raises(ConfigError, match=r"expected what an agent says or a tool answers, got \{'x': 1\}"):
        replay(f"{_HERE}:graph", TASK, [{"x": 1}], agent="adder")


def test_tool_that_raised_raises_again() -> None:
    """The exception ends the program, as it would have then."""
    with pytest.raises(NotReplayed, match="expected the program to end with an answer, got ValueError: no store"):
        replay(f"{_HERE}:graph", TASK, [{**_STOCK, "answers": "no store", "raises": "ValueError"}], agent="clerk")


def test_replay_leaves_recording_off(graph_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that records itself is replayed without a span for its back end."""
    del graph_run
    recorder = blamespan.testing.SpanRecorder()
    blamespan.instrument(tracer_provider=recorder.provider)
    monkeypatch.setenv(MOOD, "mended")
    replay(f"{_HERE}:graph", TASK, [_STOCK], agent="adder")

    assert recorder.spans() == []
