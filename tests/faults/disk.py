"""A small disk of its own that can be filled up."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

DISK_BYTES = 160 * 1024 * 1024


class Disk:
    """A folder on a small tmpfs where we may mount one; else an ordinary folder, which cannot be filled.

    Args:
        folder: Where to mount it.
        size_bytes: How large it is.

    Attributes:
        folder: Where the collector lives.
        can_fill: Whether `fill` works here: it takes the right to mount (root, or `unshare -rm`).
    """

    def __init__(self, folder: Path, size_bytes: int = DISK_BYTES) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.can_fill = _mounted(folder, size_bytes)
        self._ballast = folder / "ballast"

    def fill(self, leave_bytes: int = 0) -> None:
        """Take all room but *leave_bytes*."""
        if not self.can_fill:
            return
        with self._ballast.open("ab") as ballast:
            free = shutil.disk_usage(self.folder).free
            with suppress(OSError):
                os.posix_fallocate(ballast.fileno(), ballast.tell(), max(1, free - leave_bytes))

    def empty(self) -> None:
        """Give the room back."""
        self._ballast.unlink(missing_ok=True)

    def close(self, keep_in: Path | None = None) -> None:
        """Unmount; copy what is there to *keep_in* first, where one is given."""
        self.empty()
        if keep_in:
            shutil.copytree(self.folder, keep_in, dirs_exist_ok=True)
        if self.can_fill:
            subprocess.run(["umount", "-l", str(self.folder)], check=False, capture_output=True)
        shutil.rmtree(self.folder, ignore_errors=True)


def may_mount_in_a_namespace() -> bool:
    """Tell whether an unprivileged user may mount in a namespace of its own."""
    with suppress(OSError):
        probe = ["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
        return subprocess.run(probe, check=False, capture_output=True).returncode == 0
    return False


def _mounted(folder: Path, size_bytes: int) -> bool:
    with suppress(OSError):
        command = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(folder)]
        return subprocess.run(command, check=False, capture_output=True).returncode == 0
    return False
