"""`blamespan collect` as people start it: a process, its signals, its exit codes."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter

from blamespan import conventions as words
from blamespan.otlp import request_from_json
from blamespan.otlp.sdk import span_to_sdk
from blamespan.spans import Span
from blamespan_collector.command import collect
from tests.collector.fakes import run, spans_of

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")

HERE = Path(__file__).parents[2]
MAIN = """
    import sys
    import blamespan_collector.command as command
    from tests.collector.fakes import FirstStepTracer
    from blamespan.cli import main
    command.load_tracer = lambda name: FirstStepTracer()
    sys.argv[0] = "blamespan"
    main()
"""


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(MAIN), "collect", *arguments]


def finished(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=60, check=False, cwd=HERE)


@contextmanager
def started(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    """Start a collector on free ports and read its ready line."""
    free = ["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    process = subprocess.Popen(
        command(*free, *arguments), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=HERE
    )
    try:
        assert process.stderr
        line = process.stderr.readline()
        assert line.startswith("blamespan: ready "), line + process.stderr.read()
        yield process, dict(re.findall(r"(\w+)=(\S+)", line))
    finally:
        process.kill()
        process.communicate()


def written(path: Path) -> list[Sequence[Span]]:
    return [spans_of([request_from_json(line)]) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_delivers_what_is_held_and_exits_in_order(tmp_path: Path, number: signal.Signals) -> None:
    """A run held when the signal comes is annotated and written; the exit code says that nothing was lost."""
    path = tmp_path / "traces.jsonl"
    with started("--out", str(path), "--quiet-s", "60") as (process, told):
        GrpcExporter(told["grpc"], insecure=True).export([span_to_sdk(span) for span in run(1)])
        HttpExporter(f"http://{told['http']}/v1/traces").export([span_to_sdk(span) for span in run(2)[1:]])
        process.send_signal(number)
        began = time.monotonic()
        code = process.wait(15)

    assert (code, told["to"], told["tracer"]) == (0, str(path), "first-step/1")
    assert time.monotonic() - began < 5
    assert [len(spans) for spans in written(path)] == [4, 3]
    assert all(any(words.BLAME_AGENT in span.attributes for span in spans) for spans in written(path))


def test_complete_trace_is_forwarded_to_the_next_collector(tmp_path: Path) -> None:
    """Two collectors in a row: what the first annotates, the second writes."""
    path = tmp_path / "traces.jsonl"
    with (
        started("--out", str(path), "--quiet-s", "0.1") as (_, second),
        started("--forward", f"http://{second['http']}", "--quiet-s", "0.1") as (_, first),
    ):
        HttpExporter(f"http://{first['http']}/v1/traces").export([span_to_sdk(span) for span in run(1)])
        deadline = time.monotonic() + 15
        while not path.read_text() and time.monotonic() < deadline:
            time.sleep(0.02)

        assert [span.span_id for span in written(path)[0]] == [span.span_id for span in run(1)]


def test_unreachable_backend_is_an_exit_code(tmp_path: Path) -> None:
    """Spans that reach no backend by the end are counted, and the exit code says so."""
    with started("--forward", "http://127.0.0.1:9", "--quiet-s", "0.1") as (process, told):
        HttpExporter(f"http://{told['http']}/v1/traces").export([span_to_sdk(span) for span in run(1)])
        process.terminate()
        code = process.wait(15)
        assert process.stderr
        said = process.stderr.read()

    assert code == 1
    assert "4 of 4 spans did not reach http://127.0.0.1:9: ConnectError" in said
    assert "blamespan: 4 deliveries of spans failed" in said


def test_stdout_gets_data_only() -> None:
    """With `--out -` traces are on stdout and talk is on stderr."""
    with started("--out", "-", "--quiet-s", "0.1") as (process, told):
        HttpExporter(f"http://{told['http']}/v1/traces").export([span_to_sdk(span) for span in run(1)])
        assert process.stdout
        line = process.stdout.readline()
        process.terminate()
        process.wait(15)
        rest = process.stdout.read()

    assert [span.span_id for span in spans_of([request_from_json(line)])] == [span.span_id for span in run(1)]
    assert rest == ""


@pytest.mark.parametrize("kind", ["grpc", "http"])
def test_taken_port_is_named(kind: str) -> None:
    """A port in use is exit code 1, and the message says which and what to do."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        addresses = {"grpc": "none", "http": "none", kind: f"127.0.0.1:{port}"}
        done = finished("--out", "-", *(word for name, at in addresses.items() for word in (f"--{name}", at)))

    assert done.returncode == 1
    assert f"blamespan: cannot listen for OTLP/{kind.upper() if kind == 'http' else 'gRPC'} on 127.0.0.1:{port}" in (
        done.stderr
    )
    assert f"choose another with --{kind} 127.0.0.1:PORT" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "expected somewhere to send annotated traces, got neither --forward nor --out"),
        (["--out", "-", "--grpc", "none", "--http", "none"], "got 'none' for both"),
        (["--out", "-", "--http", "4318"], "expected an address as HOST:PORT, or 'none', got '4318'"),
        (["--forward", "localhost:4317"], "expected a backend's URL"),
        (["--out", "-", "--idle-s", "0"], "idle_s must be above 0"),
        (["--out", "-", "--header", "secret"], "expected a header as NAME=VALUE"),
        (["--out", "/nonexistent/x"], "expected a file to append traces to"),
    ],
)
def test_wrong_use_is_exit_code_two(arguments: list[str], said: str) -> None:
    """What was asked for wrongly is refused before anything starts, with what to do."""
    done = finished(*arguments)

    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_settings_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An argument wins over a variable, a variable over the default."""
    path = tmp_path / "traces.jsonl"
    monkeypatch.setenv("BLAMESPAN_OUT", str(path))
    monkeypatch.setenv("BLAMESPAN_QUIET_S", "0.1")
    monkeypatch.setenv("BLAMESPAN_MAX_TRACES", "0")
    with started("--max-traces", "5") as (_, told):
        counts = httpx.get(f"http://{told['http']}/healthz", trust_env=False).json()

    assert told["to"] == str(path)
    assert counts["status"] == "ok"


def test_help_needs_nothing_installed() -> None:
    """The help is there without gRPC, and names every variable."""
    blocked = "import sys; sys.modules.update({'grpc': None, 'uvicorn': None, 'starlette': None, 'httpx': None});"
    code = f"{blocked} from blamespan_collector.command import collect; collect(['--help'])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False, cwd=HERE
    )
    shown = CliRunner().invoke(collect, ["--help"]).output

    assert (done.returncode, done.stderr) == (0, "")
    assert all(f"BLAMESPAN_{name}" in shown for name in ("GRPC", "HTTP", "FORWARD", "OUT", "MAX_REQUEST_BYTES"))


def test_missing_extra_names_its_install() -> None:
    """Without the extra's packages the message says what to install."""
    code = "import sys; sys.modules['grpc'] = None; from blamespan.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "collect", "--out", "-"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=HERE,
    )

    assert done.returncode == 1
    assert "pip install 'blamespan[collector]'" in done.stderr
    assert "Traceback" not in done.stderr
