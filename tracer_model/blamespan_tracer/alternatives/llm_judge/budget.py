"""What questions cost: estimated before they are asked, counted by the server's figures after, bounded by budgets.

Counts stand in an account, a SQLite database: one in memory, or a file that several processes share. There is a bound
for the account as a whole, one for each hour of it, and one for each run.
"""

from __future__ import annotations

import atexit
import logging
import os
import sqlite3
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from blamespan.errors import ConfigError
from blamespan.sqlite_files import transaction
from blamespan_tracer.alternatives.endpoint import JUDGE
from blamespan_tracer.alternatives.llm_judge.completions import TokenUsage
from blamespan_tracer.alternatives.llm_judge.settings import UNBOUNDED, Bound

ACCOUNT = f"{JUDGE}_ACCOUNT"
"""Names the file in which this process and those it starts count together."""

_APPLICATION_ID = 0x626A6163
_WAIT_S = 30.0
"""For others that write."""

_HOUR_S = 3600

_own_accounts: dict[int, str] = {}
"""The account that a process made last, by its id: its next tracer begins a new one, while a child takes part in it."""

_log = logging.getLogger(__name__)


class Unanswered(Exception):
    """A question has no answer that counts: the run gets no verdict, and the message says why."""


class BudgetSpent(Unanswered):
    """A question would go over the budget."""


@dataclass
class TokenReservation:
    """What a question may cost at most, until it is known what it did.

    Attributes:
        input_tokens: Estimated.
        output_tokens: At most.
        used: As the server counts; None where it does not say, or nothing came.
        is_answered: Whether anything came at all.
        is_lost: Whether nothing came though all was asked: it may have been paid for, so it counts at most.
    """

    input_tokens: int
    output_tokens: int
    used: TokenUsage | None = None
    is_answered: bool = False
    is_lost: bool = False


@dataclass
class RunSpending:
    """What one run has cost so far, at most: what was asked about it counts as reserved until it is known."""

    input_tokens: int = 0
    output_tokens: int = 0


@dataclass
class TokenBudget:
    """What may be spent and what was, for many threads at once, and for all processes that share its account.

    What a question may cost is held back in the account while it is asked. Of a process that was killed it stays held
    back: it may have been paid for.

    Attributes:
        total: Bound of all that the account holds.
        hourly: Bound of what it holds of the clock's present hour, UTC.
        per_run: Bound of what is asked about one run.
        price: US dollars for a token of a question and a token of an answer.
        account: File that is shared; None for one that nobody else sees.

    Raises:
        ConfigError: if the file cannot be used.
    """

    total: Bound = UNBOUNDED
    hourly: Bound = UNBOUNDED
    per_run: Bound = UNBOUNDED
    price: tuple[float, float] = (0.0, 0.0)
    account: Path | None = None
    _database: sqlite3.Connection = field(init=False, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        self._database = _open_account(self.account)

    def cost(self, input_tokens: int, output_tokens: int) -> float:
        """Return what tokens cost in US dollars."""
        return input_tokens * self.price[0] + output_tokens * self.price[1]

    @property
    def counts(self) -> Counter[str]:
        """Read `questions`, `input`, `output` and `estimated` tokens, and whatever else is counted, of all processes.

        Nothing where the account cannot be read.
        """
        with self._lock, suppress(sqlite3.Error):
            return self._read()
        return Counter()

    def count(self, what: str, how_many: int = 1) -> None:
        """Count something."""
        self._add({what: how_many})

    @contextmanager
    def reserve(
        self, input_tokens: int, output_tokens: int, run: RunSpending | None = None
    ) -> Iterator[TokenReservation]:
        """Hold back what a question may cost at most while it is asked; then count what it did.

        A question that was turned down, or never got there, counts as free. One whose answer does not say what it cost,
        or never came, counts as estimated.

        Args:
            input_tokens: Estimated.
            output_tokens: At most.
            run: What the run has cost that is asked about; None where its bound does not matter.

        Raises:
            BudgetSpent: if that could go over a bound.
            Unanswered: if the account cannot be kept.
        """
        if run is not None:
            asked = run.input_tokens + input_tokens, run.output_tokens + output_tokens
            self._refuse_over(self.per_run, *asked, "of a run ")
        hour = int(time.time() // _HOUR_S)
        self._hold(hour, input_tokens, output_tokens)
        reservation = TokenReservation(input_tokens, output_tokens)
        try:
            yield reservation
        finally:
            self._settle(reservation, hour, input_tokens, output_tokens, run)

    def _hold(self, hour: int, input_tokens: int, output_tokens: int) -> None:
        try:
            with self._lock, transaction(self._database):
                counts = self._read()
                for bound, prefix, name in ((self.total, "", ""), (self.hourly, f"{hour}/", "of this hour ")):
                    tokens_in, tokens_out = (
                        counts[f"{prefix}{side}"] + counts[f"{prefix}held_{side}"] for side in ("input", "output")
                    )
                    self._refuse_over(bound, tokens_in + input_tokens, tokens_out + output_tokens, name)
                self._write({"held_input": input_tokens, "held_output": output_tokens}, hour)
                self._database.execute("DELETE FROM counts WHERE what GLOB '[0-9]*' AND CAST(what AS INTEGER) < ?",
                                       (hour - 1,))  # fmt: skip
        except sqlite3.Error as error:
            raise Unanswered(f"the judge's account cannot be kept: {error}") from error

    def _refuse_over(self, bound: Bound, input_tokens: int, output_tokens: int, name: str) -> None:
        if bound.tokens is not None and input_tokens + output_tokens > bound.tokens:
            raise BudgetSpent(f"the budget {name}of {bound.tokens:,} tokens is spent")
        if bound.money is not None and self.cost(input_tokens, output_tokens) > bound.money:
            raise BudgetSpent(f"the budget {name}of {bound.money:g} is spent")

    def _settle(
        self, reservation: TokenReservation, hour: int, input_tokens: int, output_tokens: int, run: RunSpending | None
    ) -> None:
        hourly = {"held_input": -input_tokens, "held_output": -output_tokens}
        counts: dict[str, int] = {}
        if reservation.is_answered or reservation.is_lost:
            used = reservation.used or TokenUsage(reservation.input_tokens, reservation.output_tokens)
            if run is not None:
                run.input_tokens += used.input_tokens
                run.output_tokens += used.output_tokens
            hourly |= {"input": used.input_tokens, "output": used.output_tokens}
            counts |= {"questions": int(reservation.is_answered), "lost": int(reservation.is_lost)}
            if reservation.used is None:
                counts["estimated"] = used.input_tokens + used.output_tokens
        self._add(hourly, hour)
        self._add(counts)

    def _add(self, counts: Mapping[str, int], hour: int | None = None) -> None:
        try:
            with self._lock, transaction(self._database):
                self._write(counts, hour)
        except sqlite3.Error as error:  # nothing that is under way should end for it; what comes next will
            _log.warning("the judge's account cannot be kept: %s", error)

    def _read(self) -> Counter[str]:
        return Counter(dict(self._database.execute("SELECT what, number FROM counts")))

    def _write(self, counts: Mapping[str, int], hour: int | None = None) -> None:
        rows = [(what, n) for what, n in counts.items() if n]
        rows += [(f"{hour}/{what}", n) for what, n in rows] if hour is not None else []
        self._database.executemany(
            "INSERT INTO counts VALUES (?, ?) ON CONFLICT (what) DO UPDATE SET number = number + excluded.number", rows
        )


def shared_account() -> Path | None:
    """Find the account that processes share: the file that is named, or one made for this process and those it starts.

    None where no file can be made: then every process counts for itself, and a warning says so.
    """
    named = os.environ.get(ACCOUNT, "").strip()
    if named and named != _own_accounts.get(os.getpid()):
        return Path(named).expanduser()
    try:
        handle, name = tempfile.mkstemp(prefix="blamespan-judge-", suffix=".account")
    except OSError as error:
        _log.warning("every process counts for itself what the judge costs, as no file can be made: %s", error)
        return None
    os.close(handle)
    os.environ[ACCOUNT] = name
    _own_accounts[os.getpid()] = name
    atexit.register(_remove_account, name, os.getpid())
    return Path(name)


def _remove_account(name: str, process: int) -> None:
    if os.getpid() == process:
        Path(name).unlink(missing_ok=True)


def _open_account(path: Path | None) -> sqlite3.Connection:
    database: sqlite3.Connection | None = None
    try:
        database = sqlite3.connect(path or ":memory:", _WAIT_S, isolation_level=None, check_same_thread=False)
        with transaction(database):
            (application,) = database.execute("PRAGMA application_id").fetchone()
            tables = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if application != _APPLICATION_ID and tables != (0,):
                raise sqlite3.DatabaseError("it is another program's database")
            database.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            database.execute("CREATE TABLE IF NOT EXISTS counts (what TEXT PRIMARY KEY, number INTEGER) WITHOUT ROWID")
        database.execute("PRAGMA synchronous = OFF")  # a power cut may cost the last counts, a kill none
        return database
    except sqlite3.Error as error:
        if database is not None:
            database.close()
        raise ConfigError(
            f"{ACCOUNT} must be a file that the judge can count in, got {str(path)!r} ({error}). Name another, or "
            "leave it out"
        ) from error
