"""What a policy says of one step: tools, arguments, recipients and texts. Pure, and the same live and on recordings.

Whatever a step says is data: it is compared, never followed.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

from blamespan.guarding.addresses import read_hosts, read_mail_addresses
from blamespan.guarding.code import Allowed, find_breach
from blamespan.guarding.decisions import Decision, ProposedStep
from blamespan.guarding.policy import EVERYBODY, AgentRule, ArgumentRule, Policy
from blamespan.guarding.tool_names import is_forbidden_name, is_listed_name, make_plain
from blamespan.intercepting.boundaries import CODE_TOOL

CODE_TOOLS: Final[Mapping[str, str]] = {
    **dict.fromkeys((CODE_TOOL, "run_code"), ""),
    **dict.fromkeys(("CodeExecutor", "code_interpreter", "python", "python_repl", "python_repl_ast"), "python"),
    **dict.fromkeys(("execute_python", "python_interpreter", "run_python"), "python"),
    **dict.fromkeys(("bash", "execute_command", "run_command", "run_shell", "shell", "terminal"), "shell"),
}
"""Tools whose arguments are code, as frameworks call them, and its language; empty where its label says it."""
_LANGUAGE_KEYS: Final = ("lang", "language")

_CURRENCY = r"(?i:[€$£¥]|EUR|USD|GBP|CHF|JPY|CNY|AUD|CAD|SEK|NOK|DKK|PLN)?"
_EXPONENT = r"(?:[eE][+-]?\d{1,3})?"
_AMOUNTS = tuple(
    (group, mark, re.compile(rf"(?=.?[\d.])[+-]?(?:\d{{1,3}}(?:[{group}]\d{{3}})+|\d*){decimals}{_EXPONENT}"))
    for group in ".,' _"
    for mark, decimals in ((".", r"(?:\.\d+)?"), (",", r"(?:,\d{1,2})?"))
    if group != mark
)
"""How a number may be written: what parts its thousands, what its decimals, and the form of that."""
_MAX_DEPTH = 12


def judge_step(policy: Policy, step: ProposedStep) -> list[Decision]:
    """Return what the policy says against a step; nothing where nothing speaks against it."""
    if step.kind in ("tool_call", "request"):
        handoff = _judge_recipients(policy, step) if step.recipients else ()
        return [*_judge_tool(policy, step), *_judge_arguments(policy, step), *handoff]
    if step.kind == "message":
        return list(_judge_text(policy, step))
    if step.kind == "delivery":
        return list(_judge_recipients(policy, step))
    return []


def means_agent(pattern: str, step: ProposedStep) -> bool:
    """Check whether a rule for *pattern* holds for a step: it is the agent's, or takes place for it."""
    return pattern == EVERYBODY or any(_is_agent(pattern, name) for level in step.levels for name in level)


def _is_agent(pattern: str, name: str) -> bool:
    return is_forbidden_name((name,), (pattern,))


def _rules_by_level(policy: Policy, step: ProposedStep) -> Iterator[list[AgentRule]]:
    named = [rule for rule in policy.agents.values() if rule.agent != EVERYBODY]
    for level in step.levels:
        yield [rule for rule in named if any(_is_agent(rule.agent, name) for name in level)]


def _judge_tool(policy: Policy, step: ProposedStep) -> Iterator[Decision]:
    """Look for a tool that an agent may not call: what is forbidden to anybody it acts for, and what nobody allows.

    An agent without a rule of its own that acts within another's tool may call what that one may.
    """
    levels = list(_rules_by_level(policy, step))
    everybody = policy.agents.get(EVERYBODY)
    everywhere = [everybody] if everybody is not None else []
    names = {step.tool, *step.tool_names}
    every = [*everywhere, *(rule for level in levels for rule in level)]
    for rule in every:
        if is_forbidden_name(names, rule.forbidden):
            yield _refuse_tool(rule, step, "is forbidden to it")
    own = next((level for level in levels if any(rule.tools is not None for rule in level)), [])
    for rule in (*everywhere, *own) if not step.recipients else ():  # a handoff is no tool: whom it goes to counts
        if rule.tools is not None and not is_listed_name(step.tool, rule.tools):
            yield _refuse_tool(rule, step, "is not among the tools that it may call")
    yield from _judge_code(policy, step, every)


def _refuse_tool(rule: AgentRule, step: ProposedStep, why: str) -> Decision:
    reason = f"the tool {step.tool[:80]!r} {why}"
    return Decision(rule.action, reason, f"agents.{rule.agent}", "tool", step.agent, step.tool)


def _judge_code(policy: Policy, step: ProposedStep, rules: Sequence[AgentRule]) -> Iterator[Decision]:
    """Judge the code that a call is to run, where a rule restricts the tools that it could call."""
    restricting = [rule for rule in rules if rule.tools is not None or rule.forbidden or rule.code is not None]
    on_arguments = [
        rule
        for rule in policy.arguments
        if means_agent(rule.agent, step) and not is_forbidden_name((step.tool,), (rule.tool,))
    ]
    if not restricting and not on_arguments:
        return
    codes = list(_read_codes(policy, step))
    if not codes:
        return
    listed = [rule.code for rule in rules if rule.code is not None]
    tools = [rule.tools for rule in rules if rule.tools is not None]
    forbidden = [*(name for rule in rules for name in rule.forbidden), *(rule.tool for rule in on_arguments)]
    allowed = Allowed(
        {name for names in listed[:1] for name in names if all(name in other for other in listed)},
        lambda name: bool(tools) and all(is_listed_name(name, names) for names in tools),
        lambda name: is_forbidden_name((name,), forbidden),
    )
    why = next((why for language, code in codes if (why := find_breach(code, language, allowed))), "")
    if why:
        yield from (_refuse_tool(rule, step, f"runs code that {why}") for rule in restricting)
        for rule in on_arguments:
            reason = f"the tool {step.tool[:80]!r} runs code that {why}"
            yield Decision(rule.action, reason, rule.name, "argument", step.agent, step.tool)


def _read_codes(policy: Policy, step: ProposedStep) -> Iterator[tuple[str, str]]:
    """Yield each piece of code that a call is to run, with its language; none where its tool runs none.

    A piece that is labelled otherwise than its tool runs it must be allowed under each.
    """
    languages = [
        language
        for tool, language in {**CODE_TOOLS, **policy.code_tools}.items()
        if is_forbidden_name((step.tool,), (tool,))
    ]
    if not languages:
        return
    pieces = list(_read_pieces(step.arguments)) or [("", step.text)]
    for label, code in pieces:
        for language in {label, *filter(None, languages)} - ({""} if any(languages) else set()):
            yield language, code


def _read_pieces(value: object, label: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and depth < _MAX_DEPTH:
        label = next((text for key in _LANGUAGE_KEYS if isinstance(text := value.get(key), str)), label)
        for key, item in value.items():
            if key not in _LANGUAGE_KEYS:
                yield from _read_pieces(item, label, depth + 1)
    elif isinstance(value, list | tuple) and depth < _MAX_DEPTH:
        for item in value:
            yield from _read_pieces(item, label, depth + 1)
    elif not isinstance(value, bool | int | float | None):
        yield label, value if isinstance(value, str) else "\0"  # what is nested too deep is not judged


def read_arguments(text: str) -> dict[str, object]:
    """Read the arguments of a call by name; those without a name get their place as one. Empty where they are none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if isinstance(value, dict):
        return value
    if not isinstance(value, list):
        return {"0": value}
    named = value[-1] if value and isinstance(value[-1], dict) else {}
    places = value[:-1] if value and isinstance(value[-1], dict) else value
    return {**{str(place): item for place, item in enumerate(places)}, **named}


def _judge_arguments(policy: Policy, step: ProposedStep) -> Iterator[Decision]:
    names = {step.tool, *step.tool_names}
    for rule in policy.arguments:
        if means_agent(rule.agent, step) and is_forbidden_name(names, (rule.tool,)):
            why = _find_breach(rule, step)
            if why:
                reason = f"the argument {rule.argument!r} of {step.tool[:80]!r} {why}"
                yield Decision(rule.action, reason, rule.name, "argument", step.agent, step.tool)


def _find_breach(rule: ArgumentRule, step: ProposedStep) -> str:
    values = list(_select(step.arguments, rule.argument.split(".")))
    if not values and rule.argument != "*":  # given by its place: it may be any of those
        values = [value for name, value in step.arguments.items() if name.isdecimal()]
    if not values:
        is_unreadable = bool(step.text.strip(" []{}\n")) and not step.arguments
        return "is missing" if rule.required else "cannot be read" if is_unreadable else ""
    return next((why for value in values if (why := _find_wrong(rule, value))), "")


def _select(value: object, path: Sequence[str], depth: int = 0) -> Iterator[object]:
    if not path:
        yield value
    elif isinstance(value, Mapping):
        plain = make_plain(path[0])
        for name, item in value.items():
            if path[0] == "*" or make_plain(str(name)) == plain:
                yield from _select(item, path[1:], depth + 1)
    elif isinstance(value, list | tuple):
        for place, item in enumerate(value):
            if path[0] in ("*", str(place)):
                yield from _select(item, path[1:], depth + 1)


def _find_wrong(rule: ArgumentRule, value: object) -> str:
    if not rule.matches_type(value):
        return f"is no {rule.type}"
    return _find_wrong_amount(rule, value) or _find_wrong_value(rule, value) or _find_wrong_text(rule, value)


def _find_wrong_amount(rule: ArgumentRule, value: object) -> str:
    if rule.at_least is None and rule.at_most is None:
        return ""
    numbers = [_as_number(item) for item in _leaves(value)]
    if not numbers or None in numbers:
        return "is no number"
    for number in numbers:
        assert number is not None
        if rule.at_most is not None and not number <= rule.at_most:  # not a number is over every limit
            return f"is over {rule.at_most:g}"
        if rule.at_least is not None and not number >= rule.at_least:
            return f"is under {rule.at_least:g}"
    return ""


def _as_number(value: object) -> float | None:
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return _parse(str(value)) if not isinstance(value, int) or abs(value) < 10**300 else None
    if not isinstance(value, str):
        return None
    text = unicodedata.normalize("NFKC", value).strip()
    text = re.fullmatch(rf"{_CURRENCY}\s*(.*?)\s*{_CURRENCY}", text, re.DOTALL)[1]  # type: ignore[index]  # it always does
    written = [text.replace(group, "").replace(mark, ".") for group, mark, form in _AMOUNTS if form.fullmatch(text)]
    numbers = [number for one in written if (number := _parse(one)) is not None]
    return max(numbers, key=abs, default=None)  # 1.500 may be fifteen hundred: the larger one counts


def _parse(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _find_wrong_value(rule: ArgumentRule, value: object) -> str:
    if rule.one_of is not None and not any(_is_same(value, allowed) for allowed in rule.one_of):
        return "is none of the values that are allowed"
    if any(_is_same(item, other) for item in (value, *_leaves(value)) for other in rule.none_of):
        return "is a value that is not allowed"
    return ""


def _is_same(value: object, other: object) -> bool:
    if isinstance(value, str) and isinstance(other, str):
        return make_plain(value) == make_plain(other)
    return type(value) is type(other) and value == other


def _find_wrong_text(rule: ArgumentRule, value: object) -> str:
    texts = [item if isinstance(item, str) else json.dumps(item, default=str) for item in _leaves(value)]
    if rule.max_chars is not None and sum(map(len, texts)) > rule.max_chars:
        return f"is longer than {rule.max_chars} characters"
    if rule.pattern is not None and not all(rule.pattern.fits(text) for text in texts):
        return "is not as its pattern says"
    if rule.forbidden_pattern is not None and any(_has(rule, text) for text in texts):
        return "has what a pattern forbids"
    if rule.hosts is not None and not all(_fits_any(host, rule.hosts) for text in texts for host in read_hosts(text)):
        return "names a host that is not allowed"
    if rule.recipients is not None and not all(
        _fits_any(address, rule.recipients) for text in texts for address in read_mail_addresses(text)
    ):
        return "names a recipient who is not allowed"
    return ""


def _has(rule: ArgumentRule, text: str) -> bool:
    assert rule.forbidden_pattern is not None
    return rule.forbidden_pattern.is_in(text) or rule.forbidden_pattern.is_in(make_plain(text))


def _fits_any(name: str, patterns: Sequence[str]) -> bool:
    return make_plain(name) == name.casefold() and any(
        fnmatchcase(name.casefold(), pattern.casefold()) for pattern in patterns
    )


def _leaves(value: object, depth: int = 0) -> Iterator[object]:
    """Yield the values within tables and lists; one that is nested too deep stands for itself."""
    if depth < _MAX_DEPTH and isinstance(value, Mapping):
        for item in value.values():
            yield from _leaves(item, depth + 1)
    elif depth < _MAX_DEPTH and isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item, depth + 1)
    else:
        yield value


def _judge_text(policy: Policy, step: ProposedStep) -> Iterator[Decision]:
    for rule in policy.texts:
        if means_agent(rule.agent, step) and (
            rule.forbidden_pattern.is_in(step.text) or rule.forbidden_pattern.is_in(make_plain(step.text))
        ):
            yield Decision(rule.action, "the message says what a pattern forbids", rule.name, "text", step.agent)


def _judge_recipients(policy: Policy, step: ProposedStep) -> Iterator[Decision]:
    for level in ((rule for rule in policy.agents.values() if rule.agent == EVERYBODY), *_rules_by_level(policy, step)):
        for rule in level:
            if rule.recipients is None:
                continue
            refused = [name for name in step.recipients if not is_listed_name(name, rule.recipients)]
            if refused:
                reason = f"{refused[0][:80]!r} is not among those that it may address"
                yield Decision(rule.action, reason, f"agents.{rule.agent}", "recipient", step.agent)
