"""Try the product as a new user does: small programs in a wheel's fresh environment, outside the checkout.

Each program says in its docstring what must be recorded: its task, and a line for each step (agent, kind, words; `|`
between alternatives where agents work side by side). It runs without blamespan, with it, and with the outcome said
after the verdict. `scripts/first-use` runs this; Python's standard library is all it needs.
"""

from __future__ import annotations

import argparse
import ast
import html
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import venv
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
EXTRAS = "agent-framework,autogen,langgraph,collector,model"
USUAL = ("langchain", "langgraph-supervisor", "autogen-ext", "opentelemetry-distro")
"""What the programs need beside the extras, where they do not name it."""
LATER_S = 3.0
"""So long somebody looks at the answer before the outcome is said: the run has been judged by then."""
MOST_EXIT_S = 1.0
LIMIT_S = 120
THROUGH_COLLECTOR = ("autogen_round_robin", "langgraph_async", "langgraph_react")
INSTRUMENT = "blamespan.instrument(embedded=True)\n"
RECORD = "print(blamespan.record_outcome"
CALL = re.compile(r"\w+\(\{")
"""How a step begins that calls tools."""
RAW = re.compile(r"""\{['"]\w+['"]: |\\u[0-9a-f]{4}|\b\w+Message\(|<object|lc_kwargs""")
"""What no text of a step may hold but a tool's call: state, escapes or objects as Python or JSON write them."""


@dataclass(frozen=True)
class Program:
    """A program and what its docstring says of it."""

    path: Path
    task: str
    steps: tuple[tuple[tuple[str, str, str], ...], ...]
    """For each step its alternatives: agent, kind, words."""
    needs: tuple[str, ...]
    outcome: bool
    """What `record_outcome` must return."""

    @property
    def name(self) -> str:
        return self.path.stem


@dataclass
class Ran:
    """A run of a program: what it wrote, and how long it took to end after its last line."""

    returncode: int
    stdout: list[str]
    stderr: list[str]
    exit_s: float
    total_s: float


@dataclass
class Row:
    """What was measured of a program."""

    program: Program
    mode: str
    recorded: int = 0
    misses: list[str] = field(default_factory=list)
    is_outcome_taken: bool = False
    is_judged_again: bool | None = None
    is_on_page: bool | None = None
    exit_more_s: float | None = None
    stderr_lines: int = 0
    trace_ids: list[str] = field(default_factory=list)


def read_program(path: Path) -> Program:
    """Read what a program's docstring says must be recorded."""
    lines = (ast.get_docstring(ast.parse(path.read_text())) or "").splitlines()
    told: dict[str, list[str]] = {}
    for line in lines:
        key, separator, rest = line.partition(": ")
        if separator and key in ("task", "step", "needs", "outcome"):
            told.setdefault(key, []).append(rest)
    steps = tuple(
        tuple((*alternative.split(maxsplit=2), "")[:3] for alternative in step.split(" | ")) for step in told["step"]
    )
    [task] = told["task"]
    needs = tuple(told.get("needs", [""])[0].split())
    return Program(path, task, steps, needs, outcome=told.get("outcome", ["True"]) == ["True"])  # type: ignore[arg-type]


class Environment:
    """An environment with the wheel, where the programs run.

    Args:
        folder: Where it lies; one that is there already gets the wheel anew.
        wheel: The wheel.
        needs: Further packages.
    """

    def __init__(self, folder: Path, wheel: Path, needs: tuple[str, ...]) -> None:
        self.python = folder / "bin" / "python"
        self.folder = folder
        install = [self.python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        if self.python.exists():
            subprocess.run([*install, "--no-deps", "--force-reinstall", str(wheel)], check=True)
        else:
            venv.create(folder, with_pip=True)
            extras = EXTRAS if needs == USUAL else "collector,model"
            subprocess.run([*install, f"{wheel}[{extras}]", *needs], check=True)

    def command(self, *arguments: str) -> list[str]:
        return [str(self.folder / "bin" / arguments[0]), *arguments[1:]]


def run(command: list[str], where: Path, environment: dict[str, str]) -> Ran:
    """Run a program, and time its end: from its last line on stdout until it is gone."""
    began = time.perf_counter()
    process = subprocess.Popen(
        command,
        cwd=where,
        env={**os.environ, **environment, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    stderr: list[str] = []
    reader = threading.Thread(target=lambda: stderr.extend(process.stderr or ()))
    reader.start()
    stop = threading.Timer(LIMIT_S, process.kill)
    stop.start()
    stdout, said = [], began
    for line in process.stdout or ():
        stdout.append(line.rstrip("\n"))
        said = time.perf_counter()
    process.wait()
    ended = time.perf_counter()
    stop.cancel()
    reader.join()
    return Ran(process.returncode, stdout, [line.rstrip("\n") for line in stderr], ended - said, ended - began)


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def compare(row: Row, runs: list[dict[str, Any]], *, is_outcome_known: bool) -> None:
    """Compare the recorded runs of a program with what its docstring says."""
    program = row.program
    steps = [step for part in runs for step in part["steps"]]
    row.recorded = len(steps)
    row.trace_ids = list(dict.fromkeys(trace_id for run in runs for trace_id in run["trace_ids"]))
    if not runs:
        row.misses.append("no run was recorded")
        return
    if any(part["task"] != program.task for part in runs):
        row.misses.append(f"the task is {[part['task'] for part in runs]}")
    if is_outcome_known and runs[-1]["outcome"] != "failed":
        row.misses.append(f"the outcome is {runs[-1]['outcome']}")
    if len(steps) != len(program.steps):
        row.misses.append(f"{len(steps)} steps, expected {len(program.steps)}: {[step[:2] for step in steps]}")
    for index, (step, alternatives) in enumerate(zip(steps, program.steps, strict=False)):
        agent, kind, content = step
        if not any((agent, kind) == (one[0], one[1]) and one[2] in content for one in alternatives):
            row.misses.append(f"step {index} is {step}, expected {alternatives}")
        if not CALL.match(content) and RAW.search(content):
            row.misses.append(f"step {index} shows {content[:60]!r}")


def own_lines(with_us: Ran, plain: Ran) -> list[str]:
    """Return what stands on stderr beside what the program writes there without us."""
    return list((Counter(with_us.stderr) - Counter(plain.stderr)).elements())


def check_stderr(row: Row, lines: list[str]) -> None:
    row.stderr_lines = len(lines)
    for line in lines:
        if not line.startswith("blamespan: ") and row.program.outcome:
            row.misses.append(f"stderr: {line[:100]}")
    if row.program.outcome and not any(" failed (" in line and "blamespan show " in line for line in lines):
        row.misses.append("no line on stderr says that the run failed and how to see it")


@contextmanager
def served(command: list[str], environment: dict[str, str], pattern: str) -> Iterator[str]:
    """Run a server until the end of the block; yield what it prints that *pattern* matches."""
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, env={**os.environ, **environment}, stdout=output, stderr=output, text=True)
        try:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and process.poll() is None:
                output.seek(0)
                if match := re.search(pattern, output.read()):
                    break
                time.sleep(0.1)
            else:
                output.seek(0)
                raise RuntimeError(f"expected {pattern!r} from {command}, got {output.read()}")
            yield match[0]
        finally:
            process.terminate()
            process.wait(20)


def fetch(address: str) -> str:
    with urllib.request.urlopen(address, timeout=20) as answer:
        return str(answer.read().decode())


class Measure:
    """Runs the programs and keeps what was measured.

    Args:
        folder: Where the environments and stores lie.
        wheel: The wheel.
    """

    def __init__(self, folder: Path, wheel: Path) -> None:
        self.folder = folder
        self.wheel = wheel
        self.rows: list[Row] = []
        self._environments: dict[tuple[str, ...], Environment] = {}
        self._plain: dict[str, Ran] = {}
        (folder / "run").mkdir(parents=True, exist_ok=True)

    def environment(self, needs: tuple[str, ...]) -> Environment:
        needs = needs or USUAL
        if needs not in self._environments:
            name = "usual" if needs == USUAL else needs[0]
            self._environments[needs] = Environment(self.folder / f"venv-{name}", self.wheel, needs)
        return self._environments[needs]

    def variables(self, program: Program, store: str) -> dict[str, str]:
        return {
            "BLAMESPAN_STORE": str(self.folder / f"{store}.db"),
            "OTEL_SERVICE_NAME": program.name,
            "PYTHONPATH": str(PROGRAMS),
        }

    def embedded(self, programs: list[Program]) -> None:
        """Run each program plain, embedded, and embedded with the outcome said later; then look at the page."""
        rows = []
        for program in programs:
            sys.stderr.write(f"{program.name}\n")
            row = Row(program, "embedded")
            rows.append(row)
            python = [str(self.environment(program.needs).python)]
            where = self.folder / "run"
            variables = self.variables(program, "embedded")
            without = {**variables, "PYTHONPATH": f"{HERE / 'plain'}{os.pathsep}{PROGRAMS}"}
            plain = self._plain[program.name] = run([*python, str(program.path)], where, without)
            with_us = run([*python, str(program.path)], where, variables)
            later = self.folder / "run" / f"{program.name}.py"
            later.write_text(program.path.read_text().replace(RECORD, f"__import__('time').sleep({LATER_S})\n{RECORD}"))
            said_later = run([*python, str(later)], where, {**variables, **self.variables(program, "later")})
            row.exit_more_s = with_us.exit_s - plain.exit_s
            if row.exit_more_s > MOST_EXIT_S:
                again = run([*python, str(program.path)], where, {**variables, **self.variables(program, "again")})
                row.exit_more_s = min(row.exit_more_s, again.exit_s - plain.exit_s)
            if row.exit_more_s > MOST_EXIT_S:
                row.misses.append(f"it ends {row.exit_more_s:.1f} s later than without")
            row.is_outcome_taken = with_us.stdout[-1:] == ["True"]
            for ran in (plain, with_us, said_later):
                if ran.returncode:
                    row.misses.append(f"exit code {ran.returncode}: {ran.stderr[-1:]}")
            if with_us.stdout[-1:] != [str(program.outcome)] or said_later.stdout[-1:] != [str(program.outcome)]:
                row.misses.append(f"record_outcome returned {with_us.stdout[-1:]}, later {said_later.stdout[-1:]}")
            check_stderr(row, own_lines(with_us, plain))
            if program.outcome and not any(" failed (" in line for line in said_later.stderr):
                row.misses.append("said later: no line on stderr says that the run failed")
        self._look_at_stores(rows)
        self._look_at_page(rows)
        self.rows += rows

    def _recorded(self, store: str) -> dict[str, list[dict[str, Any]]]:
        python = str(next(iter(self._environments.values())).python)
        answer = subprocess.run(
            [python, str(HERE / "read_runs.py")],
            env={**os.environ, "BLAMESPAN_STORE": str(self.folder / f"{store}.db")},
            capture_output=True,
            text=True,
            check=True,
        )
        by_program: dict[str, list[dict[str, Any]]] = {}
        for line in json.loads(answer.stdout):
            by_program.setdefault(line["program"], []).append(line)
        return by_program

    def _look_at_stores(self, rows: list[Row]) -> None:
        recorded, later = self._recorded("embedded"), self._recorded("later")
        for row in rows:
            name, is_known = row.program.name, row.program.outcome
            compare(row, recorded.get(name, []), is_outcome_known=is_known)
            again = Row(row.program, "later")
            compare(again, later.get(name, []), is_outcome_known=is_known)
            row.misses += [f"said later: {miss}" for miss in again.misses if miss not in row.misses]
            if is_known:
                row.is_judged_again = any(part["later_revision"] > 0 for part in later.get(name, []))
                if not row.is_judged_again:
                    row.misses.append("said later: it was not judged again")
            if is_known and not any(part["is_judged"] or part["later_revision"] for part in recorded.get(name, [])):
                row.misses.append("it has no verdict")

    def _look_at_page(self, rows: list[Row]) -> None:
        usual = next(iter(self._environments.values()))
        store = {"BLAMESPAN_STORE": str(self.folder / "embedded.db")}
        with served(usual.command("blamespan", "open", "--no-browser"), store, r"http://127\.0\.0\.1:\d+") as page:
            listed = fetch(f"{page}/")
            for row in rows:
                texts = [fetch(f"{page}/run/{trace_id}") for trace_id in row.trace_ids]
                agents = {one[0] for step in row.program.steps for one in step if len(step) == 1}
                row.is_on_page = bool(texts) and html.escape(row.program.task[:40]) in listed
                row.is_on_page &= all(html.escape(row.program.task) in html.unescape(text) or
                                      row.program.task in html.unescape(text) for text in texts)  # fmt: skip
                row.is_on_page &= all(any(agent in text for text in texts) for agent in agents)
                if not row.is_on_page:
                    row.misses.append("the page lacks its task or an agent")
                for trace_id in row.trace_ids:
                    shown = subprocess.run(
                        usual.command("blamespan", "show", trace_id[:12], "--all"),
                        env={**os.environ, **store, "COLUMNS": "200"},
                        capture_output=True,
                        text=True,
                        check=False,
                    )
                    if shown.returncode or shown.stderr or row.program.task not in shown.stdout:
                        row.misses.append(f"blamespan show: {shown.stderr[:100] or 'it lacks the task'}")

    def collected(self, programs: list[Program]) -> None:
        """Run programs that send to `blamespan collect`: by `instrument()`, and by `opentelemetry-instrument`."""
        usual = self.environment(())
        store = self.folder / "collector.db"
        receiver = free_port()
        command = usual.command(
            "blamespan", "collect", "--grpc", "none", "--http", f"127.0.0.1:{receiver}", "--page", "127.0.0.1:0",
            "--store", str(store), "--journal", str(self.folder / "journal"),
        )  # fmt: skip
        rows = []
        with served(command, {}, "blamespan: ready"):
            for program in programs:
                for mode in ("collector", "zero-code"):
                    row = Row(program, mode)
                    rows.append(row)
                    text = program.path.read_text()
                    copy = self.folder / "run" / f"{mode}_{program.name}.py"
                    copy.write_text(text.replace(INSTRUMENT, "" if mode == "zero-code" else "blamespan.instrument()\n"))
                    variables = {
                        **self.variables(program, "none"),
                        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{receiver}",
                        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
                        "OTEL_METRICS_EXPORTER": "none",
                        "OTEL_LOGS_EXPORTER": "none",
                        "OTEL_SERVICE_NAME": f"{mode} {program.name}",
                    }
                    start = ["opentelemetry-instrument"] if mode == "zero-code" else []
                    ran = run(usual.command(*start, "python", str(copy)) if not start else
                              [*usual.command(*start), str(usual.python), str(copy)],
                              self.folder / "run", variables)  # fmt: skip
                    row.is_outcome_taken = ran.stdout[-1:] == ["True"]
                    if ran.returncode or not row.is_outcome_taken:
                        row.misses.append(f"exit code {ran.returncode}, {ran.stdout[-1:]}: {ran.stderr[-1:]}")
                    row.exit_more_s = ran.exit_s - self._plain[program.name].exit_s
                    lines = own_lines(ran, self._plain[program.name])
                    row.stderr_lines = len(lines)
                    row.misses += [f"stderr: {line[:100]}" for line in lines]
            deadline = time.monotonic() + 30
            recorded: dict[str, list[dict[str, Any]]] = {}
            while time.monotonic() < deadline:
                recorded = self._recorded("collector") if store.exists() else {}
                if all(any(part["is_judged"] for part in recorded.get(_service(row), [])) for row in rows):
                    break
                time.sleep(1)
        for row in rows:
            runs = recorded.get(_service(row), [])
            compare(row, runs, is_outcome_known=True)
            if not any(part["is_judged"] for part in runs):
                row.misses.append("it has no verdict")
        self.rows += rows


def _service(row: Row) -> str:
    return f"{row.mode} {row.program.name}"


def table(rows: list[Row]) -> str:
    """Lay out what was measured, and below it what missed."""
    columns = ("program", "by", "steps", "outcome taken", "judged again", "on page", "exit more", "stderr lines", "")
    cells = [
        (
            row.program.name,
            row.mode,
            f"{row.recorded}/{len(row.program.steps)}",
            "yes" if row.is_outcome_taken else "no",
            {None: "-", True: "yes", False: "no"}[row.is_judged_again],
            {None: "-", True: "yes", False: "no"}[row.is_on_page],
            "-" if row.exit_more_s is None else f"{row.exit_more_s:+.2f} s",
            str(row.stderr_lines),
            "missed" if row.misses else "",
        )
        for row in rows
    ]
    widths = [max(len(cell[index]) for cell in (columns, *cells)) for index in range(len(columns))]
    lines = ["  ".join(part.ljust(width) for part, width in zip(cell, widths, strict=True)).rstrip()
             for cell in (columns, *cells)]  # fmt: skip
    missed = [f"{row.program.name}, {row.mode}: {miss}" for row in rows for miss in row.misses]
    return "\n".join([*lines, "", *missed, f"{sum(not row.misses for row in rows)} of {len(rows)} hold"])


def main() -> int:
    """Measure, print the table, return 1 where something missed."""
    parser = argparse.ArgumentParser(prog="scripts/first-use", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--wheel", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True, help="where environments and stores lie")
    parser.add_argument("names", nargs="*", metavar="PROGRAM", help="only programs whose name begins so")
    asked = parser.parse_args()
    paths = [path for path in sorted(PROGRAMS.glob("*.py")) if path.stem != "scripted"]
    chosen = [path for path in paths if not asked.names or path.stem.startswith(tuple(asked.names))]
    if not chosen:
        parser.error(f"expected the beginning of {', '.join(path.stem for path in paths)}, got {asked.names}")
    programs = sorted(map(read_program, chosen), key=lambda program: (program.needs, program.name))
    for old in asked.folder.glob("*.db*"):
        old.unlink()
    measure = Measure(asked.folder, asked.wheel)
    measure.environment(())
    measure.embedded(programs)
    measure.collected([program for program in programs if program.name in THROUGH_COLLECTOR])
    sys.stdout.write(f"{table(measure.rows)}\n")
    return int(any(row.misses for row in measure.rows))


if __name__ == "__main__":
    sys.exit(main())
