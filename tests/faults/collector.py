"""One `blamespan collect` after the other on the same folder: started, killed, paused, started again."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil

READY_WITHIN_S = 30.0
STOPS_WITHIN_S = 20.0
_FAST = {"--quiet-s": "0.1", "--idle-s": "1.5", "--max-age-s": "20"}


class NotReady(Exception):
    """The collector ended, or said nothing, instead of starting."""


class CollectorProcess:
    """The collector under test. It is told everything on its command line and seen only from outside.

    Args:
        folder: Gets its journal, its file sink `traces.jsonl` and its log.
        forward: URL of the backend.
        options: More arguments.

    Attributes:
        addresses: Where it listens, by `http` and `grpc`; empty while it does not.
        failures: What went wrong with the process itself.
    """

    def __init__(self, folder: Path, forward: str, options: tuple[str, ...] = ()) -> None:
        self.out = folder / "traces.jsonl"
        self._log = folder.parent / f"{folder.name}.log"
        self._command = [
            *(sys.executable, "-m", "blamespan", "collect", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"),
            *("--forward", forward, "--out", str(self.out)),
            *("--journal", str(folder / "journal")),
            *[part for option in _FAST.items() for part in option],
            *options,
        ]
        self._process: subprocess.Popen[bytes] | None = None
        self._said_before = 0
        self.addresses: dict[str, str] = {}
        self.failures: list[str] = []

    def spawn(self) -> None:
        """Begin to start it."""
        log = self._log.open("ab")
        self._said_before = log.tell()
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        log.close()

    def wait_ready(self, within_s: float = READY_WITHIN_S) -> dict[str, str]:
        """Wait until it listens.

        Raises:
            NotReady: if it ends before, or takes longer.
        """
        until_s = time.monotonic() + within_s
        while time.monotonic() < until_s:
            if found := re.search(rb"blamespan: ready .*\n", self._said()):
                self.addresses = dict(re.findall(r"(\w+)=(\S+)", found[0].decode()))
                return self.addresses
            if self._process is None or self._process.poll() is not None:
                break
            time.sleep(0.02)
        code = None if self._process is None else self._process.poll()
        raise NotReady(f"not ready (exit code {code}): {self._said()[-600:].decode(errors='replace')}")

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def workers(self) -> list[psutil.Process]:
        """List its child processes, without those that the interpreter keeps for itself."""
        if self._process is None:
            return []
        with suppress(psutil.Error):
            children = psutil.Process(self._process.pid).children(recursive=True)
            return [child for child in children if "resource_tracker" not in " ".join(child.cmdline())]
        return []

    def kill(self) -> None:
        """Kill all of its processes at once, as a power cut does to them."""
        if self._process:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(STOPS_WITHIN_S)
        self.addresses = {}

    def kill_main_only(self) -> list[psutil.Process]:
        """Kill the first process and leave its children behind; returns those."""
        orphans = self.workers()
        if self._process:
            self._process.kill()
            self._process.wait(STOPS_WITHIN_S)
        self.addresses = {}
        return orphans

    def stop(self) -> None:
        """Ask it to end; what it holds may stay in its journal."""
        if not self._process:
            return
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOPS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.failures.append(f"still running {STOPS_WITHIN_S:g} s after SIGTERM")
        self.kill()

    def note_unexpected_end(self) -> bool:
        """Tell whether it ended by itself, and note why."""
        if self._process is None or (code := self._process.poll()) is None:
            return False
        self.failures.append(f"ended by itself with {code}: {self._said()[-600:].decode(errors='replace')}")
        return True

    def _said(self) -> bytes:
        with self._log.open("rb") as log:
            log.seek(self._said_before)
            return log.read()
