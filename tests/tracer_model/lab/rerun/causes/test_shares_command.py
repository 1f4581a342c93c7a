"""`blamespan verify --shares`: the failure shared out among the agents, by replay and by a tracer's word."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from blamespan.cli import cli
from blamespan.errors import ConfigError
from blamespan_lab.rerun.causes.corrections import JudgedCorrections, NoCorrection
from tests.tracer_model.lab.rerun.causes import programs
from tests.tracer_model.lab.rerun.causes.programs import TASK
from tests.tracer_model.lab.rerun.causes.test_verify_command import _record

_HERE = "tests.tracer_model.lab.rerun.causes.programs"
_CHECK = ("--check", f"{_HERE}:is_42", "--tracer", "checks", "--processes", 1)
_TEAM = (f"{_HERE}:team", *_CHECK)


@pytest.fixture
def birds(tmp_path: Path) -> Path:
    """A failed run: 0 counter, 1 adder (52), 2 reporter."""
    return _record(tmp_path / "birds.jsonl", lambda: programs.team().invoke({"messages": [("user", TASK)]}))


def _run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["verify", *map(str, arguments), "--shares"])


def _shared(*arguments: object) -> dict[str, Any]:
    result = _run(*arguments, "--json")
    assert result.exception is None, result.exception
    document: dict[str, Any] = json.loads(result.stdout)
    return document


@pytest.mark.usefixtures("in_this_process")
def test_culprit_has_the_whole_share_by_replay(birds: Path) -> None:
    """The adder's correction alone mends the run, whoever else is asked again; who changes nothing has no share."""
    document = _shared(birds, *_TEAM, "--tracer", "lexical", "--correction", "1=It makes 42.")
    shares = {item["agent"]: item["share"] for item in document["agents"]}

    assert document["by"] == "replay"
    assert (document["exact"], document["everybody"]) == (True, 1.0)
    assert shares == {name: float(name == "adder") for name in shares}
    assert len(shares) > 1


@pytest.mark.usefixtures("in_this_process")
def test_right_answer_of_a_later_agent_does_not_count_for_an_earlier_ones_error(birds: Path) -> None:
    """The reporter's answer, put into its mouth, mends the run as well: it only reported what the adder had added."""
    corrected = (birds, *_TEAM, "--correction", "2=The answer is 42.", "--correction")
    both, alone = (_shared(*corrected, f"1=It makes {number}.") for number in (42, 43))

    assert {item["agent"]: item["share"] for item in both["agents"]} == {"adder": 1.0, "reporter": 0.0}
    assert {item["agent"]: item["share"] for item in alone["agents"]} == {"adder": 0.0, "reporter": 1.0}


@pytest.mark.usefixtures("in_this_process")
def test_later_right_answer_counts_only_given_what_it_builds_on(tmp_path: Path) -> None:
    """Two agents err, and neither mends the run alone; the third's answer is right only once both are."""
    run = _record(tmp_path / "two.jsonl", lambda: programs.two_who_err().invoke({"messages": [("user", TASK)]}))
    lines = [
        {"step": 0, "text": "I see 40."},
        {"step": 1, "text": "It makes 42.", "given": [0]},
        {"step": 2, "text": "It makes 42.", "given": [0, 1]},
    ]

    def share(lines: list[dict[str, Any]]) -> dict[str, float]:
        (tmp_path / "repairs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        document = _shared(run, f"{_HERE}:two_who_err", *_CHECK, "--corrections", tmp_path / "repairs.jsonl")
        return {item["agent"]: item["share"] for item in document["agents"]}

    assert share(lines) == {"counter": 0.5, "adder": 0.5, "reporter": 0.0}
    bare = share([{"step": line["step"], "text": line["text"]} for line in lines])
    assert bare["counter"] < 0.5


@pytest.mark.usefixtures("in_this_process")
def test_fault_that_was_put_in_is_undone(birds: Path, tmp_path: Path) -> None:
    """A line of `blamespan.inject()` says what stood there before; one of another run is passed over."""
    labels = tmp_path / "labels.jsonl"
    fault = {"trace_id": None, "step": 1, "before": "It makes 42.", "after": "It makes 52."}
    other = {**fault, "trace_id": "f" * 32, "step": 0, "before": "I see none."}
    labels.write_text(f"{json.dumps(other)}\n{json.dumps(fault)}\n")
    document = _shared(birds, *_TEAM, "--corrections", labels)

    assert {item["agent"]: item["share"] for item in document["agents"]}["adder"] == 1.0


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"step": 1, "text": "x", "given": [2]}, '"given" to list steps before step 1'),
        ({"step": 1, "text": "x", "given": "0"}, '"given" to list steps before step 1'),
        ({"step": 2, "text": "x", "given": [0]}, '"given" names step 0, which nobody puts right'),
    ],
)
def test_repair_that_cannot_hold_is_named(birds: Path, tmp_path: Path, line: dict[str, Any], said: str) -> None:
    """Before anything runs."""
    (tmp_path / "repairs.jsonl").write_text(json.dumps(line))
    result = _run(birds, *_TEAM, "--corrections", tmp_path / "repairs.jsonl")

    assert isinstance(result.exception, ConfigError)
    assert said in str(result.exception)


def test_tracers_word_adds_up_without_a_program(birds: Path) -> None:
    """Without a factory what agents are blamed for is masked, and it is said that nothing was run."""
    result = _run(birds, "--tracer", "checks")

    assert result.exception is None
    assert "100.0 %  adder" in result.stdout
    assert "by the tracer's word, not by running anything" in result.stderr


@pytest.mark.usefixtures("in_this_process")
def test_run_that_no_correction_mends_is_not_shared_out(birds: Path) -> None:
    """Where everybody put right still fails, nobody has a share."""
    result = _run(birds, *_TEAM, "--correction", "1=It makes 43.")

    assert "with everybody put right 0% of the runs succeed" in str(result.exception)
    assert not isinstance(result.exception, ConfigError)


def test_agents_that_nobody_can_put_right_are_named_without_a_share(
    birds: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where that is every agent, nothing is tried, each is named with the reason, and it is no misuse."""
    monkeypatch.setenv("BLAMESPAN_JUDGE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("BLAMESPAN_JUDGE_MODEL", "none")
    monkeypatch.setenv("BLAMESPAN_JUDGE_DEADLINE_S", "0.1")

    def refuse(writer: JudgedCorrections, step: int) -> None:
        raise NoCorrection("the judge gave no correction: nobody answers")

    monkeypatch.setattr(JudgedCorrections, "write", refuse)
    arguments = (birds, *_TEAM, "--tracer", "checks")
    result = _run(*arguments)

    assert result.exit_code == 0, result.exception
    assert re.search(r"- +adder", result.stdout)
    assert "not put right: adder: the judge gave no correction: nobody answers" in result.stderr
    assert _shared(*arguments)["agents"] == []
    assert "adder" in _shared(*arguments)["not_put_right"]


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--labels", "labels.jsonl"), "expected --shares without --out, --write-back and --labels"),
        (("--correction", "1=It makes 42."), "expected MODULE:FACTORY with --correction or --check"),
        ((f"{_HERE}:team", "--tracer", "lexical"), "expected a check that tells"),
        ((f"{_HERE}:team", "--correction", "7=x"), "got one of step 7"),
        ((f"{_HERE}:raises", "--check", f"{_HERE}:is_42"), "raised RuntimeError: no key"),
    ],
)
def test_bad_input_is_named(birds: Path, arguments: tuple[str, ...], said: str) -> None:
    """Each says what was expected and what came."""
    assert said in str(_run(birds, *arguments).exception)
