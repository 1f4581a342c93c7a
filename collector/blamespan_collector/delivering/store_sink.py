"""The store as one more sink: what goes to the backends goes there, too."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Literal

from blamespan.errors import ConfigError
from blamespan.sqlite_files import is_full, primary_code
from blamespan_collector.delivering.sinks import Doubtful, Local, Receipt, Stateless, TryAgain
from blamespan_collector.journal import has_room
from blamespan_collector.store.incidents import IncidentRule
from blamespan_collector.store.run_writer import Retention, RunWriter
from blamespan_collector.store.schema import (
    StoreError,
    StoreMismatch,
    StoreUnavailable,
    is_damaged,
    is_ours,
    move_aside,
)
from blamespan_collector.threads import in_daemon_thread
from blamespan_collector.wire.outgoing import Kind

_logger = logging.getLogger("blamespan.collector")

_SHORT_FOR_S = 3.0
"""After that runs go on without being stored, on a full disk: what waits for the store takes room that everything else
needs."""
_FAILS_FOR_S = 60.0
"""Likewise where the store cannot be written for another reason, e.g. as it is read-only."""
_TELL_EVERY_S = 60.0
_TRY_AGAIN_S = 1.0
"""A disk that is full may have room at any time, and asking it costs little."""
_PRUNE_EVERY_S = 5.0
_CLOSE_S = 2.0
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
"""What SQLite says of a file that is damaged; it is asked to look at all of it before anything is moved."""


class StoreSink(Local, Stateless):
    """Puts traces into the store, and lets old ones go.

    A batch that is sent again, as after a kill, is in the store once. A store of which SQLite itself says that it is
    damaged is moved aside, with its log, and begun anew: it is a copy to look at, and must not hold up what goes to
    the backends. Nothing else moves a store: neither a trace that cannot be stored nor a connection that broke. One
    that was deleted is begun anew, and one that cannot be opened now is tried with each batch.

    Args:
        path: The store's file.
        retention: What to keep.
        rule: When incidents open and close.
        sync: As for `RunWriter`.

    Raises:
        ConfigError: if the file is something else, of a newer version, or can never be there.
    """

    kinds: frozenset[Kind] = frozenset({"traces"})
    max_bytes = 1024 * 1024

    def __init__(
        self,
        path: Path,
        retention: Retention,
        rule: IncidentRule | None = None,
        *,
        sync: Literal["full", "normal"] = "full",
    ) -> None:
        self.name = f"store {path}"
        self._path = path
        self._open = partial(RunWriter, path, retention, rule, sync=sync)
        self.turn: AbstractAsyncContextManager[object, bool | None] = asyncio.Lock()
        self._use = threading.Lock()
        self._is_closed = False
        self._pruning: asyncio.Task[None] | None = None
        self._writer: RunWriter | None = None
        self._fails_since_s: float | None = None
        self._told_s = -_TELL_EVERY_S
        try:
            self._writer = self._open()
        except StoreError as error:
            if isinstance(error.__cause__, NotADirectoryError | FileExistsError | IsADirectoryError):
                raise ConfigError(str(error)) from error
            if isinstance(error, StoreMismatch) and not self._is_ours_and_damaged(error):
                raise ConfigError(str(error)) from error
            _logger.error("the store of runs cannot be used now, and is tried with each run: %s", error)

    def resume(self, places: Mapping[Kind, tuple[str, Sequence[bytes]]]) -> None:
        """Begin to let old traces go, also while nothing comes."""
        del places  # what is sent again is in the store once
        self._pruning = asyncio.create_task(self._prune())

    async def send(self, kind: Kind, payloads: Sequence[bytes]) -> Receipt:
        """Put each trace of *payloads* into the store.

        Raises:
            TryAgain: if they could not be written, e.g. to a full disk; on one that stays full they are left out.
            Doubtful: if SQLite failed on them for another reason than damage or the machine.
        """
        del kind  # there is one
        try:
            await in_daemon_thread(partial(self._put, payloads))
            self._fails_since_s = None
        except (StoreError, sqlite3.OperationalError, OSError) as error:
            if await in_daemon_thread(partial(self._yields, error)):
                return Receipt()
            if isinstance(error, sqlite3.OperationalError) and primary_code(error) == sqlite3.SQLITE_ERROR:
                raise Doubtful(f"cannot write: {error}") from error  # a statement that fails; else files, locks, room
            raise TryAgain(f"cannot write: {error}", _TRY_AGAIN_S, is_steady=True) from error
        return Receipt()

    def _yields(self, error: StoreError | sqlite3.OperationalError | OSError) -> bool:
        """Return whether runs are left out of the store, as they could not be written for a while."""
        now_s = time.monotonic()
        if self._fails_since_s is None:
            self._fails_since_s = now_s
        is_short = is_full(error) or is_full(error.__cause__) or not has_room(self._path.parent)
        if now_s - self._fails_since_s < (_SHORT_FOR_S if is_short else _FAILS_FOR_S):
            return False
        if now_s - self._told_s > _TELL_EVERY_S:
            self._told_s = now_s
            _logger.error("the store of runs cannot be written: the page lacks runs until it can (%s)", error)
        return True

    async def close(self) -> None:
        """Close the file once no thread uses it; one that is used for longer stays open until the process ends."""
        if self._pruning is not None:
            self._pruning.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await in_daemon_thread(self._close)

    def _close(self) -> None:
        with self._use:  # a connection that is closed while another thread is inside SQLite ends the process
            self._is_closed = True
            if self._writer is not None:
                self._writer.close()
                self._writer = None

    def _put(self, payloads: Sequence[bytes]) -> None:
        with self._use:
            if self._is_closed:
                raise StoreUnavailable("the store is closed")
            try:
                self._opened().put(payloads)
            except (sqlite3.DatabaseError, StoreError) as error:
                if primary_code(error) not in _DAMAGE and not self._is_ours_and_damaged(error):
                    raise
                self._renew(error).put(payloads)

    def _opened(self) -> RunWriter:
        """Return the store's writer; of a new store where the file was deleted, or another put in its place."""
        if self._writer is not None and not self._writer.is_in_place():
            self._writer.close()
            self._writer = None
            _logger.error("the store of runs %r was deleted, and is begun anew", str(self._path))
        self._writer = self._writer or self._open()
        return self._writer

    async def _prune(self) -> None:
        while True:
            try:
                async with self.turn:
                    await in_daemon_thread(self._prune_now)
            except Exception as error:  # a full disk, or a damaged file: the next batch tells
                _logger.debug("old runs cannot be let go now: %s", error)
            await asyncio.sleep(_PRUNE_EVERY_S)

    def _prune_now(self) -> None:
        with self._use:
            if not self._is_closed:
                self._opened().prune()

    def _renew(self, error: Exception) -> RunWriter:
        """Open the store again: a new one where this one is damaged, else the same."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        if is_damaged(self._path):
            aside = move_aside(self._path)
            _logger.error("the store of runs is damaged (%s): it is moved to %s, and begun anew", error, aside)
        self._writer = self._open()
        return self._writer

    def _is_ours_and_damaged(self, error: Exception) -> bool:
        return primary_code(error.__cause__) in _DAMAGE and is_ours(self._path)
