"""Answers read strictly: what is missing, invented or ambiguous makes the whole answer unreadable, never a default.

What is plainly meant is taken: "4" for 4, "80 %" for 0.8, `SOLVER` for the one agent called `solver`. Modes and quotes
are beside the point of who and where: one that is not of the list, or does not stand in the step, is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from blamespan.errors import ConfigError
from blamespan.taxonomy import ErrorMode, mode
from blamespan_tracer.llm_judge.protocol import Unreadable
from blamespan_tracer.modes import MAS_FIRE
from blamespan_tracer.rendering import Case, shown_name

__all__ = [
    "Finding",
    "Suspect",
    "chance",
    "fields",
    "modes",
    "one_mode",
    "quote",
    "records",
    "step",
    "step_among",
    "suspects",
    "truth",
]

_FENCE = re.compile(r"\A```(?:json)?\s(.*)```\Z", re.DOTALL | re.IGNORECASE)
_THOUGHT_ENDS = "</think>"
"""Where templates open the thought in the question, an answer begins in the middle of one."""
_INTEGER = re.compile(r"\s*(?:step|#)?\s*(\d{1,9})\s*\.?\s*", re.IGNORECASE)
_CHANCE = re.compile(r"\s*(\d{1,3}(?:[.,]\d{1,9})?)\s*(%?)\s*")
_SUFFIX = re.compile(r"\s*\([^()]*\)\s*\Z")
_TRUTHS = {"true": True, "yes": True, "false": False, "no": False}
_MOST_SUSPECTS = 10
_MOST_STEPS = 10**9
_MOST_MODES = 5
_MOST_QUOTE_CHARS = 300


@dataclass(frozen=True, slots=True)
class Suspect:
    """A step that may be the decisive one.

    Attributes:
        step: Its index.
        weight: How sure the judge is, above 0.
        modes: What kind of error, the likeliest first.
        quote: Words that are to stand in it; empty where none are given.
    """

    step: int
    weight: float
    modes: tuple[ErrorMode, ...] = ()
    quote: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """What the judge found in a run.

    Attributes:
        chance_failed: How likely it failed by an agent's fault, 0..1.
        suspects: The likeliest first; empty where nobody is at fault.
    """

    chance_failed: float
    suspects: tuple[Suspect, ...] = ()


def fields(text: str) -> dict[str, Any]:
    """Read the one JSON object that an answer is; thoughts before it and a fence around it are none of it.

    Raises:
        Unreadable: if there is anything else, or a name stands in it twice.
    """
    found = _one_object(text)
    if found is None and _THOUGHT_ENDS in text:
        found = _one_object(text.rpartition(_THOUGHT_ENDS)[2])
    if found is None:
        raise Unreadable("it is not one JSON object")
    return found


def _one_object(text: str) -> dict[str, Any] | None:
    said = text.strip()
    fenced = _FENCE.match(said)
    try:
        found = json.loads(fenced[1] if fenced else said, object_pairs_hook=_once, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def truth(found: Mapping[str, Any], name: str) -> bool:
    """Read true or false.

    Raises:
        Unreadable: if it is neither.
    """
    said = found.get(name)
    if isinstance(said, bool):
        return said
    if isinstance(said, str) and said.strip().casefold() in _TRUTHS:
        return _TRUTHS[said.strip().casefold()]
    raise Unreadable(f"{name!r} must be true or false, got {_told(said)}")


def chance(found: Mapping[str, Any], name: str = "confidence") -> float:
    """Read a number from 0 to 1; a percentage only where it says so.

    Raises:
        Unreadable: if it is none.
    """
    said = found.get(name)
    value = -1.0
    if isinstance(said, str) and (match := _CHANCE.fullmatch(said)):
        value = float(match[1].replace(",", ".")) / (100 if match[2] else 1)
    elif isinstance(said, int | float) and not isinstance(said, bool):
        value = float(said) if abs(said) < 2 else -1.0
    if not 0 <= value <= 1:
        raise Unreadable(f"{name!r} must be a number from 0 to 1, got {_told(said)}")
    return abs(value)


def step(found: Mapping[str, Any], case: Case, shown: Collection[int] | None = None) -> int:
    """Read which step is meant, by its number; an agent that is named beside it must be its own.

    Raises:
        Unreadable: if it is none of those *shown* (all of them by default), nobody's fault, or another agent's.
    """
    said = found.get("step")
    number = _integer(said)
    if number is None:
        raise Unreadable(f"'step' must be the number of one step, got {_told(said)}")
    named = case.by_step.get(number)
    if named is None or (shown is not None and number not in shown):
        raise Unreadable(f"it names step {number}, which it was not shown")
    if not named.can_be_blamed:
        raise Unreadable(f"it names step {number}, which is no agent's decision")
    agent = found.get("agent")
    if agent is not None and _agent(agent, case) != named.agent:
        raise Unreadable(f"it names {_told(agent)} for step {number}, which is another agent's")
    return number


def step_among(found: Mapping[str, Any], steps: Collection[int]) -> int:
    """Read which of the *steps* of one decision is meant; where there is but one, nothing need be said.

    Raises:
        Unreadable: if it is none of them.
    """
    said = found.get("step")
    if said is None and len(steps) == 1:
        return next(iter(steps))
    number = _integer(said)
    if number is None or number not in steps:
        raise Unreadable(f"'step' must be the number of a step of the decision examined, got {_told(said)}")
    return number


def suspects(
    found: Mapping[str, Any], case: Case, offered: Sequence[str], shown: Collection[int] | None = None
) -> tuple[Suspect, ...]:
    """Read the list of suspects, of those *shown*; one that is named again counts once.

    Raises:
        Unreadable: if one of them cannot be read.
    """
    read: dict[int, Suspect] = {}
    for each in records(found, "suspects")[:_MOST_SUSPECTS]:
        named = step(each, case, shown)
        weight = chance(each)
        if weight > 0:
            read.setdefault(named, Suspect(named, weight, modes(each, offered), quote(each)))
    return tuple(sorted(read.values(), key=lambda one: -one.weight))


def records(found: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """Read a list of JSON objects.

    Raises:
        Unreadable: if it is none.
    """
    said = found.get(name)
    if not isinstance(said, list) or not all(isinstance(each, dict) for each in said):
        raise Unreadable(f"{name!r} must be a list of JSON objects, got {_told(said)}")
    return said


def modes(found: Mapping[str, Any], offered: Sequence[str]) -> tuple[ErrorMode, ...]:
    """Read the modes that are of the list, each once; others are left out."""
    said = found.get("modes")
    listed = said if isinstance(said, list) else [said]
    read = [one_mode(each, offered) for each in listed[:_MOST_MODES]]
    return tuple(dict.fromkeys(each for each in read if each is not None))


def one_mode(said: object, offered: Sequence[str]) -> ErrorMode | None:
    """Read a mode by its code, with or without its taxonomy, by its name, or by what MAS-FIRE calls it."""
    if not isinstance(said, str):
        return None
    wanted = said.strip().casefold()
    known = [mode(code) for code in offered]
    matching = [
        each
        for each in known
        if wanted in (str(each).casefold(), each.code.casefold(), each.name.casefold())
        or wanted == f"{each} {each.name}".casefold()
    ]
    matching = matching or [
        mode(code)
        for name, (title, codes) in MAS_FIRE.items()
        if wanted in (f"mas-fire:{name}", title.casefold())
        for code in codes.split()[:1]
        if code in offered
    ]
    return matching[0] if len(matching) == 1 else _of_other_taxonomy(said)


def quote(found: Mapping[str, Any]) -> str:
    """Read a quote; whether it stands in the step is for others to see."""
    said = found.get("quote")
    return said.strip()[:_MOST_QUOTE_CHARS] if isinstance(said, str) else ""


def _of_other_taxonomy(said: str) -> ErrorMode | None:
    """Read a full code of a taxonomy that was not offered: it says itself which it is of."""
    try:
        found = mode(said.strip())
    except ConfigError:
        return None
    return None if found.code.startswith("N") else found


def _integer(said: object) -> int | None:
    if isinstance(said, str):
        match = _INTEGER.fullmatch(said)
        return int(match[1]) if match else None
    if isinstance(said, bool) or not isinstance(said, int | float) or not abs(said) < _MOST_STEPS:
        return None
    return int(said) if int(said) == said else None


def _agent(said: object, case: Case) -> str | None:
    """Find the one agent that a name means: as spelled, else without case, else without what stands in brackets."""
    names = dict.fromkeys(each.agent for each in case.decisions)
    if not isinstance(said, str):
        return None
    if said in names:
        return said
    for plain, meant in ((_sent, said), (_shown, said), (_folded, _folded(said)), (_bare, _bare(said))):
        alike = [name for name in names if plain(name) == meant]
        if alike:
            return alike[0] if len(alike) == 1 else None
    return None


def _sent(name: str) -> str:
    """Spell a name as it can be sent: half characters cannot."""
    return name.encode("utf-8", "replace").decode()


def _shown(name: str) -> str:
    return shown_name(_sent(name))


def _folded(name: str) -> str:
    return name.strip().casefold()


def _bare(name: str) -> str:
    return _SUFFIX.sub("", name).strip().casefold()


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) != len(pairs):
        raise ValueError("a name stands twice")
    return dict(pairs)


def _no_number(said: str) -> NoReturn:
    raise ValueError(said)


def _told(said: object) -> str:
    """Show what came, short and on one line: it may quote a run."""
    shown = repr(said)
    return shown if len(shown) <= 60 else f"{shown[:60]}..."
