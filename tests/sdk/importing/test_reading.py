"""Reading tells how far it is, and holds no more memory the more processes read."""

from __future__ import annotations

import gzip
import lzma
import random
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import zstandard

from blamespan.analysis.engines.workers import Workers
from blamespan.importing.files import read_lines
from blamespan.importing.reading import HELD_CHARACTERS, held_share, share_memory, watched_reading
from blamespan.tracers import Tracer

_RANDOM = random.Random(0)
TEXT = b"\n".join(_RANDOM.randbytes(12).hex().encode() for _ in range(30_000))


@pytest.mark.parametrize(
    "pack", [bytes, gzip.compress, lzma.compress, zstandard.compress], ids=lambda pack: pack.__name__
)
def test_reading_tells_how_far_it_is(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    """In bytes as stored, compressed or not, in steps, to the end; nobody hears of it afterwards."""
    path = tmp_path / "f"
    path.write_bytes(pack(TEXT))
    told: list[tuple[Path, int]] = []

    with watched_reading(lambda *said: told.append(said)):
        assert sum(1 for _ in read_lines(path)) == 30_000
    count = len(told)
    list(read_lines(path))

    sizes = [size for _, size in told]
    assert {path for path, _ in told} == {path}
    assert sizes == sorted(sizes)
    assert sizes[-1] == path.stat().st_size
    assert len(set(sizes)) > 1
    assert len(told) == count


def test_share_of_memory_falls_with_the_number_of_readers() -> None:
    """All together hold what two do, up to sixteen; one alone no more than half of it."""
    shares = {}
    try:
        for readers in (1, 2, 4, 16, 64):
            share_memory(readers)
            shares[readers] = held_share()
    finally:
        share_memory(1)

    assert shares[1] == shares[2] == HELD_CHARACTERS // 2
    assert [readers * shares[readers] for readers in (2, 4, 16)] == [HELD_CHARACTERS] * 3
    assert shares[64] == shares[16]


class Asks:
    """A unit of work that asks for the share of the process it is done in."""

    def frames(self, tracer: Tracer) -> Iterator[object]:
        del tracer
        yield held_share()


def test_workers_share_memory() -> None:
    """Each knows how many there are."""
    with closing(Workers(8, None)) as workers, closing(workers.submit(Asks())) as answers:
        assert list(answers) == [HELD_CHARACTERS // 8]
