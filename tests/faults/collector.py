"""One `blamespan collect` after the other on the same folder: started, killed, paused, started again."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import psutil

READY_WITHIN_S = 30.0
STOPS_WITHIN_S = 20.0
_FAST = {"BLAMESPAN_QUIET_S": "0.1", "BLAMESPAN_IDLE_S": "1.5", "BLAMESPAN_MAX_AGE_S": "20"}
_LOST = (
    rb"entries with (\d+) spans are lost",
    rb"\((\d+)\) is lost: its journal segment",
    rb"(\d+) spans are lost: their rows",
    rb"(\d+) spans that were carried over are lost",
    rb"At most (\d+) spans waited in it",
)
"""What the log says of spans that are lost by damage."""


class NotReady(Exception):
    """The collector ended, or said nothing, instead of starting."""


class CollectorProcess:
    """The collector under test. It is told everything by options and variables, and seen only from outside.

    Args:
        folder: Gets its journal, and its log beside it.
        forward: URL of the backend.
        options: More arguments.
        out: Its file sink; by default `traces.jsonl` in *folder*.
        environment: Of its processes; by default this one's.

    Attributes:
        journal: The journal's folder.
        addresses: Where it listens, by `http` and `grpc`; empty while it does not.
        failures: What went wrong with the process itself.
    """

    def __init__(
        self,
        folder: Path,
        forward: str,
        options: tuple[str, ...] = (),
        out: Path | None = None,
        environment: dict[str, str] | None = None,
    ) -> None:
        self._environment = (os.environ if environment is None else environment) | _FAST
        self.out = out or folder / "traces.jsonl"
        self.journal = folder / "journal"
        self._log = folder.parent / f"{folder.name}.log"
        self._command = [
            *(sys.executable, "-m", "blamespan", "collect", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"),
            *("--forward", forward, "--out", str(self.out)),
            *("--journal", str(self.journal)),
            *options,
        ]
        self._resend = [*self._command[:4], "resend", "--journal", str(self.journal), "--sink", forward]
        self._process: subprocess.Popen[bytes] | None = None
        self._said_before = 0
        self.addresses: dict[str, str] = {}
        self.failures: list[str] = []

    def spawn(self) -> None:
        """Begin to start it."""
        log = self._log.open("ab")
        self._said_before = log.tell()
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=self._environment,
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

    def resend(self, since_s: float) -> int:
        """Ask for what was delivered since then (Unix time) to be sent to the backend again; returns how many spans."""
        since = datetime.fromtimestamp(since_s, UTC).isoformat()
        command = [*self._resend, "--since", since, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=STOPS_WITHIN_S, check=False)
        if done.returncode:
            self.failures.append(f"resend ended with {done.returncode}: {done.stderr[-300:]}")
            return 0
        return sum(result["spans"] for result in json.loads(done.stdout)["results"] if result["kind"] == "traces")

    def not_ready(self) -> str | None:
        """Ask `/readyz`; returns why it is not ready, None where it is."""
        connection = http.client.HTTPConnection(self.addresses["http"], timeout=5)
        try:
            connection.request("GET", "/readyz")
            answer = connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self.failures.append(f"/readyz does not answer: {error!r}")
            return "no answer"
        finally:
            connection.close()
        return None if answer.status == 200 else str(json.loads(body)["reason"])

    def spans_counted_as_lost(self) -> int:
        """Sum up what its log says is lost, in all of its lives."""
        log = self._log.read_bytes()
        return sum(int(count) for pattern in _LOST for count in re.findall(pattern, log))

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
