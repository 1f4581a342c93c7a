"""Planning faults: by arguments, by a file, in programs that are not touched."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import weakref
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import blamespan
from blamespan.errors import ConfigError, MissingExtra
from blamespan.injecting.injection import PLAN_VARIABLE, Injection, inject_from_environment
from blamespan.intercepting import listeners
from blamespan.intercepting.boundaries import PlannedFault

OTHERS = ",".join(
    sorted(entry.name for entry in entry_points(group="opentelemetry_instrumentor") if "blamespan" not in entry.value)
)
"""Instrumentations of other people that may be installed beside ours."""

PROGRAM = """
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
{instrument}
graph = StateGraph(MessagesState)
graph.add_node("clerk", lambda _: {{"messages": [AIMessage("It is 48.")]}})
graph.add_edge(START, "clerk")
print(graph.compile().invoke({{"messages": [("user", "How many?")]}})["messages"][-1].content)
"""


def plan(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "plan.toml"
    path.write_text(text, encoding="utf-8")
    return path


def run_planned(tmp_path: Path, instrument: str, *runner: str, then: str = "") -> tuple[int, str, dict[str, object]]:
    """Run the program as a file plans it: its exit status, what it says, and the label of the one fault."""
    labels = tmp_path / "labels.jsonl"
    path = plan(tmp_path, f"seed = 3\nlabels = '{labels}'\n[[fault]]\nkind = 'aegis:FM-3.1'\nagent = 'clerk'\n")
    code = tmp_path / "program.py"
    code.write_text(PROGRAM.format(instrument=instrument) + then)
    environment = {**os.environ, PLAN_VARIABLE: str(path), "OTEL_TRACES_EXPORTER": "none"}
    environment |= {"OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}
    environment |= {"OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": OTHERS}
    command = [*runner, sys.executable, "-u", str(code)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    (label,) = map(json.loads, labels.read_text(encoding="utf-8").splitlines())
    return done.returncode, done.stdout.strip(), label


def test_program_errs_as_a_file_plans(tmp_path: Path) -> None:
    """`opentelemetry-instrument` honours `BLAMESPAN_INJECT`; labels are there at the end."""
    runner = str(Path(sys.executable).with_name("opentelemetry-instrument"))
    _, answer, label = run_planned(tmp_path, "", runner)

    assert (answer, label["agent"], label["step"]) == (label["after"], "clerk", 0)


def test_killed_program_leaves_its_labels(tmp_path: Path) -> None:
    """`instrument()` does, too; a label is in the file as soon as its fault is written: no end is waited for."""
    killed = "\nimport os, signal; os.kill(os.getpid(), signal.SIGKILL)\n"
    status, answer, label = run_planned(tmp_path, "import blamespan; blamespan.instrument()", then=killed)

    assert (status, answer, label["agent"], label["kind"]) == (-9, label["after"], "clerk", "aegis:FM-3.1")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sed = 1\n[[fault]]\nkind = 'aegis:FM-3.2'", "unknown key 'sed'. Nearest known: 'seed'"),
        ("[[fault]]\nkind = 'aegis:FM-3.2'\nagnet = 'x'", "unknown key 'agnet'. Nearest known: 'agent'"),
        ("[[fault]]\nkind = 'aegis:FM-3.22'", "got 'aegis:FM-3.22'. Nearest known: 'aegis:FM-3.2'"),
        ("[[fault]]\nagent = 'x'", "expected kind = 'aegis:FM-3.2' or another name"),
        ("fault = 3", "expected at least one [[fault]] table"),
        ("seed = 'x'\n[[fault]]\nkind = 'aegis:FM-3.2'", "expected seed = a whole number"),
        ("[[fault]]\nkind = 'aegis:FM-3.2'\nstep = -1", "step must be a whole number from 0, got -1"),
        ("[[fault]]\nkind = 'aegis:FM-3.2'\nprobability = 2", "probability must be a number from 0 to 1, got 2"),
        ("[[fault]]\nkind = 'aegis:FM-3.2'\nagent = 3", "agent must be a name, got 3"),
        ("= =", "expected the plan of BLAMESPAN_INJECT in TOML at"),
    ],
)
def test_wrong_plan_says_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str) -> None:
    """Nothing is injected by a plan that was not understood; the nearest key or kind is named."""
    monkeypatch.setenv(PLAN_VARIABLE, str(plan(tmp_path, text)))

    with pytest.raises(ConfigError) as raised:
        inject_from_environment()
    assert said in str(raised.value)


def test_missing_plan_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is not there is named."""
    monkeypatch.setenv(PLAN_VARIABLE, "nowhere.toml")

    with pytest.raises(ConfigError, match=r"the plan of BLAMESPAN_INJECT in TOML at 'nowhere.toml', got No such file"):
        blamespan.instrument()


def test_no_plan_no_injection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the variable nothing happens."""
    monkeypatch.delenv(PLAN_VARIABLE, raising=False)

    assert inject_from_environment() is None


def test_no_fault_is_a_mistake() -> None:
    """A block that could never do anything says how one is named."""
    with pytest.raises(ConfigError, match="expected at least one fault, got none"):
        blamespan.inject()


def test_unwritable_labels_are_refused_before_anything_runs(tmp_path: Path) -> None:
    """The run is not begun whose labels would be lost."""
    injection = blamespan.inject("aegis:FM-3.2", labels=tmp_path / "nowhere" / "labels.jsonl")

    with pytest.raises(ConfigError, match="labels must be a file that can be written"), injection:
        pass


def test_program_without_models_misses_its_fault() -> None:
    """What was never reached is said, with what would have been needed."""
    with blamespan.inject("aegis:FM-3.2") as injection:
        pass

    (missed,) = injection.missed
    assert missed.reason.startswith("no response boundary was reached")


def test_without_a_framework_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where neither framework is installed there is nothing to inject into."""

    def missing(name: str) -> object:
        raise MissingExtra("autogen is not installed")

    monkeypatch.setattr("blamespan.intercepting.listeners.load_part", missing)
    injection = Injection([PlannedFault("aegis:FM-3.2")])

    with pytest.raises(MissingExtra, match=r"pip install 'blamespan\[autogen\]'"), injection:
        pass


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_forked_child_does_not_wait_for_who_injects_in_the_parent() -> None:
    """A child forked while another thread writes a fault, and a third one puts hooks in place, injects as it likes."""
    with blamespan.inject("aegis:FM-3.2") as injection, injection._lock, listeners.installed._lock:
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(5)
            injection.close()
            with blamespan.inject("aegis:FM-3.2") as another:
                is_in_place = bool(listeners.installed._hooks)
                is_free = another._lock.acquire(blocking=False) and injection._lock.acquire(blocking=False)
            os._exit(0 if is_in_place and is_free and not listeners.installed._hooks else 1)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_closed_injection_is_let_go() -> None:
    """What is done in a forked child keeps no injection of the parent in memory."""
    with blamespan.inject("aegis:FM-3.2") as injection:
        reference = weakref.ref(injection)
    del injection
    gc.collect()

    assert reference() is None
