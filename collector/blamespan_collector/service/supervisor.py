"""Starts the worker process, starts it again when it dies, and carries messages to and from it.

The worker may die of anything, a tracer in C or the kernel's hunger for memory: what was acknowledged is in
the journal, and the next worker goes on from there. Meanwhile requests are still taken.

The messages are listed in `worker/messages.py`.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

from blamespan.annotate import cut
from blamespan_collector.journal import Position, has_room
from blamespan_collector.logs import configure_logs
from blamespan_collector.settings import CollectorSettings
from blamespan_collector.worker.messages import NO_ROOM, WorkerMessage

_logger = logging.getLogger("blamespan.collector")

_FIRST_DELAY_S, _LONGEST_DELAY_S = 0.5, 8.0
_LOOK_FOR_ROOM_S = 1.0
_LOOK_FOR_ROOM_AT_MOST_S = 4.0
"""Then the next worker begins without: what is set aside in the state is enough where it could be set aside."""
_STEADY_S = 60.0
"""A worker that lived this long is started again at once."""
_LOOP_DEATHS = 3
"""Workers that died one after the other, none of them steady, after which this is told to who asks whether we work."""
_CALM_S = 10.0
"""A worker that lived this long, and twice as long as any of those before it, ends that."""
_STARTS_WITHIN_S = 120.0
"""A worker that is not at work by then hangs, and is ended: to begin a large damaged state anew takes its time."""
_SILENCE_TICKS = 9
"""A worker at work that says nothing while so many seconds pass here hangs, and is ended: it speaks every second,
between one piece of work and the next. Seconds in which we stood still ourselves do not count."""
_TICK_S = 1.0
_TROUBLED_S = 5.0
"""Silence, or time without a worker at work, after which this is told to who asks whether we work."""
_KILLED_WITHIN_S = 5.0
"""A process that is not gone by then waits for a disk; the next worker waits for its lock."""
_NICENESS = 5
_WAKE_EVERY_S = 0.02
_MAX_DIED_BYTES = 300
_KEPT = "What was acknowledged is in the journal, and what comes is still taken. The log says more"
_END_S = 0.5
"""How long past its time a worker that was told to stop may take: `docker stop` kills us after 10 s."""


class Supervisor:
    """Keeps one worker running. For one event loop.

    Args:
        settings: What the worker is told; sent to it by pickle, both ends being ours.
        on_message: Gets every message, in the event loop.
        work: The process's body; by default `blamespan_collector.worker.main.run_worker`.
    """

    def __init__(
        self,
        settings: CollectorSettings,
        on_message: Callable[[WorkerMessage], None],
        work: Callable[[CollectorSettings, Connection], None] | None = None,
    ) -> None:
        self._settings = settings
        self._on_message = on_message
        self._work = work
        self._worker: _SupervisedWorker | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._heard = asyncio.Event()
        self._short_lives_s: list[float] = []
        self._began_s = self._idle_since_s = time.monotonic()
        self._was_ready = False
        self._died = "it has not begun yet"
        self.restarts = 0
        """How often a worker died and another took its place."""
        self.waits_for_room = False
        """Whether the next one begins when the disk has room."""
        self.failed: str | None = None
        """Why no other is started."""
        self.was_misused = False
        """Whether it failed because a setting is wrong."""
        self.last: WorkerMessage = {}
        """What the worker said last; empty while there is none."""
        self.last_words: WorkerMessage = {}
        """What the worker said last of all, when it was told to stop."""
        self.ended_in_order = False
        """Whether it then ended by itself."""

    @property
    def is_ready(self) -> bool:
        """Check whether a worker is at work."""
        return bool(self.last.get("ready"))

    @property
    def trouble(self) -> str | None:
        """Why nothing is delivered now, for who asks; None where something is, or soon will be."""
        if self.failed is not None:
            return self.failed
        if self.waits_for_room:
            return "the disk of the journal is full: the worker starts when there is room"
        if isinstance(self.last.get("trouble"), str):
            return str(self.last["trouble"])
        now_s = time.monotonic()
        if not self.is_ready and (idle_s := now_s - self._idle_since_s) > _TROUBLED_S:
            return f"no worker has been at work for {idle_s:.0f} s ({self._died}). {_KEPT}"
        if self._worker is not None and self.is_ready and (silent_s := now_s - self._worker.heard_s) > _TROUBLED_S:
            return f"the worker has stood still for {silent_s:.0f} s, and is replaced after 10. {_KEPT}"
        if len(self._short_lives_s) < _LOOP_DEATHS:
            return None
        if self.is_ready and now_s - self._began_s > self._calm_s:
            return None
        return f"the worker died {len(self._short_lives_s)} times, one after the other, {self._died}. {_KEPT}"

    @property
    def _calm_s(self) -> float:
        """How long a worker must live to be taken for a sound one after those before it."""
        return min(_STEADY_S, max([_CALM_S, *(2 * lived_s for lived_s in self._short_lives_s)]))

    async def start(self) -> None:
        """Start the worker and keep it running."""
        self._keeping = asyncio.create_task(self._keep())

    async def until_ready(self, timeout_s: float) -> bool:
        """Wait until the worker is at work, gives up, or the disk is too full for one. Returns whether it is."""
        try:
            async with asyncio.timeout(timeout_s):
                while not (self.is_ready or self.waits_for_room or self.failed is not None):
                    self._heard.clear()
                    await self._heard.wait()
        except TimeoutError:
            return False
        return self.is_ready

    def wake(self, position: Position) -> None:
        """Send the worker how far the journal goes; many calls become one message."""
        if self._worker is not None:
            self._worker.say({"wake": list(position)})

    async def stop(self, within_s: float) -> None:
        """Let the worker deliver what it can, then end it; what it did not deliver stays in the journal."""
        self._stop.set()
        worker = self._worker
        if worker is not None:
            worker.say({"stop": within_s})
            self.ended_in_order = await worker.wait_for_end(within_s + _END_S) and worker.exit_code == 0
            self.last_words = worker.last
            if worker.exit_code is None:
                _logger.warning("the worker did not end in %g s and is ended; nothing is lost", within_s + _END_S)
                await worker.end()
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)

    async def _keep(self) -> None:
        delay_s = _FIRST_DELAY_S
        while not self._stop.is_set() and self.failed is None:
            self._began_s, calm_s = time.monotonic(), self._calm_s
            try:
                await self._live()
            except Exception as error:  # no process can be started now, or none be listened to: later one can
                _logger.exception("looking after the worker broke, and is tried again")
                self._died = f"{type(error).__name__}: {error}"
                self._short_lives_s.append(time.monotonic() - self._began_s)
            if self._stop.is_set() or self.failed is not None:
                break
            if (self._worker is not None and self._worker.exit_code == NO_ROOM) or not await self._has_room():
                await self._until_room()
                continue
            is_calm = time.monotonic() - self._began_s > calm_s
            delay_s = _FIRST_DELAY_S if is_calm else min(2 * delay_s, _LONGEST_DELAY_S)
            _logger.error("the worker ended (%s); another starts in %g s", self._died, delay_s)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), delay_s)

    async def _live(self) -> None:
        """Start a worker, and see it through to its end."""
        self._worker = None
        self._worker = worker = _SupervisedWorker(self._settings, self._hear, self._work)
        await self._watch(worker)
        if self.is_ready:
            self._idle_since_s = time.monotonic()
        self.last = {}
        if not self._stop.is_set() and self.failed is None:
            self.restarts += 1
            self._note_death(worker, time.monotonic() - self._began_s)

    async def _has_room(self) -> bool:
        return await asyncio.to_thread(has_room, self._settings.journal)

    def _note_death(self, worker: _SupervisedWorker, lived_s: float) -> None:
        if worker.exit_code == NO_ROOM:
            return  # it is told by itself, and ends when there is room
        if lived_s > _STEADY_S:
            self._short_lives_s.clear()
        else:
            self._short_lives_s.append(lived_s)
        self._died = f"the last with code {worker.exit_code}"
        if died := worker.last.get("died") or worker.last.get("failed"):
            self._died += f" ({died})"

    async def _until_room(self) -> None:
        """Wait a little for room on the journal's disk, so that work goes on soon after there is some."""
        _logger.error("the worker ended for want of disk; another starts when there is some, or in a few seconds")
        self.waits_for_room = True
        self._heard.set()
        until_s = time.monotonic() + _LOOK_FOR_ROOM_AT_MOST_S
        while not self._stop.is_set() and time.monotonic() < until_s:
            await asyncio.sleep(_LOOK_FOR_ROOM_S)
            if await self._has_room():
                break
        self.waits_for_room = False

    async def _watch(self, worker: _SupervisedWorker) -> None:
        silent_ticks = 0
        while not await worker.wait_for_end(_TICK_S):
            silent_ticks = silent_ticks + 1 if time.monotonic() - worker.heard_s >= _TICK_S else 0
            most_ticks = _SILENCE_TICKS if worker.last.get("ready") else _STARTS_WITHIN_S / _TICK_S
            if silent_ticks < most_ticks or self._stop.is_set():
                continue
            _logger.error("the worker has stood still for %.0f s and is ended", time.monotonic() - worker.heard_s)
            if not await worker.end():
                _logger.error("the worker (pid %s) cannot be ended: it waits for a disk", worker.pid)
            return

    def _hear(self, message: WorkerMessage) -> None:
        self.last = {**self.last, **message}
        self._was_ready = self._was_ready or self.is_ready
        # Once one has worked, a setting is not to blame, but what may pass: another is started
        if isinstance(message.get("failed"), str) and not self._was_ready:
            self.failed = message["failed"]
            self.was_misused = bool(message.get("misused"))
        self._heard.set()
        self._on_message(message)


class _SupervisedWorker:
    """One process, and the two threads that talk with it: neither a full nor an empty pipe may stop the loop."""

    def __init__(
        self,
        settings: CollectorSettings,
        hear: Callable[[WorkerMessage], None],
        work: Callable[[CollectorSettings, Connection], None] | None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._hear = hear
        self._ended = asyncio.Event()
        context = multiprocessing.get_context("spawn")
        self._link, theirs = context.Pipe()
        self._process: SpawnProcess = context.Process(
            target=_enter, args=(settings, theirs, work), name="blamespan-worker", daemon=True
        )
        self._process.start()
        theirs.close()
        self.heard_s = time.monotonic()
        self.last: WorkerMessage = {}
        self._unsaid: dict[str, Any] = {}
        self._news = threading.Event()
        for target in (self._listen, self._speak):
            threading.Thread(target=target, name="blamespan-link", daemon=True).start()

    @property
    def exit_code(self) -> int | None:
        """As `multiprocessing` gives it: negative for a signal."""
        return self._process.exitcode

    @property
    def pid(self) -> int | None:
        """Its process id."""
        return self._process.pid

    def say(self, message: Mapping[str, Any]) -> None:
        """Send *message* soon; a later one with the same key takes its place."""
        self._unsaid.update(message)
        self._news.set()

    async def wait_for_end(self, within_s: float) -> bool:
        """Wait for the process's end. Returns whether it came."""
        try:
            await asyncio.wait_for(self._ended.wait(), within_s)
        except TimeoutError:
            return False
        return True

    async def end(self) -> bool:
        """End the process now. Returns whether it is gone."""
        self._process.kill()
        return await self.wait_for_end(_KILLED_WITHIN_S)

    def _listen(self) -> None:
        while True:
            try:
                message = self._link.recv()
            except Exception:  # the end of the process; or half a message of it
                break
            self._in_loop(self._take, message)
        self._process.join()
        self._news.set()
        self._in_loop(self._ended.set)

    def _speak(self) -> None:
        while self._process.is_alive():
            self._news.wait()
            self._news.clear()
            message, self._unsaid = self._unsaid, {}
            try:
                if message:
                    self._link.send(message)
            except (OSError, ValueError):
                return
            time.sleep(_WAKE_EVERY_S)

    def _take(self, message: WorkerMessage) -> None:
        self.heard_s = time.monotonic()
        self.last = message
        self._hear(message)

    def _in_loop(self, call: Callable[..., object], *arguments: object) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call, *arguments)


def _enter(
    settings: CollectorSettings, link: Connection, work: Callable[[CollectorSettings, Connection], None] | None
) -> None:
    """Begin the child process: signals go to the parent, which tells us when to stop."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    configure_logs(settings.log_format, settings.log_level)
    if hasattr(os, "nice"):  # where there is too little CPU for both, senders are answered first: verdicts can wait
        os.nice(_NICENESS)
    from blamespan_collector.worker.main import run_worker  # only here: the parent needs none of it

    code = 0
    try:
        (work or run_worker)(settings, link)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException as error:
        code = 1
        _logger.exception("the worker broke")
        with suppress(OSError, ValueError):
            link.send({"ready": False, "died": cut(f"{type(error).__name__}: {error}", _MAX_DIED_BYTES)})
    finally:
        logging.shutdown()
    # Threads of a tracer or of gRPC must not keep us, and those inside SQLite must not lose their connections to the
    # interpreter's own end
    os._exit(code)
