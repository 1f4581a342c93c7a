"""What agents have spent, against what they may: calls, tokens, seconds and money, by agent, run and day.

What is spent is reserved before a call and settled after it, under one lock, so that agents side by side go beyond a
limit by one call at most. What a call of a model will cost is known only afterwards: while others are being asked and
might use up the rest, the next one waits for them. Budgets of a day are reserved in one transaction of a file that
processes share, so the same holds of processes side by side.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, TypeAlias
from uuid import uuid4
from weakref import WeakKeyDictionary

from blamespan.forking import renewed_after_fork
from blamespan.guarding.policy import EVERYBODY, BudgetRule, Policy
from blamespan.intercepting.boundaries import MustWait, RunScope
from blamespan.sqlite_files import connect, transaction
from blamespan.trace import Usage

CallKind: TypeAlias = Literal["model", "tool"]

_UNKNOWN_TOKENS = 4_096
"""What a call may cost beyond what its prompt shows, while none has been answered yet."""
_CHARS_PER_TOKEN = 4
_LONGEST_WAIT_S = 120.0
"""How long a call waits for others: a model that never answers must not stop every other one."""
_COLUMNS: Final = ("model_calls", "tool_calls", "tokens", "money")
_APPLICATION: Final = 0x626C_6764
"""Marks the file of days as ours: `blgd`."""
_DAYS_KEPT = 40


@dataclass(frozen=True, slots=True)
class Overrun:
    """A budget that is used up.

    Attributes:
        budget: Which.
        unit: Which of its limits.
        limit: How much that is.
        key: Whose spending it is.
    """

    budget: BudgetRule
    unit: str
    limit: float
    key: str

    @property
    def reason(self) -> str:
        """What is wrong, in one sentence."""
        whose = f" of {self.budget.agent}" if self.budget.agent != EVERYBODY else ""
        per = {"agent": "for the agent in this run", "run": "for this run", "day": "for this day"}[self.budget.per]
        return f"the budget{whose} {per} is used up: {self.limit:g} {self.unit.replace('_', ' ')}"


@dataclass(slots=True)
class _Account:
    """What was spent on one budget by one run, agent or day."""

    began_s: float
    model_calls: float = 0
    tool_calls: float = 0
    tokens: float = 0
    money: float = 0.0
    in_flight: int = 0
    most_tokens: float = 0
    most_money: float = 0.0
    granted: int = 1
    """How often the whole budget may be spent: a person may allow it once more."""

    def spent(self, unit: str, now_s: float) -> float:
        if unit == "calls":
            return self.model_calls + self.tool_calls
        return now_s - self.began_s if unit == "seconds" else float(getattr(self, unit))


@dataclass(slots=True)
class Reservation:
    """A call that was let through, until it is settled.

    Attributes:
        accounts: Where it counts.
        sent_tokens: What is sent, as far as it can be guessed.
        id: Names it among the calls of every process.
        is_settled: Whether it was.
    """

    accounts: list[tuple[BudgetRule, str, _Account]]
    sent_tokens: int
    id: str
    is_settled: bool = False


class Books:
    """Keeps what was spent under one policy.

    Args:
        policy: Whose budgets.
        clock: Seconds that never go back.
        wall_clock: Unix seconds, asked once: which day it is follows from *clock* from then on.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._budgets = policy.budgets
        self._prices = policy.prices
        self._clock = clock
        self._offset_s = wall_clock() - clock()
        self._by_run: WeakKeyDictionary[RunScope, dict[tuple[int, str], _Account]] = WeakKeyDictionary()
        has_days = any(budget.per == "day" for budget in policy.budgets)
        self._days = _DayFile(Path(policy.day_file) if policy.day_file else default_day_file()) if has_days else None
        self._by_day: dict[tuple[int, str], _Account] = {}
        self._renew()
        renewed_after_fork(self, Books._renew)

    def _renew(self) -> None:
        self._lock = threading.Lock()

    def reserve(
        self,
        kind: CallKind,
        names: tuple[str, ...],
        run: RunScope,
        chars: int,
        matches: Callable[[str], bool],
        waiting_since_s: float | None = None,
    ) -> Reservation | Overrun:
        """Count a call before it is made; where a budget is used up, return which and count nothing.

        Args:
            kind: What is called.
            names: The agent, by every name that it goes by.
            run: The run.
            chars: Characters that are sent.
            matches: Whether a budget's agent is one that calls.
            waiting_since_s: Since when it waits for other calls, by `clock`.

        Raises:
            MustWait: if that shows only when calls that are being made have ended.
        """
        sent = chars // _CHARS_PER_TOKEN
        matching = [(number, budget) for number, budget in enumerate(self._budgets) if matches(budget.agent)]
        with self._lock, self._write_days(budget for _, budget in matching) as days:
            now_s = self._clock()
            accounts = [
                (budget, key, self._account(number, budget, key, run, now_s))
                for number, budget in matching
                for key in (_key(budget, names, self._today()),)
            ]
            for budget, key, account in accounts:
                if budget.per == "day" and days is not None:
                    days.load(key, budget, account, self._wall_s())
                if (overrun := self._find_overrun(kind, budget, key, account, now_s)) is not None:
                    return overrun
            is_patient = waiting_since_s is None or now_s - waiting_since_s < _LONGEST_WAIT_S
            if (
                kind == "model"
                and is_patient
                and any(self._may_overrun(one, account, sent) for one, _, account in accounts)
            ):
                raise MustWait
            reservation = Reservation(accounts, sent, uuid4().hex)
            for budget, key, account in accounts:
                self._count(budget, key, account, {f"{kind}_calls": 1}, days)
                if kind == "model":
                    account.in_flight += 1
                    if _waits(budget) and days is not None:
                        days.begin_call(reservation.id, key, budget, self._wall_s() + _LONGEST_WAIT_S)
            return reservation

    def settle(self, reservation: Reservation, usage: Usage | None, answer_chars: int, model: str) -> Usage:
        """Count what a call has cost; where nobody says, it is guessed. Returns what was counted."""
        if usage is None or not (usage.input_tokens or usage.output_tokens):
            usage = Usage(reservation.sent_tokens, answer_chars // _CHARS_PER_TOKEN)
        tokens, money = usage.input_tokens + usage.output_tokens, self._cost(usage, model)
        with self._lock, self._write_days(budget for budget, _, _ in reservation.accounts) as days:
            for budget, key, account in reservation.accounts:
                self._count(budget, key, account, {"tokens": tokens, "money": money}, days)
                account.most_tokens = max(account.most_tokens, tokens)
                account.most_money = max(account.most_money, money)
        return usage

    def release(self, reservation: Reservation) -> None:
        """End a call, whatever came of it."""
        with self._lock:
            if reservation.is_settled:
                return
            reservation.is_settled = True
            for _, _, account in reservation.accounts:
                account.in_flight -= 1
            with self._write_days(budget for budget, _, _ in reservation.accounts if _waits(budget)) as days:
                if days is not None:
                    days.end_call(reservation.id)

    def grant(self, overrun: Overrun, names: tuple[str, ...], run: RunScope) -> None:
        """Let a budget be spent once more: a person has allowed it."""
        with self._lock:
            number = self._budgets.index(overrun.budget)
            self._account(number, overrun.budget, _key(overrun.budget, names, self._today()), run, 0.0).granted += 1

    def now_s(self) -> float:
        """Return the time, in seconds that never go back."""
        return self._clock()

    @contextmanager
    def _write_days(self, budgets: Iterable[BudgetRule]) -> Iterator[_Days | None]:
        """Open the file of days where a budget is kept there: what is read and written inside is one transaction."""
        if self._days is None or not any(budget.per == "day" for budget in budgets):
            yield None
            return
        with self._days.write() as days:
            yield days

    def _account(self, number: int, budget: BudgetRule, key: str, run: RunScope, now_s: float) -> _Account:
        accounts = self._by_day if budget.per == "day" else self._by_run.setdefault(run, {})
        return accounts.setdefault((number, key), _Account(now_s))

    def _count(
        self, budget: BudgetRule, key: str, account: _Account, amounts: Mapping[str, float], days: _Days | None
    ) -> None:
        for column, amount in amounts.items():
            setattr(account, column, getattr(account, column) + amount)
        if budget.per == "day" and days is not None:
            days.add(key, budget, amounts)

    def _find_overrun(
        self, kind: CallKind, budget: BudgetRule, key: str, account: _Account, now_s: float
    ) -> Overrun | None:
        for unit, limit in budget.limits.items():
            if unit in ("model_calls", "tool_calls") and unit != f"{kind}_calls":
                continue
            if account.spent(unit, now_s) >= limit * account.granted:
                return Overrun(budget, unit, limit, key)
        return None

    def _may_overrun(self, budget: BudgetRule, account: _Account, sent: int) -> bool:
        """Check whether calls that are being made may use up what is left for one more."""
        if not account.in_flight:
            return False
        tokens = account.most_tokens or sent + _UNKNOWN_TOKENS
        money = account.most_money or self._cost(Usage(sent + _UNKNOWN_TOKENS, _UNKNOWN_TOKENS), "")
        left = account.granted
        return (budget.tokens is not None and account.tokens + account.in_flight * tokens >= budget.tokens * left) or (
            budget.money is not None and account.money + account.in_flight * money >= budget.money * left
        )

    def _cost(self, usage: Usage, model: str) -> float:
        if not self._prices:
            return 0.0
        known = self._prices.get(model) or self._prices.get(EVERYBODY)
        dearest = known or max(
            self._prices.values(), key=lambda price: (price.sent, price.answered)
        )  # of an unknown model
        return (usage.input_tokens * dearest.sent + usage.output_tokens * dearest.answered) / 1e6

    def _wall_s(self) -> float:
        return self._clock() + self._offset_s

    def _today(self) -> str:
        return datetime.fromtimestamp(self._wall_s(), UTC).date().isoformat()


def default_day_file() -> Path:
    """Return where budgets of a day are kept where the policy does not say."""
    state = os.environ.get("XDG_STATE_HOME", "").strip()
    return (Path(state) if state else Path.home() / ".local" / "state") / "blamespan" / "guard.sqlite"


def _name(budget: BudgetRule) -> str:
    return f"{budget.name}\x1f{budget.agent}"


def _waits(budget: BudgetRule) -> bool:
    """Check whether a call waits for others of the day, in whatever process, as nobody knows yet what they cost."""
    return budget.per == "day" and (budget.tokens is not None or budget.money is not None)


def _key(budget: BudgetRule, names: tuple[str, ...], today: str) -> str:
    if budget.per == "day":
        return today
    return names[0] if budget.per == "agent" and names else ""


_TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS spent (day TEXT, budget TEXT, model_calls REAL DEFAULT 0, "
    "tool_calls REAL DEFAULT 0, tokens REAL DEFAULT 0, money REAL DEFAULT 0, PRIMARY KEY (day, budget))",
    "CREATE TABLE IF NOT EXISTS in_flight (call TEXT, day TEXT, budget TEXT, until REAL)",
)

_ADD: Final = (
    f"INSERT INTO spent (day, budget, {', '.join(_COLUMNS)}) VALUES (?, ?, ?, ?, ?, ?) "  # noqa: S608 - names of ours
    f"ON CONFLICT (day, budget) DO UPDATE SET {', '.join(f'{one} = {one} + excluded.{one}' for one in _COLUMNS)}"
)


class _DayFile:
    """Budgets of a day, shared by every process that names the file."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        with closing(self._open()) as database, transaction(database):
            for statement in _TABLES:
                database.execute(statement)
            latest = "SELECT DISTINCT day FROM spent ORDER BY day DESC LIMIT ?"  # whatever the clock says
            database.execute(f"DELETE FROM spent WHERE day NOT IN ({latest})", (_DAYS_KEPT,))  # noqa: S608 - as above

    def _open(self) -> sqlite3.Connection:
        return connect(
            self._path, pragmas=("journal_mode = wal", "synchronous = normal", f"application_id = {_APPLICATION}")
        )

    @contextmanager
    def write(self) -> Iterator[_Days]:
        """Begin a transaction: no other process reads or writes the file for writing meanwhile."""
        with closing(self._open()) as database, transaction(database):
            yield _Days(database)


class _Days:
    """What was spent by day, within one transaction."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def load(self, day: str, budget: BudgetRule, account: _Account, wall_s: float) -> None:
        """Read into an account what was spent by any process, and how many models are being asked by all of them."""
        row = self._database.execute(
            f"SELECT {', '.join(_COLUMNS)} FROM spent WHERE day = ? AND budget = ?",  # noqa: S608 - names of ours
            (day, _name(budget)),
        ).fetchone()
        for column, value in zip(_COLUMNS, row or (0.0,) * len(_COLUMNS), strict=True):
            setattr(account, column, value)
        (account.in_flight,) = self._database.execute(
            "SELECT count(*) FROM in_flight WHERE day = ? AND budget = ? AND until > ?", (day, _name(budget), wall_s)
        ).fetchone()

    def add(self, day: str, budget: BudgetRule, amounts: Mapping[str, float]) -> None:
        """Add what is spent now."""
        self._database.execute(_ADD, (day, _name(budget), *(amounts.get(column, 0) for column in _COLUMNS)))

    def begin_call(self, call: str, day: str, budget: BudgetRule, until_s: float) -> None:
        """Note that a model is being asked; one whose process dies is forgotten when *until_s* has passed."""
        self._database.execute("DELETE FROM in_flight WHERE until <= ?", (until_s - _LONGEST_WAIT_S,))
        self._database.execute("INSERT INTO in_flight VALUES (?, ?, ?, ?)", (call, day, _name(budget), until_s))

    def end_call(self, call: str) -> None:
        """Note that it has answered, or failed to."""
        self._database.execute("DELETE FROM in_flight WHERE call = ?", (call,))
