"""The judge is set by variables alone: for the command line, the collector and embedded mode alike."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click import Command
from click.testing import CliRunner

from blamespan.cli import cli
from blamespan.errors import ConfigError
from blamespan.plugins import load_part
from blamespan.rebuilding.emit import emit
from blamespan.tracers import load_tracer
from blamespan_tracer.alternatives.llm_judge.prompts import VERSION
from blamespan_tracer.alternatives.llm_judge.settings import JudgeSettings
from blamespan_tracer.command_options import JUDGE_OPTIONS
from tests.tracer_model.alternatives.llm_judge.serving import SUM, served_as_judge, verdict, write_file


@pytest.fixture(autouse=True)
def url(monkeypatch: pytest.MonkeyPatch) -> str:
    """Nobody listens there."""
    monkeypatch.setenv("BLAMESPAN_JUDGE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("BLAMESPAN_JUDGE_MODEL", "small")
    return "http://127.0.0.1:9/v1"


def test_variables_are_read(monkeypatch: pytest.MonkeyPatch, url: str, tmp_path: Path) -> None:
    """Each has a default; the cache is the user's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("BLAMESPAN_JUDGE_BUDGET_TOKENS_RUN", "9000")
    monkeypatch.setenv("BLAMESPAN_JUDGE_KEY", "secret\n")
    monkeypatch.setenv("BLAMESPAN_TRACER_DEADLINE_S", "50")

    found = JudgeSettings.from_environment()

    assert (found.endpoint.url, found.endpoint.key, found.per_run.tokens, found.embedded) == (
        url,
        "secret",
        9_000,
        "auto",
    )
    assert (found.cache, found.deadline_s) == (tmp_path / "blamespan" / "judge", None)
    assert "secret" not in repr(found)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("URL", "localhost:8000", "BLAMESPAN_JUDGE_URL must be an http(s) URL, got 'localhost:8000'"),
        ("MODEL", "", "BLAMESPAN_JUDGE_MODEL must name a model, got nothing"),
        ("KEY", "söcret", "BLAMESPAN_JUDGE_KEY must be ASCII without blanks, got something else"),
        ("TAXONOMY", "trail", "BLAMESPAN_JUDGE_TAXONOMY must be mast or aegis, got 'trail'"),
        ("LEAST_GAIN", "10", "BLAMESPAN_JUDGE_LEAST_GAIN must be a number from 0 to 1, got '10'"),
        ("CONCURRENCY", "0", "BLAMESPAN_JUDGE_CONCURRENCY must be a whole number from 1 to 256, got '0'"),
        ("CONTEXT_TOKENS", "lots", "BLAMESPAN_JUDGE_CONTEXT_TOKENS must be a whole number from 4000"),
        ("BUDGET_TOKENS", "1e6", "BLAMESPAN_JUDGE_BUDGET_TOKENS must be a whole number from 0"),
        ("BUDGET_MONEY", "nan", "BLAMESPAN_JUDGE_BUDGET_MONEY must be a number of at least 0, got 'nan'"),
        ("BUDGET_MONEY", "5", "BLAMESPAN_JUDGE_BUDGET_MONEY needs the price of 'small', got none"),
        ("BUDGET_MONEY_HOUR", "5", "BLAMESPAN_JUDGE_BUDGET_MONEY_HOUR needs the price of 'small', got none"),
        ("DEADLINE_S", "soon", "BLAMESPAN_JUDGE_DEADLINE_S must be a number of at least 0, got 'soon'"),
    ],
)
def test_wrong_variable_is_said(monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str) -> None:
    """What was expected, what came, what to do."""
    monkeypatch.setenv(f"BLAMESPAN_JUDGE_{name}", value)

    with pytest.raises(ConfigError) as raised:
        JudgeSettings.from_environment()
    assert said in str(raised.value)


def test_judge_does_not_ask_itself_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A judge before the judge would go on for ever."""
    monkeypatch.setenv("BLAMESPAN_JUDGE_EMBEDDED", "judge")

    with pytest.raises(
        ConfigError, match="BLAMESPAN_JUDGE_EMBEDDED must be a tracer to ask first, or none, got 'judge' itself"
    ):
        JudgeSettings.from_environment()


def test_tracer_is_found_by_name_and_says_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its version names prompts, model and embedded tracer: enough to know whose word a verdict is."""
    identity = load_tracer("judge").identity

    assert identity.name == "judge"
    assert f" prompts {VERSION} small + auto " in identity.version


def test_flags_are_other_spellings_of_the_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flag wins over its variable; without it the variable stays; there is none for the key."""
    monkeypatch.setenv("BLAMESPAN_JUDGE_LEAST_GAIN", "0.3")
    monkeypatch.setenv("BLAMESPAN_JUDGE_CACHE", "somewhere")
    found: list[JudgeSettings] = []
    command = Command("x", callback=lambda: found.append(JudgeSettings.from_environment()), params=list(JUDGE_OPTIONS))

    CliRunner().invoke(command, ["--judge-url", "http://x/v1", "--model", "m", "--no-cache"], catch_exceptions=False)

    assert load_part("judge_options") is JUDGE_OPTIONS
    assert (found[0].endpoint.url, found[0].endpoint.model, found[0].least_gain) == ("http://x/v1", "m", 0.3)
    assert found[0].cache is None
    assert not [option for option in JUDGE_OPTIONS if "key" in option.opts[0]]


def test_analyze_takes_the_judge(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One flag away: the verdicts of files come from the endpoint."""
    path = write_file(tmp_path / "1.json")
    with served_as_judge(monkeypatch, {"say": verdict()}):
        asked = ["analyze", str(path), "--tracer", "judge", "--judge-gain", "0", "--json"]
        done = CliRunner().invoke(cli, asked, catch_exceptions=False)

    found = json.loads(done.stdout)
    assert (found["agent"], found["step"], found["tracer"]["name"]) == ("solver", 2, "judge")
    assert [opinion["step"] for opinion in found["opinions"]][1] == 2
    assert "1 of 1 runs asked about" in done.stderr


def test_collector_gets_a_verdict_or_its_reason_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What judges in the collector takes the judge as any tracer; a slow endpoint costs no more than the deadline."""
    annotator = pytest.importorskip("blamespan_collector.judging.annotator")
    monkeypatch.setenv("BLAMESPAN_JUDGE_EMBEDDED", "none")
    spans = emit(SUM)
    with served_as_judge(monkeypatch, {"say": verdict()}, {"say": verdict(), "wait_s": 3}):
        [quick] = annotator.Annotator(lambda: load_tracer("judge")).attribute([spans])
        monkeypatch.setenv("BLAMESPAN_TRACER_DEADLINE_S", "0.5")
        [slow] = annotator.Annotator(lambda: load_tracer("judge")).attribute([spans])

    assert quick.runs[0].attribution.decisive_step == 2
    assert slow.runs[0].attribution.abstained in (
        "the judge did not answer: timeout",
        "the judge's time was over before it could answer",
    )
