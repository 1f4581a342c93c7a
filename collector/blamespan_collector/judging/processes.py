"""A tracer in processes of its own, for one that takes more processor time than one core has.

scorer -> TracerProcesses -- runs --> serve(channel, name), in several worker processes
                          <- verdicts --
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias, cast

from blamespan.attribution import Attribution, TracerIdentity
from blamespan.errors import BlamespanError, ConfigError, TracerUnavailable
from blamespan.trace import MessageActionTrace
from blamespan.tracers import load_tracer
from blamespan.worker_processes import Channel, WorkerProcess

_logger = logging.getLogger("blamespan.collector")

_Reply: TypeAlias = tuple[Any, str, bool]
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
        target = f"{serve.__module__}:{serve.__name__}"
        self._processes = [WorkerProcess(target, name, niceness=niceness) for _ in range(count)]
        try:
            replies = [process.receive() for process in self._processes]
            self._identity: TracerIdentity = [_answer_of(reply) for reply in replies][-1]
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
        busy = self._processes[: len(traces)]
        try:
            for number, process in enumerate(busy):
                process.send(traces[number::count])
            replies = [process.receive() for process in busy]  # all of them, or the next batch would get the rest
        except (EOFError, OSError) as error:
            _logger.error("a process of the tracer %s ended while it attributed", self._identity.name)
            raise SystemExit(1) from error
        verdicts: list[Attribution | None] = [None] * len(traces)
        for number, reply in enumerate(replies):
            verdicts[number::count] = _answer_of(reply)
        return cast(list[Attribution], verdicts)

    def kill(self) -> None:
        """End the processes at once, from any thread: whoever waits for a verdict gets none."""
        for process in self._processes:
            process.kill()

    def close(self) -> None:
        """End the processes."""
        for process in self._processes:
            process.close()


def _answer_of(reply: _Reply) -> Any:
    answer, error, is_misused = reply
    if error:
        raise ConfigError(error) if is_misused else TracerUnavailable(error)
    return answer


def serve(channel: Channel, name: str) -> None:
    """Load the tracer *name*, and answer until the parent has gone."""
    tracer, *failure = _try(partial(load_tracer, name))
    channel.send((tracer and tracer.identity, *failure))
    while tracer is not None:
        channel.send(_try(partial(tracer.attribute, channel.receive())))


def _try(ask: Callable[[], object]) -> _Reply:
    try:
        return ask(), "", False
    except Exception as error:  # an installed tracer is third-party code
        return None, str(error) or type(error).__name__, isinstance(error, ConfigError)
