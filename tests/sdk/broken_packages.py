"""A package that offers a faulty entry point, and checks that cannot be run; for one test."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

from blamespan.errors import ConfigError
from blamespan.trace import MessageActionTrace

NOT_CHECKED = "Checks could not be run: a <b>faulty</b> check"
"""What is shown after `break_checks`."""


def install_package(folder: Path, monkeypatch: pytest.MonkeyPatch, group: str, code: str) -> None:
    """Install the package `acme-rules`: its module is *code*, and the entry point `ours` of *group* is its `OFFER`.

    The module is named for the folder, as Python remembers an import that succeeds.
    """
    module = f"acme_{folder.name}"
    about = folder / "acme_rules-1.2.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-rules\nVersion: 1.2\n")
    (about / "entry_points.txt").write_text(f"[{group}]\nours = {module}:OFFER\n")
    (folder / f"{module}.py").write_text(code)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", str(folder))


def break_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an installed check be faulty, so that each part that checks runs raises."""

    def refuse(trace: MessageActionTrace) -> NoReturn:
        raise ConfigError("a <b>faulty</b> check")

    monkeypatch.setattr("blamespan.analysis.showing.findings.find_part", lambda name, logger, absence: refuse)
