"""What there is to know in a task, and how one thing follows from another."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

FactKind: TypeAlias = Literal["amount", "name", "verdict", "limit"]


class Limit(NamedTuple):
    """A bound that an amount must keep to."""

    relation: Literal["<=", ">="]
    amount: float

    def admits(self, amount: float) -> bool:
        """Return whether *amount* keeps to it."""
        return amount <= self.amount + 1e-6 if self.relation == "<=" else amount >= self.amount - 1e-6


FactValue: TypeAlias = float | str | Limit
"""An amount, a name or verdict, or a limit: by the fact's kind."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """How a fact is found with a tool.

    Attributes:
        tool: Its name.
        arguments: By name.
        answer: `value`: the tool answers with the bare value; `prose`: with text that must be read.
    """

    tool: str
    arguments: Mapping[str, str]
    answer: Literal["value", "prose"] = "prose"


@dataclass(frozen=True, slots=True)
class TaskFact:
    """One thing there is to know; never its value.

    Attributes:
        key: Unique in its task.
        phrase: What it is called in prose, without an article in front.
        kind: What its value is.
        unit: Of an amount or a limit; empty for a bare count.
        choices: The values of a `verdict`, as they stand in a sentence after the phrase.
        label: The name of what an amount belongs to, where a rule picks one of several by it.
        lookup: How a tool gives it, where one does.
    """

    key: str
    phrase: str
    kind: FactKind = "amount"
    unit: str = ""
    choices: tuple[str, ...] = ()
    label: str = ""
    lookup: Lookup | None = None


@dataclass(frozen=True, slots=True)
class DerivationRule:
    """How a fact follows from others.

    Attributes:
        out: Key of what follows.
        operation: Name in `OPERATIONS`.
        inputs: Keys of what it follows from, in the order that the operation takes them.
    """

    out: str
    operation: str
    inputs: tuple[str, ...]


def is_same(value: FactValue | None, other: FactValue | None) -> bool:
    """Return whether two values are equal, amounts to within rounding."""
    if isinstance(value, float) and isinstance(other, float):
        return math.isclose(value, other, rel_tol=1e-6, abs_tol=0.006)
    if isinstance(value, str) and isinstance(other, str):
        return value.casefold().strip() == other.casefold().strip()
    return value == other


def evaluate(rule: DerivationRule, values: Mapping[str, FactValue], facts: Mapping[str, TaskFact]) -> FactValue | None:
    """Work out what follows by *rule*.

    Returns:
        The value, or None where an input is unknown, does not fit, or the operation is undefined there.
    """
    inputs = [values.get(key) for key in rule.inputs]
    if any(value is None for value in inputs) or rule.operation not in OPERATIONS:
        return None
    try:
        result = OPERATIONS[rule.operation](
            [value for value in inputs if value is not None], [facts[key] for key in rule.inputs]
        )
    except (TypeError, ZeroDivisionError, ValueError, OverflowError):
        return None
    return round(result, 4) if isinstance(result, float) else result


def _amounts(values: Sequence[FactValue]) -> list[float]:
    if not all(isinstance(value, float) for value in values):
        raise TypeError(f"expected amounts, got {values!r}")
    return [value for value in values if isinstance(value, float)]


def _difference(values: Sequence[FactValue], facts: Sequence[TaskFact]) -> FactValue:
    first, *rest = _amounts(values)
    return first - math.fsum(rest)


def _quotient(values: Sequence[FactValue], facts: Sequence[TaskFact]) -> FactValue:
    over, under = _amounts(values)
    return over / under


def _percent(values: Sequence[FactValue], facts: Sequence[TaskFact]) -> FactValue:
    percent, whole = _amounts(values)
    return whole * percent / 100


def _within(values: Sequence[FactValue], facts: Sequence[TaskFact]) -> FactValue:
    """Take amounts and limits in turn."""
    pairs = list(zip(values[::2], values[1::2], strict=True))
    if not all(isinstance(amount, float) and isinstance(limit, Limit) for amount, limit in pairs):
        raise TypeError(f"expected amounts and limits in turn, got {values!r}")
    keeps = all(limit.admits(amount) for amount, limit in pairs if isinstance(limit, Limit))  # type: ignore[arg-type]
    return "suitable" if keeps else "not suitable"


def _extreme(
    pick: Callable[[Sequence[float]], float],
) -> Callable[[Sequence[FactValue], Sequence[TaskFact]], FactValue]:
    """Take amounts, each perhaps followed by whether it is suitable; give the label of the best of the suitable."""

    def choose(values: Sequence[FactValue], facts: Sequence[TaskFact]) -> FactValue:
        open_ones: list[tuple[float, str]] = []
        for value, fact in zip(values, facts, strict=True):
            if isinstance(value, float):
                open_ones.append((value, fact.label))
            elif value != "suitable":
                open_ones.pop()
        best = pick([amount for amount, _ in open_ones])
        return next(label for amount, label in open_ones if amount == best)

    return choose


OPERATIONS: Mapping[str, Callable[[Sequence[FactValue], Sequence[TaskFact]], FactValue]] = MappingProxyType(
    {
        "sum": lambda values, _: math.fsum(_amounts(values)),
        "product": lambda values, _: math.prod(_amounts(values)),
        "difference": _difference,
        "quotient": _quotient,
        "percent": _percent,
        "larger": lambda values, _: max(_amounts(values)),
        "smaller": lambda values, _: min(_amounts(values)),
        "within": _within,
        "lowest": _extreme(min),
        "highest": _extreme(max),
    }
)
"""Every operation by its name: from the values of its inputs and the facts they belong to."""
