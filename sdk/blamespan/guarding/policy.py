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

import json
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from functools import lru_cache
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

from blamespan.errors import ConfigError, MissingExtra
from blamespan.guarding.decisions import ACTIONS, Action
from blamespan.guarding.tool_names import is_forbidden_name, is_listed_name, skeleton
from blamespan.strict_tables import read_toml

EVERYBODY: Final = "*"
"""Stands for every agent."""

Actions: TypeAlias = tuple[Action, ...]

_BLOCK: Final[Actions] = ("block",)
_OBSERVE: Final[Actions] = ("observe",)
_STRICT: Final = {"strict": True, "extra": "forbid", "arbitrary_types_allowed": True}
"""How pydantic reads a record: nothing is converted, and no key is passed over."""
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

    Raises:
        ConfigError: if RE2 does not take it.
        MissingExtra: if RE2 is not installed.
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

    @classmethod
    def __get_pydantic_core_schema__(cls, _: Any, handler: Any) -> Any:  # pydantic's, which is imported late
        from pydantic import AfterValidator

        return handler.generate_schema(Annotated[str, AfterValidator(cls)])

    def fits(self, text: str) -> bool:
        """Check whether all of *text* is as the pattern says."""
        return self._compiled.fullmatch(text) is not None

    def is_in(self, text: str) -> bool:
        """Check whether a part of *text* is as the pattern says."""
        return self._compiled.search(text) is not None


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
    try:
        return re2.compile(text, options=options)
    except Exception as error:
        raise ConfigError(
            f"expected a pattern as RE2 reads it, got {text[:80]!r}: {error}. Without look-around and back-references: "
            "https://github.com/google/re2/wiki/Syntax"
        ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRule:
    """What every rule has.

    Attributes:
        agent: Whose steps, calls or spending it is for; `*` for everybody's.
        action: What is done where it is broken.
        name: Of the rule.
    """

    __pydantic_config__ = _STRICT

    agent: str = EVERYBODY
    action: Actions = _BLOCK
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRule(PolicyRule):
    """What one agent may do: `[agents.NAME]`, and `[agents."*"]` for everybody.

    Attributes:
        tools: The tools that it may call, and no others; None where nothing is said. `*` stands for anything.
        forbidden: Tools that it may not call, in whatever spelling.
        recipients: Whom it may speak to or hand over to, and nobody else; None where nothing is said.
        code: What code of its own may use beside pure modules: modules and functions of Python, programs of a shell.
    """

    tools: tuple[str, ...] | None = None
    forbidden: tuple[str, ...] = ()
    recipients: tuple[str, ...] | None = None
    code: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentRule(PolicyRule):
    """What a tool may be called with: `[[arguments]]`.

    Attributes:
        tool: Which tool, in whatever spelling; `*` stands for anything.
        argument: Which of its arguments; `to.address` within a table, `items.*.price` in each of a list, `*` for all.
        type: text, number, whole, boolean, list or table.
        at_least: Smallest number.
        at_most: Largest number.
        one_of: The only values.
        none_of: Values that it must not have; texts are compared without case.
        pattern: All of the text is as this says, from its first character to its last.
        forbidden_pattern: No part of the text is as this says, wherever it stands.
        hosts: Hosts of the addresses in it, `*.example.org` for all below; a text without an address is one itself.
        recipients: The mail addresses in it, `*@example.org` for all of one host.
        max_chars: Most characters of the text.
        required: Whether it must be given.
    """

    tool: str
    argument: str = "*"
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

    def __post_init__(self) -> None:
        _check_least(self, "max_chars")

    def matches_type(self, value: object) -> bool:
        """Check whether a value is of the type that is asked for; true where none is."""
        kinds = _TYPES.get(self.type)
        return kinds is None or (isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool)))


@dataclass(frozen=True, slots=True, kw_only=True)
class TextRule(PolicyRule):
    """What messages must not say: `[[texts]]`.

    Attributes:
        forbidden_pattern: No part of a message is as this says.
    """

    forbidden_pattern: Pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingRule(PolicyRule):
    """What is done where a run shows signs of failing: `[[findings]]`, with one of the first four keys.

    Attributes:
        check: Name of a check, as `blamespan lab checks` lists them; `*` for every one.
        suspicion: How likely a step is wrong by what it says against the run so far, 0 to 1: from there on.
        unsupported_reaches: How many agents state a claim that nothing in the run supports: from there on.
        schema: Name of a known failure; `*` for every one.
    """

    check: str | None = None
    suspicion: float | None = None
    unsupported_reaches: int | None = None
    schema: str | None = None
    action: Actions = _OBSERVE

    def __post_init__(self) -> None:
        given = sum(value is not None for value in (self.check, self.suspicion, self.unsupported_reaches, self.schema))
        if given != 1:
            raise ValueError(
                f"expected one of check, suspicion, unsupported_reaches and schema, got {given} of them. "
                "Write a table for each"
            )
        _check_least(self, "unsupported_reaches", least=1)
        if self.suspicion is not None and not 0 <= self.suspicion <= 1:
            raise ValueError(f"suspicion must be from 0 to 1, got {self.suspicion:g}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetRule(PolicyRule):
    """How much may be spent: `[[budgets]]`, with at least one of the limits.

    Attributes:
        per: `agent` in each run, `run`, or `day` (UTC; kept in the policy's day file), which count all together.
        calls: Most calls of models and tools, together.
        model_calls: Most calls of models.
        tool_calls: Most calls of tools.
        tokens: Most tokens, sent and answered.
        seconds: Most seconds since the run, or the agent's first step in it, began.
        money: Most money, by the policy's prices.
    """

    per: Literal["agent", "run", "day"] = "run"
    calls: int | None = None
    model_calls: int | None = None
    tool_calls: int | None = None
    tokens: int | None = None
    seconds: float | None = None
    money: float | None = None

    def __post_init__(self) -> None:
        if not self.limits:
            raise ValueError(f"expected a limit, got none. Write one of {', '.join(_LIMITS)}")
        _check_least(self, *_LIMITS)
        if self.per == "day" and self.seconds is not None:
            raise ValueError("seconds are per agent or run, got per = 'day'. Use another limit")

    @property
    def limits(self) -> dict[str, float]:
        """The limits by what they limit."""
        values = {unit: getattr(self, unit) for unit in _LIMITS}
        return {unit: value for unit, value in values.items() if value is not None}


_LIMITS: Final = ("calls", "model_calls", "tool_calls", "tokens", "seconds", "money")


@dataclass(frozen=True, slots=True)
class Price:
    """Money for a million tokens: `[prices.MODEL]`."""

    __pydantic_config__ = _STRICT

    sent: float = 0.0
    answered: float = 0.0


@dataclass(frozen=True, slots=True)
class Policy:
    """What agents may do, and what is done where they do more.

    Attributes:
        agents: What each may do, by name.
        arguments: What tools may be called with.
        texts: What messages must not say.
        findings: What is done where a run shows signs of failing.
        budgets: How much may be spent.
        fail: `open` lets a step pass on which the guard itself fails, `closed` stops it.
        rewrites: How often an agent is asked again before the next action is taken.
        prices: Money for a million tokens sent, and answered, by model; `*` for every other.
        day_file: Where budgets of a day are kept; empty for a file of the user's.
        code_tools: Further tools whose arguments are code, with its language; empty where that is not said.
        source: Where it was read.
        notes: What contradicts itself, and what holds therefore.
    """

    __pydantic_config__ = _STRICT

    agents: Mapping[str, AgentRule] = field(default_factory=dict)
    arguments: tuple[ArgumentRule, ...] = ()
    texts: tuple[TextRule, ...] = ()
    findings: tuple[FindingRule, ...] = ()
    budgets: tuple[BudgetRule, ...] = ()
    fail: Literal["open", "closed"] = "open"
    rewrites: int = 2
    prices: Mapping[str, Price] = field(default_factory=dict)
    day_file: str = ""
    code_tools: Mapping[str, Literal["", "python", "shell"]] = field(default_factory=dict)
    source: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_least(self, "rewrites")
        if not self.prices and any(budget.money is not None for budget in self.budgets):
            raise ValueError('money needs prices, got none. Write [prices."*"] with sent and answered')

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
    def _rules(self) -> tuple[PolicyRule, ...]:
        return (*self.arguments, *self.texts, *self.findings, *self.budgets)

    def find_unknown_names(self, *, agents: Collection[str], tools: Collection[str]) -> Iterator[str]:
        """Yield a line for each agent and tool that it names and the program has not; of no names nothing is said."""
        for kind, named, known in (("agent", self.named_agents, agents), ("tool", self.named_tools, tools)):
            for name in named if known else ():
                if name not in known:
                    near = get_close_matches(name, sorted(known), n=1, cutoff=0.0)[0]
                    yield f"{kind} {name!r}. Nearest known: {near!r}"


def read_policy(path: str | os.PathLike[str]) -> Policy:
    """Read a policy from a TOML file.

    Raises:
        ConfigError: if the file cannot be read, or holds what is no policy; the nearest known name is named.
        MissingExtra: if pydantic is not installed, or it has patterns and RE2 is not.
    """
    file = Path(path)
    return parse_policy(read_toml(file, "a policy", "docs/how-to/guard.md shows the form"), str(file))


def parse_policy(table: Mapping[str, Any], where: str = "policy") -> Policy:
    """Read a policy from a table.

    Args:
        table: As TOML gives it.
        where: Where it is from, for messages.

    Raises:
        ConfigError: as `read_policy`.
        MissingExtra: as `read_policy`.
    """
    try:
        from pydantic import ValidationError
    except ImportError as error:
        raise MissingExtra(
            "policies are read by the package 'pydantic', which is not installed. Install it with: pip install pydantic"
        ) from error
    rows: dict[str, Any] = {key: _prepare(key, value) for key, value in table.items()}
    try:
        # as JSON: there a list is a tuple and a table a record, and nothing else is converted
        policy: Policy = _reader().validate_json(json.dumps({**rows, "source": where}, default=str))
    except ValidationError as error:
        raise ConfigError(_describe_mistake(error.errors()[0], table, where)) from error
    return replace(policy, notes=tuple(dict.fromkeys(_find_contradictions(policy))))


@lru_cache(maxsize=1)
def _reader() -> Any:  # pydantic's, which `import blamespan` does without
    from pydantic import TypeAdapter

    return TypeAdapter(Policy)


def _prepare(key: str, value: Any) -> Any:
    """Write a table's value as the records have it: one action as a list, and names of rules."""
    if key == "agents" and isinstance(value, Mapping):
        return {name: _prepare_row(row, agent=name) for name, row in value.items()}
    if key in ("arguments", "texts", "findings", "budgets") and isinstance(value, list):
        return [_prepare_row(row, name=f"{key} {number}") for number, row in enumerate(value, 1)]
    if key == "code_tools" and isinstance(value, list):
        return dict.fromkeys(value, "") if all(isinstance(name, str) for name in value) else value
    return value


def _prepare_row(row: Any, **more: str) -> Any:
    if not isinstance(row, Mapping):
        return row
    values = {**more, **row}
    actions = [values["action"]] if isinstance(values.get("action"), str) else values.get("action")
    if isinstance(actions, list) and actions:  # what may do no good is followed by what does
        values["action"] = [*actions, "block"] if actions[-1] in ("rewrite", "ask") else actions
    return values


_RECORDS: Final[Mapping[str, type]] = {
    "agents": AgentRule,
    "arguments": ArgumentRule,
    "texts": TextRule,
    "findings": FindingRule,
    "budgets": BudgetRule,
    "prices": Price,
}
_EXPECTED: Final[Mapping[str, str]] = {
    "string_type": "a text",
    "tuple_type": 'a list. Write it like ["first", "second"]',
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "dict_type": "a table",
    "mapping_type": "a table",
    "dataclass_type": "a table",
    "dataclass_exact_type": "a table",
}


def _describe_mistake(mistake: Any, table: Mapping[str, Any], where: str) -> str:  # as pydantic gives it
    """Say what is wrong in a policy: where, what is expected, what is there, and the nearest that is known."""
    location, kind, value = mistake["loc"], mistake["type"], mistake["input"]
    section = str(location[0]) if location else ""
    is_nested = section in _RECORDS and len(location) > 1
    record: type = Policy
    place, keys = where, location
    if is_nested:
        row = (
            f"[{section}.{location[1]}]" if isinstance(location[1], str) else f"[[{section}]] number {location[1] + 1}"
        )
        place, record, keys = f"{where}, {row}", _RECORDS[section], location[2:]
    key = ".".join(str(part) for part in keys if isinstance(part, str))
    if kind == "unexpected_keyword_argument":
        known = [item.name for item in fields(record) if item.name not in ("source", "notes")]
        return f"{place}: unknown key {key!r}. Nearest known: {get_close_matches(key, known, n=1, cutoff=0.0)[0]!r}"
    if kind == "missing":
        return f"{place}: expected the key {key!r}, got {sorted(_row_of(table, location))!r}. Add it"
    if kind == "literal_error":
        choices = [word for word in re.findall(r"'([^']*)'", mistake["ctx"]["expected"]) if word]
        near = get_close_matches(str(value), choices, n=1, cutoff=0.0)[0]
        return f"{place}: {key}: expected one of {', '.join(choices)}, got {value!r}. Nearest: {near!r}"
    if kind == "value_error":
        return f"{place}: {key + ': ' if key else ''}{mistake['ctx']['error']}"
    if section in _RECORDS and len(location) == 1:
        form = f"[{section}.NAME]" if section in ("agents", "prices") else f"[[{section}]]"
        return f"{where}: expected {form} tables, got {section} = {value!r}"
    expected = _EXPECTED.get(kind, mistake["msg"])
    if kind == "tuple_type" and key not in ("one_of", "none_of", "action"):
        expected = expected.replace("a list", "a list of texts")
    what, _, advice = expected.partition(". ")
    return f"{place}: {key + ': ' if key else ''}expected {what}, got {value!r}{'. ' + advice if advice else ''}"


def _row_of(table: Mapping[str, Any], location: Sequence[Any]) -> Any:
    return table[location[0]][location[1]] if len(location) > 2 else table


def _check_least(rule: object, *keys: str, least: int = 0) -> None:
    for key in keys:
        value = getattr(rule, key)
        if value is not None and not value >= least:
            kind = "number" if key in ("seconds", "money") else "whole number"
            raise ValueError(f"{key}: expected a {kind} from {least}, got {value!r}")


def _find_contradictions(policy: Policy) -> Iterator[str]:
    """Yield what contradicts itself, and what holds therefore: the stricter."""
    everybody = policy.agents.get(EVERYBODY)
    for agent in policy.agents.values():
        yield from _compare_tools(agent, everybody if agent is not everybody else None)
    for argument in policy.arguments:
        yield from _find_empty_range(argument)
    yield from _compare_limits(policy.arguments, ("tool", "argument", "agent"), ("at_most", "at_least", "max_chars"))
    yield from _compare_limits(policy.budgets, ("per", "agent"), _LIMITS)
    for one, other in _list_pairs(policy.findings, ("agent", "check", "schema", "suspicion", "unsupported_reaches")):
        if one.action != other.action:
            actions = one.action[0], other.action[0]
            stricter = max(actions, key=ACTIONS.index)
            yield f"{one.name} and {other.name}: {actions[0]} and {actions[1]} for the same: {stricter} holds"


def _compare_tools(rule: AgentRule, everybody: AgentRule | None) -> Iterator[str]:
    shapes = [skeleton(tool) for tool in rule.tools or ()]
    for tool, shape in zip(rule.tools or (), shapes, strict=True):
        if shapes.count(shape) > 1:
            yield f"agent {rule.agent!r}: two tools look like {tool!r}: each must be spelt as it stands here"
        if "*" in tool:
            continue
        is_here = f"agent {rule.agent!r}: {tool!r} is allowed"
        if is_forbidden_name((tool,), rule.forbidden):
            yield f"{is_here} and forbidden: it is forbidden"
        if everybody is None:
            continue
        if is_forbidden_name((tool,), everybody.forbidden):
            yield f"{is_here} here and forbidden to everybody: it is forbidden"
        elif everybody.tools is not None and not is_listed_name(tool, everybody.tools):
            yield f"{is_here} here, but not among everybody's tools: it is forbidden"


def _find_empty_range(rule: ArgumentRule) -> Iterator[str]:
    if rule.at_least is not None and rule.at_most is not None and rule.at_least > rule.at_most:
        yield f"{rule.name}: at_least {rule.at_least:g} is over at_most {rule.at_most:g}: no value passes"
    for value in rule.one_of or ():
        if value in rule.none_of:
            yield f"{rule.name}: {value!r} is in one_of and none_of: it does not pass"


def _compare_limits(rules: Sequence[Any], subject: Sequence[str], limits: Sequence[str]) -> Iterator[str]:
    for one, other in _list_pairs(rules, subject):
        for limit in limits:
            values = getattr(one, limit), getattr(other, limit)
            if None not in values and values[0] != values[1]:
                stricter = max(values) if limit == "at_least" else min(values)
                both = f"{limit} {values[0]:g} and {values[1]:g}"
                yield f"{one.name} and {other.name}: {both}: {stricter:g} holds"


def _list_pairs(rules: Sequence[Any], subject: Sequence[str]) -> Iterator[tuple[Any, Any]]:
    """Yield the rules of one kind that are about the same, each with an earlier one."""
    for earlier, later in combinations(rules, 2):
        if all(getattr(earlier, key) == getattr(later, key) for key in subject):
            yield earlier, later
