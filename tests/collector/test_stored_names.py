"""Wherever a command takes a trace, it takes the name of a stored run, or a store."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import click
import pytest
from click.testing import CliRunner, Result

import blamespan
from blamespan.analysis import mcp_server
from blamespan.analysis.sources import runs_in
from blamespan.annotate import is_verdict_word
from blamespan.cli import cli
from blamespan.errors import ConfigError
from blamespan.importing.recorded import RecordedRun
from blamespan.trace import MessageActionTrace
from blamespan_collector.page import serving
from tests.collector.paging import annotated, stored
from tests.sdk.talks import talk

ID: Final = f"{0x4BF92F3577B34DA6 << 64:032x}"
TASK: Final = "What is 12 * 3?"

NAMES: Final[dict[str, Callable[[Path], str]]] = {
    "id": lambda store: ID,
    "beginning": lambda store: ID[:6].upper(),
    "title": lambda store: "what is 12",
    "last": lambda store: "last",
    "store": str,
    "folder": lambda store: str(store.parent),
}

COMMANDS: Final[dict[str, tuple[Sequence[str], str]]] = {
    "analyze": (("--tracer", "checks"), "3 steps"),
    "annotate": (("--by", "ann", "--tracer", "checks"), "3 steps"),
    "judge": (("--dry-run",), "asked about"),
    "lab checks": ((), "sum-holds"),
    "lab evaluate clean": ((), "expected runs that succeeded in "),
    "lab evaluate labels": (("--labels", "{folder}/labels.jsonl", "--tracer", "checks"), "checks"),
    "lab evaluate outcomes": ((), "expected at least 20 failed and 20 sound runs to learn from, got 1 and 0"),
    "lab evaluate steps": ((), "expected runs with a labelled step in "),
    "guard try": ((), "1 run"),
    "mcp": (("--tracer", "checks"), ID),
    "open": (("--no-browser",), "http://"),
    "lab replay": (("nowhere:make", "--step", "1", "--with", "36"), "module 'nowhere' cannot be imported"),
    "schemata add": (("--step", "1", "--file", "{folder}/s.toml"), "solver-message  made of run"),
    "schemata match": (("--file", "{folder}/known.toml"), "1 of 1 runs show a known failure"),
    "show": (("--tracer", "checks"), "3 agents"),
    "summary": ((), "1 run"),
    "case": (("nowhere:make", "--step", "1"), "module 'nowhere' cannot be imported"),
    "fix": (("nowhere:make", "--correction", "99=36", "--tracer", "checks"), "99"),
    "verify": (("nowhere:make", "--correction", "99=36", "--tracer", "checks"), "99"),
}
"""Every command that reads traces: what it is given beside them, and what it says when it has read the run."""

FIRST: Final = {"guard try": ("{folder}/policy.toml",)}
"""What is given before the traces."""

ALONE: Final = {"analyze", "annotate", "guard try", "judge", "mcp", "open", "schemata add",
                "schemata match", "show", "summary"}  # fmt: skip
"""Those that read this machine's store where nothing is named."""

OTHER_ARGUMENTS: Final = {
    ("lab evaluate checks", "paths"), ("lab evaluate programs", "paths"), ("lab generate", "recipe"),
    ("guard check", "policy"), ("guard try", "policy"), ("learn", "program"),
    ("lab probe", "folder"), ("lab replay", "program"), ("lab stress", "program"),
    ("lab train", "recipe"), ("verify", "program"), ("case", "program"), ("fix", "program"),
}  # fmt: skip
"""Arguments that name no traces, or files and folders of labelled runs alone."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one run, and what commands need beside it."""
    path = tmp_path_factory.mktemp("stored") / "runs.db"
    [spans] = annotated(talk(1))
    stored(path, [replace(span, trace_id=ID) for span in spans])
    (path.parent / "policy.toml").write_text("[[findings]]\ncheck = 'sum-holds'\naction = 'rewrite'\n")
    arguments = ["schemata", "add", str(path), "--step", "1", "--file", str(path.parent / "known.toml")]
    assert CliRunner().invoke(cli, arguments).exit_code == 0
    said = CliRunner().invoke(cli, ["annotate", str(path), "--by", "bob"], input="s 1\n-\nwrong sum\nq\n")
    assert said.exit_code == 0, said.output
    return path


@pytest.fixture(autouse=True)
def no_servers(monkeypatch: pytest.MonkeyPatch, store: Path) -> None:
    """`open` and `mcp` say what they would serve; this machine's store is the one of the test."""
    monkeypatch.setenv("BLAMESPAN_STORE", str(store))
    monkeypatch.setattr(serving, "_serve", lambda server: server.close_socket())
    monkeypatch.setattr(serving.asyncio, "run", lambda done: done)

    def list_runs(runs: Any, record: object = None) -> Any:
        return SimpleNamespace(run=lambda way: click.echo(" ".join(run.trace.trace_id for run in runs.all())))

    monkeypatch.setattr(mcp_server, "mcp_server", list_runs)


def walk(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """Yield every command that is no group, by its words."""
    if not isinstance(command, click.Group):
        yield " ".join(path), command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from walk(found, (*path, name))


def call(command: str, store: Path, *names: str) -> Result:
    """Call a command on traces."""
    schemata = store.parent / "s.toml"
    schemata.unlink(missing_ok=True)
    given = [part.format(folder=store.parent) for part in COMMANDS[command][0]]
    first = [part.format(folder=store.parent) for part in FIRST.get(command, ())]
    return CliRunner().invoke(cli, [*command.split(), *first, *names, *given], input="q\n")


def said(result: Result) -> str:
    """Return all that a command said, its error among it."""
    return f"{result.output}{'' if isinstance(result.exception, SystemExit) else result.exception or ''}"


def test_every_command_with_a_trace_argument_is_in_the_table() -> None:
    """A new command, or a new argument of one, is held to take stored runs, or is said to name none."""
    arguments = {
        (name, str(param.name))
        for name, command in walk(cli)
        for param in command.params
        if isinstance(param, click.Argument)
    }

    assert {name for name, _ in arguments - OTHER_ARGUMENTS} == set(COMMANDS)
    assert arguments >= OTHER_ARGUMENTS


@pytest.mark.parametrize(
    ("options", "text"),
    [(("--html", "{folder}/runs.html"), "1 run"), (("--advice", "--failed"), "solver"), (("--claims",), "12")],
)
def test_show_writes_pages_and_advice_of_stored_runs(options: Sequence[str], text: str, store: Path) -> None:
    """What `show` writes instead of a drawing takes each name, too, and nothing for the whole store."""
    given = [option.format(folder=store.parent) for option in options]

    for name in (*(spell(store) for spell in NAMES.values()), None):
        arguments = ["show", *([name] if name else []), "--tracer", "checks", *given]
        assert text in said(CliRunner().invoke(cli, arguments)), arguments


@pytest.mark.parametrize("command", COMMANDS)
def test_each_name_of_a_stored_run_is_the_run(command: str, store: Path) -> None:
    """By its id, the beginning of it, its title, as the last one, and as the only run of a store."""
    results = {name: said(call(command, store, spell(store))) for name, spell in NAMES.items()}
    alone = said(call(command, store)) if command in ALONE else ""

    for name, text in {**results, **({"nothing": alone} if alone else {})}.items():
        assert COMMANDS[command][1] in text, (name, text)


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "lab evaluate labels"])
def test_each_name_that_is_none_says_so(command: str, store: Path) -> None:
    """What was looked for and where, and what is there, on lines, rather than a path that cannot be read."""
    text = said(call(command, store, "nothing.jsonl"))

    assert "got 'nothing.jsonl': no such file, and no such run in " in text
    assert str(store) in text
    assert f"\n  {ID[:12]}  " in text


def test_file_goes_before_an_id(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has a file of that name means it."""
    monkeypatch.chdir(tmp_path)
    step = '{"agent": "a", "kind": "message", "content": "Hello."}'
    (tmp_path / "last").write_text(f'{{"task": "t", "outcome": "failed", "steps": [{step}]}}\n')
    [run] = runs_in(["last"])

    assert isinstance(run, RecordedRun)
    assert run.trace.task == "t"


def test_ambiguous_beginning_lists_what_it_may_mean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Id, when and title of each, before anything is read: exit code 2, also where many sources are named."""
    path = tmp_path / "runs.db"
    stored(path, *annotated(talk(1), talk(2, task="What is\n 12 * 4?"), talk(3, task="Count the lamps.")))
    monkeypatch.setenv("BLAMESPAN_STORE", str(path))

    with pytest.raises(ConfigError) as ambiguous:
        list(runs_in(["last", "What is 12"]))

    assert str(ambiguous.value) == (
        "expected one stored run, got 2 that 'What is 12' may mean:\n"
        "  000000000000  2026-09-21 14:15:20 UTC  What is 12 * 4?\n"
        "  000000000000  2026-09-21 14:14:20 UTC  What is 12 * 3?\n"
        "Name one by more of its id; `last` is the last run to start"
    )


def test_show_without_a_trace_lists_the_stored_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last first, each with its id and title; that is an answer, and no failure."""
    path = tmp_path / "runs.db"
    stored(path, *annotated(talk(1), talk(2, task="Count the lamps.")))
    monkeypatch.setenv("BLAMESPAN_STORE", str(path))
    result = CliRunner().invoke(cli, ["show"])

    assert result.exit_code == 0
    assert [line.split()[0] + line[-10:] for line in result.stdout.splitlines()] == ["1the lamps.", "2is 12 * 3?"]


def test_stored_runs_go_into_a_file_and_come_back_the_same(store: Path, tmp_path: Path) -> None:
    """`analyze --out` with .json writes one document of OTLP-JSON, which `analyze` and others read to the same runs."""
    out = tmp_path / "runs.json"
    result = CliRunner().invoke(cli, ["analyze", "last", "--out", str(out), "--tracer", "checks"])

    assert result.exit_code == 0, result.output
    assert list(json.loads(out.read_text())) == ["resourceSpans"]
    assert traces([out]) == traces(["last"])


def test_python_takes_names_of_stored_runs(store: Path) -> None:
    """`blamespan.analyze` is the same line."""
    with blamespan.analyze("last", tracer="checks", processes=1) as results:
        assert [result.run.trace.trace_id for result in results] == [ID]


def traces(sources: Sequence[str | Path]) -> list[object]:
    """Read runs, without what a verdict wrote on their steps."""
    return [without_verdict_words(run.trace) if isinstance(run, RecordedRun) else run for run in runs_in(sources)]


def without_verdict_words(trace: MessageActionTrace) -> MessageActionTrace:
    """Take off the attributes that only a verdict has."""
    steps = [
        replace(step, attributes={key: value for key, value in step.attributes.items() if not is_verdict_word(key)})
        for step in trace.steps
    ]
    return replace(trace, steps=tuple(steps))
