"""Workers for the supervisor's tests: each is the body of a spawned process."""

from __future__ import annotations

import os
import time
from multiprocessing.connection import Connection

from blamespan_collector.settings import CollectorSettings
from blamespan_collector.worker.messages import NO_ROOM

LAST_WORDS = {"ready": True, "gauges": {"spans_waiting": 7, "open_traces": 0, "traces_waiting": 0}}


def steady(settings: CollectorSettings, link: Connection) -> None:
    """Tell what it hears, and end in order when told to."""
    link.send({"ready": True, "pid": os.getpid()})
    while "stop" not in (heard := link.recv()):
        link.send({"heard": heard})
    link.send(LAST_WORDS)


def dies_twice(settings: CollectorSettings, link: Connection) -> None:
    """Die two times, then be steady; a file counts."""
    starts = settings.journal / "starts"
    starts.write_text(starts.read_text() + "x" if starts.exists() else "x")
    if len(starts.read_text()) < 3:
        os._exit(9)
    steady(settings, link)


def breaks_until_mended(settings: CollectorSettings, link: Connection) -> None:
    """Break soon after the start, again and again, as on something in the journal; a file mends it."""
    if not (settings.journal / "mended").exists():
        link.send({"ready": True})
        raise ValueError("cannot read \ud800 this")
    steady(settings, link)


def gives_up(settings: CollectorSettings, link: Connection) -> None:
    """Say that another start cannot help."""
    link.send({"ready": False, "failed": "expected a backend, got none", "misused": True})


def gives_up_once(settings: CollectorSettings, link: Connection) -> None:
    """Work and die; then give up; then be steady."""
    starts = settings.journal / "starts"
    starts.write_text(starts.read_text() + "x" if starts.exists() else "x")
    if len(starts.read_text()) == 1:
        link.send({"ready": True})
        raise SystemExit(1)
    if len(starts.read_text()) == 2:
        gives_up(settings, link)
        raise SystemExit(1)
    steady(settings, link)


def beats(settings: CollectorSettings, link: Connection) -> None:
    """Say that it works, thirty times a second: more often than a test's supervisor looks."""
    while not link.poll(0.03) or "stop" not in link.recv():
        link.send({"ready": True, "pid": os.getpid()})


def hangs(settings: CollectorSettings, link: Connection) -> None:
    """Say nothing and never end."""
    link.send({"ready": True})
    time.sleep(600)


def wants_room_once(settings: CollectorSettings, link: Connection) -> None:
    """End as on a full disk, the first time."""
    mark = settings.journal / "began"
    if not mark.exists():
        mark.touch()
        raise SystemExit(NO_ROOM)
    steady(settings, link)
