"""The engine of a Ray cluster: the pieces as a Ray Data set, read and attributed by actors that hold the tracer.

Ray starts lost actors again and has their pieces done again elsewhere. The outcomes come back in the order of the
pieces, so everything after the engine is the same as on one machine.
"""

from __future__ import annotations

import math
import pickle  # frames of our own actors
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any

from blamespan.analysis.engines.units import units_of
from blamespan.analysis.engines.worker import TracerOf
from blamespan.analysis.outcomes import Outcome, Wanted, outcomes_of
from blamespan.analysis.sources import Piece
from blamespan.cores import cores
from blamespan.errors import ConfigError
from blamespan.importing.reading import share_memory
from blamespan.plugins import require
from blamespan.tracers import Tracer


class RayEngine:
    """Attributes the runs of pieces on a Ray cluster: the one that `RAY_ADDRESS` names, else one of this machine.

    Pieces are read where the work is: files must lie where every node finds them, or be URLs.

    Args:
        tracer: Who attributes.
        sent: How actors get it.
        processes: How many actors; None for as many as the cluster has cores, or accelerators if the tracer uses one.

    Raises:
        ConfigError: if the tracer cannot be sent, or *processes* is below 1.
        MissingExtra: if Ray is not installed.
    """

    def __init__(self, tracer: Tracer, sent: TracerOf | None, processes: int | None = None) -> None:
        require("ray", "ray")
        if processes is not None and processes < 1:
            raise ConfigError(f"expected 1 worker or more, got {processes!r}. Leave it out to use the whole cluster")
        if sent is None:
            raise ConfigError(
                f"expected a tracer that other machines can load, got {type(tracer).__qualname__!r}, which cannot be "
                "pickled. Define it in a module that is installed there"
            )
        self._sent = sent
        self._processes = processes
        self._on_accelerator = getattr(tracer, "device", "cpu") != "cpu"

    def outcomes(self, pieces: Iterable[Piece], wanted: Wanted) -> Generator[Outcome, None, None]:
        """Read and attribute pieces.

        Yields:
            Outcomes in the order of the pieces: after those of each its `Finished`.
        """
        import ray

        given = list(pieces)
        if not given:
            return
        is_ours = not ray.is_initialized()
        if is_ours:
            ray.init(log_to_driver=False, include_dashboard=False, logging_level="ERROR")
        try:
            for row in self._dataset(given, wanted).iter_rows():
                yield from pickle.loads(row["frame"])  # noqa: S301  # from our own actors
        finally:
            if is_ours:
                ray.shutdown()

    def _dataset(self, pieces: Sequence[Piece], wanted: Wanted) -> Any:
        import ray
        from ray.data import ActorPoolStrategy

        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        context.execution_options.preserve_order = True
        items = [{"pieces": pickle.dumps(unit)} for unit in units_of(pieces, math.inf)]
        workers = max(1, min(self._processes or self._room(ray.cluster_resources()), len(items)))
        return ray.data.from_items(items, override_num_blocks=len(items)).map_batches(
            _TracerActor,
            fn_constructor_args=(self._sent, wanted),
            batch_size=1,
            batch_format="pyarrow",
            compute=ActorPoolStrategy(min_size=1, max_size=workers),
            num_cpus=1,
            num_gpus=1 if self._on_accelerator else 0,
        )

    def _room(self, resources: dict[str, float]) -> int:
        return int(resources.get("GPU" if self._on_accelerator else "CPU", 1))


class _TracerActor:
    """An actor: holds the tracer."""

    def __init__(self, sent: TracerOf, wanted: Wanted) -> None:
        share_memory(cores())  # an actor for each core of this machine, at most
        self._tracer = sent.load()
        self._wanted = wanted

    def __call__(self, batch: Any) -> Iterator[Any]:
        """Yield a frame of outcomes after the other."""
        import pyarrow as pa

        for packed in batch["pieces"].to_pylist():
            unit: tuple[Piece, ...] = pickle.loads(packed)  # noqa: S301  # from the driver
            for frame in outcomes_of(unit, self._tracer, self._wanted):
                yield pa.table({"frame": pa.array([pickle.dumps(frame, pickle.HIGHEST_PROTOCOL)], pa.large_binary())})
