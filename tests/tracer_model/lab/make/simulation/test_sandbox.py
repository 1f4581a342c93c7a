"""The sandbox: code that nobody has read can do nothing but compute."""

from __future__ import annotations

from pathlib import Path

import pytest

from blamespan_lab.make.simulation.sandbox import CodeResult, run_code


def test_a_function_is_tried_on_each_example() -> None:
    """Results come back in order, as JSON carries them."""
    assert run_code("def f(v):\n    return [v, (v,)]", "f", [1, "a"]) == CodeResult(results=([1, [1]], ["a", ["a"]]))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return 1 / 0", "ZeroDivisionError"),
        ("open('/etc/hostname').read()", "PermissionError"),
        ("open('x', 'w')", "PermissionError"),
        ("import socket; socket.socket()", "Error"),
        ("import subprocess; subprocess.run(['true'])", "Error"),
        ("import os; os.system('true')", "PermissionError"),
        ("import os; os.fork()", "PermissionError"),
        ("import sys; sys.exit(0)", "SystemExit"),
        ("return [0] * 10**10", "MemoryError"),
        ("return open", "TypeError"),
        ("return f", "TypeError"),
    ],
)
def test_what_code_must_not_do_is_an_error(body: str, expected: str) -> None:
    """Files, network, processes and too much memory are refused; the error is told, our process goes on."""
    trial = run_code(f"def f(v):\n    {body}", "f", [1])

    assert trial.results == ()
    assert expected in str(trial.error)


def test_endless_code_is_stopped() -> None:
    """CPU time runs out after a second."""
    trial = run_code("def f(v):\n    while True: pass", "f", [1])

    assert trial.error == "it was stopped: out of time or memory"


def test_code_sees_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Secrets of the process that runs it are not there."""
    monkeypatch.setenv("SECRET", "word")

    assert run_code("def f(v):\n    import os\n    return os.environ.get('SECRET')", "f", [1]).results == (None,)


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It works in a folder of its own, which goes."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", None)
    run_code("def f(v):\n    return v  # leaves nothing", "f", [1])

    assert list(tmp_path.iterdir()) == []
