"""A policy: what agents may do and what is done where they do more, read from TOML.

[agents.support]
tools = ["find_order", "refund"]       # nothing else
recipients = ["reviewer"]

[[arguments]]
tool = "refund"
argument = "amount"
at_most = 100
action = "ask"

[[budgets]]
per = "run"
calls = 40
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypeVar

from blamespan.errors import ConfigError, MissingExtra
from blamespan.guarding.decisions import ACTIONS, Action
from blamespan.guarding.tool_names import is_forbidden_name, skeleton
from blamespan.strict_tables import read_choice, read_flag, read_text, read_whole_number, refuse_unknown_keys

__all__ = [
    "EVERYBODY",
    "AgentRule",
    "ArgumentRule",
    "Budget",
    "Pattern",
    "Policy",
    "SignRule",
    "TextRule",
    "compile_pattern",
    "read_policy",
]

EVERYBODY: Final = "*"
"""Stands for every agent."""

RecordT = TypeVar("RecordT")
Actions: TypeAlias = tuple[Action, ...]

_BLOCK: Final[Actions] = ("block",)
_OBSERVE: Final[Actions] = ("observe",)
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "text": (str,),
    "number": (int, float),
    "whole": (int,),
    "boolean": (bool,),
    "list": (list,),
    "table": (dict,),
}
_MAX_PATTERN_BYTES = 8 << 20
"""Memory that one pattern may take: RE2 refuses what would take more."""


class Pattern:
    """A regular expression of RE2, which takes time in proportion to the text whatever the pattern.

    Attributes:
        text: As it is written.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._compiled = _re2_compile(text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pattern) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Pattern({self.text!r})"

    def fits(self, text: str) -> bool:
        """Check whether all of *text* is as the pattern says."""
        return self._compiled.fullmatch(text) is not None

    def is_in(self, text: str) -> bool:
        """Check whether a part of *text* is as the pattern says."""
        return self._compiled.search(text) is not None


def compile_pattern(text: str, where: str) -> Pattern:
    """Compile a pattern.

    Raises:
        ConfigError: if RE2 does not take it.
        MissingExtra: if RE2 is not installed.
    """
    try:
        return Pattern(text)
    except MissingExtra:
        raise
    except Exception as error:
        raise ConfigError(
            f"{where}: expected a pattern as RE2 reads it, got {text[:80]!r}: {error}. Without look-around and "
            "back-references: https://github.com/google/re2/wiki/Syntax"
        ) from error


def _re2_compile(text: str) -> Any:  # re2 has no types
    try:
        import re2  # type: ignore[import-untyped]
    except ImportError as error:
        raise MissingExtra(
            "patterns of a policy need the package 're2', which is not installed. "
            "Install it with: pip install 'blamespan[model]'"
        ) from error
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_PATTERN_BYTES
    return re2.compile(text, options=options)


@dataclass(frozen=True, slots=True)
class AgentRule:
    """What one agent may do: `[agents.NAME]`, and `[agents."*"]` for everybody.

    Attributes:
        agent: Its name.
        tools: The tools that it may call, and no others; None where nothing is said. `*` stands for anything.
        forbidden: Tools that it may not call, in whatever spelling.
        recipients: Whom it may speak to or hand over to, and nobody else; None where nothing is said.
        action: What is done where it does something else.
    """

    agent: str
    tools: tuple[str, ...] | None = None
    forbidden: tuple[str, ...] = ()
    recipients: tuple[str, ...] | None = None
    action: Actions = _BLOCK


@dataclass(frozen=True, slots=True)
class ArgumentRule:
    """What a tool may be called with: `[[arguments]]`.

    Attributes:
        tool: Which tool, in whatever spelling; `*` stands for anything.
        argument: Which of its arguments; `to.address` within a table, `items.*.price` in each of a list, `*` for all.
        agent: Whose calls.
        type: text, number, whole, boolean, list or table.
        at_least: Smallest number.
        at_most: Largest number.
        one_of: The only values.
        none_of: Values that it must not have; texts are compared without case.
        pattern: The whole text is as this says.
        forbidden_pattern: No part of the text is as this says.
        hosts: Hosts of the addresses in it, `*.example.org` for all below; a text without an address is one itself.
        recipients: The mail addresses in it, `*@example.org` for all of one host.
        max_chars: Most characters of the text.
        required: Whether it must be given.
        action: What is done where it is something else.
        name: Of the rule.
    """

    tool: str
    argument: str = "*"
    agent: str = EVERYBODY
    type: Literal["", "text", "number", "whole", "boolean", "list", "table"] = ""
    at_least: float | None = None
    at_most: float | None = None
    one_of: tuple[object, ...] | None = None
    none_of: tuple[object, ...] = ()
    pattern: Pattern | None = None
    forbidden_pattern: Pattern | None = None
    hosts: tuple[str, ...] | None = None
    recipients: tuple[str, ...] | None = None
    max_chars: int | None = None
    required: bool = False
    action: Actions = _BLOCK
    name: str = ""

    def matches_type(self, value: object) -> bool:
        """Check whether a value is of the type that is asked for; true where none is."""
        kinds = _TYPES.get(self.type)
        return kinds is None or (isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool)))


@dataclass(frozen=True, slots=True)
class TextRule:
    """What messages must not say: `[[texts]]`.

    Attributes:
        forbidden_pattern: No part of a message is as this says.
        agent: Whose messages.
        action: What is done where one is.
        name: Of the rule.
    """

    forbidden_pattern: Pattern
    agent: str = EVERYBODY
    action: Actions = _BLOCK
    name: str = ""


@dataclass(frozen=True, slots=True)
class SignRule:
    """What is done where a run shows signs of failing: `[[signs]]`, with one of the first four keys.

    Attributes:
        check: Name of a check, as `blamespan contracts` lists them; `*` for every one.
        suspicion: How likely a step is wrong by what it says against the run so far, 0 to 1: from there on.
        unsupported_reaches: How many agents state a claim that nothing in the run supports: from there on.
        schema: Name of a known failure; `*` for every one.
        agent: Whose steps.
        action: What is done.
        name: Of the rule.
    """

    check: str | None = None
    suspicion: float | None = None
    unsupported_reaches: int | None = None
    schema: str | None = None
    agent: str = EVERYBODY
    action: Actions = _OBSERVE
    name: str = ""


@dataclass(frozen=True, slots=True)
class Budget:
    """How much may be spent: `[[budgets]]`, with at least one of the limits.

    Attributes:
        per: `agent` in each run, `run`, or `day` (UTC; kept in the policy's day file).
        agent: Whose spending; `*` for everybody's, together unless *per* is `agent`.
        calls: Most calls of models and tools, together.
        model_calls: Most calls of models.
        tool_calls: Most calls of tools.
        tokens: Most tokens, sent and answered.
        seconds: Most seconds since the run, or the agent's first step in it, began.
        money: Most money, by the policy's prices.
        action: What is done with what would go beyond.
        name: Of the rule.
    """

    per: Literal["agent", "run", "day"] = "run"
    agent: str = EVERYBODY
    calls: int | None = None
    model_calls: int | None = None
    tool_calls: int | None = None
    tokens: int | None = None
    seconds: float | None = None
    money: float | None = None
    action: Actions = _BLOCK
    name: str = ""

    @property
    def limits(self) -> dict[str, float]:
        """The limits by what they limit."""
        values = {unit: getattr(self, unit) for unit in _LIMITS}
        return {unit: value for unit, value in values.items() if value is not None}


_LIMITS: Final = ("calls", "model_calls", "tool_calls", "tokens", "seconds", "money")


@dataclass(frozen=True, slots=True)
class Policy:
    """What agents may do, and what is done where they do more.

    Attributes:
        agents: What each may do, by name.
        arguments: What tools may be called with.
        texts: What messages must not say.
        signs: What is done where a run shows signs of failing.
        budgets: How much may be spent.
        fail: `open` lets a step pass on which the guard itself fails, `closed` stops it.
        rewrites: How often an agent is asked again before the next action is taken.
        prices: Money for a million tokens sent, and answered, by model; `*` for every other.
        day_file: Where budgets of a day are kept; empty for a file of the user's.
        code_tools: Further tools whose arguments are code: names in it are looked for as in a code executor's.
        source: Where it was read.
        notes: What contradicts itself, and what holds therefore.
    """

    agents: Mapping[str, AgentRule] = field(default_factory=dict)
    arguments: tuple[ArgumentRule, ...] = ()
    texts: tuple[TextRule, ...] = ()
    signs: tuple[SignRule, ...] = ()
    budgets: tuple[Budget, ...] = ()
    fail: Literal["open", "closed"] = "open"
    rewrites: int = 2
    prices: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    day_file: str = ""
    code_tools: tuple[str, ...] = ()
    source: str = ""
    notes: tuple[str, ...] = ()

    @property
    def named_agents(self) -> tuple[str, ...]:
        """The agents that it names, in order."""
        ruled = [*self.agents, *(rule.agent for rule in self._rules)]
        heard = [name for rule in self.agents.values() for name in rule.recipients or ()]
        return tuple(dict.fromkeys(name for name in (*ruled, *heard) if "*" not in name))

    @property
    def named_tools(self) -> tuple[str, ...]:
        """The tools that it names, in order."""
        of_agents = [name for rule in self.agents.values() for name in (*(rule.tools or ()), *rule.forbidden)]
        of_arguments = [rule.tool for rule in self.arguments]
        return tuple(dict.fromkeys(name for name in (*of_agents, *of_arguments, *self.code_tools) if "*" not in name))

    @property
    def _rules(self) -> tuple[ArgumentRule | TextRule | SignRule | Budget, ...]:
        return (*self.arguments, *self.texts, *self.signs, *self.budgets)


def read_policy(path: str | os.PathLike[str]) -> Policy:
    """Read a policy from a TOML file.

    Raises:
        ConfigError: if the file cannot be read, or holds what is no policy; the nearest known name is named.
        MissingExtra: if it has patterns and RE2 is not installed.
    """
    file = Path(path)
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"expected a readable TOML file as policy, got {str(file)!r}: {error}. Mend the file"
        ) from error
    return parse_policy(table, str(file))


def parse_policy(table: Mapping[str, Any], where: str = "policy") -> Policy:
    """Read a policy from a table.

    Args:
        table: As TOML gives it.
        where: Where it is from, for messages.

    Raises:
        ConfigError: as `read_policy`.
    """
    known = tuple(item.name for item in fields(Policy) if item.name not in ("source", "notes"))
    refuse_unknown_keys(table, known, where)
    agents = {name: _read_agent(name, row, where) for name, row in _table(table, "agents", where).items()}
    rules: dict[str, tuple[Any, ...]] = {
        key: tuple(
            _read_record(kind, row, f"{where}, [[{key}]] number {number}", key, number)
            for number, row in enumerate(_rows(table, key, where), 1)
        )
        for key, kind in (("arguments", ArgumentRule), ("texts", TextRule), ("signs", SignRule), ("budgets", Budget))
    }
    for number, sign in enumerate(rules["signs"], 1):
        _check_sign(sign, f"{where}, [[signs]] number {number}")
    for number, budget in enumerate(rules["budgets"], 1):
        _check_budget(budget, table, f"{where}, [[budgets]] number {number}")
    policy = Policy(
        agents,
        rules["arguments"],
        rules["texts"],
        rules["signs"],
        rules["budgets"],
        read_choice(table.get("fail", "open"), ("open", "closed"), f"{where}: fail"),
        read_whole_number(table.get("rewrites", 2), f"{where}: rewrites", least=0),
        {
            model: _read_price(price, f"{where}: prices.{model}")
            for model, price in _table(table, "prices", where).items()
        },
        read_text(table.get("day_file", ""), f"{where}: day_file"),
        _texts(table.get("code_tools", []), f"{where}: code_tools"),
        where,
    )
    return _resolve(policy)


def _resolve(policy: Policy) -> Policy:
    """Let the stricter of contradicting rules hold, and note what contradicts what."""
    notes: list[str] = []
    for rule in policy.agents.values():
        whose = f"agent {rule.agent!r}"
        notes += [
            f"{whose}: {tool!r} is allowed and forbidden: it is forbidden"
            for tool in rule.tools or ()
            if "*" not in tool and is_forbidden_name((tool,), rule.forbidden)
        ]
        notes += [
            f"{whose}: two tools look like {tool!r}: each must be spelt as it stands here"
            for tool in _reappearing(rule.tools or ())
        ]
        everybody = policy.agents.get(EVERYBODY)
        if everybody is not None and rule is not everybody:
            notes += _compare_with_everybody(rule, everybody)
    notes += _compare_arguments(policy.arguments)
    notes += _compare_budgets(policy.budgets)
    notes += _compare_actions(policy)
    return replace(policy, notes=tuple(dict.fromkeys(notes)))


def _compare_with_everybody(rule: AgentRule, everybody: AgentRule) -> Iterable[str]:
    for tool in rule.tools or ():
        if "*" not in tool and is_forbidden_name((tool,), everybody.forbidden):
            yield f"agent {rule.agent!r}: {tool!r} is allowed here and forbidden to everybody: it is forbidden"
        elif (
            everybody.tools is not None
            and "*" not in tool
            and tool not in everybody.tools
            and "*" not in everybody.tools
        ):
            yield f"agent {rule.agent!r}: {tool!r} is allowed here, but not among everybody's tools: it is forbidden"


def _compare_arguments(rules: Sequence[ArgumentRule]) -> Iterable[str]:
    for rule in rules:
        if rule.at_least is not None and rule.at_most is not None and rule.at_least > rule.at_most:
            yield f"{rule.name}: at_least {rule.at_least:g} is over at_most {rule.at_most:g}: no value passes"
        for value in rule.one_of or ():
            if value in rule.none_of:
                yield f"{rule.name}: {value!r} is in one_of and none_of: it does not pass"
    for number, rule in enumerate(rules):
        for other in rules[:number]:
            if (other.tool, other.argument, other.agent) != (rule.tool, rule.argument, rule.agent):
                continue
            for limit, stricter in (("at_most", min), ("at_least", max), ("max_chars", min)):
                values = [getattr(one, limit) for one in (other, rule) if getattr(one, limit) is not None]
                if len(values) == 2 and values[0] != values[1]:
                    both = f"{limit} {values[0]:g} and {values[1]:g}"
                    yield f"{other.name} and {rule.name}: {both}: {stricter(values):g} holds"


def _compare_budgets(budgets: Sequence[Budget]) -> Iterable[str]:
    for number, budget in enumerate(budgets):
        for other in budgets[:number]:
            if (other.per, other.agent) != (budget.per, budget.agent):
                continue
            for unit in other.limits.keys() & budget.limits.keys():
                values = other.limits[unit], budget.limits[unit]
                if values[0] != values[1]:
                    both = f"{unit} {values[0]:g} and {values[1]:g}"
                    yield f"{other.name} and {budget.name}: {both}: {min(values):g} holds"


def _compare_actions(policy: Policy) -> Iterable[str]:
    by_subject: dict[tuple[object, ...], tuple[str, Actions]] = {}
    for sign in policy.signs:
        subject = (sign.agent, sign.check, sign.schema, sign.suspicion, sign.unsupported_reaches)
        name, actions = by_subject.setdefault(subject, (sign.name, sign.action))
        if actions != sign.action:
            stricter = max(actions[0], sign.action[0], key=ACTIONS.index)
            yield f"{name} and {sign.name}: {actions[0]} and {sign.action[0]} for the same: {stricter} holds"


def _reappearing(names: Sequence[str]) -> list[str]:
    shapes = [skeleton(name) for name in names]
    return [name for name, shape in zip(names, shapes, strict=True) if shapes.count(shape) > 1]


def _read_agent(name: str, row: object, where: str) -> AgentRule:
    place = f"{where}, [agents.{name}]"
    if not isinstance(row, Mapping):
        raise ConfigError(f"{place}: expected a table, got {row!r}. Write [agents.{name}] and its keys below")
    refuse_unknown_keys(row, ("tools", "forbidden", "recipients", "action"), place)
    return AgentRule(
        name,
        _texts(row["tools"], f"{place}: tools") if "tools" in row else None,
        _texts(row.get("forbidden", []), f"{place}: forbidden"),
        _texts(row["recipients"], f"{place}: recipients") if "recipients" in row else None,
        _read_actions(row.get("action", "block"), f"{place}: action"),
    )


def _read_record(kind: type[RecordT], row: object, where: str, key: str, number: int) -> RecordT:
    if not isinstance(row, Mapping):
        raise ConfigError(f"{where}: expected a table, got {row!r}. Write [[{key}]] and its keys below")
    known = {item.name: item for item in fields(kind)}  # type: ignore[arg-type]  # every kind is a dataclass
    refuse_unknown_keys(row, tuple(known), where)
    for name, item in known.items():
        if item.default is MISSING and name not in row:
            raise ConfigError(f"{where}: expected the key {name!r}, got {sorted(row)!r}. Add it")
    values = {name: _READERS[name](value, f"{where}: {name}") for name, value in row.items()}
    values.setdefault("name", f"{key} {number}")
    return kind(**values)


def _check_sign(sign: SignRule, where: str) -> None:
    given = [sign.check, sign.suspicion, sign.unsupported_reaches, sign.schema]
    if sum(value is not None for value in given) != 1:
        raise ConfigError(
            f"{where}: expected one of check, suspicion, unsupported_reaches and schema, got "
            f"{sum(value is not None for value in given)} of them. Write a table for each"
        )
    if sign.suspicion is not None and not 0 <= sign.suspicion <= 1:
        raise ConfigError(f"{where}: suspicion must be from 0 to 1, got {sign.suspicion!r}")


def _check_budget(budget: Budget, table: Mapping[str, Any], where: str) -> None:
    if not budget.limits:
        raise ConfigError(f"{where}: expected a limit, got none. Write one of {', '.join(_LIMITS)}")
    if budget.money is not None and not table.get("prices"):
        raise ConfigError(f'{where}: money needs prices, got none. Write [prices."*"] with sent and answered')
    if budget.per == "day" and budget.seconds is not None:
        raise ConfigError(f"{where}: seconds are per agent or run, got per = 'day'. Use another limit")


def _read_price(row: object, where: str) -> tuple[float, float]:
    if not isinstance(row, Mapping):
        raise ConfigError(f"{where}: expected sent and answered, money for a million tokens, got {row!r}")
    refuse_unknown_keys(row, ("sent", "answered"), where)
    return _number(row.get("sent", 0), f"{where}: sent"), _number(row.get("answered", 0), f"{where}: answered")


def _read_actions(value: object, where: str) -> Actions:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not names:
        raise ConfigError(f"{where}: expected an action or a list of them, got {value!r}. One of {', '.join(ACTIONS)}")
    actions: list[Action] = [read_choice(name, ACTIONS, where) for name in names]
    last = actions[-1]
    if last in ("rewrite", "ask"):  # what may do no good is followed by what does
        actions.append("block")
    return tuple(actions)


def _table(table: Mapping[str, Any], key: str, where: str) -> Mapping[str, Any]:
    value = table.get(key, {})
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where}: expected [{key}.NAME] tables, got {key} = {value!r}")
    return value


def _rows(table: Mapping[str, Any], key: str, where: str) -> Sequence[Any]:
    value = table.get(key, [])
    if not isinstance(value, list):
        raise ConfigError(f"{where}: expected [[{key}]] tables, got {key} = {value!r}")
    return value


def _texts(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ConfigError(f'{where}: expected a list of texts, got {value!r}. Write it like ["first", "second"]')
    return tuple(value)


def _values(value: object, where: str) -> tuple[object, ...]:
    if not isinstance(value, list):
        raise ConfigError(f"{where}: expected a list, got {value!r}")
    return tuple(value)


def _number(value: object, where: str, *, least: float = 0.0) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= least:
        raise ConfigError(f"{where}: expected a number from {least:g}, got {value!r}")
    return value


def _any_number(value: object, where: str) -> float:
    return _number(value, where, least=float("-inf"))


def _count(value: object, where: str) -> int:
    return read_whole_number(value, where, least=1)


def _type_name(value: object, where: str) -> Any:  # a literal
    return read_choice(value, tuple(_TYPES), where)


def _per(value: object, where: str) -> Any:  # a literal
    return read_choice(value, ("agent", "run", "day"), where)


def _pattern(value: object, where: str) -> Pattern:
    return compile_pattern(read_text(value, where), where)


_READERS: Final[Mapping[str, Callable[[object, str], object]]] = {
    **dict.fromkeys(("tool", "argument", "agent", "check", "schema", "name"), read_text),
    **dict.fromkeys(("hosts", "recipients"), _texts),
    **dict.fromkeys(("one_of", "none_of"), _values),
    **dict.fromkeys(("at_least", "at_most"), _any_number),
    **dict.fromkeys(("calls", "model_calls", "tool_calls", "tokens", "max_chars"), read_whole_number),
    **dict.fromkeys(("seconds", "money", "suspicion"), _number),
    **dict.fromkeys(("pattern", "forbidden_pattern"), _pattern),
    "unsupported_reaches": _count,
    "type": _type_name,
    "per": _per,
    "required": read_flag,
    "action": _read_actions,
}
