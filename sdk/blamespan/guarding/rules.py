"""What a policy says of one step: tools, arguments, recipients and texts. Pure, and the same live and on recordings.

Whatever a step says is data: it is compared, never followed.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

from blamespan.guarding.code_names import CodeNames, read_code_names
from blamespan.guarding.decisions import Decision, ProposedStep
from blamespan.guarding.policy import EVERYBODY, AgentRule, ArgumentRule, Policy
from blamespan.guarding.tool_names import is_forbidden_name, is_listed_name, make_plain, skeleton
from blamespan.intercepting.boundaries import CODE_TOOL

__all__ = ["CODE_TOOLS", "judge_step", "means_agent", "read_arguments"]

CODE_TOOLS = frozenset(
    (CODE_TOOL, "CodeExecutor", "python", "python_repl", "Python_REPL", "python_repl_ast", "code_interpreter", "shell")
) | frozenset(("bash", "terminal", "run_code", "run_python"))
"""Tools whose arguments are code, as frameworks call them."""

_NUMBER = re.compile(r"[^\d.,eE+-]*([+-]?\d[\d.,' _]*(?:[eE][+-]?\d{1,3})?)[^\d]*")
_SCHEME = re.compile(r"(?i)[a-z][a-z0-9+.-]{0,30}:[/\\]{2}[^\s\"'<>]*")
_MAIL = re.compile(r"[^\s<>,;:\"()\[\]]{1,254}@[^\s<>,;:\"()\[\]]{1,254}")
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
    plain = make_plain(pattern)
    return fnmatchcase(make_plain(name), plain) or ("*" not in plain and skeleton(name) == skeleton(pattern))


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
    codes = [read_code_names(text) for text in _read_codes(policy, step)]
    for rule in (*everywhere, *(rule for level in levels for rule in level)):
        if is_forbidden_name(names, rule.forbidden):
            yield _refuse_tool(rule, step, "is forbidden to it")
        elif why := next((why for code in codes if (why := _find_in_code(code, rule.forbidden))), ""):
            yield _refuse_tool(rule, step, why)
    own = next((level for level in levels if any(rule.tools is not None for rule in level)), [])
    for rule in (*everywhere, *own) if not step.recipients else ():  # a handoff is no tool: whom it goes to counts
        if rule.tools is not None and not is_listed_name(step.tool, rule.tools):
            yield _refuse_tool(rule, step, "is not among the tools that it may call")


def _refuse_tool(rule: AgentRule, step: ProposedStep, why: str) -> Decision:
    reason = f"the tool {step.tool[:80]!r} {why}"
    return Decision(rule.action, reason, f"agents.{rule.agent}", "tool", step.agent, step.tool)


def _read_codes(policy: Policy, step: ProposedStep) -> list[str]:
    """List the code that a call is to run; none where its tool runs none."""
    if not is_forbidden_name((step.tool,), (*CODE_TOOLS, *policy.code_tools)):
        return []
    is_executor = step.tool == CODE_TOOL  # whose text is the code itself, whatever it looks like
    texts = [] if is_executor else [item for item in _leaves(step.arguments) if isinstance(item, str)]
    return texts or [step.text]


def _find_in_code(code: CodeNames, forbidden: Sequence[str]) -> str:
    if not forbidden:
        return ""
    glued = [name for name in forbidden if code.glued and "*" not in name and skeleton(name) in code.glued]
    if glued or is_forbidden_name(code.names, forbidden):
        return "runs code that names a tool that is forbidden to it"
    return "runs code that hides what it calls, and tools are forbidden to it" if code.is_opaque else ""


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
        return math.inf if isinstance(value, int) and abs(value) > 10**300 else float(value)
    if not isinstance(value, str):
        return None
    match = _NUMBER.fullmatch(make_plain(value))
    if match is None:
        return None
    readings = {reading for text in _readings(match[1]) if (reading := _parse(text)) is not None}
    return max(readings, key=abs, default=None)  # 1.500 may be fifteen hundred: the larger one counts


def _readings(text: str) -> Iterator[str]:
    plain = re.sub(r"[' _]", "", text).strip()
    for thousands, point in ((",", "."), (".", ",")):
        whole = plain.partition(point)[0]
        if thousands not in plain or re.fullmatch(rf"[+-]?\d{{1,3}}(?:{re.escape(thousands)}\d{{3}})+", whole):
            yield plain.replace(thousands, "").replace(point, ".")


def _parse(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


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
    if rule.hosts is not None and not all(_fits_any(host, rule.hosts) for host in _find_all(texts, _hosts)):
        return "names a host that is not allowed"
    if rule.recipients is not None and not all(_fits_any(to, rule.recipients) for to in _find_all(texts, _recipients)):
        return "names a recipient who is not allowed"
    return ""


def _has(rule: ArgumentRule, text: str) -> bool:
    assert rule.forbidden_pattern is not None
    return rule.forbidden_pattern.is_in(text) or rule.forbidden_pattern.is_in(make_plain(text))


def _find_all(texts: Iterable[str], find: object) -> list[str]:
    assert callable(find)
    return [item for text in texts for item in find(text)]


def _hosts(text: str) -> list[str]:
    """List the hosts of the addresses in a text; one without any is taken for an address itself."""
    addresses = _SCHEME.findall(text) or [f"//{text.strip()}"]
    return [_host_of(address) for address in addresses]


def _host_of(address: str) -> str:
    try:
        host = urlsplit(address.replace("\\", "/")).hostname
    except ValueError:
        return "\0"  # no host is allowed that cannot be read
    return (host or "\0").rstrip(".")


def _recipients(text: str) -> list[str]:
    return _MAIL.findall(text) or [text.strip()]


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
