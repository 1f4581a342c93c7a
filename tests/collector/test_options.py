"""Settings: a flag wins over a variable, that over the file, that over the default; mistakes are named."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from blamespan.errors import ConfigError
from blamespan_collector.command import collect
from blamespan_collector.options import options, settings_of, shown
from blamespan_collector.settings import CollectorSettings, Limits, ListenAddress


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for name in ("BLAMESPAN_OUT", "BLAMESPAN_TRACER", "BLAMESPAN_CONFIG", "BLAMESPAN_JOURNAL"):
        monkeypatch.delenv(name, raising=False)


def settings(*arguments: str) -> CollectorSettings:
    found: list[CollectorSettings] = []

    @click.command()
    @options
    def command(**chosen: Any) -> None:
        found.append(settings_of(chosen))

    result = CliRunner().invoke(command, arguments)
    if result.exception is not None:
        raise result.exception
    return found[0]


def file(folder: Path, text: str) -> str:
    path = folder / "blamespan.toml"
    path.write_text(text)
    return str(path)


def test_order_of_the_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Flag, variable, file, default: each setting comes from the first that has it."""
    path = file(tmp_path, 'out = "of-file"\ntracer = "of-file"\nquiet-s = 3\nidle_s = 4.5\n')
    monkeypatch.setenv("BLAMESPAN_TRACER", "of-variable")
    monkeypatch.setenv("BLAMESPAN_OUT", "of-variable")
    read = settings("--config", path, "--out", "of-flag")

    assert (read.out, read.tracer, read.limits.quiet_s, read.limits.idle_s) == ("of-flag", "of-variable", 3.0, 4.5)
    assert read.limits.max_age_s == Limits().max_age_s


def test_file_is_named_by_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`BLAMESPAN_CONFIG` is as good as `--config`; lists are TOML's."""
    text = 'forward = ["http://a", "grpc://b:1"]\nheader = ["a=b=c"]\ngrpc = "none"\nmax-traces = 7\n'
    monkeypatch.setenv("BLAMESPAN_CONFIG", file(tmp_path, text))
    read = settings()

    assert (read.forward, read.headers, read.grpc) == (("http://a", "grpc://b:1"), (("a", "b=c"),), None)
    assert read.limits.max_traces == 7


def test_variables_hold_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """URLs are parted by commas or spaces; headers are written as OpenTelemetry's."""
    monkeypatch.setenv("BLAMESPAN_FORWARD", "http://a, http://b")
    monkeypatch.setenv("BLAMESPAN_HEADER", "authorization=Bearer%20x,b=c")
    read = settings()

    assert read.forward == ("http://a", "http://b")
    assert read.headers == (("authorization", "Bearer x"), ("b", "c"))


@pytest.mark.parametrize(("variable", "value"), [("BLAMESPAN_QUIET_S", "soon"), ("BLAMESPAN_MAX_TRACES", "1.5")])
def test_wrong_value_of_a_variable_names_the_variable(variable: str, value: str) -> None:
    """Nobody is told of an option that does not exist, or that they did not write."""

    @click.command()
    @options
    def command(**_: Any) -> None:
        """Take every setting."""

    result = CliRunner(env={variable: value}).invoke(command)

    assert result.exit_code == 2
    assert f"Invalid value for variable {variable}: {value!r} is not a valid" in result.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("quiet-seconds = 1", r"expected a setting, got 'quiet-seconds' .* Did you mean 'quiet-s'\?"),
        ("max_journal_byte = 1", "Did you mean 'max-journal-bytes'"),
        ("quiet-s = 'soon'", "quiet-s must be a number, got 'soon'"),
        ("max-traces = 1.5", "max-traces must be a whole number, got 1.5"),
        ("max-traces = true", "max-traces must be a whole number, got True"),
        ("out = 3", "out must be a string, got 3"),
        ("forward = [1]", "forward must be a list of strings"),
        ("[limits]\nquiet-s = 1", "expected a setting, got 'limits'"),
        ("out = ", "expected settings in TOML at"),
        (f"out = {'[' * 3_000}{']' * 3_000}", "expected settings in TOML at"),
    ],
)
def test_mistakes_in_the_file_are_named(tmp_path: Path, text: str, said: str) -> None:
    """A wrong key names the nearest one, a wrong value what it should be."""
    with pytest.raises(ConfigError, match=said):
        settings("--config", file(tmp_path, text), "--out", "-")


def test_each_pair_of_ports_has_its_journal(tmp_path: Path) -> None:
    """Without `--journal` two collectors of one user do not meet; with it, it is as said."""
    first, second = settings("--out", "-"), settings("--out", "-", "--http", "127.0.0.1:5318")
    said = settings("--out", "-", "--journal", "here")

    assert first.journal == tmp_path / "blamespan" / "journal-4317-4318"
    assert second.journal == tmp_path / "blamespan" / "journal-4317-5318"
    assert said.journal == Path("here")


def test_tokens_come_from_file_and_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several tokens are good at once, so that they can be changed without a gap."""
    path = tmp_path / "tokens"
    path.write_text("# since May\nfirst-token\n\n  second-token  \n")
    monkeypatch.setenv("BLAMESPAN_TOKEN", "third-token first-token")
    monkeypatch.setenv("BLAMESPAN_TOKEN_FILE", str(path))
    read = settings("--out", "-")

    assert read.tokens == ("third-token", "first-token", "second-token")
    assert "token-" not in repr(dataclasses.replace(read, token_file=None))
    assert dict(shown(read))["tokens"] == "3 known"


@pytest.mark.parametrize("token", ["short", "käse-und-brot"])
def test_weak_tokens_are_refused(monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    """A token that can be guessed, or that no header can bring, is refused without being shown."""
    monkeypatch.setenv("BLAMESPAN_TOKEN", token)

    with pytest.raises(ConfigError, match="openssl rand -hex 32") as refused:
        settings("--out", "-")
    assert token not in str(refused.value)


def test_default_addresses_are_of_this_machine() -> None:
    """Nobody else reaches a collector that was told nothing."""
    read = settings("--out", "-")

    assert read.grpc == ListenAddress("127.0.0.1", 4317)
    assert read.http == ListenAddress("127.0.0.1", 4318)
    assert all(address.is_loopback for address in (read.grpc, read.http))


def test_every_setting_has_a_variable_and_a_key_and_is_listed() -> None:
    """`--help-settings` lists each setting once: its key in the file, its variable, its default and its meaning."""
    text = CliRunner().invoke(collect, ["--help-settings"], terminal_width=400).output
    names = [name for name, _ in shown(settings("--out", "-")) if name != "tokens"]
    listed = dict(re.findall(r"^  ([a-z-]+) +(BLAMESPAN_[A-Z_]+)\. .+\[default: .+\]$", text, re.MULTILINE))

    assert sorted(listed) == sorted(names)
    assert listed == {name: f"BLAMESPAN_{name.replace('-', '_').upper()}" for name in listed}


def test_command_line_has_what_an_operator_types() -> None:
    """A dozen settings are options; the help says where the others are, and no command line takes them."""
    text = CliRunner().invoke(collect, ["--help"], terminal_width=200).output
    listed = set(re.findall(r"^  (?:-h, )?(--[a-z-]+)", text, re.MULTILINE))
    settings_listed = {f"--{name}" for name, _ in shown(settings("--out", "-"))} & listed

    assert listed == settings_listed | {"--check", "--config", "--help", "--help-settings"}
    assert len(listed) <= 14
    assert CliRunner().invoke(collect, ["--quiet-s", "1"]).exit_code == 2
