"""What fills a disk: a journal loaded until it refuses, and another program that takes every free byte."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

from tests.faults.ledger import Ledger
from tests.faults.traffic import large_batch

_SENDERS = 3
_REFUSALS = 10
"""In a row and from each sender, until the journal counts as full."""
_REFUSED_WAIT_S = 0.2
_AT_ONCE_BYTES = (1024 * 1024, 64 * 1024, 4096)
_LEFT_S = 0.005


def fill_journal(address: str, ledger: Ledger, random: Random) -> None:
    """Send large requests to `HOST:PORT` until all that come are refused."""
    seeds = [random.random() for _ in range(_SENDERS)]
    threads = [threading.Thread(target=_fill, args=(address, ledger, Random(seed))) for seed in seeds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _fill(address: str, ledger: Ledger, random: Random) -> None:
    connection = http.client.HTTPConnection(address, timeout=30)
    refusals = 0
    while refusals < _REFUSALS:
        batch = large_batch(random)
        ledger.send(batch.body)
        try:
            connection.request("POST", "/v1/traces", batch.body, {"content-type": "application/x-protobuf"})
            answer = connection.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException):  # refused before the body was read
            connection.close()
            status = 0
        else:
            status = answer.status
        if status == 200:
            ledger.acknowledge(batch.keys)
            refusals = 0
        else:
            refusals += 1
            time.sleep(_REFUSED_WAIT_S)
    connection.close()


@contextmanager
def foreign_writer(folder: Path) -> Iterator[None]:
    """Take every byte of a disk that is free or becomes free, until the block ends."""
    path, is_over = folder / "foreign", threading.Event()

    def eat() -> None:
        with path.open("ab", buffering=0) as file:
            while not is_over.wait(_LEFT_S):
                for size_bytes in _AT_ONCE_BYTES:
                    with suppress(OSError):
                        while file.write(bytes(size_bytes)) == size_bytes:
                            pass

    thread = threading.Thread(target=eat)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        path.unlink()
