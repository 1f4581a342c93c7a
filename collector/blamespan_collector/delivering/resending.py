"""Asks for what was set aside, or delivered lately, to be sent again; for `blamespan collect resend`.

Requests are rows in the state that the delivery thread reads every second. So a collector may run on the folder or not:
one that does begins at once, else the next one does.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from blamespan.errors import BlamespanError, ConfigError
from blamespan.sqlite_files import transaction
from blamespan_collector.delivering.delivered_rows import TABLES
from blamespan_collector.delivering.sinks import PARTIAL
from blamespan_collector.journal import FolderLock, JournalError
from blamespan_collector.state.state import connect
from blamespan_collector.wire.outgoing import Kind


@dataclass(frozen=True, slots=True)
class Resend:
    """What a sink is to get again, or could.

    Attributes:
        sink: Its name.
        kind: What it gets.
        origin: `aside`: it was set aside; `partial`: it was, after the sink took a part; `delivered`: the sink had it.
        spans: How many spans, log records, metrics or verdicts.
        is_enqueued: Whether it is sent now.
        note: Why not, or what to know.
    """

    sink: str
    kind: Kind
    origin: Literal["aside", "partial", "delivered"]
    spans: int
    is_enqueued: bool = True
    note: str = ""


def resend(
    journal: Path,
    *,
    since_s: float | None = None,
    aside: bool = False,
    partial: bool = False,
    sink: str | None = None,
    to: str | None = None,
    dry_run: bool = False,
) -> list[Resend]:
    """Ask for things to be sent again, and return what; and what was left out, and why.

    Args:
        journal: The collector's folder.
        since_s: Unix time: what a sink took since then. None: nothing that it took.
        aside: What was set aside.
        partial: Of what was set aside, also requests that the sink took a part of.
        sink: Only for this one: its name, or a part of it that no other has.
        to: Who gets what *sink* set aside, where that is no longer forwarded to.
        dry_run: Whether only to look.

    Raises:
        ConfigError: if there is no journal, or no such sink.
        JournalError: if it cannot be read now.
    """
    with _state(journal) as database, transaction(database, is_kept=not dry_run):
        return _ask(database, since_s, aside=aside, partial=partial, sink=sink, to=to)


def is_running(journal: Path) -> bool:
    """Check whether a collector uses the folder."""
    try:
        FolderLock(journal, "intake").release()
    except JournalError:
        return True
    return False


@contextmanager
def _state(journal: Path) -> Iterator[sqlite3.Connection]:
    path = journal / "state.db"
    if not path.is_file():
        raise ConfigError(
            f"expected a collector's journal at {str(journal)!r}, got none. Give the folder it uses with --journal DIR"
        )
    database = connect(path, "full")
    try:
        database.executescript(TABLES)
        yield database
    except sqlite3.OperationalError as error:
        raise BlamespanError(f"the collector's state {str(path)!r} cannot be used now: {error}. Try again") from error
    finally:
        database.close()


def _ask(
    database: sqlite3.Connection, since_s: float | None, *, aside: bool, partial: bool, sink: str | None, to: str | None
) -> list[Resend]:
    lanes: list[tuple[str, Kind]] = database.execute("SELECT sink, kind FROM lanes ORDER BY sink, kind").fetchall()
    set_aside = database.execute(
        "SELECT sink, kind, substr(reason, 1, ?) = ?, sum(spans) FROM set_aside WHERE sink <> '' GROUP BY 1, 2, 3",
        (len(PARTIAL), PARTIAL),
    ).fetchall()
    names = sorted({name for name, *_ in (*lanes, *set_aside)})
    chosen = names if sink is None else [_sink_name(sink, names, "--sink")]
    target = None if to is None else _sink_name(to, sorted({name for name, _ in lanes}), "--to")
    results: list[Resend] = []
    for name, kind, is_partial, spans in set_aside if aside else ():
        if name in chosen:
            results.append(
                _ask_aside(database, lanes, (name, target or name, kind), bool(is_partial), spans, partial=partial)
            )
    if since_s is not None:
        results += [_ask_delivered(database, name, kind, since_s) for name, kind in lanes if name in chosen]
    return results


def _ask_aside(
    database: sqlite3.Connection,
    lanes: Sequence[tuple[str, Kind]],
    who: tuple[str, str, Kind],
    is_partial: bool,
    spans: int,
    *,
    partial: bool,
) -> Resend:
    """Mark what a sink set aside of one kind for who is to get it."""
    name, target, kind = who
    origin: Literal["partial", "aside"] = "partial" if is_partial else "aside"
    if is_partial and not partial:
        note = "it took a part of these requests and does not say which: --partial sends them whole"
        return Resend(name, kind, origin, spans, is_enqueued=False, note=note)
    if (target, kind) not in lanes:
        note = f"nothing is forwarded there any more: --sink {name} --to NAME"
        return Resend(name, kind, origin, spans, is_enqueued=False, note=note)
    database.execute(
        "INSERT OR REPLACE INTO resend_aside SELECT row, ? FROM set_aside "
        "WHERE sink = ? AND kind = ? AND (substr(reason, 1, ?) = ?) = ?",
        (target, name, kind, len(PARTIAL), PARTIAL, is_partial),
    )
    return Resend(target, kind, origin, spans, note="" if target == name else f"set aside by {name}")


def _ask_delivered(database: sqlite3.Connection, sink: str, kind: Kind, since_s: float) -> Resend:
    """Ask for what a sink took since a time."""
    oldest_row, until_row = database.execute(
        "SELECT min(row), max(row) FROM delivered WHERE sink = ? AND kind = ?", (sink, kind)
    ).fetchone()
    if oldest_row is None:
        return Resend(sink, kind, "delivered", 0, is_enqueued=False, note="nothing is kept: what it took it has")
    # The oldest says behind which row anything is kept; each other one, what came after the one before it, and when
    (after_row,) = database.execute(
        "SELECT max(row) FROM delivered WHERE sink = ? AND kind = ? AND row < "
        "(SELECT min(row) FROM delivered WHERE sink = ? AND kind = ? AND row > ? AND at_s >= ?)",
        (sink, kind, sink, kind, oldest_row, since_s),
    ).fetchone()
    after_row = until_row if after_row is None else after_row
    (spans,) = database.execute(
        "SELECT ifnull(sum(spans), 0) FROM outbox WHERE kind = ? AND row > ? AND row <= ?", (kind, after_row, until_row)
    ).fetchone()
    if spans:
        database.execute(
            "INSERT INTO resend VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
            "after_row = min(after_row, excluded.after_row), until_row = max(until_row, excluded.until_row)",
            (sink, kind, after_row, until_row),
        )
    return Resend(sink, kind, "delivered", spans, is_enqueued=bool(spans), note="" if spans else "nothing since then")


def _sink_name(text: str, names: Sequence[str], flag: str) -> str:
    """Find the sink that is meant: by its name, or by a part that only it has."""
    matches = [name for name in names if text in name]
    if text in names or len(matches) == 1:
        return text if text in names else matches[0]
    raise ConfigError(
        f"expected {flag} to name one of {', '.join(names) or 'no sinks'}, got {text!r}"
        + (f", which {len(matches)} of them have" if matches else "")
    )
