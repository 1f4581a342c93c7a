"""The built wheel holds all that the program needs, and what README shows works with it, outside the checkout."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = (
    "sdk/blamespan",
    "integrations/blamespan_integrations",
    "collector/blamespan_collector",
    "tracer_model/blamespan_tracer",
    "tracer_model/blamespan_lab",
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel as `pip install .` does, but without a network."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q", "-w", folder, ROOT]
    subprocess.run(build, check=True, timeout=100)
    [path] = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpack it, which is what installing does with Python alone, where the checkout does not count."""
    folder = tmp_path_factory.mktemp("installed")
    zipfile.ZipFile(wheel).extractall(folder)
    return folder


def run(installed: Path, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run Python where the checkout is out of sight."""
    environment = {**os.environ, "PYTHONPATH": str(installed), "OTEL_TRACES_EXPORTER": "none"}
    return subprocess.run(
        [sys.executable, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        cwd=installed,
        env=environment,
    )


def test_wheel_holds_every_file_of_the_packages(wheel: Path) -> None:
    """Weights, templates, patterns, `py.typed`: what git tracks below the packages is in the wheel."""
    tracked = subprocess.run(
        ["git", "ls-files", *PACKAGES],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    held = set(zipfile.ZipFile(wheel).namelist())

    assert {path for path in tracked if (ROOT / path).exists() and path.partition("/")[2] not in held} == set()


def test_wheel_says_what_it_is(wheel: Path) -> None:
    """The package index gets a summary, a licence, the README as Markdown, and every extra that README names."""
    archive = zipfile.ZipFile(wheel)
    [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
    metadata = Parser().parsestr(archive.read(name).decode())
    extras = set(re.findall(r"blamespan\[([\w,]+)\]|'\.\[([\w,]+)\]'", (ROOT / "README.md").read_text()))
    named = {extra for pair in extras for group in pair if group for extra in group.split(",")}

    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert named <= set(metadata.get_all("Provides-Extra") or ())


def test_programs_of_the_readme_run_with_the_wheel(installed: Path) -> None:
    """Each Python block of README is a program that ends in order, with the wheel in place of the checkout."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    where = run(installed, "-c", "import blamespan; print(blamespan.__file__)").stdout

    assert blocks
    assert where.startswith(str(installed))
    for block in blocks:
        done = run(installed, "-W", "error::SyntaxWarning", "-", stdin=block)
        assert done.returncode == 0, (block, done.stderr)


def test_commands_of_the_readme_are_offered_by_the_wheel(installed: Path) -> None:
    """Every command and option that README shows is one that the installed program has."""
    shown: dict[str, set[str]] = {}
    for name, rest in re.findall(r"\bblamespan ([a-z]+)((?: [^\n`|#]*)?)", (ROOT / "README.md").read_text()):
        shown.setdefault(name, set()).update(re.findall(r"(?<= )--[a-z-]+", rest))
    offered = json.loads(run(installed, "-c", _OPTIONS).stdout)

    assert {"analyze", "collect", "open"} <= shown.keys() & offered.keys()
    assert {name: options - set(offered[name]) for name, options in shown.items() if name in offered} == {
        name: set() for name in shown if name in offered
    }


_OPTIONS = """
import json
import click
from blamespan.cli import cli

def options(command):
    context = click.Context(command)
    parts = [command.get_command(context, name) for name in getattr(command, "commands", ())]
    return [o for p in command.get_params(context) for o in p.opts] + [o for part in parts for o in options(part)]

context = click.Context(cli)
print(json.dumps({name: options(cli.get_command(context, name)) for name in cli.list_commands(context)}))
"""
