"""A faulty package costs what it offers; one sentence names it, the reason and the cure."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from blamespan.cli import cli
from blamespan.dialects.translation import load_dialects
from blamespan.errors import ConfigError
from blamespan.importing.recorded import importers
from blamespan.tracers import load_tracer
from tests.sdk.broken_packages import install_package

DEMO = str(Path(__file__).parents[2] / "examples" / "traces" / "demo.jsonl")
CURE = "Mend that package, or uninstall it with: pip uninstall acme-rules"
FAULTS = {
    "no such package": ("import nosuch", "ModuleNotFoundError: No module named 'nosuch'"),
    "no such name": ("", "AttributeError: module"),
    "raises": ("1 / 0", "ZeroDivisionError: division by zero"),
    "no Python": ("def", "SyntaxError: invalid syntax"),
    "raises when made": ("def OFFER():\n    raise KeyError('weights')", "KeyError: 'weights'"),
    "cannot be made": ("OFFER = 5", "TypeError: 'int' object is not callable"),
    "no tracer": ("OFFER = dict", "expected a tracer, with identity and attribute(), got 'dict'"),
    "no such mode": (
        "from blamespan_tracer.checks import check\n@check('ours', 'It is.', mode='mast:FM-9.9')\ndef OFFER(run): ...",
        "expected an error mode as taxonomy:code, got 'mast:FM-9.9'",
    ),
}
"""By name: the code of a faulty module of a tracer, and how the reason begins."""


@pytest.mark.parametrize(("code", "reason"), FAULTS.values(), ids=FAULTS)
def test_faulty_entry_point_is_named_with_its_package(
    code: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever its module or what it offers raises, the error names it, its package, the reason and the cure."""
    install_package(tmp_path, monkeypatch, "blamespan.tracers", code)

    with pytest.raises(ConfigError) as raised:
        load_tracer("ours")

    said = str(raised.value)
    assert said.startswith("the entry point 'ours' of blamespan.tracers, which is 'acme_")
    assert f":OFFER' of the package 'acme-rules', cannot be used: {reason}" in said
    assert said.endswith(f". {CURE}")
    assert "\n" not in said


COMMANDS: dict[str, tuple[str, list[str], int]] = {
    "analyze": ("blamespan.checks", ["analyze", DEMO], 2),
    "show": ("blamespan.checks", ["show", DEMO, "--run", "1"], 2),
    "lab checks": ("blamespan.checks", ["lab", "checks"], 2),
    "collect": ("blamespan.checks", ["collect", "--check", "--out", "x.jsonl"], 1),
    "tracer": ("blamespan.tracers", ["analyze", DEMO, "--tracer", "ours"], 2),
    "importer": ("blamespan.importers", ["analyze", DEMO, "--format", "ours"], 2),
    "command": ("blamespan.commands", ["ours"], 2),
}
"""By name: the group of the faulty entry point, the arguments, and the exit code."""


@pytest.mark.parametrize(("group", "arguments", "code"), COMMANDS.values(), ids=COMMANDS)
def test_command_that_meets_a_faulty_entry_point_ends_in_a_sentence(
    group: str, arguments: list[str], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names the package once, without a traceback."""
    install_package(tmp_path, monkeypatch, group, "import nosuch")
    command = [sys.executable, "-m", "blamespan", *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == code, done.stderr
    assert done.stderr.count(CURE) == 1
    assert f"of {group}, which is" in done.stderr
    assert "Traceback" not in done.stderr


def test_faulty_importer_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The help lists the others and names the faulty one; files are read, and the log names it once."""
    install_package(tmp_path, monkeypatch, "blamespan.importers", "import nosuch")
    done = CliRunner().invoke(cli, ["analyze", "--help"])
    names = [importer.name for importer in [*importers(), *importers()]]

    assert done.exit_code == 0
    assert CURE.replace(" ", "") in "".join(done.output.split())
    assert {"otlp-json", "store"} <= {*names}
    assert all(f"\n  {name} " in done.output for name in names)
    assert [record.message.endswith(CURE) for record in caplog.records] == [True]


def test_faulty_dialect_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is named in one line of the log."""
    install_package(tmp_path, monkeypatch, "blamespan.dialects", "def OFFER(): raise KeyError('scope')")
    with caplog.at_level(logging.WARNING):
        dialects = load_dialects.__wrapped__()

    assert len(dialects) > 5
    assert [record.message.partition("cannot be used: ")[2] for record in caplog.records] == [
        f"KeyError: 'scope'. {CURE}"
    ]
