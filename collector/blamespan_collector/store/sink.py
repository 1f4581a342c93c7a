"""The store as one more sink: what goes to the backends goes there, too."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Literal

from blamespan.errors import ConfigError
from blamespan_collector.delivering.sinks import Receipt, Stateless, TryAgain
from blamespan_collector.journal import has_room
from blamespan_collector.store.run_writer import Retention, RunWriter
from blamespan_collector.store.schema import StoreError
from blamespan_collector.threads import in_daemon_thread
from blamespan_collector.worker.state import Kind

__all__ = ["StoreSink"]

_logger = logging.getLogger("blamespan.collector")

_TRY_AGAIN_S = 1.0
"""A disk that is full may have room at any time, and asking it costs little."""
_PRUNE_EVERY_S = 30.0


class StoreSink(Stateless):
    """Puts traces into the store, and lets old ones go.

    A batch that is sent again, as after a kill, is in the store once. A store that is damaged while we run is moved
    aside and begun anew: it is a copy to look at, and must not hold up what goes to the backends.

    Args:
        path: The store's file.
        retention: What to keep.
        sync: As for `RunWriter`.

    Raises:
        ConfigError: if the file cannot be the store.
    """

    kinds: frozenset[Kind] = frozenset({"traces"})
    max_bytes = 1024 * 1024

    def __init__(self, path: Path, retention: Retention, *, sync: Literal["full", "normal"] = "full") -> None:
        self.name = f"store {path}"
        self._path = path
        self._open = partial(RunWriter, path, retention, sync=sync)
        self.turn: AbstractAsyncContextManager[object, bool | None] = asyncio.Lock()
        self._pruning: asyncio.Task[None] | None = None
        self._writer: RunWriter | None = None
        try:
            self._writer = self._open()
        except StoreError as error:
            if has_room(path.parent):  # else there may be some later
                raise ConfigError(str(error)) from error

    def resume(self, places: Mapping[Kind, tuple[str, Sequence[bytes]]]) -> None:
        """Begin to let old traces go, also while nothing comes."""
        del places  # what is sent again is in the store once
        self._pruning = asyncio.create_task(self._prune())

    async def send(self, kind: Kind, payloads: Sequence[bytes]) -> Receipt:
        """Put each trace of *payloads* into the store.

        Raises:
            TryAgain: if they could not be written, e.g. to a full disk.
        """
        del kind  # there is one
        try:
            await in_daemon_thread(partial(self._put, payloads))
        except (StoreError, sqlite3.OperationalError) as error:
            raise TryAgain(f"cannot write: {error}", _TRY_AGAIN_S) from error
        return Receipt()

    async def close(self) -> None:
        """Close the file."""
        if self._pruning is not None:
            self._pruning.cancel()
        if self._writer is not None:
            self._writer.close()

    def _put(self, payloads: Sequence[bytes]) -> None:
        if self._writer is None:
            self._writer = self._open()
        try:
            self._writer.put(payloads)
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError as error:
            self._writer.close()
            self._writer = self._begun_anew(error)
            self._writer.put(payloads)

    async def _prune(self) -> None:
        while True:
            async with self.turn:
                if self._writer is not None:
                    with contextlib.suppress(sqlite3.Error):  # a full disk, or a damaged file: the next batch tells
                        await in_daemon_thread(self._writer.prune)
            await asyncio.sleep(_PRUNE_EVERY_S)

    def _begun_anew(self, error: sqlite3.DatabaseError) -> RunWriter:
        aside = self._path.with_name(f"{self._path.name}.damaged")
        _logger.error("the store of runs is damaged (%s): it is moved to %s, and begun anew", error, aside)
        for suffix in ("-wal", "-shm"):
            self._path.with_name(f"{self._path.name}{suffix}").unlink(missing_ok=True)
        self._path.replace(aside)
        return self._open()
