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
from blamespan.trace import Step
from blamespan_tracer.alternatives.llm_judge.completions import Unreadable
from blamespan_tracer.alternatives.rendering import RunDocument, shown_name
from blamespan_tracer.modes import MAS_FIRE

_FENCE = re.compile(r"\A```(?:json)?\s(.*)```\Z", re.DOTALL | re.IGNORECASE)
_THOUGHT_ENDS = "</think>"
"""Where templates open the thought in the question, an answer begins in the middle of one."""
_INTEGER = re.compile(r"\s*(?:step|#)?\s*(\d{1,9})\s*\.?\s*", re.IGNORECASE)
_CHANCE = re.compile(r"\s*(\d{1,3}(?:[.,]\d{1,9})?)\s*(%?)\s*")
_SUFFIX = re.compile(r"\s*\([^()]*\)\s*\Z")
_TRUTHS = {"true": True, "yes": True, "false": False, "no": False}
_MOST_SUSPECTS = 10
_MOST_SEEN = 12
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
class Diagnosis:
    """What the judge concludes about a run.

    Attributes:
        chance_failed: How likely it failed by an agent's fault, 0..1.
        suspects: The likeliest first; empty where nobody is at fault.
        see: Numbers of the steps that it wants to see in full before it is sure.
    """

    chance_failed: float
    suspects: tuple[Suspect, ...] = ()
    see: tuple[int, ...] = ()


def read_diagnosis(text: str, case: RunDocument, offered: Sequence[str], shown: Collection[int]) -> Diagnosis:
    """Read the answer to a question about a run.

    Args:
        text: The answer.
        case: The run.
        offered: Codes of the modes that were offered.
        shown: Numbers of the steps that were shown.

    Raises:
        Unreadable: if it is none, or names what was not shown.
    """
    record = fields(text)
    failed, sure = truth(record, "failed"), chance(record)
    asked = record.get("see")
    numbers = [_parse_integer(value) for value in asked] if isinstance(asked, list) else []
    see = dict.fromkeys(number for number in numbers[:_MOST_SEEN] if number is not None and number in case.by_step)
    return Diagnosis(sure if failed else 1.0 - sure, suspects(record, case, offered, shown), tuple(see))


def fields(text: str) -> dict[str, Any]:
    """Read the one JSON object that an answer is; thoughts before it and a fence around it are none of it.

    Raises:
        Unreadable: if there is anything else, or a name stands in it twice.
    """
    record = _parse_object(text)
    if record is None and _THOUGHT_ENDS in text:
        record = _parse_object(text.rpartition(_THOUGHT_ENDS)[2])
    if record is None:
        raise Unreadable("it is not one JSON object")
    return record


def _parse_object(text: str) -> dict[str, Any] | None:
    content = text.strip()
    fenced = _FENCE.match(content)
    try:
        record = json.loads(
            fenced[1] if fenced else content, object_pairs_hook=_reject_duplicates, parse_constant=_reject_constant
        )
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def truth(record: Mapping[str, Any], name: str) -> bool:
    """Read true or false.

    Raises:
        Unreadable: if it is neither.
    """
    value = record.get(name)
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().casefold() in _TRUTHS:
        return _TRUTHS[value.strip().casefold()]
    raise Unreadable(f"{name!r} must be true or false, got {_shorten(value)}")


def chance(record: Mapping[str, Any], name: str = "confidence") -> float:
    """Read a number from 0 to 1; a percentage only where it says so.

    Raises:
        Unreadable: if it is none.
    """
    value = record.get(name)
    probability = -1.0
    if isinstance(value, str) and (match := _CHANCE.fullmatch(value)):
        probability = float(match[1].replace(",", ".")) / (100 if match[2] else 1)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        probability = float(value) if abs(value) < 2 else -1.0
    if not 0 <= probability <= 1:
        raise Unreadable(f"{name!r} must be a number from 0 to 1, got {_shorten(value)}")
    return abs(probability)


def step(record: Mapping[str, Any], case: RunDocument, shown: Collection[int] | None = None) -> int:
    """Read which step is meant, by its number; an agent that is named beside it must be its own.

    Raises:
        Unreadable: if it is none of those *shown* (all of them by default), nobody's fault, or another agent's.
    """
    value = record.get("step")
    number = _parse_integer(value)
    if number is None:
        raise Unreadable(f"'step' must be the number of one step, got {_shorten(value)}")
    decision = case.by_step.get(number)
    if decision is None or (shown is not None and number not in shown):
        raise Unreadable(f"it names step {number}, which it was not shown")
    if not decision.can_be_blamed:
        raise Unreadable(f"it names step {number}, which is no agent's decision")
    agent = record.get("agent")
    if agent is not None and _find_agent(agent, case) != decision.agent:
        raise Unreadable(f"it names {_shorten(agent)} for step {number}, which is another agent's")
    return number


def suspects(
    record: Mapping[str, Any], case: RunDocument, offered: Sequence[str], shown: Collection[int] | None = None
) -> tuple[Suspect, ...]:
    """Read the list of suspects, of those *shown*; one that is named again counts once.

    Raises:
        Unreadable: if one of them cannot be read.
    """
    by_step: dict[int, Suspect] = {}
    for entry in records(record, "suspects")[:_MOST_SUSPECTS]:
        number = step(entry, case, shown)
        weight = chance(entry)
        if weight > 0:
            by_step.setdefault(number, Suspect(number, weight, modes(entry, offered), quote(entry)))
    return tuple(sorted(by_step.values(), key=lambda suspect: -suspect.weight))


def records(record: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """Read a list of JSON objects.

    Raises:
        Unreadable: if it is none.
    """
    value = record.get(name)
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise Unreadable(f"{name!r} must be a list of JSON objects, got {_shorten(value)}")
    return value


def modes(record: Mapping[str, Any], offered: Sequence[str]) -> tuple[ErrorMode, ...]:
    """Read the modes that are of the list, each once; others are left out."""
    value = record.get("modes")
    listed = value if isinstance(value, list) else [value]
    known = [_one_mode(code, offered) for code in listed[:_MOST_MODES]]
    return tuple(dict.fromkeys(error_mode for error_mode in known if error_mode is not None))


def _one_mode(value: object, offered: Sequence[str]) -> ErrorMode | None:
    """Read a mode by its code, with or without its taxonomy, by its name, or by what MAS-FIRE calls it."""
    if not isinstance(value, str):
        return None
    wanted = value.strip().casefold()
    matching = [
        error_mode
        for error_mode in map(mode, offered)
        if wanted in (str(error_mode).casefold(), error_mode.code.casefold(), error_mode.name.casefold())
        or wanted == f"{error_mode} {error_mode.name}".casefold()
    ]
    matching = matching or [
        mode(code)
        for name, (title, codes) in MAS_FIRE.items()
        if wanted in (f"mas-fire:{name}", title.casefold())
        for code in codes.split()[:1]
        if code in offered
    ]
    return matching[0] if len(matching) == 1 else _find_in_any_taxonomy(value)


def quote(record: Mapping[str, Any]) -> str:
    """Read a quote; it is not checked against the step."""
    value = record.get("quote")
    return value.strip()[:_MOST_QUOTE_CHARS] if isinstance(value, str) else ""


def _find_in_any_taxonomy(code: str) -> ErrorMode | None:
    """Read a full code of a taxonomy that was not offered: it says itself which it is of."""
    try:
        error_mode = mode(code.strip())
    except ConfigError:
        return None
    return None if error_mode.code.startswith("N") else error_mode


def _parse_integer(value: object) -> int | None:
    if isinstance(value, str):
        match = _INTEGER.fullmatch(value)
        return int(match[1]) if match else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _MOST_STEPS:
        return None
    return int(value) if int(value) == value else None


def _find_agent(value: object, case: RunDocument) -> str | None:
    """Find the one agent that a name means: as spelled, else without case, else without what stands in brackets."""
    names = dict.fromkeys(decision.agent for decision in case.decisions)
    if not isinstance(value, str):
        return None
    if value in names:
        return value
    for spell, meant in (
        (_encode, value),
        (_shorten_name, value),
        (_fold, _fold(value)),
        (_strip_suffix, _strip_suffix(value)),
    ):
        alike = [name for name in names if spell(name) == meant]
        if alike:
            return alike[0] if len(alike) == 1 else None
    return None


def _encode(name: str) -> str:
    """Spell a name as it can be sent: half characters cannot."""
    return name.encode("utf-8", "replace").decode()


def _shorten_name(name: str) -> str:
    return shown_name(_encode(name))


def _fold(name: str) -> str:
    return name.strip().casefold()


def _strip_suffix(name: str) -> str:
    return _SUFFIX.sub("", name).strip().casefold()


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) != len(pairs):
        raise ValueError("a name stands twice")
    return dict(pairs)


def _reject_constant(constant: str) -> NoReturn:
    raise ValueError(constant)


def _shorten(value: object) -> str:
    """Return a value, short and on one line, for a message: it may quote a run."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


def find_quote(step: Step, quote: str) -> str:
    """Return *quote* as it stands in a step, or nothing; blanks and line ends may differ."""
    words = quote.split()
    if not words:
        return ""
    if quote in step.content:
        return quote[:_MOST_QUOTE_CHARS]
    match = re.search(r"\s+".join(map(re.escape, words)), step.content)
    return match[0][:_MOST_QUOTE_CHARS] if match else ""
