"""A short turn of `scripts/fuzz`, without coverage: the kept corpus and some thousand changes of it."""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path
from random import Random

import pytest
from google.protobuf.message import DecodeError
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from blamespan_collector.receiving import nesting, request_reader
from blamespan_collector.receiving.nesting import BoundedReader
from blamespan_collector.wire.protobuf import delimit
from tests.collector.fakes import request, run
from tests.fuzz.mutation import mutate, mutate_json, mutate_spans
from tests.fuzz.targets import TARGETS, Target
from tests.fuzz.trial import Hang, attempt, inputs, seeds
from tests.fuzz.whole_way import whole_way

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="limits time by a POSIX signal")

CORPUS = Path(__file__).parents[1] / "fuzz" / "corpus"
INPUTS = {
    "protobuf_traces": 6000,
    "json_traces": 6000,
    "other_signals": 6000,
    "http": 1200,
    "spans": 200,
    "round_trip": 500,
    "files": 300,
    "whole_way": 120,
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


@pytest.mark.parametrize(
    ("change", "name"), [(mutate, "protobuf_traces"), (mutate_spans, "protobuf_traces"), (mutate_json, "json_traces")]
)
def test_changed_inputs_differ_from_each_other(change: object, name: str) -> None:
    """The changes do change: hardly two of a hundred are equal."""
    assert callable(change)
    seed = seeds(CORPUS / name)[0]

    assert len({change(seed, Random(number)) for number in range(100)}) > 80


def test_whole_way_notices_what_a_later_stage_cannot_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """An intake that measures depth from the span, as it once did, lets through what breaks the sinks: that is seen."""
    body = request(run(1))
    value = AnyValue(int_value=1)
    for _ in range(48):
        value = AnyValue(array_value=ArrayValue(values=[value]))
    span = body.resource_spans[0].scope_spans[0].spans[1]
    deep = span.SerializeToString() + delimit(0x4A, KeyValue(key="k", value=value).SerializeToString())
    data = delimit(0x0A, delimit(0x12, delimit(0x12, deep)))
    whole_way(data)
    monkeypatch.setattr(nesting, "MAX_DEPTH", 99)
    monkeypatch.setattr(request_reader, "_SPANS", BoundedReader(Span, 0))

    with pytest.raises(DecodeError):
        whole_way(data)


def test_hang_is_noticed() -> None:
    """An input that never ends is a failure, not a stuck test."""
    target = Target(lambda _: time.sleep(5))

    with pytest.raises(Hang, match=r"one input took over 0\.05 s"):
        attempt(target, b"", limit_s=0.05)
