from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blamespan.errors import ConfigError
from blamespan.taxonomy import mode
from blamespan.tracers import Tracer, load_tracer, settings_of
from blamespan_tracer.checks import CHECKS, Check, ChecksTracer, ExaminedRun, Finding, apply_checks, checks_in_use
from blamespan_tracer.checks.command import checks as command
from blamespan_tracer.checks.in_use import CHECKS_VARIABLE, apply_checks_in_use
from blamespan_tracer.ledger import read_ledger
from tests.tracer_model.teams import team

RUN = team(
    ("user", "Add it up."),
    ("clerk", "We get 12 * 3 = 35."),
    ("checker", "I checked it, that is correct."),
    ("clerk", "And 2 + 2 = 5."),
    roles={"user": "user"},
)


def shouting(run: ExaminedRun) -> Iterator[Finding]:
    """A user's own check."""
    for step in run.decisions:
        yield Finding(step.index, "fail" if step.content.isupper() else "pass", step.content, "shouts")


def test_first_broken_check_decides() -> None:
    """The first step that breaks a check is decisive; symptoms count only where there is no cause."""
    (verdict,) = ChecksTracer(CHECKS).attribute([RUN])

    assert verdict.decisive_step == 1
    assert verdict.agents[0].agent == "clerk"
    assert [step.index for step in verdict.steps if step.score > 0] == [1, 3]
    assert {str(blame.mode) for blame in verdict.modes} == {"mast:FM-2.6", "mast:FM-3.3"}
    assert [(item.index, item.quote) for item in verdict.evidence] == [(1, "12 * 3 = 35"), (3, "2 + 2 = 5")]
    assert verdict.failure_score > 0.9


def test_symptom_decides_where_nothing_else_is_broken() -> None:
    """A symptom is better than nothing."""
    symptom = Check("quiet", "Nobody shouts.", shouting, mode("mast:FM-1.2"), 0.3, is_symptom=True)

    (verdict,) = ChecksTracer([symptom]).attribute([team(("a", "hi"), ("b", "HELLO"))])

    assert verdict.decisive_step == 1
    assert verdict.failure_score == pytest.approx(0.3)


def test_run_that_breaks_nothing_gets_no_verdict() -> None:
    """Without a broken check there is nobody to blame, and the tracer says so."""
    (verdict,) = ChecksTracer(CHECKS).attribute([team(("a", "Hello."), ("b", "Hello to you."))])

    assert verdict.abstained == "no check is broken"


def test_check_that_raises_is_inconclusive() -> None:
    """A check that raises, or names a step that is not there, breaks nothing but itself."""

    def raising(run: ExaminedRun) -> Iterator[Finding]:
        raise KeyError(run.trace.trace_id)

    def astray(run: ExaminedRun) -> Iterator[Finding]:
        yield Finding(99, "fail", "x")

    verdicts = apply_checks([Check("r", "", raising), Check("a", "", astray)], RUN)

    assert [(each.outcome, each.step, each.reason) for each in verdicts] == [
        ("inconclusive", None, "the check raised KeyError"),
        ("pass", None, ""),
    ]


def test_quote_that_is_not_there_is_left_out() -> None:
    """Evidence is quoted as it stands, or not at all."""

    def inventing(run: ExaminedRun) -> Iterator[Finding]:
        yield Finding(1, "fail", "never said")

    (verdict,) = apply_checks([Check("i", "", inventing)], RUN)

    assert verdict.quote == ""


def test_known_ledger_changes_nothing() -> None:
    """Judging with claims that are read already says the same."""
    run = ExaminedRun(RUN, read_ledger(RUN))

    assert [result for check in CHECKS for result in check.apply(run)] == apply_checks(CHECKS, RUN)


def test_tracer_is_installed_under_its_name() -> None:
    """`checks` is a tracer like any other, without weights."""
    tracer = load_tracer("checks")

    assert isinstance(tracer, Tracer)
    assert (tracer.identity.name, tracer.identity.weights) == ("checks", "")
    assert tracer.attribute([]) == []


def test_file_of_the_environment_is_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`BLAMESPAN_CHECKS` adds checks, and one of a bundled name replaces it."""
    path = tmp_path / "ours.toml"
    path.write_text(
        "[[check]]\nname = 'sum-holds'\nforbid = { text = 'x' }\n[[check]]\nname = 'new'\nforbid = { text = 'y' }"
    )
    monkeypatch.setenv(CHECKS_VARIABLE, str(path))
    in_use = checks_in_use()

    assert [check.name for check in in_use] == [*(check.name for check in CHECKS), "new"]
    assert in_use[0] is not CHECKS[0]


def test_edited_file_counts_from_then_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page or an MCP server that runs for long sees it; a file that is no check any more is said to be none."""
    path, found = tmp_path / "ours.toml", []
    monkeypatch.setenv(CHECKS_VARIABLE, str(path))
    for name in ("new", "newer"):
        path.write_text(f"[[check]]\nname = '{name}'\nforbid = {{ text = 'x' }}")
        found.append({result.check.name for result in apply_checks_in_use(RUN)} & {"new", "newer"})
    path.write_text("[[check]]")

    assert found == [{"new"}, {"newer"}]
    with pytest.raises(ConfigError, match=r"ours\.toml"):
        apply_checks_in_use(RUN)


def test_files_of_the_environment_are_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results by other checks are other results: the tracer tells its files apart by what they say."""
    path, found = tmp_path / "ours.toml", []
    for text in ("x", "y", "x"):
        path.write_text(f"[[check]]\nname = 'new'\nforbid = {{ text = '{text}' }}")
        monkeypatch.setenv(CHECKS_VARIABLE, str(path))
        found.append(settings_of(ChecksTracer.in_use()))
    monkeypatch.delenv(CHECKS_VARIABLE)

    assert found[0] == found[2] != found[1]
    assert settings_of(ChecksTracer.in_use()) == {}


def test_entry_point_that_offers_no_check_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a package offers must be checks; the message names the entry point and the package."""
    monkeypatch.setattr("blamespan_tracer.checks.in_use.load_entry", lambda entry: [1])

    with pytest.raises(
        ConfigError,
        match=r"entry point 'bundled' .* the package 'blamespan', .*: expected a Check or several, .* got '\[1\]'",
    ):
        checks_in_use([])


def aegis_file(folder: Path) -> Path:
    said = [{"step": 1, "agent_name": "a", "content": "12 * 3 = 35\x1b[1m"}]
    path = folder / "runs.jsonl"
    record = {"index": 1, "question": "How many?", "trajectory": said, "faulty_agents": None}
    path.write_text(json.dumps(record) + "\n{}\n")
    return path


def test_command_reports_verdicts_as_json(tmp_path: Path) -> None:
    """One object per run; what cannot be read is named and makes the exit code 1."""
    result = CliRunner().invoke(command, [str(aegis_file(tmp_path)), "--json"])
    report = json.loads(result.stdout)

    assert result.exit_code == 1
    assert report["broken"] == ["sum-holds"]
    assert [v["quote"] for v in report["verdicts"] if v["outcome"] == "fail"] == ["12 * 3 = 35"]
    assert "runs.jsonl:2" in result.stderr


def test_command_prints_no_control_characters(tmp_path: Path) -> None:
    """Text of a run is untrusted: what drives a terminal is stripped. One step is no "1 steps"."""
    result = CliRunner().invoke(command, [str(aegis_file(tmp_path)), "--all"])

    assert "   1 step   1 of " in result.stdout
    assert "sum-holds" in result.stdout
    assert "\x1b" not in result.stdout


def test_command_lists_checks_in_use(tmp_path: Path) -> None:
    """Without runs the checks themselves are listed, those of a given file among them."""
    path = tmp_path / "ours.toml"
    path.write_text("[[check]]\nname = 'no-guess'\ntitle = 'Nobody guesses.'\nforbid = { text = 'guess' }")
    result = CliRunner().invoke(command, ["--checks", str(path)])

    assert result.exit_code == 0
    assert "no-guess" in result.stdout
    assert len(result.stdout.splitlines()) == len(CHECKS) + 1


parts = [
    "The price is ",
    "wrong ",
    "12 + 3 = ",
    "9",
    "7719 ",
    "Paris ",
    "Error: ",
    "```",
    ".\n",
    "é漢",
    "agreed ",
    "a: ",
    '{"',
]
words = st.lists(st.sampled_from(parts), max_size=20).map("".join)
agents = st.sampled_from(["ann", "bob", "terminal", "user"])
kinds = st.sampled_from(["message", "tool_call", "tool_result", "plan", "handoff", "memory", "termination"])


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(agents, words, kinds), max_size=12), words)
def test_any_run_is_judged(said: list[tuple[str, str, str]], task: str) -> None:
    """No bundled check raises; failures are on steps that can be blamed, and quotes are those steps' own words."""
    run = team(*said, task=task, roles={"terminal": "executor", "user": "user"})  # type: ignore[arg-type]
    verdicts = apply_checks(CHECKS, run)

    assert {verdict.check.name for verdict in verdicts} == {check.name for check in CHECKS}
    assert not any("raised" in verdict.reason for verdict in verdicts)
    for verdict in verdicts:
        if verdict.step is not None:
            assert run.can_be_blamed(run.steps[verdict.step])
            assert verdict.quote in run.steps[verdict.step].content
    (attribution,) = ChecksTracer(CHECKS).attribute([run])
    failed = [verdict.step for verdict in verdicts if verdict.outcome == "fail"]
    assert attribution.decisive_step in failed if failed else attribution.abstained
