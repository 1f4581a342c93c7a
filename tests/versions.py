"""Run the integrations' tests against the lowest and the newest release of each framework.

    scripts/versions [--framework LangGraph] [--release langgraph==1.2.3] [--python 3.13] [--json]

Each row is a throw-away environment. `lowest`: every direct dependency at the lowest version that pyproject.toml
allows, what those bring along at its newest (what a program that pins an old framework gets today). `newest`: all
at their newest. pytest and hypothesis stay as constraints.txt has them. `both` has the two frameworks side by side,
and runs the tests of the sdk too. Exit code 1 where a test fails.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
EXTRAS = {"AutoGen": "autogen", "LangGraph": "langgraph", "Agent Framework": "agent-framework", "both": "demo"}
TESTS = {"both": ("tests/sdk", "tests/integrations")}
SHOWN = ("agent-framework-core", "autogen-agentchat", "langgraph", "langchain-core", "opentelemetry-sdk")
"""Whose versions tell rows apart."""
LINTERS = re.compile("mypy|ruff|.*stubs|types-.*")
FOREIGN = {
    "AutoGen": re.compile("langchain|langgraph|agent-framework"),
    "LangGraph": re.compile("autogen|agent-framework"),
    "Agent Framework": re.compile("autogen|langchain|langgraph"),
    "both": re.compile("(?!)"),
}
"""Tools that would bring another framework along."""
NEIGHBOURS = re.compile("openinference|opentelemetry-instrumentation|otlp-json-file")
"""Others' instrumentations and exporters; their newest ask for a newer OpenTelemetry than our lowest."""
LIMIT_S = 1_800
"""For one row's tests; they take minutes on two idle cores."""
FIXED = re.compile("pytest|hypothesis")
"""Tools that constraints.txt pins in every environment; the others follow the framework."""


class NotInstalled(Exception):
    """No environment could be made; says why."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One environment's row.

    Attributes:
        release: `lowest`, `newest`, or the requirement asked for.
        versions: What was installed of `SHOWN`.
        failures: Names of the tests that failed, or why there was nothing to run.
    """

    framework: str
    release: str
    python: str
    versions: Mapping[str, str] = field(default_factory=dict)
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    failures: tuple[str, ...] = ()


def main() -> None:
    parser = argparse.ArgumentParser("scripts/versions", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--framework", choices=EXTRAS, action="append", help="only this one; may be repeated")
    parser.add_argument(
        "--python", action="append", metavar="X.Y", help="version or path of an interpreter; may be repeated"
    )
    parser.add_argument("--release", action="append", metavar="NAME==X", help="try this instead of lowest and newest")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of the table")
    arguments = parser.parse_args()
    outcomes = []
    for python in arguments.python or [f"{sys.version_info.major}.{sys.version_info.minor}"]:
        for framework in arguments.framework or EXTRAS:
            for release in arguments.release or ("lowest", "newest"):
                sys.stderr.write(f"{framework}, {release}, Python {python}\n")
                outcomes.append(_tried(framework, release, python))
    text = json.dumps([asdict(each) for each in outcomes], indent=2) if arguments.json else _table(outcomes)
    sys.stdout.write(text + "\n")
    sys.exit(1 if any(each.failed or not each.passed for each in outcomes) else 0)


def _tried(framework: str, release: str, python: str) -> Outcome:
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            versions = _install(folder, framework, release, python)
            python = _must(_run([str(_interpreter(folder)), "-V"])).stdout.split()[-1]
        except NotInstalled as error:
            return Outcome(framework, release, python, failures=(str(error),))
        report = folder / "report.xml"
        done = _run(_pytest(folder, TESTS.get(framework, ("tests/integrations",)), report))
        if not report.exists():
            return Outcome(framework, release, python, versions, failures=(_tail(done),))
        cases = list(ElementTree.parse(report).iter("testcase"))
    shown = {name: versions[name] for name in SHOWN if name in versions}
    return _counted(Outcome(framework, release, python, shown, seconds=time.monotonic() - began_s), cases)


def _pytest(folder: Path, tests: Sequence[str], report: Path) -> list[str]:
    """Make the command; a warning of another release is news for its users, not a failure of ours."""
    options = ["-q", "-p", "no:cacheprovider", "-o", "filterwarnings=default", "--continue-on-collection-errors"]
    return [str(_interpreter(folder)), "-m", "pytest", *tests, *options, f"--junitxml={report}"]


def _install(folder: Path, framework: str, release: str, python: str) -> dict[str, str]:
    """Make an environment in *folder*; give the versions in it."""
    made = _run(["uv", "venv", "-q", "--python", python, str(folder / "venv")])
    if made.returncode:
        raise NotInstalled(f"no interpreter for Python {python}: {_tail(made)}")
    install = ["uv", "pip", "install", "-q", "--python", str(_interpreter(folder))]
    ours = ["--editable", f".[{EXTRAS[framework]}]"]
    if release != "lowest":
        _must(_run([*install, "--upgrade" if release == "newest" else release, *ours, *_tools(FOREIGN[framework])]))
        return _frozen(folder)
    _must(_run([*install, "--resolution", "lowest-direct", *ours]))  # of ours alone: the tools stay new
    frozen = folder / "frozen.txt"
    frozen.write_text("".join(f"{name}=={version}\n" for name, version in _frozen(folder).items()))
    _must(_run([*install, "--constraint", str(frozen), *_tools(FOREIGN[framework], NEIGHBOURS)]))
    return _frozen(folder)


def _frozen(folder: Path) -> dict[str, str]:
    listed = _must(_run(["uv", "pip", "list", "-q", "--format", "json", "--python", str(_interpreter(folder))]))
    return {each["name"]: each["version"] for each in json.loads(listed.stdout) if each["name"] != "blamespan"}


def _tools(*left_out: re.Pattern[str]) -> Iterator[str]:
    """List what the tests need beside the framework: the dev group without linters and without *left_out*."""
    dev = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]["dev"]
    pinned = dict(re.findall(r"^([\w.-]+)(==.+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    for requirement in dev:
        name = re.split(r"[^\w.-]", requirement)[0]
        if not LINTERS.fullmatch(name) and not any(pattern.search(name) for pattern in left_out):
            yield name + pinned[name] if FIXED.match(name) else requirement


def _counted(outcome: Outcome, cases: Sequence[ElementTree.Element]) -> Outcome:
    bad = tuple(
        f"{case.get('classname')}::{case.get('name')}".strip(":") for case in cases if _is(case, "failure", "error")
    )
    skipped = sum(_is(case, "skipped") for case in cases)
    counts = {"passed": len(cases) - len(bad) - skipped, "failed": len(bad), "skipped": skipped}
    return Outcome(**{**asdict(outcome), **counts, "failures": bad})


def _is(case: ElementTree.Element, *tags: str) -> bool:
    return any(case.find(tag) is not None for tag in tags)


def _interpreter(folder: Path) -> Path:
    return folder / "venv" / "bin" / "python"


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    kept = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    try:
        return subprocess.run(command, cwd=ROOT, env=kept, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired as error:  # one row says so; the others stand
        return subprocess.CompletedProcess(error.cmd, 124, "", f"not done after {LIMIT_S} s; is the machine busy?")


def _must(done: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    if done.returncode:
        raise NotInstalled(_tail(done))
    return done


def _tail(done: subprocess.CompletedProcess[str]) -> str:
    return (done.stderr or done.stdout).strip()[-600:]


def _table(outcomes: Sequence[Outcome]) -> str:
    lines = [
        f"{'framework':11}{'release':20}{'python':8}{'passed':>8}{'failed':>8}{'skipped':>9}{'seconds':>9}  versions"
    ]
    for each in outcomes:
        versions = ", ".join(f"{name} {version}" for name, version in each.versions.items())
        lines.append(
            f"{each.framework:11}{each.release:20}{each.python:8}{each.passed:>8}{each.failed:>8}{each.skipped:>9}"
            f"{each.seconds:>9.0f}  {versions or 'not installed'}"
        )
    for each in outcomes:
        lines += [f"\n{each.framework}, {each.release}, Python {each.python}:"] if each.failures else []
        lines += [f"  {failure}" for failure in each.failures]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
