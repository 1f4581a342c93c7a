"""The worker process: reads the journal, lets complete traces go with their verdicts, and sees them delivered.

    journal -> flow (assemble, commit) -> outbox -> delivery thread -> sinks
                 |              ^
                 +-> scorer ----+   a thread: decode, rebuild, attribute, encode

What it says and is told over its link stands in `supervisor.py`.
"""

from __future__ import annotations

import gc
import logging
import os
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

from blamespan.errors import BlamespanError, ConfigError
from blamespan.tracers import Tracer, load_tracer
from blamespan_collector.delivering.delivery import Delivery
from blamespan_collector.delivering.destinations import destinations
from blamespan_collector.delivering.outbox import Outbox
from blamespan_collector.delivering.sinks import Sink
from blamespan_collector.journal import FolderLock, JournalError, JournalReader, JournalUnreadable, has_room
from blamespan_collector.judging.annotator import Annotator
from blamespan_collector.judging.processes import TracerProcesses
from blamespan_collector.judging.scorer import InFlight, Scorer
from blamespan_collector.settings import CollectorSettings
from blamespan_collector.supervisor import NO_ROOM
from blamespan_collector.worker.counts import WorkerCounts
from blamespan_collector.worker.flow import Flow, Hung
from blamespan_collector.worker.segments import SegmentKeeper
from blamespan_collector.worker.state import Outgoing, State

__all__ = ["Worker", "run_worker"]

_logger = logging.getLogger("blamespan.collector")

_TELL_EVERY_S = 1.0
_IDLE_S = 0.05
"""How long to sleep with nothing to do: what was journalled wakes us before."""
_LOCK_WAIT_S = 15.0
"""How long the worker before us may take to notice that its parent is gone."""
_ORPHAN_S = 5.0
_KEPT_TRACES = 1_000_000
"""Released traces that late spans and duplicates are known by: about 300 bytes of disk each."""
_FORGOTTEN_AT_ONCE = 5_000
_TRACER_DEADLINE = "BLAMESPAN_TRACER_DEADLINE_S"
"""Tells a tracer that waits for others, such as `judge`, when to come back: what it says later is late."""
_TRACER_SHARE = 0.8
"""Of `deadline_s`: what a batch waits for the one before it, and its encoding, come on top."""
_GARBAGE = (20_000, 20, 50)
"""Objects made before Python looks for cycles among them: there are none, and spans are many objects."""


def run_worker(settings: CollectorSettings, link: Connection) -> None:
    """Work until told to stop, or until whoever started us is gone.

    Args:
        settings: What to do.
        link: To whoever started us.
    """
    os.environ.setdefault(_TRACER_DEADLINE, f"{_TRACER_SHARE * settings.deadline_s:g}")
    try:
        worker = Worker(settings)
    except (BlamespanError, sqlite3.OperationalError, OSError) as error:
        _give_up(settings, link, error)
        return
    gc.freeze()
    gc.set_threshold(*_GARBAGE)
    threading.Thread(target=_end_as_orphan, args=(worker,), name="blamespan-orphan", daemon=True).start()
    try:
        worker.run(link)
    except (BlamespanError, sqlite3.OperationalError, OSError) as error:
        if has_room(settings.journal):
            raise
        _logger.error("the journal's disk is full: %s", error)
        raise SystemExit(NO_ROOM) from error


def _give_up(settings: CollectorSettings, link: Connection, error: Exception) -> None:
    """End because there is nothing to begin with; where the next start may help, with a code that says so."""
    if not has_room(settings.journal):
        _logger.error("cannot begin on a full disk: %s", error)
        raise SystemExit(NO_ROOM) from error
    if isinstance(error, BlamespanError) and (
        isinstance(error, JournalUnreadable) or not isinstance(error, JournalError)
    ):
        link.send({"ready": False, "failed": str(error), "misused": isinstance(error, ConfigError)})
        return
    _logger.error("cannot begin now: %s", error)  # e.g. as the worker before us is about to end
    raise SystemExit(1) from error


def _end_as_orphan(worker: Worker) -> None:
    """End the process soon after whoever started us, whatever it waits for: the next worker needs the folder."""
    worker.orphaned.wait()
    time.sleep(_ORPHAN_S)
    os._exit(1)


def _tracer_of(settings: CollectorSettings) -> Tracer:
    if settings.tracer_processes == 1:
        return load_tracer(settings.tracer)
    return TracerProcesses(settings.tracer, settings.tracer_processes)


class Worker:
    """All of it, put together.

    Args:
        settings: What to do.
        load: Gives the tracer; by default the one the settings name.
        sinks: By default those the settings name.

    Raises:
        ConfigError: if a sink or the tracer cannot be what it is told to be.
        JournalError: if another worker holds the folder, or it cannot be used.
    """

    def __init__(
        self,
        settings: CollectorSettings,
        load: Callable[[], Tracer] | None = None,
        sinks: Sequence[Sink] | None = None,
    ) -> None:
        self._settings = settings
        self._counts = WorkerCounts()
        self._stop_s: float | None = None
        self.orphaned = threading.Event()
        """Set when whoever started us is gone."""
        self._woken = threading.Event()
        self._lock = FolderLock(settings.journal, "worker", wait_s=_LOCK_WAIT_S)
        self._sinks = list(destinations(settings) if sinks is None else sinks)
        self._tracer = load() if load is not None else _tracer_of(settings)
        self._counts.expect(self._tracer.identity.name)
        path = settings.journal / "state.db"
        self._state = State(path, sync=settings.journal_sync)
        self._in_flight = InFlight(settings.journal / "attributing")
        self._note_attempts()
        self._reader = JournalReader(settings.journal)
        self._delivery = Delivery(lambda sinks: Outbox(path, sinks, sync=settings.journal_sync), self._sinks)
        self._keeper = SegmentKeeper(
            settings.journal, self._reader, self._state, settings.limits.idle_s, settings.max_journal_bytes
        )
        offset_s = time.time() - time.monotonic()
        self._scorer = Scorer(
            Annotator(lambda: self._tracer),
            self._payloads,
            self._in_flight,
            settings.max_forward_bytes,
            self._delivery.kinds,
            self._woken.set,
        )
        self._flow = Flow(
            self._reader,
            self._state,
            settings.limits,
            self._scorer,
            deadline_s=settings.deadline_s,
            max_bytes=settings.max_forward_bytes,
            kinds=self._delivery.kinds,
            added=self._added,
            counts=self._counts,
            now=lambda: offset_s + time.monotonic(),
        )

    def run(self, link: Connection) -> None:
        """Work until told to stop. A failure of ours ends the process: the next one goes on from the disk."""
        self._delivery.start()
        self._scorer.start()
        threading.Thread(target=self._listen, args=(link,), name="blamespan-link", daemon=True).start()
        self._tell(link)
        told_s = time.monotonic()
        while self._stop_s is None and not self.orphaned.is_set():
            is_busy = self._step()
            if time.monotonic() - told_s >= _TELL_EVERY_S:
                told_s = time.monotonic()
                self._tidy()
                self._tell(link)
            if not is_busy:
                self._woken.wait(_IDLE_S)
                self._woken.clear()
        if self._stop_s is not None:
            self._drain(self._stop_s)
            self._tell(link)
        self.close()

    def close(self) -> None:
        """Close the files, and end the tracer's processes."""
        if isinstance(self._tracer, TracerProcesses):
            self._tracer.close()
        self._state.close()
        self._reader.close()
        self._lock.release()

    def _step(self) -> bool:
        for part in (self._delivery, self._scorer):
            if part.failure is not None:
                raise part.failure
        try:
            return self._flow.step()
        except Hung as error:
            _logger.error("%s. The process is started again; the traces follow", error)
            raise SystemExit(1) from error

    def _drain(self, within_s: float) -> None:
        """Let everything go, wait for its verdicts for half of the time, then deliver."""
        until_s = time.monotonic() + within_s
        while self._step() and time.monotonic() < until_s - within_s / 2:
            pass  # what was journalled and not read
        self._flow.flush()
        while not self._flow.is_idle and time.monotonic() < until_s - within_s / 2:
            if not self._step():
                self._woken.wait(_IDLE_S)
                self._woken.clear()
        self._flow.give_up_on_verdicts(until_s - within_s / 4)
        is_done = self._delivery.stop(max(0.1, until_s - time.monotonic()))
        if not is_done:
            _logger.warning("what could not be delivered waits in %r", str(self._settings.journal))

    def _listen(self, link: Connection) -> None:
        while True:
            try:
                message = link.recv()
            except (EOFError, OSError):
                self.orphaned.set()
                self._woken.set()
                return
            if "stop" in message:
                self._stop_s = float(message["stop"])
            self._woken.set()

    def _tell(self, link: Connection) -> None:
        try:
            link.send(self._message())
        except OSError:
            self.orphaned.set()

    def _message(self) -> dict[str, Any]:
        lanes = self._delivery.counts
        counts: Counter[str] = Counter()
        gauges: dict[str, float] = {
            "open_traces": self._flow.assembler.held_traces,
            "traces_followed": self._flow.assembler.followed_traces,
            "bytes_held": self._flow.assembler.held_bytes,
            "traces_waiting": self._flow.waiting_traces,
            "journal_lag_s": self._flow.lag_s,
            "queue_age_s": 0.0 if self._delivery.oldest_s is None else max(0.0, time.time() - self._delivery.oldest_s),
            "spans_waiting": sum(one.waiting for one in lanes.values()),
            "sinks_failing": sum(one.failures > 0 for one in lanes.values()),
        }
        for (_, kind), one in lanes.items():
            counts[f"{'spans' if kind == 'traces' else kind}_delivered"] += one.delivered
            counts[f"{'spans' if kind == 'traces' else kind}_set_aside"] += one.refused
        annotator = self._scorer.annotator
        counts["spans_duplicate"] = self._flow.assembler.duplicates
        counts["traces_attributed"] = annotator.traces
        counts["traces_not_attributed"] = annotator.failures
        said = self._counts.message()
        identity = self._tracer.identity
        return {
            **said,
            "ready": True,
            "tracer": f"{identity.name}/{identity.version}",
            "to": [sink.name for sink in self._sinks],
            "counts": {**said["counts"], **counts},
            "gauges": gauges,
        }

    def _tidy(self) -> None:
        try:
            oldest = self._keeper.tidy(self._flow.read_below, self._flow.needed)
            with self._state.commit():
                self._state.forget(_KEPT_TRACES, oldest, _FORGOTTEN_AT_ONCE)
            self._state.shrink()
        except sqlite3.OperationalError as error:  # most likely a full disk: in a second there may be room
            _logger.warning("the journal could not be tidied up: %s", error)

    def _added(self, outgoing: Sequence[Outgoing]) -> None:
        for one in outgoing:
            self._delivery.added(one.kind, one.spans)
        if outgoing:
            self._delivery.wake()

    def _payloads(self, items: Sequence[int]) -> list[bytes]:
        return self._flow.payloads(items)

    def _note_attempts(self) -> None:
        """Suspect the traces that were being attributed when the last process died."""
        suspects = self._in_flight.read()
        if suspects:
            _logger.warning("the last process ended while it attributed %d traces: they are tried again", len(suspects))
            with self._state.commit():
                self._state.note_attempts(suspects)
            self._in_flight.write(())
