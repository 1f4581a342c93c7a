"""`blamespan collect` as people start it: a process, its signals, its exit codes."""

from __future__ import annotations

import itertools
import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from unittest import mock

import psutil
import pytest
from click.testing import CliRunner
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter

from blamespan import conventions as words
from blamespan.cli import main
from blamespan.cores import THREADS
from blamespan.otlp import request_from_json
from blamespan.otlp.sdk import span_to_sdk
from blamespan.spans import Span
from blamespan_collector.command import _last_words, collect
from blamespan_collector.journal.folder import FolderLock
from blamespan_collector.service import service
from blamespan_collector.service.service import ServiceEnd
from blamespan_collector.settings import CollectorSettings
from tests.collector.backends import HttpBackend, serving
from tests.collector.fakes import run, spans_of
from tests.collector.working import until

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals"),
    pytest.mark.usefixtures("own_folders"),
]

HERE = Path(__file__).parents[2]
GO_ON = ", to go on when a collector with this --journal starts again"
ASIDE = " were set aside: blamespan collect resend --aside --journal j"


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "blamespan", "collect", *arguments]


def variables(settings: Mapping[str, object]) -> dict[str, str]:
    """Return this process's variables, and those of settings that have no option."""
    return os.environ | {f"BLAMESPAN_{name.upper()}": str(value) for name, value in settings.items()}


@dataclass
class Finished:
    """A command that has ended."""

    returncode: int
    stdout: str
    stderr: str


def finished(*arguments: str, **settings: object) -> Finished:
    """Run a command that ends by itself, in this process."""
    out, talk = StringIO(), StringIO()
    with (
        mock.patch.dict(os.environ, variables(settings)),
        mock.patch.object(sys, "argv", ["blamespan", "collect", *arguments]),
        mock.patch.object(logging.getLogger(), "handlers", []),
        mock.patch.object(logging.getLogger(), "level", logging.WARNING),
        redirect_stdout(out),
        redirect_stderr(talk),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    return Finished(int(ended.value.code or 0), out.getvalue(), talk.getvalue())


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
        said = ""
        while not (line := process.stderr.readline()).startswith("blamespan: ready "):
            assert line, f"it ended: {said}"
            said += line
        yield process, dict(re.findall(r"(\w+)=(\S+)", line))
    finally:
        process.kill()
        process.communicate()


def last_line(process: subprocess.Popen[str]) -> str:
    """End a collector in order; give the last line that it says."""
    process.terminate()
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 0, said
    return said.splitlines()[-1]


def export(told: dict[str, str], spans: Sequence[Span]) -> None:
    HttpExporter(f"http://{told['http']}/v1/traces").export([span_to_sdk(span) for span in spans])


@dataclass
class Life:
    """What a collector said and did from its start to its end: it logs in JSON and writes traces to stdout."""

    told: dict[str, str]
    log: list[str]
    out: list[Sequence[Span]]
    code: int
    workers: list[dict[str, str]]


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory, tracers_path: str) -> Life:
    """Start a collector, give it another token by SIGHUP, send it a run and a part of one, and end it by SIGINT."""
    folder = tmp_path_factory.mktemp("life")
    tokens = folder / "tokens"
    tokens.write_text("an-old-long-token\n")
    settings = {"tracer": "first-step", "token_file": tokens, "log_format": "json", "quiet_s": 60}
    free = ("--grpc", "127.0.0.1:0", "--http", "0.0.0.0:0", "--journal", str(folder / "journal"))
    inherited = {name: value for name, value in variables(settings).items() if name not in THREADS}
    process = subprocess.Popen(
        command("--out", "-", *free),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=HERE,
        env={**inherited, "PYTHONPATH": tracers_path},
    )
    assert process.stderr
    log: list[str] = []

    def hear(text: str) -> str:
        while not log or text not in log[-1]:
            line = process.stderr.readline()
            assert line, f"it ended: {log}"
            log.append(json.loads(line)["message"])
        return log[-1]

    told = dict(re.findall(r"(\w+)=(\S+)", hear("ready ")))
    workers = [child.environ() for child in psutil.Process(process.pid).children()]
    tokens.write_text("a-new-long-token\n")
    process.send_signal(signal.SIGHUP)
    hear("tokens were read again: 1 are known")
    headers = {"authorization": "Bearer a-new-long-token"}
    grpc = GrpcExporter(told["grpc"], insecure=True, headers=headers)
    grpc.export([span_to_sdk(span) for span in run(1)])
    grpc.shutdown()
    http = HttpExporter(f"http://127.0.0.1:{told['http'].rpartition(':')[2]}/v1/traces", headers=headers)
    http.export([span_to_sdk(span) for span in run(2)[1:]])
    process.send_signal(signal.SIGINT)
    out, rest = process.communicate(timeout=30)  # less than the spans would be held
    log += [json.loads(line)["message"] for line in rest.splitlines()]
    lines = [spans_of([request_from_json(line)]) for line in out.splitlines()]
    return Life(told, log, lines, process.returncode, workers)


def test_signal_delivers_what_is_held_and_exits_in_order(life: Life) -> None:
    """A run held when Ctrl-C comes is annotated and written; the exit code says that nothing was lost."""
    assert (life.code, life.told["to"], life.told["tracer"]) == (0, "stdout", "first-step/1")
    assert all(any(words.BLAME_AGENT in span.attributes for span in spans) for spans in life.out)


def test_stdout_gets_data_only(life: Life) -> None:
    """With `--out -` traces are on stdout, a line each, and nothing else is; talk is on stderr."""
    assert [[span.span_id for span in spans] for spans in life.out] == [
        [span.span_id for span in spans] for spans in (run(1), run(2)[1:])
    ]


def test_json_log_holds_nothing_else(life: Life) -> None:
    """With the log in JSON every line is an object: that the world is listened to, the ready line, the last words."""
    assert "--http 0.0.0.0:0 is reachable from elsewhere without TLS" in life.log[0]
    assert life.log[1].startswith("ready grpc=127.0.0.1:")
    assert life.log[-1] == "everything that was acknowledged is delivered"


def test_hangup_signal_has_tokens_read_again(life: Life) -> None:
    """`kill -HUP` of a collector with tokens does not end it: it reads them, and the new one opens the door."""
    assert "tokens were read again: 1 are known" in life.log
    assert len(life.out) == 2


def test_worker_computes_with_one_thread(life: Life) -> None:
    """NumPy gets no more of the machine for verdicts, as nobody said that it should."""
    found = [{name: one[name] for name in THREADS if name in one} for one in life.workers]

    assert found
    assert all(one == {"OPENBLAS_NUM_THREADS": "1"} for one in found)


@pytest.mark.parametrize(
    ("ended", "line"),
    [
        (ServiceEnd(9, 0, True), "everything that was acknowledged is delivered"),
        (ServiceEnd(9, 1, False), f"1 delivery of spans waits in j{GO_ON}"),
        (ServiceEnd(9, 0, False), f"some deliveries of spans wait in j{GO_ON}"),
        (
            ServiceEnd(9, 0, True, 4, 2),
            f"4 spans and 2 records{ASIDE}; everything else that was acknowledged is delivered",
        ),
        (ServiceEnd(9, 3, False, 0, 2), f"3 deliveries of spans wait in j{GO_ON}; 2 records{ASIDE}"),
    ],
)
def test_last_line_tells_what_became_of_everything(ended: ServiceEnd, line: str) -> None:
    """What was delivered, what waits for the next start, what was set aside and how to send it again."""
    assert _last_words(ended, CollectorSettings(journal=Path("j"), out="-")) == line


def test_nothing_is_lost_to_a_backend_that_is_away_or_refuses(tmp_path: Path) -> None:
    """What reaches no backend waits in the journal; what one refuses is set aside; a later start delivers both.

    The last line says which, how many spans, and how to send again what was set aside.
    """
    journal, backend = tmp_path / "journal", HttpBackend([(400, {})])
    with serving(backend) as url:
        with started("--forward", "http://127.0.0.1:9", journal=journal, quiet_s=0.1, drain_s=2) as (process, told):
            export(told, run(1))
            unreached = last_line(process)
        with started("--forward", url, journal=journal, quiet_s=0.1) as (process, _):
            refused = last_line(process)
        resent = finished("resend", "--aside", "--journal", str(journal))
        with started("--forward", url, journal=journal, quiet_s=0.1) as (process, _):
            taken = last_line(process)

    assert unreached.startswith(f"blamespan: 4 deliveries of spans wait in {journal}")
    assert refused == (
        f"blamespan: 4 spans were set aside: blamespan collect resend --aside --journal {journal}; "
        "everything else that was acknowledged is delivered"
    )
    assert resent.stderr == f"blamespan: it is sent when a collector with --journal {journal} starts\n"
    assert taken == "blamespan: everything that was acknowledged is delivered"
    assert sorted(span.span_id for span in spans_of(backend.requests)) == sorted(span.span_id for span in run(1))


def is_open(address: str) -> bool:
    host, _, port = address.partition(":")
    with socket.socket() as client:
        return client.connect_ex((host, int(port))) == 0


def test_second_signal_ends_at_once() -> None:
    """Who does not want to wait for the drain signals twice."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        backend = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with started("--forward", backend, quiet_s=60, drain_s=9) as (process, told):
            export(told, run(1))
            process.terminate()
            until(lambda: not is_open(told["http"]))
            process.terminate()
            began = time.monotonic()
            code = process.wait(30)
            took_s = time.monotonic() - began

    assert code == -signal.SIGTERM
    assert took_s < 2


def test_second_collector_on_one_journal_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two collectors cannot share a journal, and the message says so."""
    monkeypatch.setattr(service, "_PREDECESSOR_S", 0.1)
    first = FolderLock(tmp_path / "journal", "intake")
    done = finished("--out", "-", "--grpc", "none", "--http", "127.0.0.1:0", "--journal", str(tmp_path / "journal"))
    first.release()

    assert (done.returncode, "another collector uses" in done.stderr) == (1, True), done.stderr


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


@pytest.mark.parametrize(("kind", "what"), [("grpc", "OTLP/gRPC"), ("http", "OTLP/HTTP"), ("page", "the page")])
def test_taken_port_is_named(tmp_path: Path, capfd: pytest.CaptureFixture[str], kind: str, what: str) -> None:
    """A port in use is exit code 1, and the message says which and what to do."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        addresses = {"grpc": "127.0.0.1:0", "http": "none", kind: address}
        options = [word for name, at in addresses.items() for word in (f"--{name}", at)]
        done = finished("--out", "-", "--store", str(tmp_path / "runs.db"), *options)

    assert done.returncode == 1
    assert f"blamespan: cannot listen for {what} on {address}: Address already in use" in done.stderr
    assert f"choose another with --{kind} 127.0.0.1:PORT" in done.stderr
    assert all(line.startswith("blamespan: ") for line in done.stderr.splitlines())
    assert capfd.readouterr().err == "", "no line of the libraries beside it"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--out", "-", "--grpc", "none", "--http", "none"], "got 'none' for both"),
        (["--out", "-", "--http", "4318"], "expected an address as HOST:PORT, or 'none', got '4318'"),
        (["--page", "4320"], "expected an address as HOST:PORT, or 'none', got '4320'"),
        (["--forward", "localhost:4317"], "expected a backend's URL"),
        (["--out", "-", "--header", "secret"], "expected a header as NAME=VALUE"),
        (["--out", "-", "--tracer", "nobody"], "expected --tracer to be one of "),
        (["--out", "-", "--quiet-s", "1"], "No such option"),
        (
            ["--out", "-", "--config", "/nonexistent"],
            "expected settings in TOML at '/nonexistent', got No such file",
        ),
        ([], "expected somewhere to send annotated traces, got neither --forward nor --out"),
        (["--out", "-", "--page", "127.0.0.1:0"], "expected a --store for the --page at 127.0.0.1:0"),
    ],
)
def test_wrong_use_is_exit_code_two(arguments: list[str], said: str) -> None:
    """What was asked for wrongly is refused, also where only the worker notices (`--forward`), with what to do."""
    done = finished(*arguments)

    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"idle_s": 0}, "idle_s must be above 0"),
        ({"store_max_bytes": -1}, "store_max_bytes must be above 0"),
        ({"store_max_age_s": -1}, "store_max_age_s must be above 0"),
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

    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


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
