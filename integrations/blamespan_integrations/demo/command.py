"""`blamespan demo`: a collector and two programs, as three processes talking OTLP."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory

import click
from rich.console import Console

from blamespan.analysis.showing.tables import print_run
from blamespan.analysis.showing.verdicts import without_idle_suspects
from blamespan.annotate import read_verdict
from blamespan.cli import make_folder
from blamespan.errors import BlamespanError
from blamespan.importing.files import read_lines
from blamespan.otlp import spans_from_json
from blamespan.plugins import require
from blamespan.rebuilding.rebuild import rebuild_run
from blamespan.rebuilding.runs import Run, split_runs

_PROGRAMS = {
    "AutoGen team `sales_desk`": ("blamespan_integrations.demo.autogen_team", "analyst"),
    "LangGraph graph `returns_desk`": ("blamespan_integrations.demo.langgraph_graph", "researcher"),
}
"""Title: the program, and the agent that goes wrong in its second run."""

_START_S = 60.0
"""How long the collector may take to load its packages on a slow machine."""
_READY = re.compile(r"ready .*\bhttp=(\S+)")
"""What the collector says on stderr once it listens."""


@click.command()
@click.option(
    "--out",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default="blamespan-demo",
    show_default=True,
    help="Folder for the annotated spans.",
)
def demo(folder: Path) -> None:
    """Watch two real teams fail, and see which agent did it.

    Starts a collector, runs both programs against it over OTLP, each once clean and once with one
    agent gone wrong, and prints what the collector wrote on the spans. No network, no key.
    """
    for package in ("autogen_agentchat", "autogen_ext", "langgraph", "grpc", "numpy"):
        require(package, "demo")
    make_folder(folder)
    out = folder / "annotated.jsonl"
    out.unlink(missing_ok=True)
    with _collector(out) as endpoint:
        click.echo(f"Collector listens on {endpoint} and writes {out}", err=True)
        for title, (module, _) in _PROGRAMS.items():
            click.echo(f"Running {title}: {module}", err=True)
            _run(module, endpoint)
    _print_runs(out)


@contextmanager
def _collector(out: Path) -> Iterator[str]:
    """Run `blamespan collect` for the time of the block; yield its OTLP/HTTP endpoint."""
    command = [sys.executable, "-m", "blamespan", "collect", "--grpc", "none", "--http", "127.0.0.1:0"]
    with TemporaryDirectory(prefix="blamespan-demo-") as journal:
        process = subprocess.Popen(  # noqa: S603
            [*command, "--out", str(out), "--journal", journal], stderr=subprocess.PIPE, text=True
        )
        try:
            yield _endpoint_of(process)
            process.send_signal(signal.SIGTERM)  # it flushes what it holds
            process.wait(timeout=_START_S)
        finally:
            process.kill()
            process.wait()


def _endpoint_of(process: subprocess.Popen[str]) -> str:
    lines: list[str] = []
    is_settled = threading.Event()
    address: list[str] = []

    def listen() -> None:
        for line in process.stderr or ():
            lines.append(line)
            if not address and (match := _READY.search(line)):
                address.append(f"http://{match[1]}")
                is_settled.set()
        is_settled.set()  # it ended

    threading.Thread(target=listen, daemon=True).start()
    is_settled.wait(_START_S)
    if not address:
        raise BlamespanError(f"expected the collector to start within {_START_S:.0f} s, got: {''.join(lines[-5:])}")
    return address[0]


def _run(module: str, endpoint: str) -> None:
    environment = os.environ | {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_SERVICE_NAME": module.rpartition(".")[2]}
    environment.pop("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", None)
    environment["OTEL_EXPORTER_OTLP_PROTOCOL"] = "http/protobuf"
    done = subprocess.run([sys.executable, "-m", module], env=environment, capture_output=True, text=True)  # noqa: S603
    if done.returncode:
        raise BlamespanError(f"expected {module} to end well, got exit code {done.returncode}:\n{done.stderr[-2_000:]}")


def _print_runs(out: Path) -> None:
    runs = sorted(_annotated_runs(out), key=lambda run: run.spans[0].start_ns)
    titles = [
        f"{title}, {how}" for title, (_, culprit) in _PROGRAMS.items() for how in ("clean", f"`{culprit}` gone wrong")
    ]
    if len(runs) != len(titles):
        raise BlamespanError(f"expected {len(titles)} runs in {out}, got {len(runs)}. Run the demo again")
    console = Console()
    for title, run in zip(titles, runs, strict=True):
        verdict = read_verdict(run)
        if verdict is None:
            raise BlamespanError(f"expected a verdict on every run in {out}, got none on {title}")
        trace = rebuild_run(run)
        console.print()
        print_run(console, title, trace, without_idle_suspects(verdict), every=True)
    console.print(f"\nThe annotated spans lie in {out}, one trace per line (OTLP-JSON). Look at them again with:")
    program = "blamespan" if which("blamespan") else sys.argv[0]  # `scripts/demo` installs into no environment in use
    console.print(f"  {program} analyze {out}")


def _annotated_runs(out: Path) -> Iterator[Run]:
    for _, line in read_lines(out):
        yield from split_runs(spans_from_json(line))
