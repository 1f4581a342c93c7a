"""Tries inputs on a target one after the other, with a limit on the time each may take."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import FrameType

from tests.fuzz.targets import Target

HANG_S = 5.0


class Hang(Exception):
    """One input took longer than any may."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `Hang` in the main thread when what runs inside takes too long."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise Hang(f"one input took over {seconds:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def seeds(folder: Path) -> list[bytes]:
    """Read a target's corpus, always in the same order."""
    return [path.read_bytes() for path in sorted(folder.iterdir())]


def inputs(target: Target, corpus: list[bytes], count: int, seed: int) -> Iterator[bytes]:
    """Yield the corpus itself, then changes of it, *count* in all; changed ones are sometimes changed again."""
    random = Random(seed)
    kept = list(corpus)
    yield from corpus[:count]
    for _ in range(count - len(corpus)):
        data = target.mutate(random.choice(kept), random)
        if random.random() < 0.05:
            kept[random.randrange(len(kept))] = data
        yield data


def attempt(target: Target, data: bytes, limit_s: float = HANG_S) -> None:
    """Try one input.

    Args:
        target: What reads it.
        data: The input.
        limit_s: How long it may take.

    Raises:
        Hang: if it takes too long; whatever else the target raises passes.
    """
    with time_limit(limit_s):
        target.check(data)
