"""`blamespan collect` as people start it: a process, its signals, its exit codes."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import psutil
import pytest
from click.testing import CliRunner
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter

from blamespan import conventions as words
from blamespan.cores import THREADS
from blamespan.otlp import request_from_json
from blamespan.otlp.sdk import span_to_sdk
from blamespan.spans import Span
from blamespan_collector.command import collect
from tests.collector.fakes import run, spans_of

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")

HERE = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_first_step_tracer(tmp_path, monkeypatch)


def use_first_step_tracer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every collector of a test a journal of its own, and a tracer as somebody would install one."""
    installed = tmp_path / "installed" / "first_step-1.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: first-step\nVersion: 1\n")
    (installed / "entry_points.txt").write_text(
        "[blamespan.tracers]\nfirst-step = tests.collector.fakes:FirstStepTracer\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(installed.parent), str(HERE))))
    monkeypatch.setenv("BLAMESPAN_TRACER", "first-step")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "blamespan", "collect", *arguments]


def variables(settings: Mapping[str, object]) -> dict[str, str]:
    """Return this process's variables, and those of settings that have no option."""
    return os.environ | {f"BLAMESPAN_{name.upper()}": str(value) for name, value in settings.items()}


def finished(*arguments: str, **settings: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=HERE,
        env=variables(settings),
    )


_numbers = itertools.count()


@contextmanager
def started(
    *arguments: str, journal: Path | None = None, **settings: object
) -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    """Start a collector on free ports, with a journal of its own, and read its ready line."""
    folder = journal or Path(os.environ["XDG_STATE_HOME"]) / f"journal{next(_numbers)}"
    free = ["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--journal", str(folder)]
    process = subprocess.Popen(
        command(*free, *arguments),
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=HERE,
        env=variables(settings),
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
    with started("--out", str(path), quiet_s=60) as (process, told):
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
        started("--out", str(path), quiet_s=0.1) as (_, second),
        started("--forward", f"http://{second['http']}", quiet_s=0.1) as (_, first),
    ):
        HttpExporter(f"http://{first['http']}/v1/traces").export([span_to_sdk(span) for span in run(1)])
        deadline = time.monotonic() + 15
        while not path.read_text() and time.monotonic() < deadline:
            time.sleep(0.02)

        assert [span.span_id for span in written(path)[0]] == [span.span_id for span in run(1)]


def test_unreachable_backend_costs_nothing(tmp_path: Path) -> None:
    """What reaches no backend by the end waits in the journal, which is said, and reaches it after the next start."""
    journal, path = tmp_path / "journal", tmp_path / "traces.jsonl"
    with started("--forward", "http://127.0.0.1:9", quiet_s=0.1, drain_s=1, journal=journal) as (
        process,
        told,
    ):
        HttpExporter(f"http://{told['http']}/v1/traces").export([span_to_sdk(span) for span in run(1)])
        process.terminate()
        code = process.wait(15)
        assert process.stderr
        said = process.stderr.read()
    with started("--out", str(path), quiet_s=0.1) as (_, second):
        forward = f"http://{second['http']}"
        with started("--forward", forward, journal=journal, quiet_s=0.1) as (first, _):
            first.terminate()
            first.wait(15)
    assert code == 0
    assert f"blamespan: 4 deliveries of spans wait in {journal}" in said


def test_last_line_counts_what_was_set_aside(tmp_path: Path) -> None:
    """What a backend refused is no delivery: the last line says how many spans, and how to send them again."""

    class Refusing(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(status[0])
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    status = [400]
    server = ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    journal = tmp_path / "journal"
    forward = ["--forward", f"http://127.0.0.1:{server.server_address[1]}", "--page", "none"]
    with started(*forward, journal=journal, quiet_s=0.1) as (process, told):
        HttpExporter(f"http://{told['http']}/v1/traces").export([span_to_sdk(span) for span in run(1)])
        process.terminate()
        process.wait(15)
        assert process.stderr
        refused = process.stderr.read().splitlines()[-1]
    status[0] = 200
    resent = finished("resend", "--aside", "--journal", str(journal))
    with started(*forward, journal=journal, quiet_s=0.1) as (process, _):
        process.terminate()
        process.wait(15)
        assert process.stderr
        taken = process.stderr.read().splitlines()[-1]
    server.shutdown()
    server.server_close()

    assert refused == (
        f"blamespan: 4 spans were set aside: blamespan collect resend --aside --journal {journal}; "
        "everything else that was acknowledged is delivered"
    )
    assert resent.stderr == f"blamespan: it is sent when a collector with --journal {journal} starts\n"
    assert taken == "blamespan: everything that was acknowledged is delivered"


def test_killed_collector_loses_nothing(tmp_path: Path) -> None:
    """After `kill -9` right after the answer, the next start delivers every span, once."""
    journal, path = tmp_path / "journal", tmp_path / "traces.jsonl"
    with started("--out", str(path), journal=journal) as (process, told):
        HttpExporter(f"http://{told['http']}/v1/traces").export([span_to_sdk(span) for span in run(1)])
        process.kill()
    with started("--out", str(path), journal=journal, quiet_s=0.1) as (process, _):
        process.terminate()
        code = process.wait(15)
        assert process.stderr
        said = process.stderr.read()

    assert (code, "everything that was acknowledged is delivered" in said) == (0, True)
    assert [span.span_id for spans in written(path) for span in spans] == [span.span_id for span in run(1)]


def test_second_signal_ends_at_once() -> None:
    """Who does not want to wait for the drain signals twice."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        backend = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with started("--forward", backend, quiet_s=60, drain_s=9) as (process, told):
            HttpExporter(f"http://{told['http']}/v1/traces").export([span_to_sdk(span) for span in run(1)])
            process.terminate()
            time.sleep(1)
            process.terminate()
            began = time.monotonic()
            code = process.wait(15)
            took_s = time.monotonic() - began

    assert code == -signal.SIGTERM
    assert took_s < 2


def test_worker_computes_with_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy gets no more of the machine for verdicts, as nobody said that it should."""
    for name in THREADS:
        monkeypatch.delenv(name, raising=False)
    with started("--out", "-") as (process, _):
        children = [child.environ() for child in psutil.Process(process.pid).children()]
    told = [{name: one[name] for name in THREADS if name in one} for one in children]

    assert told
    assert [one for one in told if one != {"OPENBLAS_NUM_THREADS": "1"}] == []


def test_second_collector_on_one_journal_is_refused(tmp_path: Path) -> None:
    """Two collectors cannot share a journal, and the message says so."""
    with started("--out", "-", journal=tmp_path / "journal"):
        free = ["--grpc", "none", "--http", "127.0.0.1:0"]
        done = finished("--out", "-", *free, "--journal", str(tmp_path / "journal"))

    assert done.returncode == 1
    assert "another collector uses" in done.stderr
    assert "Traceback" not in done.stderr


def test_non_loopback_address_is_warned_of(tmp_path: Path) -> None:
    """Listening to the world without TLS or tokens is allowed and said."""
    done = subprocess.Popen(
        command("--out", "-", "--grpc", "none", "--http", "0.0.0.0:0", "--journal", str(tmp_path / "journal")),
        stderr=subprocess.PIPE,
        text=True,
        cwd=HERE,
    )
    assert done.stderr
    said = [done.stderr.readline(), done.stderr.readline()]
    done.kill()
    done.communicate()

    assert "--http 0.0.0.0:0 is reachable from elsewhere without TLS" in said[0]
    assert "takes spans from anybody who reaches it: set token-file" in said[1]


def test_json_log_holds_nothing_else(tmp_path: Path) -> None:
    """With the log in JSON every line on stderr is an object, the ready line and the last words too."""
    options = ["--out", str(tmp_path / "out"), "--journal", str(tmp_path / "journal")]
    process = subprocess.Popen(
        command(*options, "--grpc", "none", "--http", "127.0.0.1:0"),
        stderr=subprocess.PIPE,
        text=True,
        cwd=HERE,
        env=variables({"log_format": "json"}),
    )
    assert process.stderr
    first = process.stderr.readline()
    process.terminate()
    rest = process.communicate()[1]
    said = [json.loads(line)["message"] for line in [first, *rest.splitlines()]]

    assert said[0].startswith("ready http=127.0.0.1:")
    assert said[-1] == "everything that was acknowledged is delivered"


def test_check_tells_what_counts_without_starting(tmp_path: Path) -> None:
    """`--check` prints every setting but no secret, tries everything, and says that it would work."""
    tokens = tmp_path / "tokens"
    tokens.write_text("# ours\na-long-secret\n")
    options = ["--out", str(tmp_path / "out"), "--header", "authorization=hush"]
    done = finished(*options, "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--check", token_file=tokens)

    assert (done.returncode, done.stderr) == (
        0,
        "tracer loaded: first-step/1\nblamespan: everything is in order\n",
    )
    assert f"token-file = {tokens}\n" in done.stdout
    assert "header = authorization=***\n" in done.stdout
    assert "tokens = 1 known\n" in done.stdout
    assert "hush" not in done.stdout
    assert "a-long-secret" not in done.stdout


def test_check_tells_everything_that_is_wrong(tmp_path: Path) -> None:
    """`--check` does not stop at the first problem, and its exit code says that there is one."""
    (tmp_path / "cert").write_text("no certificate")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        arguments = ("--check", "--forward", "localhost:4317", "--http", f"127.0.0.1:{port}", "--grpc", "none")
        done = finished(*arguments, tls_cert=tmp_path / "cert", tls_key=tmp_path / "cert")

    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}" in done.stderr
    assert "expected a certificate and its key as PEM" in done.stderr
    assert "expected a backend's URL" in done.stderr
    assert "Traceback" not in done.stderr


def test_check_of_a_dead_backend_fails(tmp_path: Path) -> None:
    """A backend that does not answer is no order: exit code 1, and the URL that was asked."""
    free = ["--grpc", "none", "--http", "127.0.0.1:0", "--journal", str(tmp_path / "journal")]
    done = finished("--check", "--forward", "http://127.0.0.1:9/insert/opentelemetry", *free)

    url = "http://127.0.0.1:9/insert/opentelemetry/v1/traces"
    assert done.returncode == 1
    assert f"traces to {url}\n" in done.stdout
    assert f"blamespan: {url} does not take traces: ConnectError" in done.stderr
    assert "in order" not in done.stderr


def test_stdout_gets_data_only() -> None:
    """With `--out -` traces are on stdout and talk is on stderr."""
    with started("--out", "-", quiet_s=0.1) as (process, told):
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
    assert all(line.startswith("blamespan: ") for line in done.stderr.splitlines()), (
        "no line of the libraries beside it"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "expected somewhere to send annotated traces, got neither --forward nor --out"),
        (["--out", "-", "--grpc", "none", "--http", "none"], "got 'none' for both"),
        (["--out", "-", "--http", "4318"], "expected an address as HOST:PORT, or 'none', got '4318'"),
        (["--forward", "localhost:4317"], "expected a backend's URL"),
        (["--out", "-", "--header", "secret"], "expected a header as NAME=VALUE"),
        (["--out", "-", "--tracer", "nobody"], "expected --tracer to be one of "),
        (["--out", "-", "--quiet-s", "1"], "No such option"),
        (["--out", "-", "--config", "/nonexistent"], "expected a TOML file at '/nonexistent'"),
        (["--out", "/nonexistent/x"], "expected a file to append traces to"),
    ],
)
def test_wrong_use_is_exit_code_two(arguments: list[str], said: str) -> None:
    """What was asked for wrongly is refused before anything starts, with what to do."""
    done = finished(*arguments)

    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"idle_s": 0}, "idle_s must be above 0"),
        ({"tls_cert": "x"}, "tls-cert needs tls-key beside it"),
        ({"tls_key": "x"}, "tls-key needs tls-cert beside it"),
        ({"tls_client_ca": "x"}, "tls-client-ca needs tls-cert and tls-key"),
        ({"token_file": "/nonexistent"}, "expected a file of tokens, one a line"),
        ({"journal_sync": "never"}, "journal-sync must be one of full, normal, got 'never'"),
    ],
)
def test_wrong_setting_is_exit_code_two(setting: dict[str, object], said: str) -> None:
    """What has no option is held to the same, under its name in the file."""
    done = finished("--out", "-", **setting)

    assert (done.returncode, said in done.stderr, "Traceback" in done.stderr) == (2, True, False), done.stderr


def test_settings_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable wins over the file, the file over the default."""
    path = tmp_path / "traces.jsonl"
    monkeypatch.setenv("BLAMESPAN_OUT", str(path))
    monkeypatch.setenv("BLAMESPAN_QUIET_S", "0.1")
    (tmp_path / "blamespan.toml").write_text("max-traces = 0\nquiet-s = -1\n")
    monkeypatch.setenv("BLAMESPAN_MAX_TRACES", "5")
    with started("--config", str(tmp_path / "blamespan.toml")) as (_, told):
        counts = httpx.get(f"http://{told['http']}/healthz", trust_env=False).json()

    assert told["to"] == str(path)
    assert counts["status"] == "ok"


def test_help_needs_nothing_installed() -> None:
    """The help is there without gRPC."""
    missing = ("grpc", "uvicorn", "starlette", "httpx", "platformdirs", "prometheus_client")
    blocked = f"import sys; sys.modules.update(dict.fromkeys({missing!r}));"
    code = f"{blocked} from blamespan_collector.command import collect; collect(['--help'])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False, cwd=HERE
    )
    shown = CliRunner().invoke(collect, ["--help"]).output

    assert (done.returncode, done.stderr) == (0, "")
    assert "listed by --help-settings" in " ".join(shown.split())


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
