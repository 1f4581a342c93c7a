"""A short turn of `scripts/fuzz`, without coverage: the kept corpus and some thousand changes of it."""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path
from random import Random

import pytest

from tests.fuzz.mutation import mutate, mutate_spans
from tests.fuzz.targets import TARGETS, Target
from tests.fuzz.trial import Hang, attempt, inputs, seeds

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="limits time by a POSIX signal")

CORPUS = Path(__file__).parents[1] / "fuzz" / "corpus"
INPUTS = {
    "protobuf_traces": 6000,
    "json_traces": 6000,
    "other_signals": 6000,
    "http": 1200,
    "spans": 300,
    "round_trip": 500,
    "files": 500,
}
MOST_GROWTH_KB = 200_000


@pytest.mark.parametrize("name", TARGETS)
def test_hostile_input_is_refused_or_read(name: str) -> None:
    """Whatever comes is read or refused for a documented reason, soon, and takes no memory for good."""
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for data in inputs(TARGETS[name], seeds(CORPUS / name), INPUTS[name], seed=1):
        attempt(TARGETS[name], data)

    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb < MOST_GROWTH_KB


def test_same_seed_tries_the_same_inputs() -> None:
    """A short turn that fails here fails everywhere."""
    corpus = seeds(CORPUS / "protobuf_traces")
    target = TARGETS["protobuf_traces"]

    assert list(inputs(target, corpus, 200, seed=3)) == list(inputs(target, corpus, 200, seed=3))


@pytest.mark.parametrize("change", [mutate, mutate_spans])
def test_changed_inputs_differ_from_each_other(change: object) -> None:
    """The changes do change: hardly two of a hundred are equal."""
    assert callable(change)
    seed = seeds(CORPUS / "protobuf_traces")[0]

    assert len({change(seed, Random(number)) for number in range(100)}) > 80


def test_hang_is_noticed() -> None:
    """An input that never ends is a failure, not a stuck test."""
    target = Target(lambda _: time.sleep(5))

    with pytest.raises(Hang, match=r"one input took over 0\.05 s"):
        attempt(target, b"", limit_s=0.05)
