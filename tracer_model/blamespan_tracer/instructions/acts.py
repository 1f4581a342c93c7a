"""What an agent does at a step, held against two demands that nobody can both meet: which of them it obeys."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from blamespan.json_text import parse_json
from blamespan.lazy import lazy_property
from blamespan_tracer.instructions.demands import Demand, DemandKind, count_units, stems_of
from blamespan_tracer.instructions.languages import find_language
from blamespan_tracer.ledger.values import find_values

ObeyedSide: TypeAlias = Literal["higher", "lower"]
"""Which of the two demands an act obeys."""

FORM_KINDS: Final[frozenset[DemandKind]] = frozenset({"language", "format", "length", "word"})
"""How an answer is written: a user's demand of that kind means the answer, not what agents tell agents."""

_REFUSES = re.compile(
    r"(?i)\b(?:can(?:not|'t)|can not|unable|not able|won't|will not|would rather not|rather not|decline|refuse|sorry|"
    r"not (?:allowed|permitted|something|a question|public|possible)|may not|must not|more I can|I can only|"
    r"we can only|confidential|not discuss|not comment)\b"
)
_BULLET, _ITEM = re.compile(r"^\s*[-*\u2022+]\s+\S", re.MULTILINE), re.compile(r"^\s*\d{1,3}[.)]\s+\S", re.MULTILINE)
_ROW = re.compile(r"^\s*\|.*\|\s*$", re.MULTILINE)
_FENCE = re.compile(r"\A\s*```(\w*)\n(.*?)\n?```\s*\Z", re.DOTALL)
_TAG = re.compile(r"\A\s*<(\w+)[^>]*>.*</\1>\s*\Z", re.DOTALL)
_YAML = re.compile(r"^[\w-]+:(?: \S.*)?$", re.MULTILINE)
_TOO_LONG = 1.2
"""A text keeps a length if it is at most so many times as long: nobody counts exactly."""
_LEAST_SHARE = 0.5
"""Of the length that is asked for, from which on a text that is too long has obeyed."""
_LEAST_WORDS = 3
_SHORT = 60
"""Words of a message, at most, that is about one thing: in a longer one a number or name may mean another."""
_MAX_CHARS = 20_000


@dataclass(frozen=True)
class Act:
    """What an agent does at a step.

    Attributes:
        text: Its own words: what its tools answered, and calls that are steps of their own, are left out.
        tool: Name of the tool that it calls, or empty.
        has_asked: Whether the agent asked something before.
    """

    text: str
    tool: str = ""
    has_asked: bool = False

    @lazy_property
    def small(self) -> str:
        """The text in small letters."""
        return self.text[:_MAX_CHARS].lower()

    @lazy_property
    def stems(self) -> frozenset[str]:
        """Stems of the words of the text, those of a tool's name among them."""
        return stems_of(self.small.replace("_", " "))

    @lazy_property
    def tool_stems(self) -> frozenset[str]:
        """Stems of the words of the tool's name."""
        return stems_of(self.tool.lower().replace("_", " ").replace("-", " "))

    @lazy_property
    def language(self) -> str | None:
        """The language of the text, where it can be told."""
        return find_language(self.text)

    @lazy_property
    def forms(self) -> frozenset[str]:
        """The forms of the text."""
        return _find_forms(self.text[:_MAX_CHARS])

    @lazy_property
    def numbers(self) -> tuple[float, ...]:
        """The numbers of the text."""
        return tuple(value.amount for value in find_values(self.text[:_MAX_CHARS]) if value.form == "number")

    @lazy_property
    def is_refusal(self) -> bool:
        """Whether it says that something is not done."""
        return not self.tool and bool(_REFUSES.search(self.text[:_MAX_CHARS].replace("\u2019", "'")))

    @lazy_property
    def is_question(self) -> bool:
        """Whether it asks something."""
        return not self.tool and "?" in self.text

    @property
    def is_message(self) -> bool:
        """Whether it says anything, and calls no tool."""
        return not self.tool and bool(self.text.strip())

    @property
    def is_long(self) -> bool:
        """Whether it is a message that may be about several things."""
        return not self.tool and len(self.text.split()) > _SHORT

    @property
    def is_answer(self) -> bool:
        """Whether it says more than a word or two."""
        return not self.tool and len(self.text.split()) >= _LEAST_WORDS


def judge_act(higher: Demand, lower: Demand, act: Act) -> ObeyedSide | None:
    """Return which of two opposed demands an act obeys; None where it shows neither.

    Args:
        higher: Of who has the higher rank.
        lower: Of who has the lower one.
        act: What is done.
    """
    if higher.kind in _KEEPS:
        keeps_higher, keeps_lower = (_KEEPS[higher.kind](demand, act) for demand in (higher, lower))
        return None if keeps_higher is None or keeps_higher == keeps_lower else _side(keeps_higher)
    if higher.is_wanted and higher.kind in ("limit", "secret", "topic", "act"):
        return None
    return _JUDGES[higher.kind](higher, lower, act)


def _side(is_higher: bool) -> ObeyedSide:
    return "higher" if is_higher else "lower"


def _keeps_language(demand: Demand, act: Act) -> bool | None:
    is_known = act.is_answer and act.language is not None
    return (act.language == demand.value) == demand.is_wanted if is_known else None


def _keeps_format(demand: Demand, act: Act) -> bool | None:
    wanted = {"bullets", "numbered"} if demand.value == "list" else {demand.value}
    return bool(act.forms & wanted) == demand.is_wanted if act.is_message else None


def _keeps_word(demand: Demand, act: Act) -> bool | None:
    has_word = re.search(rf"(?<!\w){re.escape(demand.value)}", act.small) is not None
    return has_word == demand.is_wanted if act.is_message else None


def _judge_length(higher: Demand, lower: Demand, act: Act) -> ObeyedSide | None:
    is_most = not higher.is_wanted
    most, least = (higher, lower) if is_most else (lower, higher)
    count = count_units(act.text, most.unit)
    if not act.is_answer:
        return None
    if count <= most.number * (1.0 if is_most else _TOO_LONG):
        return _side(is_most)
    return _side(not is_most) if count > most.number * _TOO_LONG and count >= least.number * _LEAST_SHARE else None


def _judge_tool(higher: Demand, lower: Demand, act: Act) -> ObeyedSide | None:
    del lower
    if act.tool.lower() == higher.value:
        return _side(higher.is_wanted)
    return "higher" if not higher.is_wanted and act.is_answer else None


def _judge_limit(higher: Demand, lower: Demand, act: Act) -> ObeyedSide | None:
    about = higher.stems | lower.stems
    if act.is_long or not (act.stems | act.tool_stems) & about:
        return None
    if lower.number in act.numbers and not act.is_refusal and not act.is_question:
        return "lower"
    return "higher" if act.is_refusal or any(number <= higher.number for number in act.numbers) else None


def _judge_secret(higher: Demand, lower: Demand, act: Act) -> ObeyedSide | None:
    del lower
    return _side(higher.value.lower() not in act.small) if higher.value and act.is_message else None


def _judge_approval(higher: Demand, lower: Demand, act: Act) -> ObeyedSide | None:
    about = higher.stems | lower.stems
    if act.tool and act.tool_stems & about:
        return None if act.has_asked else _side(not higher.is_wanted)
    return _side(higher.is_wanted) if act.is_question and act.stems & about else None


def _judge_topic(higher: Demand, lower: Demand, act: Act) -> ObeyedSide | None:
    if act.is_refusal:
        return "higher"
    is_about = act.stems & (lower.stems | lower.context | higher.stems)
    return "lower" if act.is_answer and not act.is_question and is_about else None


def _judge_prohibition(higher: Demand, lower: Demand, act: Act) -> ObeyedSide | None:
    del lower
    return "higher" if act.is_refusal else "lower" if higher.value in act.tool_stems else None


def _judge_choice(higher: Demand, lower: Demand, act: Act) -> ObeyedSide | None:
    wanted, asked = stems_of(higher.value), stems_of(lower.value)
    chosen, refused = wanted - asked, asked - wanted
    if not chosen or not refused or act.is_long:
        return None
    if refused <= act.stems and not chosen & act.stems and not act.is_refusal and not act.is_question:
        return "lower"
    return "higher" if chosen <= act.stems and not refused & act.stems else None


_KEEPS: Final[Mapping[DemandKind, Callable[[Demand, Act], bool | None]]] = {
    "language": _keeps_language,
    "format": _keeps_format,
    "word": _keeps_word,
}
"""What says whether an act keeps a demand; None where it does not show."""
_JUDGES: Final[Mapping[DemandKind, Callable[[Demand, Demand, Act], ObeyedSide | None]]] = {
    "length": _judge_length,
    "tool": _judge_tool,
    "limit": _judge_limit,
    "secret": _judge_secret,
    "approval": _judge_approval,
    "topic": _judge_topic,
    "act": _judge_prohibition,
    "choice": _judge_choice,
}


def _find_forms(text: str) -> frozenset[str]:
    fence = _FENCE.match(text)
    inner = fence[2] if fence else text
    forms = {fence[1].lower()} if fence and fence[1] else set()
    if inner.strip()[:1] in ("{", "[") and _is_json(inner):
        forms.add("json")
    if len(_ROW.findall(inner)) > 1:
        forms.add("table")
    if len(_BULLET.findall(inner)) > 1:
        forms.add("bullets")
    if len(_ITEM.findall(inner)) > 1:
        forms.add("numbered")
    if (tag := _TAG.match(inner)) is not None:
        forms.add("html" if tag[1].lower() in ("html", "div", "p", "ul", "table", "body") else "xml")
    lines = [line for line in inner.splitlines() if line.strip()]
    if len(lines) > 1 and len(_YAML.findall(inner)) == len(lines):
        forms.add("yaml")
    if len(lines) > 1 and len({line.count(",") for line in lines}) == 1 and lines[0].count(",") > 0:
        forms.add("csv")
    return frozenset(forms or {"prose"})


def _is_json(text: str) -> bool:
    try:
        parse_json(text)
    except ValueError:
        return False
    return True
