"""A tracer in processes of its own, for one that takes more processor time than one core has.

    scorer -> TracerProcesses -- runs --> python -m blamespan_collector.judging.processes NAME, several of them
                              <- verdicts --

What goes through their pipes are pickles, and nobody else holds an end of them: a process ends when its input does,
whatever ended the worker.
"""

from __future__ import annotations

import logging
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import IO, Any, TypeAlias, cast

from blamespan.attribution import Attribution, TracerIdentity
from blamespan.errors import BlamespanError, ConfigError, TracerUnavailable
from blamespan.trace import MessageActionTrace
from blamespan.tracers import load_tracer

__all__ = ["TracerProcesses"]

_logger = logging.getLogger("blamespan.collector")

_END_S = 5.0
"""How long a process may take to notice that nobody asks any more."""

_Told: TypeAlias = tuple[Any, str, bool]
"""An answer; or what went wrong, and whether the settings are to blame."""


class TracerProcesses:
    """A tracer by name, loaded in *count* processes that share out each batch. For one thread at a time.

    Verdicts are those of the tracer in one process: a batch never changes a verdict.

    Args:
        name: The tracer's.
        count: How many processes.
        niceness: How far they yield to others, as `nice` counts it.

    Raises:
        ConfigError: if there is no such tracer, or its settings are wrong.
        TracerUnavailable: if it cannot be loaded.
    """

    def __init__(self, name: str, count: int, *, niceness: int = 0) -> None:
        command = [sys.executable, "-m", __name__, name, str(niceness)]
        self._processes = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603  # ourselves
            for _ in range(count)
        ]
        try:
            told = [_read(process.stdout) for process in self._processes]
            self._identity: TracerIdentity = [_checked(each) for each in told][-1]
        except EOFError as error:
            self.close()
            raise TracerUnavailable(f"expected tracer {name!r} to load, got a process that ended with it") from error
        except BlamespanError:
            self.close()
            raise

    @property
    def identity(self) -> TracerIdentity:
        """The tracer's name, version and weights digest."""
        return self._identity

    def attribute(self, traces: Sequence[MessageActionTrace]) -> list[Attribution]:
        """Attribute each run; one verdict per trace, in order.

        Raises:
            TracerUnavailable: if the tracer breaks on one of them.
            SystemExit: if one of them takes its process down: it would take this one down where there is no other.
        """
        count = len(self._processes)
        asked = self._processes[: len(traces)]
        try:
            for number, process in enumerate(asked):
                _write(process.stdin, traces[number::count])
            told = [_read(process.stdout) for process in asked]  # all of them, or the next batch would get the rest
        except (EOFError, OSError) as error:
            _logger.error("a process of the tracer %s ended while it attributed", self._identity.name)
            raise SystemExit(1) from error
        found: list[Attribution | None] = [None] * len(traces)
        for number, each in enumerate(told):
            found[number::count] = _checked(each)
        return cast(list[Attribution], found)

    def kill(self) -> None:
        """End the processes at once, from any thread: whoever waits for a verdict gets none."""
        for process in self._processes:
            process.kill()

    def close(self) -> None:
        """End the processes."""
        for process in self._processes:
            with suppress(OSError):  # what it was never given
                cast(IO[bytes], process.stdin).close()
        for process in self._processes:
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            cast(IO[bytes], process.stdout).close()


def _checked(told: _Told) -> Any:
    answer, wrong, is_misused = told
    if wrong:
        raise ConfigError(wrong) if is_misused else TracerUnavailable(wrong)
    return answer


def _write(pipe: IO[bytes] | None, value: object) -> None:
    assert pipe is not None
    pickle.dump(value, pipe, pickle.HIGHEST_PROTOCOL)
    pipe.flush()


def _read(pipe: IO[bytes] | None) -> Any:
    """Read the next value.

    Raises:
        EOFError: if the other end is closed, between values or within one.
    """
    assert pipe is not None
    try:
        return pickle.load(pipe)  # noqa: S301  # what we wrote ourselves
    except pickle.UnpicklingError as error:
        raise EOFError("broken off") from error


def _told(ask: Callable[[], object]) -> _Told:
    try:
        return ask(), "", False
    except Exception as error:  # an installed tracer is third-party code
        return None, str(error) or type(error).__name__, isinstance(error, ConfigError)


def main() -> None:
    """Load the tracer named on the command line, and answer until the input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a tracer prints must not get among the answers
    os.nice(int(sys.argv[2]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever asks, who drains first
    asked: queue.SimpleQueue[list[MessageActionTrace]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(asked,), daemon=True).start()
    tracer, *wrong = _told(partial(load_tracer, sys.argv[1]))
    _write(answers, (tracer and tracer.identity, *wrong))
    while tracer is not None:
        _write(answers, _told(partial(tracer.attribute, asked.get())))


def _listen(asked: queue.SimpleQueue[list[MessageActionTrace]]) -> None:
    """Pass on what is asked; end the process with its input, whatever it is at: nobody waits for an answer."""
    while True:
        try:
            asked.put(_read(sys.stdin.buffer))
        except EOFError:
            os._exit(0)


if __name__ == "__main__":
    main()
