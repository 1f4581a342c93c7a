"""The servers of `scripts/bench collector`: ours, Arize Phoenix and MLflow, each a process tree that is metered."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import psutil

ROOT = Path(__file__).parents[2]
PHOENIX = "arize-phoenix==20.26.1"
MLFLOW = "mlflow==3.17.2"
_STARTS_WITHIN_S = 300.0
_LOOK_EVERY_S = 0.5
"""To count a process's pages takes milliseconds of the processor that is being measured."""


@dataclass(slots=True)
class Meter:
    """What a process and its children take: CPU seconds so far, and the most memory at any one time.

    Memory is what they hold together: a page that several share counts once (PSS), where the system tells.
    """

    pid: int
    peak_bytes: int = 0
    _ended: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        threading.Thread(target=self._watch, daemon=True).start()

    def stop(self) -> None:
        self._ended.set()

    def memory_bytes(self) -> int:
        return int(sum(self._each(_held_bytes)))

    def cpu_s(self) -> float:
        return sum(self._each(lambda one: sum(one.cpu_times()[:4])))

    def _each(self, read: Callable[[psutil.Process], float]) -> list[float]:
        found: list[float] = []
        with suppress(psutil.Error):
            main = psutil.Process(self.pid)
            for one in [main, *main.children(recursive=True)]:
                with suppress(psutil.Error):
                    found.append(read(one))
        return found

    def _watch(self) -> None:
        while not self._ended.wait(_LOOK_EVERY_S):
            self.peak_bytes = max(self.peak_bytes, self.memory_bytes())


def _held_bytes(process: psutil.Process) -> int:
    held = process.memory_full_info() if psutil.LINUX else process.memory_info()
    return int(getattr(held, "pss", held.rss))


@dataclass(slots=True)
class Server:
    """A running server.

    Attributes:
        name: Name and version.
        http: Where it takes OTLP over HTTP.
        grpc: Where it takes OTLP over gRPC, if it does.
        headers: What it wants with each request.
        stored: Counts the spans it stored or forwarded.
    """

    name: str
    http: str
    grpc: str | None
    meter: Meter
    stored: Counter
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Out:
    """What came out of a server.

    Attributes:
        spans: Those that were sent; verdicts on spans of their own are not among them.
        last_unix_s: When the last came.
        judged: Traces with a verdict.
        judged_late: Those of them whose verdict came after them.
    """

    spans: int = 0
    last_unix_s: float = 0.0
    judged: int = 0
    judged_late: int = 0


class Counter(Protocol):
    """Counts what came out of a server."""

    judges: bool
    """Whether verdicts are part of what comes out."""

    def read(self) -> Out:
        """Count."""
        ...


class SinkCounter:
    """Asks `collector_sink`."""

    judges = True

    def __init__(self, url: str) -> None:
        self._url = url

    def read(self) -> Out:
        with urllib.request.urlopen(self._url, timeout=30) as answer:
            return Out(**json.load(answer))


class TableCounter:
    """Counts the rows of a server's `spans` table."""

    judges = False

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last = Out()

    def read(self) -> Out:
        with suppress(sqlite3.Error), closing(sqlite3.connect(f"file:{self._path}?mode=ro", uri=True)) as database:
            (rows,) = database.execute("select count(*) from spans").fetchone()
            if rows != self._last.spans:
                self._last = Out(rows, time.time())
        return self._last


@contextmanager
def blamespan(*options: str, **settings: int) -> Iterator[Server]:
    """Start ours with its journal and its default tracer, forwarding over HTTP to a sink that only counts."""
    variables = {f"BLAMESPAN_{name.upper()}": str(value) for name, value in settings.items()}
    with (
        _folder() as folder,
        _process([sys.executable, "-m", "tests.benchmarks.collector_sink"], folder / "sink.log") as sink,
    ):
        sink_url = _said(sink, folder / "sink.log", r"(http://\S+)")[1]
        command = [
            *(sys.executable, "-m", "blamespan", "collect", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"),
            *("--forward", sink_url, "--journal", str(folder / "journal"), *options),
        ]
        with _process(command, folder / "blamespan.log", variables) as collector:
            ready = _said(collector, folder / "blamespan.log", r"ready .*\n")[0]
            at = dict(re.findall(r"(\w+)=(\S+)", ready))
            name = f"blamespan ({at['tracer']})"
            counter = SinkCounter(sink_url)
            with _metered(collector) as meter:
                yield Server(name, f"http://{at['http']}/v1/traces", f"grpc://{at['grpc']}", meter, counter)


@contextmanager
def phoenix() -> Iterator[Server]:
    """Start Arize Phoenix on SQLite, as `phoenix serve` does."""
    with _folder() as folder:
        environment = _environment("phoenix", PHOENIX)
        http, grpc = _free_port(), _free_port()
        settings = {
            "PHOENIX_WORKING_DIR": str(folder),
            "PHOENIX_HOST": "127.0.0.1",
            "PHOENIX_PORT": str(http),
            "PHOENIX_GRPC_PORT": str(grpc),
            "PHOENIX_TELEMETRY_ENABLED": "false",
            "PHOENIX_ALLOW_EXTERNAL_RESOURCES": "false",
        }
        command = [str(environment / "bin" / "phoenix"), "serve"]
        with _process(command, folder / "phoenix.log", settings) as process:
            url = f"http://127.0.0.1:{http}"
            _wait_for(process, url, folder / "phoenix.log")
            counter = TableCounter(folder / "phoenix.db")
            with _metered(process) as meter:
                yield Server(PHOENIX.replace("==", " "), f"{url}/v1/traces", f"grpc://127.0.0.1:{grpc}", meter, counter)


@contextmanager
def mlflow() -> Iterator[Server]:
    """Start an MLflow server on SQLite with its default number of workers."""
    with _folder() as folder:
        environment = _environment("mlflow", MLFLOW)
        port, database = _free_port(), folder / "mlflow.db"
        command = [
            *(str(environment / "bin" / "mlflow"), "server", "--host", "127.0.0.1", "--port", str(port)),
            *("--backend-store-uri", f"sqlite:///{database}", "--default-artifact-root", str(folder / "artifacts")),
        ]
        path = f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}"
        settings = {"PATH": path, "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
        with _process(command, folder / "mlflow.log", settings) as process:
            url = f"http://127.0.0.1:{port}"
            _wait_for(process, f"{url}/health", folder / "mlflow.log")
            with _metered(process) as meter:
                yield Server(
                    MLFLOW.replace("==", " "),
                    f"{url}/v1/traces",
                    None,
                    meter,
                    TableCounter(database),
                    {"x-mlflow-experiment-id": "0"},
                )


def _environment(name: str, requirement: str) -> Path:
    """Make, once, an environment of its own for a peer: its pins are not ours."""
    folder = ROOT / f".venv-{name}"
    stamp = folder / requirement.replace("==", "-")
    if stamp.exists():
        return folder
    uv = shutil.which("uv")
    python = str(folder / "bin" / "python")
    make = [uv, "venv", "-q", "--clear", "-p", sys.executable] if uv else [sys.executable, "-m", "venv", "--clear"]
    install = [uv, "pip", "install", "-q", "-p", python] if uv else [python, "-m", "pip", "install", "-q"]
    subprocess.run([*make, str(folder)], check=True, timeout=300)
    subprocess.run([*install, requirement], check=True, timeout=1200)
    stamp.touch()
    return folder


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@contextmanager
def _process(
    command: list[str], log: Path, settings: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, env={**os.environ, **(settings or {})}, cwd=ROOT, start_new_session=True
        )
    try:
        yield process
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        process.wait(20)


@contextmanager
def _metered(process: subprocess.Popen[bytes]) -> Iterator[Meter]:
    meter = Meter(process.pid)
    meter.start()
    try:
        yield meter
    finally:
        meter.stop()


def _said(process: subprocess.Popen[bytes], log: Path, pattern: str) -> re.Match[str]:
    until_s = time.monotonic() + _STARTS_WITHIN_S
    while time.monotonic() < until_s and process.poll() is None:
        if found := re.search(pattern, log.read_text()):
            return found
        time.sleep(0.05)
    raise RuntimeError(f"expected {pattern!r} from {process.args!r}, got: {log.read_text()[-1000:]}")


def _wait_for(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    until_s = time.monotonic() + _STARTS_WITHIN_S
    while time.monotonic() < until_s and process.poll() is None:
        with suppress(OSError), urllib.request.urlopen(url, timeout=5):
            return
        time.sleep(0.2)
    raise RuntimeError(f"expected an answer from {url}, got none: {log.read_text()[-1000:]}")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port
