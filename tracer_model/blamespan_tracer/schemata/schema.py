"""What an error schema is, and how a table of TOML becomes one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, get_args

from blamespan.errors import ConfigError
from blamespan.strict_tables import read_choice, read_whole_number, refuse_unknown_keys
from blamespan.taxonomy import mode as find_mode
from blamespan.trace import StepKind

DEFAULT_THRESHOLD: Final = 0.7
"""Score from which on a step matches, where no sound run asks for more."""

MAX_TEXT_CHARS: Final = 2_000
_MAX_FINDINGS: Final = 20
_MAX_SEEN: Final = 1_000
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,79}")
_TRACE_ID = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Signature:
    """By what a step is known that fails as another did. What is empty is not asked for.

    Attributes:
        kind: Of the step; a step of another kind does not match.
        tool: That it calls; a call of another tool does not match.
        agent: Who takes it, as `fold_agent` writes names.
        error: Class of the error that it ended with.
        findings: What stands out about it: broken checks, claims that contradict a source, repetition.
        wording: What it says, numbers, names and the like abstracted to their form.
        before: The step before it, and
        after: the step after it, as `describe_neighbour` writes them.
    """

    kind: str = ""
    tool: str = ""
    agent: str = ""
    error: str = ""
    findings: tuple[str, ...] = ()
    wording: str = ""
    before: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True)
class SeenFailure:
    """A confirmed failure that a schema was made of, or that was found to be the same.

    Attributes:
        trace_id: Of the run.
        step: Index of the step.
        at: When it was confirmed, UTC, as `2026-11-21T08:00:00Z`; empty where nobody knows.
        by: What confirmed it: `label ann`, `outcome`, `replay`.
    """

    trace_id: str
    step: int
    at: str = ""
    by: str = ""


@dataclass(frozen=True, slots=True)
class ErrorSchema:
    """A failure that is known, and how to detect it.

    Attributes:
        name: Unique in its file.
        signature: How to detect it.
        title: What goes wrong, for people.
        mode: The error mode, as `taxonomy:code`, or empty.
        threshold: Score from which on a step matches, above 0 and up to 1.
        example: What it looked like: words of the step.
        seen: Where it was seen, the first failure first.
    """

    name: str
    signature: Signature
    title: str = ""
    mode: str = ""
    threshold: float = DEFAULT_THRESHOLD
    example: str = ""
    seen: tuple[SeenFailure, ...] = ()


_KEYS: Final = {kind: [field.name for field in fields(kind)] for kind in (ErrorSchema, Signature, SeenFailure)}


def read_schema(table: object, where: str) -> ErrorSchema:
    """Read one `[[schema]]` of a file.

    Raises:
        ConfigError: if it has an unknown key (the nearest one is named), or a value that does not fit.
    """
    found = _as_table(table, where)
    refuse_unknown_keys(found, _KEYS[ErrorSchema], where)
    name = _text(found, "name", where)
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{where}: expected a name of small letters, digits, `.`, `_` and `-`, got {name[:90]!r}. "
            "Write it like name = 'planner-invents-number'"
        )
    where = f"{where} ({name!r})"
    mode = _text(found, "mode", where)
    if mode:
        mode = str(find_mode(mode))
    threshold = found.get("threshold", DEFAULT_THRESHOLD)
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0 < threshold <= 1:
        raise ConfigError(f"{where}: expected a threshold above 0 and up to 1, got {threshold!r}. Leave it out for "
                          f"{DEFAULT_THRESHOLD}")  # fmt: skip
    seen = found.get("seen", [])
    if not isinstance(seen, list) or len(seen) > _MAX_SEEN:
        raise ConfigError(f"{where}: expected up to {_MAX_SEEN} tables [[schema.seen]], got {str(seen)[:60]!r}")
    return ErrorSchema(
        name,
        _read_signature(found.get("signature"), where),
        _text(found, "title", where),
        mode,
        float(threshold),
        _text(found, "example", where),
        tuple(_read_seen(one, f"{where}: seen") for one in seen),
    )


def _read_signature(value: object, where: str) -> Signature:
    where = f"{where}: signature"
    table = _as_table(value, where)
    refuse_unknown_keys(table, _KEYS[Signature], where)
    findings = table.get("findings", [])
    if (
        not isinstance(findings, list)
        or len(findings) > _MAX_FINDINGS
        or not all(isinstance(finding, str) for finding in findings)
    ):
        raise ConfigError(
            f"{where}: expected findings as a list of up to {_MAX_FINDINGS} texts, got {str(findings)[:60]!r}"
        )
    texts = {name: _text(table, name, where) for name in _KEYS[Signature] if name != "findings"}
    if texts["kind"]:
        read_choice(texts["kind"], get_args(StepKind), f"{where}: kind")
    signature = Signature(**texts, findings=tuple(dict.fromkeys(findings)))
    if not (signature.findings or signature.wording or signature.error):
        raise ConfigError(
            f"{where}: expected findings, a wording or an error to know a failure by, got none of them. "
            "What else there is, sound steps have as well"
        )
    return signature


def _read_seen(value: object, where: str) -> SeenFailure:
    table = _as_table(value, where)
    refuse_unknown_keys(table, _KEYS[SeenFailure], where)
    trace_id, step = _text(table, "trace_id", where), read_whole_number(table.get("step"), f"{where}: step")
    if not _TRACE_ID.fullmatch(trace_id):
        raise ConfigError(f"{where}: expected a trace_id of 32 hex digits, got {trace_id[:90]!r}")
    return SeenFailure(trace_id, step, _text(table, "at", where), _text(table, "by", where))


def _as_table(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{where}: expected a table, got {str(value)[:60]!r}. docs/how-to/schemata.md has an example")
    return value


def _text(table: Mapping[str, Any], key: str, where: str) -> str:
    value = table.get(key, "")
    if not isinstance(value, str) or len(value) > MAX_TEXT_CHARS:
        raise ConfigError(f"{where}: expected {key} as a text of up to {MAX_TEXT_CHARS} characters, got "
                          f"{str(value)[:60]!r}")  # fmt: skip
    return value
