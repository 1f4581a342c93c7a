"""The store of runs that programs judge themselves: `instrument(embedded=True)` writes it, `blamespan open` shows it.

One file for all programs of a user, of the same kind as the collector's. Several processes may write it at once.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from blamespan.annotate import is_verdict, without_verdict
from blamespan.plugins import require
from blamespan.spans import Span
from blamespan_collector.options import local_store
from blamespan_collector.store import Retention, RunStore, RunWriter, StoreError

_logger = logging.getLogger("blamespan")

_RETENTION = Retention(max_bytes=256 * 1024**2)
_BUSY_S: Final = 5.0
_TRY_AGAIN_S: Final = 30.0
_PRUNE_EVERY_S: Final = 60.0

_of_parents: list[RunWriter] = []
"""Writers that a forked child got from its parent. SQLite forbids to use and to close them there, so they are kept."""


def embedded_store() -> Path | None:
    """Return the file: `BLAMESPAN_STORE`, else one in the user's state folder; None where the variable says `none`."""
    named = os.environ.get("BLAMESPAN_STORE", "").strip()
    if named:
        return None if named.lower() == "none" else Path(named).expanduser()
    from platformdirs import user_state_path

    return user_state_path("blamespan", appauthor=False) / "embedded" / "runs.db"


def local_stores() -> list[Path]:
    """Return this user's stores that are there: of embedded programs, and of the collector on the usual ports."""
    paths = dict.fromkeys(path for path in (embedded_store(), local_store()) if path is not None)
    return [path for path in paths if path.exists()]


def default_store() -> Path:
    """Return this user's store: of embedded programs, else of the collector; it need not be there yet."""
    return next(iter(local_stores()), local_store())


def store_folder() -> Path:
    """Return the folder of this user's store: what belongs to it (labels, schemata) lies beside it.

    Raises:
        MissingExtra: if the collector's packages, which know the place, are not installed.
    """
    require("platformdirs", "collector")
    return default_store().parent


def stored_spans(path: Path | None, trace_id: str) -> Sequence[Span]:
    """Return the spans of a stored trace, without verdicts; nothing where it is not stored."""
    try:
        spans = RunStore(path).spans_of(trace_id) if path is not None else ()
    except StoreError:
        return ()
    return [without_verdict(span) for span in spans if not is_verdict(span)]


class LocalRuns:
    """Keeps traces in the store. Blocking, for one thread. A store that cannot be written costs one warning, no run.

    Args:
        path: The store's file.
        retention: How long traces are kept.
    """

    def __init__(self, path: Path, retention: Retention = _RETENTION) -> None:
        self.path = path
        self._retention = retention
        self._writer: RunWriter | None = None
        self._is_told = False
        self._try_again_s = float("-inf")
        self._pruned_s = float("-inf")

    def keep(self, payloads: Sequence[bytes]) -> None:
        """Add serialised `ExportTraceServiceRequest`s."""
        now_s = time.monotonic()
        if not payloads or now_s < self._try_again_s:
            return
        try:
            if self._writer is None:
                self._writer = RunWriter(self.path, self._retention, sync="normal", busy_s=_BUSY_S)
            self._writer.put(payloads)
            if now_s - self._pruned_s >= _PRUNE_EVERY_S:
                self._pruned_s = now_s
                self._writer.prune()
        except (StoreError, sqlite3.Error) as error:
            self._try_again_s = now_s + _TRY_AGAIN_S
            if not self._is_told:
                self._is_told = True
                _logger.warning("runs are not kept on this machine: %s", error)

    def close(self) -> None:
        """Close the file."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def renewed(self) -> LocalRuns:
        """Return the same for a forked child."""
        if self._writer is not None:
            _of_parents.append(self._writer)
        return LocalRuns(self.path, self._retention)
