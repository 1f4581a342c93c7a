"""An AutoGen team that handles incidents: triager, logs, deploys, commander, reviewer, who may send the case back.

Who speaks next is decided by what was said: a rollback that does not help goes back to the commander.
"""

import json
import re
from collections.abc import Sequence
from random import Random
from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import MaxMessageTermination, TextMentionTermination
from autogen_agentchat.teams import SelectorGroupChat
from autogen_core import FunctionCall
from orders_autogen import RuleModel

SERVICES = ("payments", "basket", "search", "mail", "stock", "login")
THRESHOLD, MANY = 50, 400


def world_of(incident: str) -> tuple[str, dict[str, tuple[int, str, str]]]:
    """Return the service that caused an incident, and of each suspect its failed lines, last deploy and version."""
    draws = Random(incident)
    names = draws.sample(SERVICES, 4)
    lines = [draws.randrange(60, 300), draws.randrange(60, 300), draws.randrange(0, 40), draws.randrange(60, 200)]
    times = [f"14:{draws.randrange(1, 18):02}", f"14:{draws.randrange(1, 18):02}", "14:09", "09:30"]
    facts = {
        name: (count, at, f"{draws.randrange(1, 9)}.{draws.randrange(1, 9)}")
        for name, count, at in zip(names, lines, times, strict=True)
    }
    first, second = sorted(names[:2], key=lambda name: -facts[name][0])
    return (first if draws.random() < 0.7 else second), facts


def error_lines(service: str, incident: str) -> str:
    """Count the lines that failed in a service during an incident."""
    facts = world_of(incident)[1]
    return f"{facts[service][0]} lines" if service in facts else f"no service {service!r} took part"


def last_deploy(service: str, incident: str) -> str:
    """Say when a service was deployed last, and which version ran before."""
    facts = world_of(incident)[1]
    return f"at {facts[service][1]}, before it {facts[service][2]}" if service in facts else "no such service"


def try_rollback(service: str, incident: str) -> str:
    """Roll a service back in the test environment, and say whether the errors stay."""
    return "the errors are gone" if world_of(incident)[0] == service else "the errors stay"


def _last(pattern: str, text: str) -> str:
    found: list[str] = re.findall(pattern, text)
    return found[-1] if found else ""


def _incident(text: str) -> str:
    return _last(r"Triage of (INC-\d+)", text) or _last(r"(INC-\d+)", text)


def _call(tool: str, services: Sequence[str], text: str) -> list[FunctionCall]:
    return [
        FunctionCall(f"{tool}_{name}_{len(text)}", json.dumps({"item": name, "incident": _incident(text)}), tool)
        for name in services
    ]


def _triage(text: str, given: Sequence[tuple[str, str]]) -> str:
    suspects = _last(r"Suspects are ([^.]*)\.", text)
    since, least = _last(r"since ([0-9:]+)", text), _last(r"at least ([0-9]+) lines", text)
    return (
        f"Triage of {_incident(text)}. Since: {since}. Suspects: {suspects}. Threshold: {least} lines. "
        f"High above: {_last('more than ([0-9]+)', text)} lines. "
        "The reviewer must test the rollback before it is announced."
    )


def _read_logs(text: str, given: Sequence[tuple[str, str]]) -> Any:
    names = re.findall(r"\w+", _last(r"Suspects: ([^.]*)\.", text))
    if not given and names:
        return _call("error_lines", names, text)
    counts = {name: int(found) for name, said in given if (found := _last(r"^(\d+) lines", said))}
    listed = ", ".join(f"{name} {count} lines" for name, count in counts.items())
    return f"I read the logs. Errors: {listed}. In all: {sum(counts.values())} lines."


def _errors(text: str) -> dict[str, int]:
    return {name: int(count) for name, count in re.findall(r"(\w+) (\d+) lines", _last(r"Errors: ([^.]*)\.", text))}


def _read_deploys(text: str, given: Sequence[tuple[str, str]]) -> Any:
    least = int(_last(r"Threshold: (\d+)", text) or 0)
    names = [name for name, count in _errors(text).items() if count >= least]
    if not given and names:
        return _call("last_deploy", names, text)
    listed = "; ".join(f"{name} {said}" for name, said in given if said.startswith("at "))
    return f"I looked up the deploys. Deploys: {listed or 'none'}."


def _command(text: str, given: Sequence[tuple[str, str]]) -> str:
    since, errors = _last(r"Since: ([0-9:]+)", text), _errors(text)
    rejected = re.findall(r"Rejected: (\w+)", text)
    deploys = re.findall(r"(\w+) at ([\d:]+), before it ([\d.]+\d)", _last(r"Deploys: (.*)", text))
    fresh = [(errors.get(name, 0), name, version) for name, at, version in deploys
             if name not in rejected and f"{int(since[:2] or 0) - 1:02}{since[2:]}" <= at <= since]  # fmt: skip
    if not fresh:
        return "Proposal: none, as nothing was deployed in the hour before."
    count, name, version = max(fresh)
    total, limit = int(_last(r"In all: (\d+)", text) or 0), int(_last(r"High above: (\d+)", text) or 0)
    return (
        f"Proposal: roll back {name} to {version}. Its errors: {count} lines. "
        f"Severity: {'high' if total > limit else 'low'}, as {total} lines failed in all."
    )


def _review(text: str, given: Sequence[tuple[str, str]]) -> Any:
    proposal, severity = _last(r"Proposal: (.*)", text), _last(r"Severity: (\w+)", text)
    name, version = (re.findall(r"roll back (\w+) to ([\d.]+\d)", proposal) or [("", "")])[-1]
    if not name:
        return f"Answer: what caused {_incident(text)} cannot be told."
    answer = f"Answer: {_incident(text)} was caused by {name}; roll it back to {version}. Severity {severity}."
    if "must test the rollback" not in text:
        return f"The proposal reads well. {answer}"
    found = dict(given).get(name, "")
    if not found:
        return _call("try_rollback", [name], text)
    if "stay" in found:
        return f"I tested the rollback of {name}: {found}. Rejected: {name}. The commander proposes another."
    return f"I tested the rollback of {name}: {found}. {answer}"


RULES = {"triager": _triage, "logs": _read_logs, "deploys": _read_deploys, "commander": _command, "reviewer": _review}
ORDER = list(RULES)
TOOLS = {"logs": error_lines, "deploys": last_deploy, "reviewer": try_rollback}


def _next(messages: Sequence[Any]) -> str:
    speaker = messages[-1].source
    if speaker not in ORDER:
        return ORDER[0]
    if speaker == "reviewer":
        return "commander"
    return ORDER[ORDER.index(speaker) + 1]


def make() -> SelectorGroupChat:
    """Make the team anew."""
    agents = [
        AssistantAgent(
            name,
            RuleModel(say),
            description=name,
            tools=[_renamed(TOOLS[name])] if name in TOOLS else None,
            reflect_on_tool_use=True if name in TOOLS else None,
        )
        for name, say in RULES.items()
    ]
    ends = TextMentionTermination("Answer:") | MaxMessageTermination(30)
    return SelectorGroupChat(list(agents), RuleModel(_triage), termination_condition=ends, selector_func=_next)


def _renamed(tool: Any) -> Any:
    """Offer a tool whose first argument is called as `RuleModel` reads it."""

    def call(item: str, incident: str) -> str:
        return str(tool(item, incident))

    call.__name__, call.__doc__ = tool.__name__, tool.__doc__
    return call


make.sandbox = True  # type: ignore[attr-defined]  # its tools only read


def make_tasks(count: int, seed: int) -> list[str]:
    """Write tasks: incidents of a world that their number decides."""
    draws = Random(seed)
    tasks = []
    for number in draws.sample(range(1_000 + 4_000 * seed, 5_000 + 4_000 * seed), count):
        names = list(world_of(f"INC-{number}")[1])
        tasks.append(
            f"Incident INC-{number}: orders fail since 14:20. Suspects are {', '.join(names)}. A suspect has at least "
            f"{THRESHOLD} lines that failed, and was deployed in the hour before. If more than {MANY} lines failed in "
            "all, the severity is high, else low. Which service caused it, and to which version must it go back?"
        )
    return tasks


def is_right(answer: str, task: str) -> bool:
    """Tell whether service, version and severity are those of the world."""
    incident = _last(r"(INC-\d+)", task)
    name, facts = world_of(incident)
    severity = "high" if sum(count for count, *_ in facts.values()) > MANY else "low"
    right = f"{incident} was caused by {name}; roll it back to {facts[name][2]}. Severity {severity}."
    return right in answer.rpartition("Answer:")[2]
