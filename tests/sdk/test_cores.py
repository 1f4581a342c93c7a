"""Processes of ours share the cores, and take no more threads than help, unless the user says how many."""

from __future__ import annotations

import os

import pytest

from blamespan.cores import THREADS, cores, keep_to_one_thread, shared_among


@pytest.fixture(autouse=True)
def nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what this machine says of threads, and put it back afterwards."""
    for name in THREADS:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def told() -> dict[str, str]:
    return {name: os.environ[name] for name in THREADS if name in os.environ}


def test_numpy_keeps_to_one_thread() -> None:
    """Where nobody says otherwise it has one, and PyTorch what it takes."""
    keep_to_one_thread()

    assert told() == {"OPENBLAS_NUM_THREADS": "1"}


@pytest.mark.parametrize("said", [{"OPENBLAS_NUM_THREADS": "4"}, {"OMP_NUM_THREADS": "2"}, {"MKL_NUM_THREADS": "1"}])
def test_what_the_user_says_of_threads_counts(said: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a variable is touched, neither here nor for workers."""
    for name, value in said.items():
        monkeypatch.setenv(name, value)
    keep_to_one_thread()
    theirs = shared_among(2)

    assert told() == said
    assert {name: theirs[name] for name in THREADS if name in theirs} == said


@pytest.mark.parametrize("workers", [1, 2, 10_000])
def test_workers_get_their_share_of_the_cores(workers: int) -> None:
    """Each has at least a thread; NumPy has no more, also where our own word on NumPy is in the environment."""
    keep_to_one_thread()
    theirs = shared_among(workers)
    share = str(max(1, cores() // workers))

    assert {name: theirs[name] for name in THREADS} == {**dict.fromkeys(THREADS, share), "OPENBLAS_NUM_THREADS": "1"}
