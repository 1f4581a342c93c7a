"""Several networks trained apart, as many at once as there are cores: the same bits however many work."""

from __future__ import annotations

import logging
import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from logging.handlers import QueueHandler, QueueListener
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, from_numpy

from blamespan.cores import cores
from blamespan.worker_processes import end_with_parent
from blamespan_lab.network.examples import Example
from blamespan_lab.network.fitting import fit_network
from blamespan_lab.network.schedule import Schedule
from blamespan_tracer.network.model import Shape

__all__ = ["fit_members"]

_PACKAGE = "blamespan_lab"

_task: tuple[Sequence[Example], Shape, Schedule, NDArray[np.float32]] | None = None
"""What a process of the pool trains on."""


def fit_members(
    examples: Sequence[Example],
    shape: Shape,
    schedule: Schedule,
    *,
    meanings: NDArray[np.float32],
    seeds: Sequence[int],
    processes: int | None = None,
) -> list[dict[str, Tensor]]:
    """Train a network by each of *seeds*, as `fit_network` does.

    Args:
        examples: The runs.
        shape: The networks'.
        schedule: How to train.
        meanings: (V, M) what each word means.
        seeds: One for each network.
        processes: How many train at once, each with a copy of *examples*; by default as many as there are cores.
    """
    n_workers = min(processes or cores(), len(seeds))
    if n_workers == 1:
        return [fit_network(examples, shape, schedule, meanings=meanings, seed=seed) for seed in seeds]
    context = multiprocessing.get_context("spawn")  # PyTorch has threads by now: a fork may stand still
    records = context.Queue()
    listener = QueueListener(records, _LogForwarder())
    listener.start()
    level = logging.getLogger(_PACKAGE).getEffectiveLevel()
    try:
        with ProcessPoolExecutor(
            n_workers, context, initializer=_begin, initargs=(records, level, (examples, shape, schedule, meanings))
        ) as pool:
            by_seed = list(pool.map(_fit, seeds))
    finally:
        listener.stop()
    return [{name: from_numpy(value) for name, value in weights.items()} for weights in by_seed]


class _LogForwarder(logging.Handler):
    """Has this process log what another said."""

    def emit(self, record: logging.LogRecord) -> None:
        logging.getLogger(record.name).handle(record)


def _begin(records: Any, level: int, task: tuple[Sequence[Example], Shape, Schedule, NDArray[np.float32]]) -> None:
    global _task
    end_with_parent()
    _task = task
    log = logging.getLogger(_PACKAGE)
    log.setLevel(level)
    log.propagate = False
    log.addHandler(QueueHandler(records))


def _fit(seed: int) -> dict[str, NDArray[np.float32]]:
    assert _task is not None  # the process was set up
    examples, shape, schedule, meanings = _task
    weights = fit_network(examples, shape, schedule, meanings=meanings, seed=seed)
    return {name: value.numpy() for name, value in weights.items()}
