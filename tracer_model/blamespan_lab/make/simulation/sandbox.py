"""Trying code that nobody has read: in a process of its own, with limits, and what came out of it remembered.

What holds where. On every POSIX system: a fresh isolated interpreter (`python -I -S`), an empty environment and
an empty folder, at most 1 s of CPU time and 10 s in all, 512 MiB of memory (not on macOS, whose kernel does not keep
to it), no file longer than 0 bytes, no further process, 32 open files; and an audit hook that refuses sockets,
processes, writing and reading outside the standard library. On Linux, where user namespaces are allowed, the
process has no network at all (`unshare`); elsewhere the audit hook alone stands before it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

__all__ = ["CodeResult", "has_network_namespace", "is_running_code", "run_code"]

_TIMEOUT_S = 10.0
_RUNNER = """
import sys, json, os
try:
    import resource
    for limit, most in (("RLIMIT_CPU", 1), ("RLIMIT_AS", 1 << 29), ("RLIMIT_FSIZE", 0), ("RLIMIT_NOFILE", 32),
                        ("RLIMIT_NPROC", 0), ("RLIMIT_CORE", 0)):
        try:
            resource.setrlimit(getattr(resource, limit), (most, most))
        except (ValueError, OSError, AttributeError):
            pass
except ImportError:
    pass
given = json.load(sys.stdin)
import math
out, sys.stdout = sys.stdout, open(os.devnull, "w")
library = os.path.dirname(os.__file__)
def refuse(event, arguments):
    if event == "open":
        path, mode = str(arguments[0]), arguments[1] or "r"
        if any(letter in str(mode) for letter in "wax+") or not path.startswith(library) or (arguments[2] or 0) & 3:
            raise PermissionError("files are out of reach here")
    elif event.split(".")[0] in ("socket", "subprocess", "ctypes", "shutil", "ftplib", "urllib", "webbrowser", "pty"):
        raise PermissionError(event + " is out of reach here")
    elif event.startswith("os.") and event not in ("os.listdir", "os.scandir"):
        raise PermissionError(event + " is out of reach here")
sys.addaudithook(refuse)
try:
    names = {"__name__": "answer"}
    exec(compile(given["code"], "<answer>", "exec"), names)
    answer = {"results": [names[given["name"]](value) for value in given["examples"]]}
    text = json.dumps(answer)
except BaseException as error:
    text = json.dumps({"error": type(error).__name__ + ": " + str(error)[:200]})
out.write(text)
out.flush()
os._exit(0)
"""


_trying: list[None] = []
"""One entry for each run of code that has not ended."""


@dataclass(frozen=True, slots=True)
class CodeResult:
    """What came out of trying a function.

    Attributes:
        results: One per example, as JSON carries them; empty where it failed.
        error: What went wrong, or None.
    """

    results: tuple[Any, ...] = ()  # whatever the code gives
    error: str | None = None


def run_code(code: str, name: str, examples: Sequence[object]) -> CodeResult:
    """Run `name(example)` for each example in a sandbox; the same code is run once per process.

    Args:
        code: Source that defines *name*; anything else it does is kept in.
        name: The function.
        examples: Arguments, as JSON carries them.
    """
    return _run_once(code, name, json.dumps(list(examples)))


def is_running_code() -> bool:
    """Return whether code is being run in some thread right now."""
    return bool(_trying)


@lru_cache(maxsize=8192)
def _run_once(code: str, name: str, examples: str) -> CodeResult:
    _trying.append(None)
    try:
        return _run(code, name, examples)
    finally:
        _trying.pop()


def _run(code: str, name: str, examples: str) -> CodeResult:
    request = json.dumps({"code": code, "name": name, "examples": json.loads(examples)})
    command = [sys.executable, "-I", "-S", "-c", _RUNNER]
    if has_network_namespace():
        command = ["unshare", "--user", "--map-current-user", "--net", *command]
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run(  # noqa: S603  # our own command; the code goes in by stdin
                command,
                input=request,
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_S,
                cwd=folder,
                env={},
                check=False,
            )
        except subprocess.TimeoutExpired:
            return CodeResult(error="it took too long")
    if not done.stdout:
        return CodeResult(error="it was stopped: out of time or memory")
    return _read(done.stdout)


def _read(text: str) -> CodeResult:
    try:
        answer = json.loads(text)
    except ValueError:
        return CodeResult(error="its results cannot be read")
    if "results" in answer:
        return CodeResult(results=tuple(answer["results"]))
    return CodeResult(error=str(answer.get("error")))


@lru_cache(maxsize=1)
def has_network_namespace() -> bool:
    """Return whether this system lets us run a process without any network."""
    path = shutil.which("unshare")
    if path is None:
        return False
    done = subprocess.run(  # noqa: S603
        [path, "--user", "--map-current-user", "--net", "true"], capture_output=True, check=False, timeout=_TIMEOUT_S
    )
    return done.returncode == 0
