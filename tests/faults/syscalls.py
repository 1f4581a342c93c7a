"""System calls of the collector that fail: a library that is preloaded into it, and the file that tells it which."""

from __future__ import annotations

import errno
import mmap
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

SOURCE: Final = Path(__file__).with_name("failing_calls.c")
Call: TypeAlias = Literal["open", "write", "read", "sync", "truncate", "allocate", "unlink", "rename", "mkdir", "stat"]
Way: TypeAlias = Literal["ENOSPC", "EIO", "short", "hangs"]
CALLS: Final[tuple[Call, ...]] = (
    "open", "write", "read", "sync", "truncate", "allocate", "unlink", "rename", "mkdir", "stat",
)  # fmt: skip
"""In the order of the source's `enum call`. `write` and `read` are also `pwrite` and `pread`, `sync` is `fsync` and
`fdatasync`, `rename` is `link`, too."""
_WAYS: Final = {"short": 1, "hangs": 2}
_CONTROL: Final = struct.Struct("=iiiiiii228s")
_ANY: Final = -1
ALL_ROOMS: Final = "/journal/"
ROOMS: Final = ("/segments", "/state.db", "/store/")
"""The journal, the state, the store of runs."""


@dataclass(frozen=True, slots=True)
class FailingCalls:
    """Which calls fail, and how.

    Attributes:
        call: What fails.
        way: How: with an error, by doing only a part, or by not coming back while the fault lasts.
        room: Where, by what stands in the path of the files; by default all that lies in the journal's folder.
    """

    call: Call
    way: Way
    room: str = ALL_ROOMS

    def __str__(self) -> str:
        return f"{self.call} {self.way}" + ("" if self.room == ALL_ROOMS else f" {self.room}")


_ERRORS: Final[dict[Call, tuple[Way, ...]]] = dict.fromkeys(
    ("open", "write", "sync", "truncate", "unlink", "mkdir"), ("ENOSPC", "EIO")
)

TABLE: Final = (
    *(
        FailingCalls(call, way)
        for call, ways in _ERRORS.items()
        for way in ways
    ),
    FailingCalls("write", "short"),
    FailingCalls("sync", "hangs"),
    FailingCalls("read", "EIO"),
    FailingCalls("read", "short"),
    FailingCalls("rename", "EIO"),
    FailingCalls("stat", "EIO"),
    FailingCalls("write", "ENOSPC", ".mark"),
    FailingCalls("sync", "EIO", "/segments"),
    FailingCalls("sync", "EIO", "/state.db"),
    FailingCalls("write", "EIO", "/state.db"),
)  # fmt: skip
"""Every call that the journal, the state and the store make on a disk, with every way in which it can fail."""


class Shim:
    """The library, and its control file.

    Args:
        folder: Gets both.

    Raises:
        OSError: if there is no C compiler, or it fails.
    """

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("gcc") or shutil.which("cc")
        if compiler is None:
            raise OSError("there is no C compiler (gcc or cc)")
        self._library, path = folder / "failing_calls.so", folder / "failing_calls"
        command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(self._library), str(SOURCE), "-ldl"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise OSError(f"{compiler} does not make the library: {done.stderr[-300:]}")
        path.write_bytes(bytes(_CONTROL.size))
        with path.open("r+b") as file:
            self._control = mmap.mmap(file.fileno(), _CONTROL.size)
        self._path = path

    @property
    def environment(self) -> dict[str, str]:
        """What a process's environment takes for its calls to fail."""
        return {**os.environ, "LD_PRELOAD": str(self._library), "BLAMESPAN_FAILING_CALLS": str(self._path)}

    @property
    def failed(self) -> int:
        """How many calls have failed since `begin`."""
        return int(_CONTROL.unpack(self._control[:])[6])

    def begin(self, calls: FailingCalls, *, share: float = 1.0, most: int = _ANY) -> None:
        """Let calls fail from now on.

        Args:
            calls: Which.
            share: How many of them.
            most: After that many all is well again.
        """
        code = getattr(errno, calls.way, errno.EIO)
        values = CALLS.index(calls.call), _WAYS.get(calls.way, 0), code, int(1000 * share), most, 0
        self._control[:] = _CONTROL.pack(0, *values, calls.room.encode())
        self._control[:4] = struct.pack("=i", 1)

    def end(self) -> None:
        """Let all be well again."""
        self._control[:4] = bytes(4)

    @contextmanager
    def failing(self, calls: FailingCalls, *, share: float = 1.0) -> Iterator[None]:
        """Let calls fail in the block."""
        self.begin(calls, share=share)
        try:
            yield
        finally:
            self.end()
