"""Summaries as rows of the table `traces`, and back; queries as SQL."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from blamespan.errors import ConfigError
from blamespan_collector.store.records import RunQuery, RunSummary

COLUMNS = tuple(field.name for field in fields(RunSummary) if field.name != "place")
"""Columns of a summary, in the order of its fields."""

_PLACE = re.compile(r"(\d{1,19})-(\d{1,19})")
_FLAGS = ("is_run", "has_root", "is_partial")


def row_of(summary: RunSummary) -> tuple[Any, ...]:
    """Write a summary as the values of `COLUMNS`."""
    row = {name: getattr(summary, name) for name in COLUMNS}
    row["trace_id"] = bytes.fromhex(summary.trace_id)
    row["agents"] = json.dumps(summary.agents)
    return tuple(row.values())


def summary_of(row: sqlite3.Row) -> RunSummary:
    """Read a summary from a row that has `COLUMNS` and `row`."""
    fields: dict[str, Any] = {name: row[name] for name in COLUMNS}
    fields.update({flag: bool(fields[flag]) for flag in _FLAGS})
    fields["trace_id"] = fields["trace_id"].hex()
    fields["agents"] = tuple(json.loads(fields["agents"]))
    return RunSummary(**fields, place=f"{fields['start_ns']}-{row['row']}")


def condition(query: RunQuery) -> tuple[str, list[object]]:
    """Write what is wanted as an SQL condition on `traces`, and its values.

    Raises:
        ConfigError: if `query.after` is no place.
    """
    parts = list(_parts(query))
    return " AND ".join([sql for sql, _ in parts]) or "true", [value for _, values in parts for value in values]


def _parts(query: RunQuery) -> Iterator[tuple[str, tuple[object, ...]]]:
    if query.is_run:
        yield "is_run", ()
    for column, wanted in (
        ("outcome", query.outcome),
        ("blamed_agent", query.agent),
        ("mode", query.mode),
        ("incident", query.incident),
    ):
        if wanted:
            yield f"{column} = ?", (wanted,)
    if query.service:
        yield "row IN (SELECT trace FROM services WHERE service = ?)", (query.service,)
    for sql, limit in (
        ("start_ns >= ?", query.since_ns),
        ("start_ns <= ?", query.until_ns),
        ("end_ns >= ?", query.ended_since_ns),
        ("end_ns - start_ns >= ?", query.min_duration_ns),
        ("end_ns - start_ns <= ?", query.max_duration_ns),
    ):
        if limit is not None:
            yield sql, (max(-(2**63), min(limit, 2**63 - 1)),)
    for word in query.text.replace("\0", " ").lower().split()[:20]:
        yield "instr(words, ?)", (word,)
    if query.after:
        match = _PLACE.fullmatch(query.after)
        if match is None:
            raise ConfigError(f"expected a place as an earlier answer gave it, got {query.after!r}. Leave it out")
        yield "(start_ns, row) < (?, ?)", (min(int(match[1]), 2**63 - 1), min(int(match[2]), 2**63 - 1))
