"""The skill file holds what coding agents need, in the Agent Skills format, and every command in it works."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner, Result

from blamespan.analysis.mcp_server import StoredRuns, mcp_server
from blamespan.cli import cli
from blamespan.importing.selection import time_of
from tests.collector.paging import annotated, stored
from tests.sdk.talks import talk

TRACE_ID = f"{0x4BF92F3577B34DA6 << 64:032x}"
READS = ("status", "analyze", "summary --json", "show", "lab checks")
"""What only reads, and is run."""


def printed() -> str:
    result = CliRunner().invoke(cli, ["skill"])
    assert result.exit_code == 0, result.output
    return result.output


def commands() -> list[str]:
    """List the commands of the code blocks and of the text."""
    text = printed()
    blocks = "".join(re.findall(r"```bash\n(.*?)```", text, re.DOTALL))
    inline = "\n".join(re.findall(r"`(blamespan [^`]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL)))
    lines = [line.partition(" #")[0].strip() for line in f"{blocks}\n{inline}".splitlines()]
    return list(dict.fromkeys(line.removeprefix("blamespan ") for line in lines if line.startswith("blamespan ")))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a file of a run, and the store of a machine with the same."""
    [spans] = annotated(talk(1))
    stored(tmp_path / "runs.db", [replace(span, trace_id=TRACE_ID) for span in spans])
    monkeypatch.setenv("BLAMESPAN_STORE", str(tmp_path / "runs.db"))
    monkeypatch.chdir(tmp_path)
    assert run("analyze", "last", "--annotated", "traces.jsonl").exit_code == 0
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments))


def test_front_matter_is_that_of_agent_skills() -> None:
    """`name` as the folder is called, and a description that says what for and when, within the format's lengths."""
    _, front, body = printed().split("---\n", 2)
    fields = yaml.safe_load(front)

    assert fields["name"] == "blamespan"
    assert 100 < len(fields["description"]) <= 1024
    assert "Use when" in fields["description"]
    assert len(fields["compatibility"]) <= 500
    assert len(body.splitlines()) < 500


@pytest.mark.parametrize("command", commands())
def test_every_command_is_one_with_such_options(command: str) -> None:
    """A command that was renamed, or an option that went, is found here."""
    words = shlex.split(command)
    found: click.Command = cli
    while isinstance(found, click.Group) and not words[0].startswith("-"):
        child = found.get_command(click.Context(found), words.pop(0))
        assert child is not None, command
        found = child

    found.make_context("blamespan", [word for word in words if word != "--help"], resilient_parsing=False)
    assert run(*command.split()[: 2 if command.startswith("lab") else 1], "--help").exit_code == 0


@pytest.mark.parametrize("command", [command for command in commands() if command.startswith(READS)])
def test_every_command_that_reads_runs_as_it_stands(folder: Path, command: str) -> None:
    """On a store with one run and a file of it; nothing is written."""
    before = sorted(path.name for path in folder.iterdir() if not path.name.startswith("runs.db"))

    result = run(*shlex.split(command))

    assert result.exit_code == (1 if command.startswith("analyze --since") else 0), result.output
    assert sorted(path.name for path in folder.iterdir() if not path.name.startswith("runs.db")) == before


def test_the_skill_names_the_tools_of_the_mcp_server_and_fields_of_a_row(folder: Path) -> None:
    """What it tells a coding agent to call, and to read, is there."""
    server = mcp_server(StoredRuns(folder / "runs.db"), record=lambda *_: None)
    tools = {tool.name for tool in server._tool_manager.list_tools()}
    named = set(re.findall(r"`((?:list|explain|show|record)_\w+)`", printed()))
    row = CliRunner().invoke(cli, ["analyze", "last", "--json"]).output

    assert named == tools
    for field in ("verdict", "agent", "step", "span_id", "mode", "evidence", "contradicts", "usage", "abstained"):
        assert f'"{field}"' in row or field == "contradicts"
        assert f"`{field}`" in printed()


def test_since_takes_hours() -> None:
    """As the skill writes it."""
    assert time_of("1h", datetime(2026, 1, 1, 1, tzinfo=UTC)) == datetime(2026, 1, 1, tzinfo=UTC)
