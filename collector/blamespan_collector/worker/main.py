"""The worker process: reads the journal, lets complete traces go with their verdicts, and sees them delivered.

    journal -> flow (assemble, commit) -> outbox -> delivery thread -> sinks
                 |              ^
                 +-> scorer ----+   a thread: decode, rebuild, attribute, encode

The messages over its link are listed in `messages.py`.
"""

from __future__ import annotations

import gc
import logging
import math
import os
import shutil
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from blamespan.errors import BlamespanError, ConfigError
from blamespan.tracers import AskingTracer, Tracer, load_maker, load_tracer, split_tracer
from blamespan_collector.alerting.alerting import Alerting
from blamespan_collector.alerting.receivers import receivers
from blamespan_collector.delivering.backend import MAX_BATCH_BYTES
from blamespan_collector.delivering.delivered_rows import Grace
from blamespan_collector.delivering.delivery import Delivery
from blamespan_collector.delivering.destinations import destinations
from blamespan_collector.delivering.outbox import Outbox
from blamespan_collector.delivering.sinks import Sink
from blamespan_collector.journal import FolderLock, JournalError, JournalReader, JournalUnreadable, has_room
from blamespan_collector.journal.folder import folder_bytes
from blamespan_collector.judging.annotator import Annotator
from blamespan_collector.judging.lanes import JudgingLane
from blamespan_collector.judging.large_runs import MAX_S_PER_SPAN, LargeRunsTracer, is_large
from blamespan_collector.judging.processes import TracerProcesses
from blamespan_collector.judging.scorer import InFlight, Scorer
from blamespan_collector.local_runs import stored_spans
from blamespan_collector.settings import CollectorSettings
from blamespan_collector.state.reserve import Reserve
from blamespan_collector.state.salvage import note_waiting, open_state, suspect
from blamespan_collector.state.state import StateDamaged
from blamespan_collector.wire.outgoing import Kind, Outgoing
from blamespan_collector.worker.counts import WorkerCounts
from blamespan_collector.worker.flow import Flow
from blamespan_collector.worker.journal_feed import JournalFeed
from blamespan_collector.worker.messages import NO_ROOM
from blamespan_collector.worker.passthrough import Passthrough
from blamespan_collector.worker.segments import SegmentKeeper
from blamespan_collector.worker.verdict_queue import Hung, SecondLane, VerdictQueue

_logger = logging.getLogger("blamespan.collector")

_TELL_EVERY_S = 1.0
_STUCK_AFTER_S = 3.0
"""How long the disk fails before whoever asks is told."""
_FAILS_AGAIN_S = 3.0
"""Attempts to use the disk that failed count as one failure, where no more than this lies between them."""
_STANDSTILL_S, _LONGEST_STANDSTILL_S = 5.0, 30.0
"""A delivery thread that has not looked around for so long stands still; after the latter the process ends."""
_IDLE_S = 0.05
"""How long to sleep with nothing to do: what was journalled wakes us before."""
_LOCK_WAIT_S = 15.0
"""How long the worker before us may take to notice that its parent is gone."""
_ORPHAN_S = 5.0
_KEPT_TRACES = 1_000_000
"""Released traces that late spans and duplicates are known by: about 300 bytes of disk each."""
_FORGOTTEN_AT_ONCE = 5_000
_SCORER_ENDS_S = 0.3
_MOST_KEPT_BYTES = 256 * 1024 * 1024
_KEPT_SHARE = 1 / 8
"""Of the journal's size, at most, for what was delivered and is kept."""
_RESERVED_BYTES = 256 * 1024 * 1024
"""What the intake leaves free on the disk, or a twentieth of it; below twice that, nothing delivered is kept."""
_TRACER_DEADLINE = "BLAMESPAN_TRACER_DEADLINE_S"
"""Tells a tracer that waits for others, such as `judge`, when to come back: what it says later is late."""
_TRACER_SHARE = 0.8
"""Of `deadline_s`: what a batch waits for the one before it, and its encoding, come on top."""
_HUNG_AFTER_S = 60.0
"""A batch that takes longer, and twice the deadline, will not end: the process does, to begin anew."""
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
    except sqlite3.IntegrityError:  # a fault of ours, not of the file's
        raise
    except (StateDamaged, sqlite3.DatabaseError, UnicodeError) as error:
        suspect(settings.journal / "state.db")
        _logger.error("the state is damaged (%s): it is checked, and begun anew with what can be read of it", error)
        raise SystemExit(1) from error


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


def _tracers_of(settings: CollectorSettings) -> tuple[Tracer, AskingTracer | None]:
    """Load the tracer whose verdicts traces wait for, and the one that gives later ones, if the settings name one."""
    may_ask = hasattr(getattr(load_maker(settings.tracer), "__self__", None), "wants")
    if settings.tracer_processes > 1 and not may_ask:  # not loaded here, too
        return TracerProcesses(settings.tracer, settings.tracer_processes), None
    if settings.tracer_processes == 1:
        return split_tracer(load_tracer(settings.tracer))
    first, second = split_tracer(load_tracer(settings.tracer))
    name = settings.tracer if second is None else first.identity.name
    return TracerProcesses(name, settings.tracer_processes), second


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
        self._link: Connection | None = None
        self._lived_s = time.monotonic()
        self._disk_failure: tuple[str, float, float] | None = None
        self._thread = threading.get_ident()
        self.orphaned = threading.Event()
        """Set when whoever started us is gone."""
        self._woken = threading.Event()
        self._lock = FolderLock(settings.journal, "worker", wait_s=_LOCK_WAIT_S)
        self._sinks = list(destinations(settings) if sinks is None else sinks)
        self._tracer, self._second = split_tracer(load()) if load is not None else _tracers_of(settings)
        hung_after_s = max(_HUNG_AFTER_S, 2 * settings.deadline_s)
        name = settings.tracer if self._second is None else self._tracer.identity.name
        self._large_runs_tracer = LargeRunsTracer(name, self._tracer.identity, hung_after_s)
        tracer_of_large_runs: Tracer = split_tracer(load())[0] if load is not None else self._large_runs_tracer
        self._counts.expect(self._tracer.identity.name)
        path = settings.journal / "state.db"
        self._state_path = path
        self._state = open_state(path, settings.journal_sync)
        self._reserve = Reserve(path, self._state, settings.max_journal_bytes)
        self._in_flight = [InFlight(settings.journal / name) for name in ("attributing", "attributing-large")]
        self._note_attempts()
        self._alerting = Alerting(settings.store, receivers(settings)) if settings.store and sinks is None else None
        self._reader = JournalReader(settings.journal)
        kept_bytes = min(_MOST_KEPT_BYTES, int(settings.max_journal_bytes * _KEPT_SHARE))
        grace = Grace(settings.keep_delivered_s, kept_bytes)
        self._delivery = Delivery(
            lambda sinks: Outbox(
                path,
                sinks,
                sync=settings.journal_sync,
                grace=grace,
                lost=self._note_lost,
                vfs=self._state.vfs,
                log_pages=self._reserve.log_pages,
            ),
            self._sinks,
            self._is_tight,
        )
        self._keeper = SegmentKeeper(
            settings.journal,
            self._reader,
            self._state,
            settings.limits.idle_s,
            settings.max_journal_bytes,
            self._reserve.is_short,
        )
        offset_s = time.time() - time.monotonic()

        def now() -> float:
            return offset_s + time.monotonic()

        feed = JournalFeed(self._reader, self._state, self._counts, now, self._wait_for_disk)
        kinds = self._delivery.kinds
        small = self._make_scorer(self._tracer, self._in_flight[0], feed)
        large = self._make_scorer(tracer_of_large_runs, self._in_flight[1], feed)
        self._scorers = [small, large]
        lanes = (
            JudgingLane(small, lambda part: not is_large(part), (hung_after_s, 0.0)),
            JudgingLane(large, is_large, (2 * hung_after_s, 2 * MAX_S_PER_SPAN)),  # its tracer ends itself before
        )
        second = None
        if self._second is not None:
            # What is asked about when the process dies is not suspected of it: the tracer only waits for others
            asking = self._make_scorer(self._second, InFlight(settings.journal / "asking"), feed)
            self._scorers.append(asking)
            second = SecondLane(JudgingLane(asking, lambda _: True, (math.inf, 0.0)), self._second.wants)
        self._flow = Flow(
            feed,
            VerdictQueue(self._state, lanes, settings.deadline_s, second),
            Passthrough(feed.payloads, MAX_BATCH_BYTES, kinds, self._counts),
            self._state,
            settings.limits,
            kinds=kinds,
            added=self._deliver,
            counts=self._counts,
            now=now,
            wait=self._wait_for_disk,
            commit_bytes=self._reserve.commit_bytes,
        )

    def run(self, link: Connection) -> None:
        """Work until told to stop. A failure of ours ends the process: the next one goes on from the disk."""
        self._link = link
        self._delivery.start()
        if self._alerting is not None:
            self._alerting.start()
        for scorer in self._scorers:
            scorer.start()
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
        else:
            self._delivery.stop(0)
        self.close()

    def close(self) -> None:
        """Close the files, and end the tracer's processes.

        Where the tracer does not come back, its thread may read them at any time: they stay open to the process's end.
        """
        if self._alerting is not None:
            self._alerting.stop()
        self._large_runs_tracer.close()  # so that its thread comes back
        ended = [scorer.stop(_SCORER_ENDS_S) for scorer in self._scorers]
        if isinstance(self._tracer, TracerProcesses):
            self._tracer.close()
        if all(ended):
            self._state.close()
            self._reader.close()
        self._lock.release()

    def _make_scorer(self, tracer: Tracer, in_flight: InFlight, feed: JournalFeed) -> Scorer:
        return Scorer(
            Annotator(lambda: tracer, partial(stored_spans, self._settings.store)),
            feed.payloads,
            in_flight,
            MAX_BATCH_BYTES,
            self._delivery.kinds,
            self._woken.set,
        )

    def _step(self) -> bool:
        for failure in (self._delivery.failure, *(scorer.failure for scorer in self._scorers)):
            if failure is not None:
                raise failure
        if self._delivery.standstill_s > _LONGEST_STANDSTILL_S:
            _logger.error("delivering has stood still for %.0f s. The process is started again", _LONGEST_STANDSTILL_S)
            raise SystemExit(1)
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
        while self._flow.queue.waiting_traces and time.monotonic() < until_s - within_s / 2:
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
            "traces_waiting": self._flow.queue.waiting_traces,
            "journal_lag_s": self._flow.feed.lag_s,
            "queue_age_s": 0.0 if self._delivery.oldest_s is None else max(0.0, time.time() - self._delivery.oldest_s),
            "spans_waiting": sum(counter.waiting + counter.resending for counter in lanes.values()),
            "set_aside_spans": self._delivery.set_aside.get("traces", 0),
            "set_aside_records": sum(n for kind, n in self._delivery.set_aside.items() if kind != "traces"),
            "kept_bytes": self._delivery.kept_bytes,
            "sinks_failing": sum(counter.failures > 0 for counter in lanes.values()),
        }
        for (_, kind), counter in lanes.items():
            counts[f"{'spans' if kind == 'traces' else kind}_delivered"] += counter.delivered
            counts[f"{'spans' if kind == 'traces' else kind}_set_aside"] += counter.refused
            counts[f"{'spans' if kind == 'traces' else kind}_resent"] += counter.resent
        if self._alerting is not None:
            counts["alerts_sent"], counts["alerts_failed"] = self._alerting.sent, self._alerting.failed
            gauges["incidents_open"], gauges["alerts_failing"] = self._alerting.n_open, self._alerting.failing
        annotators = [scorer.annotator for scorer in self._scorers]
        counts["spans_lost"] = self._state.lost_spans
        counts["state_rows_damaged"] = self._state.damaged_rows
        counts["spans_duplicate"] = self._flow.assembler.duplicates
        counts["traces_attributed"] = sum(annotator.traces for annotator in annotators)
        counts["traces_not_attributed"] = sum(annotator.failures for annotator in annotators)
        message = self._counts.message()
        counts["spans_lost"] += message["counts"]["spans_lost"]
        identity = self._tracer.identity
        return {
            **message,
            "ready": True,
            "trouble": self._trouble(),
            "tracer": f"{identity.name}/{identity.version}",
            "to": [sink.name for sink in self._sinks],
            "counts": {**message["counts"], **counts},
            "gauges": gauges,
            "incidents": [
                [one.id, one.service, one.agent, one.mode, one.runs]
                for one in (self._alerting.open if self._alerting is not None else ())
            ],
        }

    def _tidy(self) -> None:
        try:
            oldest = self._keeper.tidy(self._flow.feed.read_below, self._flow.needed)
            with self._state.commit():
                self._state.forget(_KEPT_TRACES, oldest, _FORGOTTEN_AT_ONCE)
            self._reserve.keep(oldest)
            note_waiting(self._state_path, self._state.carried_spans + self._spans_waiting())
        except (sqlite3.OperationalError, OSError) as error:  # most likely a full disk: in a second there may be room
            _logger.warning("the journal could not be tidied up: %s", error)

    def _spans_waiting(self) -> int:
        """Return how many spans of the outbox some sink lacks."""
        return max((lane.waiting for (_, kind), lane in self._delivery.counts.items() if kind == "traces"), default=0)

    def _is_tight(self) -> bool:
        """Check whether room is short: what is kept though it was delivered is the first to yield."""
        disk = shutil.disk_usage(self._settings.journal)
        is_full = disk.free < 2 * min(_RESERVED_BYTES, disk.total // 20)
        return is_full or folder_bytes(self._settings.journal) > self._settings.max_journal_bytes / 2

    def _trouble(self) -> str | None:
        """Say why nothing is delivered now; None where something is, or soon will be."""
        now_s = time.monotonic()
        if self._disk_failure is not None:
            failure, first_s, last_s = self._disk_failure
            if now_s - last_s < _FAILS_AGAIN_S and last_s - first_s > _STUCK_AFTER_S:
                return f"the disk of the journal: {failure}. It goes on when the disk does"
        if self._delivery.standstill_s > _STANDSTILL_S:
            return f"delivering has stood still for {self._delivery.standstill_s:.0f} s: a disk does not answer"
        return None

    def _wait_for_disk(self, failure: str, is_full: bool) -> bool:
        """Note that the disk fails, and say meanwhile that we live; where only room is missing, make some.

        Returns:
            Whether there may be some now.
        """
        now_s = time.monotonic()
        _, first_s, last_s = self._disk_failure or (failure, now_s, now_s)
        self._disk_failure = failure, first_s if now_s - last_s < _FAILS_AGAIN_S else now_s, now_s
        if threading.get_ident() != self._thread:  # a scorer's
            return False
        if self._link is not None and now_s - self._lived_s > _TELL_EVERY_S:
            self._lived_s = now_s
            self._tell(self._link)
        if self.orphaned.is_set():
            raise SystemExit(NO_ROOM)
        is_waiting = any(lane.waiting for lane in self._delivery.counts.values())
        return is_full and self._reserve.find_room(is_waiting=is_waiting)

    def _deliver(self, outgoing: Sequence[Outgoing]) -> None:
        for item in outgoing:
            self._delivery.count_added(item.kind, item.spans)
        if outgoing:
            self._delivery.wake()

    def _note_lost(self, kind: Kind, spans: int) -> None:
        """Count what is lost with damaged rows of the outbox."""
        self._counts.add("spans_lost" if kind == "traces" else f"{kind}_lost", spans)

    def _note_attempts(self) -> None:
        """Suspect the traces that were being attributed when the last process died."""
        suspects = [trace_id for in_flight in self._in_flight for trace_id in in_flight.read()]
        if suspects:
            _logger.warning("the last process ended while it attributed %d traces: they are tried again", len(suspects))
            with self._state.commit():
                self._state.note_attempts(suspects)
            for in_flight in self._in_flight:
                in_flight.write(())
