"""Which checks are in use: the bundled ones, installed packages', those of the user's files, what is usual there."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib.metadata import EntryPoint
from pathlib import Path

from blamespan.plugins import broken_entry, load_entry, plugins
from blamespan.trace import MessageActionTrace
from blamespan_tracer.checks.check import Check, CheckResult, apply_checks
from blamespan_tracer.checks.toml_rules import read_toml_checks
from blamespan_tracer.checks.usual_course import usual_courses_in_use

CHECKS_VARIABLE = "BLAMESPAN_CHECKS"
"""Environment variable: TOML files with further checks, separated like `PATH`."""

_GROUP = "blamespan.checks"


def apply_checks_in_use(trace: MessageActionTrace) -> list[CheckResult]:
    """Apply every check in use to a run, those of files as they are now; the part `checks` of `blamespan`.

    Raises:
        ConfigError: if a file that `BLAMESPAN_CHECKS` names, or an installed package, offers what is no check.
    """
    return apply_checks(_cached_checks(tuple(map(_state_of, _list_files()))), trace)


def checks_in_use(files: Sequence[Path] | None = None) -> tuple[Check, ...]:
    """Return all checks: bundled and installed ones, what is usual in the user's teams, those of *files*.

    A later one replaces one of its name.

    Args:
        files: TOML files; where None, those that `BLAMESPAN_CHECKS` names.

    Raises:
        ConfigError: if a file or an installed package offers what is no check.
        MissingExtra: if an installed package lacks one of ours.
        TracerUnavailable: if the file of usual courses that a variable names is missing or damaged.
    """
    if files is None:
        files = _list_files()
    by_name = {check.name: check for check in installed_checks()}
    if (usual := usual_courses_in_use()) is not None:
        by_name.update((check.name, check) for check in usual.checks())
    for path in files:
        by_name.update((check.name, check) for check in read_toml_checks(path))
    return tuple(by_name.values())


def digest_files() -> str:
    """Return the first 12 hex digits of the SHA-256 of what is checked beside what is installed; empty for nothing.

    That are the files that `BLAMESPAN_CHECKS` names, and the usual courses of the user's teams.
    """
    digest = hashlib.sha256()
    files, usual = _list_files(), usual_courses_in_use()
    for path in files:
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    if usual is not None:
        digest.update(usual.digest.encode())
    return digest.hexdigest()[:12] if files or usual is not None else ""


def installed_checks() -> list[Check]:
    """Return what the entry points of the group `blamespan.checks` offer: a check, or several.

    Raises:
        ConfigError: if one cannot be imported, or offers what is no check; the message names it and its package.
    """
    entries = plugins(_GROUP)
    names = sorted(entries, key=lambda name: (name != "bundled", name))
    return [check for name in names for check in _as_checks(entries[name])]


@lru_cache(maxsize=1)
def _cached_checks(files: tuple[tuple[object, ...], ...]) -> tuple[Check, ...]:
    """Read the checks in use again where one of *files* has changed: a page or an MCP server runs for long."""
    del files
    return checks_in_use()


def _state_of(path: Path) -> tuple[object, ...]:
    try:
        found = path.stat()
    except OSError:
        return (path,)  # reading it says what is wrong
    return path, found.st_mtime_ns, found.st_size, found.st_ino


def _list_files() -> list[Path]:
    return [Path(name) for name in os.environ.get(CHECKS_VARIABLE, "").split(os.pathsep) if name]


def _as_checks(entry: EntryPoint) -> list[Check]:
    offer = load_entry(entry)
    checks = [offer] if isinstance(offer, Check) else list(offer) if isinstance(offer, Iterable) else []
    if not checks or not all(isinstance(check, Check) for check in checks):
        raise broken_entry(
            entry, f"expected a Check or several, as docs/how-to/checks.md shows, got {str(offer)[:80]!r}"
        )
    return checks
