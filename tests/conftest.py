"""What every test stands on: strict guards, the same examples each time, and the recorded runs where they are."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from blamespan.host_safety import shield_host

settings.register_profile("same", derandomize=True, deadline=None)  # others: pytest --hypothesis-profile=default
settings.load_profile("same")

for _name in ("BLAMESPAN_PAGE", "BLAMESPAN_STORE"):
    os.environ.setdefault(_name, "none")  # collectors of tests share this machine's ports
os.environ.setdefault("OMP_NUM_THREADS", "1")  # on small matrices more threads wait for each other: ten times the CPU


def pytest_collection_finish() -> None:
    """Leave what was imported out of garbage collection: frameworks are a million objects, looked at over and over."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def strict_guard() -> Iterator[None]:
    """Let errors of our own recording code fail the test; a test of host safety sets it back."""
    shield_host.strict = True
    yield
    shield_host.strict = False


@pytest.fixture(scope="session")
def recorded_runs() -> Path:
    """The folder of recorded runs of public benchmarks; skips where there is none."""
    said = os.environ.get("BLAMESPAN_TEST_DATA")
    folder = Path(said) if said else Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no recorded runs in {folder}: set BLAMESPAN_TEST_DATA to a folder that holds them")
    return folder
