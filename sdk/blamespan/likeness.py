"""When failures are alike: the one rule by which summaries, schemata and incidents group them. Pure.

Two runs fail alike where a known failure (an error schema) names both. Else they do where the same agent is blamed, for
the same error mode, at the same place of its work (a message, a call of the same tool), by the same kind of finding.
What was said word by word does not count, nor the number of the step: both differ from run to run.
"""

from __future__ import annotations

import re
from typing import Final

from blamespan.attribution import Attribution
from blamespan.conventions import TOOL_NAME
from blamespan.trace import MessageActionTrace, Step

_TRAILING = re.compile(r"[\W_\d]+$")
_BETWEEN = re.compile(r"[\W_]+")
_TOOL = re.compile(r"[\w.:-]{1,100}")
_UNNAMED: Final = "agent"


def likeness_of(trace: MessageActionTrace, verdict: Attribution, schema: str = "") -> str:
    """Return what a failed run has in common with those that fail alike; empty where nothing is to blame.

    Where the task or a tool is to blame, runs are alike that fail by the same one.

    Args:
        trace: The run.
        verdict: On it.
        schema: Name of the known failure that the decisive step shows, if it shows one.
    """
    if verdict.cause is not None:
        return name_likeness(verdict.cause.title, mode=str(verdict.cause.mode), schema=schema)
    if not verdict.names_suspects or verdict.decisive_step is None:
        return ""
    step = trace.steps[verdict.decisive_step]
    mode = verdict.mode_of(step.agent)
    finding = next((item.finding for item in verdict.evidence if item.index == step.index), "")
    return name_likeness(step.agent, place_of(step), "" if mode is None else str(mode.mode), finding, schema)


def name_likeness(agent: str, place: str = "", mode: str = "", finding: str = "", schema: str = "") -> str:
    """Write a likeness: `pricing, message, mast:FM-3.2, check sum-holds`, or `schema counts-twice`.

    Args:
        agent: Who is blamed.
        place: As `place_of` writes it.
        mode: As `taxonomy:code`.
        finding: Kind of the finding that shows it.
        schema: Of the known failure; what else is known then does not count.
    """
    if schema:
        return f"schema {schema}"
    return ", ".join(part for part in (fold_agent(agent) or _UNNAMED, place, mode, finding) if part)


def place_of(step: Step) -> str:
    """Return at which place of an agent's work a step stands: its kind, and the tool of a call."""
    tool = tool_of(step)
    return f"{step.kind.replace('_', ' ')}{f' {tool}' if tool else ''}"


def fold_agent(name: str) -> str:
    """Return an agent's name as failures are compared by it: `Web_Surfer2` is `web-surfer`."""
    return _BETWEEN.sub("-", _TRAILING.sub("", name[:200]).casefold()).strip("-")


def tool_of(step: Step) -> str:
    """Return the name of the tool that a step calls, or empty."""
    if step.kind != "tool_call":
        return ""
    name = step.attributes.get(TOOL_NAME)
    if isinstance(name, str):
        return name[:100]
    match = _TOOL.match(step.content.lstrip())
    return match.group() if match else ""
