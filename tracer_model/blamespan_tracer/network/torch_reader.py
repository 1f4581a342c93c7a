"""The network on a device of PyTorch's: the same function as on a CPU, over runs of like length side by side.

Dims: B runs, S steps of the longest.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from blamespan_tracer.network.batches import pad
from blamespan_tracer.network.inputs import RunInputs
from blamespan_tracer.network.model import Scores, mean_scores, scores_of
from blamespan_tracer.network.readers import NumpyReader
from blamespan_tracer.network.weights import Network
from blamespan_tracer.torch_devices import device_named

__all__ = ["MAX_CELLS", "TorchReader", "torch_device"]

BATCH_RUNS = 512

MAX_CELLS = 4_000_000
"""Most relation cells (B * S * S) read at once, some 1 GB in all; halved where memory does not suffice."""

_log = logging.getLogger(__name__)


def torch_device(name: str) -> torch.device:
    """Find the device that *name* means: `auto` is the first GPU where there is one, else the CPU.

    Raises:
        TracerUnavailable: if there is no such device.
    """
    asked_by = "BLAMESPAN_DEVICE or --device as a device of this machine"
    return device_named(name, asked_by=asked_by, otherwise="Leave it out for the CPU, or say auto")


class TorchReader:
    """Reads many runs at once. What shares a batch changes how sums are rounded and nothing else: some 1e-5.

    Where memory does not suffice, half as much is read at once from then on, and again; a run that does not fit alone
    is read on the CPU. The first time of either is said on the log.

    Args:
        network: The network.
        device: Where to.
        max_cells: Most relation cells read at once.
    """

    batch_runs = BATCH_RUNS

    def __init__(self, network: Network, device: torch.device | str, *, max_cells: int = MAX_CELLS) -> None:
        self._network = network
        self._device = torch.device(device)
        self._max_cells = max_cells
        self._on_cpu = NumpyReader(network)
        self._told: set[str] = set()
        self._members = [
            {name: torch.from_numpy(value).to(self._device) for name, value in weights.items()}
            for weights in network.members
        ]

    @property
    def device(self) -> str:
        """As PyTorch calls it."""
        return str(self._device)

    @property
    def max_cells(self) -> int:
        """Most relation cells read at once, after what memory allowed so far."""
        return self._max_cells

    def scores(self, runs: Sequence[RunInputs]) -> list[Scores]:
        """Read runs of like length together; the scores come back in the order of *runs*."""
        order = sorted(range(len(runs)), key=lambda place: len(runs[place]))
        found: dict[int, Scores] = {}
        while order:
            some = self._next(runs, order)
            read = self._read([runs[place] for place in some])
            if read is not None:
                found.update(zip(some, read, strict=True))
                order = order[len(some) :]
        return [found[place] for place in range(len(runs))]

    def _next(self, runs: Sequence[RunInputs], order: Sequence[int]) -> Sequence[int]:
        """Take as many of the shortest as the budget allows, at least one."""
        n_runs = 1
        while n_runs < len(order) and (n_runs + 1) * len(runs[order[n_runs]]) ** 2 <= self._max_cells:
            n_runs += 1
        return order[:n_runs]

    def _read(self, runs: Sequence[RunInputs]) -> list[Scores] | None:
        """Read runs side by side; None where memory did not suffice and fewer must be tried."""
        try:
            return self._forward(runs)
        except torch.OutOfMemoryError:
            pass  # what the failed pass held is let go of with the error
        gc.collect()
        if self._device.type == "cuda":
            torch.cuda.empty_cache()
        if len(runs) == 1:
            self._tell_once("one run alone does not fit into the memory of %s: such runs are read on the CPU")
            return self._on_cpu.scores(runs)
        self._max_cells = len(runs) * len(runs[-1]) ** 2 // 2
        self._tell_once("out of memory on %s: going on with half as many runs at once, and again where needed")
        return None

    def _tell_once(self, what: str) -> None:
        if what not in self._told:
            self._told.add(what)
            _log.warning(what, self._device)

    def _forward(self, runs: Sequence[RunInputs]) -> list[Scores]:
        scaled = [replace(run, features=self._network.scaled(run.features)) for run in runs]
        with torch.inference_mode():
            padded = pad(scaled, self._device)
            said = mean_scores([scores_of(each, self._network.shape, padded.steps(each)) for each in self._members])
            pointer, fault, modes = (part.float().cpu().numpy() for part in (said.pointer, said.fault, said.modes))
        return [
            Scores(
                pointer=np.concatenate([pointer[row : row + 1, : len(run)], pointer[row : row + 1, -1:]], axis=1),
                fault=fault[row : row + 1, : len(run)],
                modes=modes[row : row + 1, : len(run)],
                states=None,
            )
            for row, run in enumerate(runs)
        ]
