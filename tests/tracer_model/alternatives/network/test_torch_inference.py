"""A device of PyTorch's reads runs as the CPU does, many at once; PyTorch's own CPU stands in for a GPU here."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from blamespan.errors import TracerUnavailable
from blamespan.trace import MessageActionTrace
from blamespan_tracer.alternatives.lexical import LexicalTracer
from blamespan_tracer.alternatives.network import torch_inference
from blamespan_tracer.alternatives.network.inference import NumpyEngine
from blamespan_tracer.alternatives.network.inputs import RunInputs, read_inputs
from blamespan_tracer.alternatives.network.model import Scores
from blamespan_tracer.alternatives.network.torch_inference import TorchEngine, find_device
from blamespan_tracer.alternatives.network.tracer import NetworkTracer
from tests.tracer_model.alternatives.network.networks import (
    FEATURES,
    VOCABULARY,
    drawn_network,
    random_team,
    tracer_with,
)

LENGTHS = (3, 19, 1, 8, 8, 40)


def drawn_runs() -> list[RunInputs]:
    teams = [random_team(seed, length) for seed, length in enumerate(LENGTHS)]
    return read_inputs(teams, LexicalTracer.bundled().lexicon, VOCABULARY, FEATURES)


class Cramped(TorchEngine):
    """A device whose memory holds *most* cells: more raise what PyTorch raises."""

    most = 0

    def _forward(self, runs: Sequence[RunInputs]) -> list[Scores]:
        self.tried.append(len(runs))
        if sum(len(runs[-1]) ** 2 for _ in runs) > self.most:
            raise torch.OutOfMemoryError("no memory")
        return super()._forward(runs)

    def __init__(self, most: int) -> None:
        super().__init__(drawn_network(), "cpu")
        self.most = most
        self.tried: list[int] = []


def check_alike(found: Sequence[Scores], expected: Sequence[Scores]) -> None:
    for one, other in zip(found, expected, strict=True):
        for part in ("pointer", "fault", "modes"):
            assert getattr(one, part) == pytest.approx(getattr(other, part), abs=1e-4), part


@pytest.mark.parametrize("max_cells", [1, 500, torch_inference.MAX_CELLS])
def test_torch_says_what_numpy_says_in_batches_of_any_size(max_cells: int) -> None:
    """Padding, order and company change a score by rounding alone, and runs come back in their order."""
    runs = drawn_runs()

    found = TorchEngine(drawn_network(), "cpu", max_cells=max_cells).scores(runs)

    check_alike(found, NumpyEngine(drawn_network()).scores(runs))


def test_verdicts_on_a_device_are_those_of_the_cpu() -> None:
    """Who computes changes no verdict beyond rounding, and no quote."""
    runs = [in_sentences(random_team(seed, length)) for seed, length in enumerate(LENGTHS)]
    lexicon = LexicalTracer.bundled().lexicon
    tracer = NetworkTracer(drawn_network(), lexicon, TorchEngine(drawn_network(), "cpu"))

    pairs = list(zip(tracer.attribute(runs), tracer_with().attribute(runs), strict=True))

    for found, expected in pairs:
        assert found.failure_score == pytest.approx(expected.failure_score, abs=1e-4)
        assert [each.score for each in found.steps] == pytest.approx([each.score for each in expected.steps], abs=1e-4)
        assert [each.quote for each in found.evidence] == [each.quote for each in expected.evidence]


def in_sentences(run: MessageActionTrace) -> MessageActionTrace:
    steps = [replace(step, content=step.content.replace(" we ", ". We ")) for step in run.steps]
    return replace(run, steps=tuple(steps))


def test_out_of_memory_halves_what_is_read_at_once(caplog: pytest.LogCaptureFixture) -> None:
    """A device that is too small for all runs at once reads them in smaller batches, says so once, and keeps to it."""
    runs = drawn_runs()
    reader = Cramped(most=1_700)

    with caplog.at_level(logging.WARNING):
        found = reader.scores(runs)
        first = list(reader.tried)
        again = reader.scores(runs)

    check_alike(found, NumpyEngine(drawn_network()).scores(runs))
    check_alike(again, found)
    assert first[0] == len(runs)
    assert reader.tried[len(first)] < len(runs)
    assert reader.max_cells <= 1_700 * 2
    assert [record.getMessage() for record in caplog.records] == [
        "out of memory on cpu: going on with half as many runs at once, and again where needed"
    ]


@pytest.mark.slow
def test_a_run_that_does_not_fit_alone_is_read_on_the_cpu(caplog: pytest.LogCaptureFixture) -> None:
    """Where not even one run fits there is a verdict all the same: to the last bit that of the CPU."""
    runs = drawn_runs()

    with caplog.at_level(logging.WARNING):
        found = Cramped(most=0).scores(runs)

    for one, other in zip(found, NumpyEngine(drawn_network()).scores(runs), strict=True):
        assert np.array_equal(one.pointer, other.pointer)
    assert sum("read on the CPU" in record.getMessage() for record in caplog.records) == 1
    assert len(caplog.records) == 2


def test_other_failures_of_a_device_are_not_taken_for_missing_memory() -> None:
    """A defect must show, not make runs smaller and smaller."""
    broken = replace(drawn_runs()[0], can_be_blamed=np.ones(99, bool))

    with pytest.raises(ValueError, match="broadcast"):
        TorchEngine(drawn_network(), "cpu").scores([broken])


def test_a_device_that_is_not_there_is_refused() -> None:
    """The message names what was asked for and what to say instead."""
    with pytest.raises(TracerUnavailable, match=r"got 'cuda:99' .*Leave it out for the CPU"):
        find_device("cuda:99")
    assert find_device("auto").type in ("cpu", "cuda")
