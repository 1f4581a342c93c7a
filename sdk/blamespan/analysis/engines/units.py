"""How pieces are shared out: small ones together, and one that is most of the work by itself."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from blamespan.analysis.sources import Piece

_UNIT_BYTES = 2 * 1024 * 1024
_UNIT_PIECES = 64
_UNPACKED = {".gz": 6, ".xz": 10, ".zst": 6}
"""How much larger than its file a compressed export is read, roughly."""


class Giant(tuple[Piece]):
    """One piece that is most of the work."""


def units_of(pieces: Iterable[Piece], giant_bytes: float, only: Piece | None = None) -> Iterator[tuple[Piece, ...]]:
    """Put small neighbours together.

    Args:
        pieces: In their order, which stays.
        giant_bytes: A heavier piece is a giant.
        only: A piece that is one whatever it weighs.
    """
    held: list[Piece] = []
    size = 0
    for piece in pieces:
        if piece is only or weight(piece) > max(giant_bytes, _UNIT_BYTES):
            if held:
                yield tuple(held)
            yield Giant((piece,))
            held, size = [], 0
            continue
        held.append(piece)
        size += _UNIT_BYTES if piece.size is None else weight(piece)
        if size >= _UNIT_BYTES or len(held) >= _UNIT_PIECES:
            yield tuple(held)
            held, size = [], 0
    if held:
        yield tuple(held)


def weight(piece: Piece) -> int:
    """Estimate how many bytes of text are to be read; 0 where nobody knows."""
    return (piece.size or 0) * _UNPACKED.get(os.path.splitext(piece.name)[1], 1)  # noqa: PTH122  # a URL, it may be
