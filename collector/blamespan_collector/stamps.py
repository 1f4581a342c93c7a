"""Noticing that files changed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


class Stamps:
    """Remembers what files looked like from outside: where they are, how large, and when they were last written.

    Links are followed: a mounted secret is renewed by pointing a link elsewhere.

    Args:
        paths: The files; one that is not there counts as a state, too.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        self.paths = tuple(paths)
        self._seen = self._look()

    def have_changed(self) -> bool:
        """Check whether one looks different from the last time somebody asked."""
        stamps = self._look()
        has_changed, self._seen = stamps != self._seen, stamps
        return has_changed

    def _look(self) -> list[tuple[int, int, int] | None]:
        return [_stamp(path) for path in self.paths]


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
