"""What every test stands on: strict guards, and the recorded runs where they are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from blamespan.guard import guard

for _name in ("BLAMESPAN_PAGE", "BLAMESPAN_STORE"):
    os.environ.setdefault(_name, "none")  # collectors of tests share this machine's ports


@pytest.fixture(autouse=True)
def strict_guard() -> Iterator[None]:
    """Let errors of our own recording code fail the test; a test of host safety sets it back."""
    guard.strict = True
    yield
    guard.strict = False


@pytest.fixture(scope="session")
def recorded_runs() -> Path:
    """The folder of recorded runs of public benchmarks; skips where there is none."""
    said = os.environ.get("BLAMESPAN_TEST_DATA")
    folder = Path(said) if said else Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no recorded runs in {folder}: set BLAMESPAN_TEST_DATA to a folder that holds them")
    return folder
