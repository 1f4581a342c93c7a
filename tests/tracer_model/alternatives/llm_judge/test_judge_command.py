"""`blamespan judge`: what would be sent, or both opinions."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from blamespan.cli import cli
from blamespan_tracer.alternatives.llm_judge.budget import Unanswered
from blamespan_tracer.alternatives.llm_judge.client import JudgeClient
from blamespan_tracer.alternatives.llm_judge.correction import ask_correction
from blamespan_tracer.alternatives.llm_judge.prompts import VERSION
from blamespan_tracer.alternatives.llm_judge.settings import JudgeSettings
from tests.tracer_model.alternatives.llm_judge.serving import SUM, WRONG, served, verdict, write_file


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is asked but those a test names, about every failure."""
    monkeypatch.setenv("BLAMESPAN_JUDGE_MODEL", "small")
    monkeypatch.setenv("BLAMESPAN_JUDGE_CACHE", "off")
    monkeypatch.setenv("BLAMESPAN_JUDGE_LEAST_GAIN", "0")


@pytest.fixture
def failed(tmp_path: Path) -> Path:
    """A file with the run of `SUM`, which failed."""
    return write_file(tmp_path / "failed.json")


def call(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["judge", *map(str, arguments)])


def test_dry_run_prints_exactly_what_would_be_sent(
    failed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without an endpoint, and to the letter what one then gets; with tokens, and the cost by the table of prices."""
    (tmp_path / "prices.toml").write_text("[small]\ninput = 2\noutput = 10\n")
    monkeypatch.setenv("BLAMESPAN_PRICES", str(tmp_path / "prices.toml"))
    monkeypatch.setenv("BLAMESPAN_JUDGE_MODEL", "small")
    [told] = [json.loads(line) for line in call("--dry-run", "--json", failed).stdout.splitlines()]
    text = call("--dry-run", failed).stdout
    with served({"say": verdict()}) as server:
        call(failed, "--judge-url", server.url)
        [[_, _, asked]] = server.asked()

    assert told["messages"] == asked["messages"]
    assert all(message["content"] in text for message in asked["messages"])
    assert (told["asked"], told["whole"], told["prompts"]) == (True, True, VERSION)
    assert told["cost"] == pytest.approx((told["tokens"] * 2 + 4_096 * 10) / 1e6)
    assert f"cost: ${told['cost']:.4f} at most" in text


def test_dry_run_says_why_nothing_would_be_sent(failed: Path) -> None:
    """Of a run that is not worth it there is the reason, and no message."""
    done = call("--dry-run", failed, "--judge-gain", "0.9")

    assert "not asked about, nothing is sent: its step is right with a chance of" in done.stdout
    assert "---" not in done.stdout


def test_both_opinions_are_printed(failed: Path) -> None:
    """Whose is whose, which step each names, and what they come to."""
    with served({"find": WRONG}) as server:
        done = call(failed, "--judge-url", server.url)

    assert done.exit_code == 0, done.output
    assert "at step 2" in done.stdout
    assert "judge small: step 2, 0.90" in done.stdout
    assert "auto " in done.stdout
    assert "1 question to small" in done.stderr


def test_no_answer_is_a_failure_that_says_why(failed: Path) -> None:
    """The embedded verdict is printed all the same; the exit code is 1."""
    with served({"status": 401}) as server:
        done = call(failed, "--judge-url", server.url)

    assert done.exit_code == 1
    assert "judge small: the judge did not answer: HTTP 401, check BLAMESPAN_JUDGE_KEY" in done.stdout
    assert "auto " in done.stdout


def test_endpoint_must_be_set_to_ask(failed: Path) -> None:
    """One sentence, with what to do."""
    error = call(failed).exception

    assert "BLAMESPAN_JUDGE_URL must be an http(s) URL, got ''" in str(error)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"reasoning": "", "message": "12 times 4 is 48", "sentence": "The product is 48."}, "12 times 4 is 48"),
        ({"reasoning": "", "message": f"Done: {WRONG}.", "sentence": ""}, f"Done: {WRONG}."),
        ({"reasoning": "", "message": "", "sentence": ""}, None),
        ("I would rather not.", None),
    ],
)
def test_correction_is_the_whole_message(said: Any, message: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model's own words, where the step is right its own; none where no answer counts."""
    with served({"say": said}) as server:
        monkeypatch.setenv("BLAMESPAN_JUDGE_URL", server.url)
        settings = JudgeSettings.from_environment()
        with nullcontext() if message else pytest.raises(Unanswered):
            assert ask_correction(JudgeClient(settings), settings, SUM, 2, "84 contradicts 48") == message
        [_, _, asked] = server.asked()[0]

    assert json.loads(asked["messages"][1]["content"])["finding"] == "84 contradicts 48"
    assert "84 contradicts 48" not in asked["messages"][0]["content"]
