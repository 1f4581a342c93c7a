"""Whether runs that ended in some way left anything behind; and the memory of a process after thousands of them.

python -m tests.integrations.ends langgraph 10000
python -m tests.integrations.ends autogen 10000
"""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import logging
import sys
import threading
import time
import traceback
import warnings
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from types import FrameType
from typing import Any

import psutil
from opentelemetry.sdk.trace import TracerProvider

from blamespan_integrations.recording.content import Contents
from blamespan_integrations.recording.spans import RunOutcome

_MOST_S = 120
"""For ten runs of every end, which take 10 s; what takes longer hangs."""

End = Callable[["Watch"], None]
"""Makes a run that ends in a certain way, and watches the program's objects in it."""


class Watch:
    """Counts the program's objects that are still alive, without keeping them."""

    def __init__(self) -> None:
        self._references: list[weakref.ref[Any]] = []

    def __call__(self, watched: Any) -> Any:
        """Watch an object and give it back."""
        self._references.append(weakref.ref(watched))
        return watched

    @property
    def alive(self) -> Counter[str]:
        """Count the objects that are alive, by their class."""
        living = [watched for reference in self._references if (watched := reference()) is not None]
        return Counter(type(watched).__name__ for watched in living)


def by_name(*ends: End) -> dict[str, End]:
    """Return ends by their names."""
    return {end.__name__: end for end in ends}


def in_a_thread(end: End, watch: Watch) -> None:
    """Make a run that ends in a thread of its own."""
    thread = threading.Thread(target=end, args=(watch,))
    thread.start()
    thread.join()


def outlive_loop(watch: Watch, begin: Callable[[], Awaitable[Any]], at_work_s: float) -> None:
    """Begin a run that is still at work when its loop is shut down."""
    asyncio.run(_begin(watch, begin, at_work_s))


def close_loop_within(watch: Watch, begin: Callable[[], Awaitable[Any]], at_work_s: float) -> None:
    """Begin a run whose loop is closed with its task within: nothing is told of its end."""
    loop = asyncio.new_event_loop()
    loop.run_until_complete(_begin(watch, begin, at_work_s))
    loop.close()


async def _begin(watch: Watch, begin: Callable[[], Awaitable[Any]], at_work_s: float) -> None:
    watch(asyncio.ensure_future(begin()))
    await asyncio.sleep(at_work_s)


def leave_stream_with_its_loop(begin: Callable[[], AsyncIterator[Any]]) -> None:
    """Read one item of a stream whose loop is closed with it within: nothing is told of its end."""
    streams = []

    async def go() -> None:
        stream = begin()
        await anext(stream)
        streams.append(stream)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(go())
    loop.close()
    streams.clear()


def alive_after(ends: Mapping[str, End], runs: int, last: End) -> dict[str, Counter[str]]:
    """Count the program's objects that are alive after *runs* runs of each end, and then one by *last*."""
    watches = {name: Watch() for name in ends}
    with quiet():
        for name, end in ends.items():
            for _ in range(runs):
                end(watches[name])
        gc.collect()
        last(Watch())  # a run that vanished without a sign is ended by the next one
        gc.collect()
    return {name: alive for name, watch in watches.items() if (alive := watch.alive)}


def variables_set_by_the_collector(ends: Mapping[str, End]) -> Counter[str]:
    """Count the context variables that are set while garbage is collected after a run of each end, and by whom."""
    set_by: Counter[str] = Counter()

    def note(frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call" and called.__name__ == "set" and isinstance(called.__self__, ContextVar):
            set_by[f"{called.__self__.name} by {frame.f_globals['__name__']}"] += 1

    def watch(phase: str, _: object) -> None:
        sys.setprofile(note if phase == "start" else None)

    gc.callbacks.append(watch)
    try:
        with quiet():
            for end in ends.values():
                end(Watch())
                gc.collect()
    finally:
        gc.callbacks.remove(watch)
        sys.setprofile(None)
    return set_by


@contextmanager
def quiet() -> Iterator[None]:
    """Keep to itself what Python says of coroutines and tasks that nobody ends: those are what is tried here."""
    before, sys.unraisablehook = sys.unraisablehook, lambda _: None
    logging.disable()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    logging.disable(logging.NOTSET)
    sys.unraisablehook = before


@contextmanager
def noises(level: int = logging.WARNING) -> Iterator[tuple[list[str], list[str]]]:
    """Collect the texts of warnings, and of log records from *level* on."""
    records: list[str] = []
    warned: list[str] = []
    handler = logging.Handler(level)
    handler.emit = lambda record: records.append(f"{record.name}: {record.getMessage()}")  # type: ignore[method-assign]
    logging.getLogger().addHandler(handler)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield warned, records
    logging.getLogger().removeHandler(handler)
    warned += [str(warning.message) for warning in caught]


def frames_of_the_program(error: BaseException) -> list[str]:
    """Name the functions that an exception passed, without ours."""
    return [frame.name for frame in traceback.extract_tb(error.__traceback__) if "blamespan_" not in frame.filename]


def own_objects() -> Counter[str]:
    """Count the objects of the integrations that are alive, but for what is kept of the latest runs and checkpoints."""
    kinds = Counter(map(type, gc.get_objects()))
    return Counter(
        {
            kind.__qualname__: count
            for kind, count in kinds.items()
            if str(kind.__module__).startswith("blamespan_integrations.")
            and kind not in (RunOutcome, Contents)
            and kind.__name__ != "CheckpointOrigin"
        }
    )


@contextmanager
def recorded(framework: str) -> Iterator[None]:
    """Record the runs of *framework* and throw the spans away."""
    module = import_module(f"blamespan_integrations.{framework}")
    instrumentor = getattr(module, module.__all__[0])()
    instrumentor.instrument(tracer_provider=TracerProvider(shutdown_on_exit=False))
    yield
    instrumentor.uninstrument()


def main(framework: str, runs: str) -> None:
    """Print the memory of this process as runs of every end go by."""
    faulthandler.enable()
    ends: Mapping[str, End] = import_module(f"tests.integrations.{framework}_ends").ENDS
    with recorded(framework):
        start_s, done = time.monotonic(), 0
        while done < int(runs):
            faulthandler.dump_traceback_later(_MOST_S, exit=True)  # names what hangs
            alive_after(ends, 10, lambda _: None)
            done += len(ends) * 10
            rss_mb, objects = psutil.Process().memory_info().rss / 1e6, sum(own_objects().values())
            row = f"{done:6} runs {rss_mb:7.1f} MB {objects:6} objects {time.monotonic() - start_s:5.0f} s\n"
            sys.stdout.write(row)
            sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
