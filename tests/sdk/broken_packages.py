"""A package that offers a faulty entry point, installed for one test."""

from __future__ import annotations

from pathlib import Path

import pytest


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
