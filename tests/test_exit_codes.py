"""One rule for all commands: 2 where one was asked wrongly, 1 where it ran and the answer is no, or it failed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
import pytest
from click.testing import CliRunner

from blamespan.cli import cli
from blamespan.errors import BlamespanError, ConfigError
from blamespan.labels.file import LabelsFile
from blamespan.labels.people import PersonLabel
from blamespan_collector.store import RunWriter

MISUSED: Final[dict[str, tuple[str, dict[str, str]]]] = {
    "analyze": ("run.jsonl", {"BLAMESPAN_LEARNT": "nothing"}),
    "annotate": ("run.jsonl", {"BLAMESPAN_CHECKS": "nothing.toml"}),
    "case": ("run.jsonl team:make --run 77", {}),
    "collect": ("--config bad.toml", {}),
    "collect resend": ("--config bad.toml", {}),
    "demo": ("--out run.jsonl/folder", {}),
    "fix": ("run.jsonl team:make --run 77", {}),
    "guard check": ("bad.toml", {}),
    "guard try": ("bad.toml run.jsonl", {}),
    "judge": ("run.jsonl", {"BLAMESPAN_JUDGE_URL": "nonsense"}),
    "lab checks": ("run.jsonl --checks bad.toml", {}),
    "lab evaluate aegis": ("--data run.jsonl --tracer nobody", {}),
    "lab evaluate checks": ("run.jsonl --nothing", {}),
    "lab evaluate clean": ("sound.jsonl --tracer nobody", {}),
    "lab evaluate generated": ("--data corpus --tracer nobody", {}),
    "lab evaluate labels": ("run.jsonl --labels labels.jsonl --tracer nobody", {}),
    "lab evaluate outcomes": ("", {}),
    "lab evaluate pairs": ("--data corpus --tracer nobody", {}),
    "lab evaluate programs": ("run.jsonl --tracer nobody", {}),
    "lab evaluate schemata": ("", {}),
    "lab evaluate steps": ("run.jsonl --nothing", {}),
    "lab evaluate who-and-when": ("--data folder --nothing", {}),
    "lab generate": ("bad.toml --out corpus", {}),
    "lab modes": ("--nothing", {}),
    "lab probe": ("", {}),
    "lab replay": ("run.jsonl team:make --step 0 --with 36 --run 77", {}),
    "lab stress": ("nowhere:make --task x", {}),
    "lab train": ("lexical --data folder --out run.jsonl/folder", {}),
    "learn": ("--runs run.jsonl --out run.jsonl/folder", {}),
    "mcp": ("run.jsonl --tracer nobody", {}),
    "open": ("--port 99999", {}),
    "schemata add": ("run.jsonl --run 77", {}),
    "schemata match": ("run.jsonl --file bad.toml", {}),
    "show": ("run.jsonl --run 77", {}),
    "skill": ("--nothing", {}),
    "status": ("--store runs.db --close nothing", {}),
    "summary": ("results.jsonl --compare nothing", {}),
    "verify": ("run.jsonl team:make --run 77", {}),
}
"""A wrong option, settings file or variable for each command, beside what is right."""

FAILED: Final = {
    "analyze": "nothing.jsonl",
    "annotate": "nothing.jsonl",
    "case": "nothing.jsonl team:make",
    "collect": "--check --grpc 127.0.0.1:0 --http 127.0.0.1:0 --store folder --tracer checks",
    "fix": "nothing.jsonl team:make",
    "guard check": "policy.toml --agent someone-else",
    "guard try": "policy.toml nothing.jsonl",
    "judge": "nothing.jsonl --dry-run",
    "lab checks": "nothing.jsonl",
    "lab evaluate aegis": "--data nothing.jsonl",
    "lab evaluate checks": "nothing.jsonl",
    "lab evaluate clean": "run.jsonl",
    "lab evaluate generated": "--data folder",
    "lab evaluate labels": "run.jsonl --labels labels.jsonl --tracer checks",
    "lab evaluate outcomes": "run.jsonl",
    "lab evaluate pairs": "--data folder",
    "lab evaluate programs": "run.jsonl",
    "lab evaluate schemata": "--data folder",
    "lab evaluate steps": "run.jsonl",
    "lab evaluate who-and-when": "--data folder",
    "lab probe": "folder",
    "lab replay": "nothing.jsonl team:make --step 0 --with 36",
    "lab train": "--outcomes --data run.jsonl",
    "learn": "--runs folder",
    "open": "nothing.db --no-browser",
    "schemata add": "run.jsonl --step 1",
    "schemata match": "nothing.jsonl --file known.toml",
    "show": "nothing.jsonl",
    "status": "--store nothing.db",
    "summary": "nothing.jsonl",
    "verify": "nothing.jsonl team:make",
}
"""What each command that can fail is asked rightly, and cannot do, or has no good answer to."""


def commands(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield every command that does something by itself."""
    if not isinstance(command, click.Group) or command.invoke_without_command:
        yield " ".join(words)
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            found = command.get_command(click.Context(command), name)
            assert found is not None
            yield from commands(found, (*words, name))


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is right lies in the folder that commands run in, beside a user's empty home."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("BLAMESPAN_STORE", "BLAMESPAN_JOURNAL", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    steps = [{"agent": name, "kind": "message", "content": "It is 35."} for name in ("ann", "user")]
    run = {"task": "What is 12 * 3?", "outcome": "failed", "steps": steps}
    lines = {"run": run, "sound": run | {"outcome": "succeeded"}}
    for name, line in lines.items():
        Path(f"{name}.jsonl").write_text(json.dumps(line) + "\n")
    Path("bad.toml").write_text("[[[\n")
    Path("policy.toml").write_text("[agents.ann]\ntools = ['find']\n")
    Path("known.toml").write_text("[[schema]]\nname = 'sum'\n[schema.signature]\nkind = 'message'\nwording = 'sum'\n")
    RunWriter(Path("runs.db")).close()
    LabelsFile(Path("labels.jsonl")).add(PersonLabel("1" * 32, "unsure", "ann"))
    Path("folder").mkdir()


def code_of(command: str, arguments: str) -> tuple[int, str]:
    """Run a command as `main` does, and return its exit code with what it said."""
    result = CliRunner().invoke(cli, [*command.split(), *arguments.split()], input="q\n")
    if isinstance(result.exception, BlamespanError):
        return 2 if isinstance(result.exception, ConfigError) else 1, str(result.exception)
    return (99 if result.exc_info and result.exc_info[0] is not SystemExit else result.exit_code), result.output


def test_every_command_is_in_the_table() -> None:
    """A new command is held to the rule."""
    assert set(commands(cli)) == set(MISUSED)
    assert set(FAILED) <= set(MISUSED)


@pytest.mark.parametrize("command", MISUSED)
def test_wrong_question_ends_with_2(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown option, a wrong value, settings file or variable: nothing was done."""
    arguments, variables = MISUSED[command]
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert code_of(command, arguments)[0] == 2, code_of(command, arguments)
    assert code_of(command, "--no-such-option")[0] == 2


@pytest.mark.parametrize("command", FAILED)
def test_failure_and_no_for_an_answer_end_with_1(command: str) -> None:
    """What was to be read is not there, holds too little, or is not as it should be."""
    code, said = code_of(command, FAILED[command])

    assert code == 1, said
