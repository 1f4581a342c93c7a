"""Contracts written in TOML: which steps are meant, and what must or must not be found near them.

    [[contract]]
    name = "search-before-answer"
    title = "Who answers has searched before."
    mode = "mast:FM-3.2"
    when = { kind = ["message"], agent = "Assistant", text = "(?i)final answer" }
    require = { kind = ["tool_call"], tool = "search", in = "before", by = "same" }

The keys are those of `StepPattern` and `Rule`; `docs/contracts.md` lists them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

from blamespan.errors import ConfigError
from blamespan.taxonomy import mode
from blamespan.trace import AgentRole, StepKind, StepStatus
from blamespan_tracer.contracts.contract import Contract
from blamespan_tracer.contracts.rules import Blame, Place, Rule, RuleCheck, StepPattern, compiled

__all__ = ["declared_contracts"]


def declared_contracts(path: Path) -> tuple[Contract, ...]:
    """Read the contracts of a TOML file.

    Raises:
        ConfigError: if it cannot be read, is no TOML, has an unknown key (the nearest one is named), a value that does
            not fit, a pattern that RE2 does not take, or two contracts of one name.
    """
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"expected contracts in TOML at {str(path)!r}, got {error}. docs/contracts.md shows the form"
        ) from error
    where = path.name
    _known(given, ("contract",), where)
    entries = given.get("contract")
    if not isinstance(entries, list) or not entries:
        raise ConfigError(
            f"{where}: expected at least one [[contract]], got {entries!r}. docs/contracts.md has examples"
        )
    contracts = tuple(_contract(entry, f"{where}, contract {number}") for number, entry in enumerate(entries, 1))
    names = [contract.name for contract in contracts]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"{where}: expected every name once, got {twice!r} twice. Rename one of them")
    return contracts


_KEYS = ("name", "title", "mode", "trust", "symptom", "when", "require", "forbid", "blame")


def _contract(given: object, where: str) -> Contract:
    table = _table(given, where)
    _known(table, _KEYS, where)
    name = _text(table.get("name", ""), f"{where}: name")
    if not name:
        raise ConfigError(f"{where}: expected a name, got {table.get('name')!r}. Name it like name = 'cites-a-source'")
    where = f"{where} ({name[:60]!r})"
    if ("require" in table) == ("forbid" in table):
        raise ConfigError(
            f"{where}: expected either require or forbid, got {sorted(table)!r}. Split it into two contracts"
        )
    is_required = "require" in table
    title = _text(table.get("title", name), f"{where}: title")
    check = RuleCheck(
        _step_pattern(_table(table.get("when", {}), f"{where}: when"), f"{where}: when"),
        _rule(table["require" if is_required else "forbid"], f"{where}: {'require' if is_required else 'forbid'}"),
        is_required=is_required,
        blame=_choice(table.get("blame", "step"), get_args(Blame), f"{where}: blame"),
        title=title,
    )
    trust = table.get("trust", 0.5)
    if isinstance(trust, bool) or not isinstance(trust, int | float) or not 0 <= trust <= 1:
        raise ConfigError(f"{where}: expected trust between 0 and 1, got {trust!r}. Leave it out for 0.5")
    return Contract(
        name,
        title,
        check,
        mode(_text(table["mode"], f"{where}: mode")) if "mode" in table else None,
        float(trust),
        is_symptom=_flag(table.get("symptom", False), f"{where}: symptom"),
    )


def _rule(given: object, where: str) -> Rule:
    table = dict(_table(given, where))
    own = ("in", "by", "within", "at_least", "at_most")
    _known(table, (*(each.name for each in fields(StepPattern) if each.name != "last"), *own), where)
    pattern = _step_pattern({key: value for key, value in table.items() if key not in own}, where)
    place: Place = _choice(table.get("in", "step"), get_args(Place), f"{where}: in")
    is_of_steps = place not in ("task", "result")
    beyond_text = [each.name for each in fields(StepPattern) if each.name != "text" and getattr(pattern, each.name)]
    if not is_of_steps and (beyond_text or not pattern.text):
        raise ConfigError(
            f"{where}: expected only text with in = {place!r}, got {beyond_text!r}. Other keys tell steps apart"
        )
    if pattern == StepPattern():
        raise ConfigError(f"{where}: expected something to look for, got {given!r}. Give it a text or a kind")
    return Rule(
        pattern,
        place,
        _choice(table.get("by", "anybody"), ("same", "other", "anybody"), f"{where}: by"),
        _count(table.get("within", 0), f"{where}: within"),
        _count(table.get("at_least", 1), f"{where}: at_least"),
        _count(table.get("at_most", 0), f"{where}: at_most"),
    )


def _step_pattern(table: Mapping[str, Any], where: str) -> StepPattern:
    _known(table, tuple(each.name for each in fields(StepPattern)), where)
    found: dict[str, Any] = {}
    for key, value in table.items():
        at = f"{where}.{key}"
        if key in _CHOICES:
            found[key] = _choices(value, _CHOICES[key], at)
        elif key == "last":
            found[key] = _flag(value, at)
        else:
            compiled(_text(value, at), at)
            found[key] = value
    return StepPattern(**found)


_CHOICES: Mapping[str, tuple[str, ...]] = {
    "kind": get_args(StepKind),
    "role": get_args(AgentRole),
    "status": get_args(StepStatus),
}


def _known(table: Mapping[str, object], keys: Sequence[str], where: str) -> None:
    for key in table:
        if key not in keys:
            near = get_close_matches(key, keys, n=1, cutoff=0.0)[0]
            raise ConfigError(f"{where}: unknown key {key!r}. Did you mean {near!r}?")


def _table(given: object, where: str) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise ConfigError(f"{where}: expected a table, got {given!r}. Write it like {{ text = '...' }}")
    return given


def _text(given: object, where: str) -> str:
    if not isinstance(given, str):
        raise ConfigError(f"{where}: expected a string, got {given!r}. Put it in quotes")
    return given


def _flag(given: object, where: str) -> bool:
    if not isinstance(given, bool):
        raise ConfigError(f"{where}: expected true or false, got {given!r}")
    return given


def _count(given: object, where: str) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= 1_000_000:
        raise ConfigError(f"{where}: expected a whole number from 0 on, got {given!r}")
    return given


def _choice(given: object, known: Sequence[str], where: str) -> Any:
    if given not in known or not isinstance(given, str):
        near = get_close_matches(str(given), known, n=1, cutoff=0.0)[0]
        raise ConfigError(f"{where}: expected one of {', '.join(known)}, got {given!r}. Did you mean {near!r}?")
    return given


def _choices(given: object, known: Sequence[str], where: str) -> tuple[str, ...]:
    items = given if isinstance(given, list) else [given]
    if not items:
        raise ConfigError(f"{where}: expected at least one of {', '.join(known)}, got none. Leave the key out")
    return tuple(_choice(item, known, where) for item in items)
