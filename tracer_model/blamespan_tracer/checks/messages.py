"""What a guard asks of a message as it is said: whether it answers, names its values, is whole, and is its agent's own.

These are no checks: they are told to whoever can still say it otherwise, and no verdict is made of them. Words are
read in English. `checks.running` keeps what they need of a run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from blamespan_tracer.checks.bundled.numbers import is_slip
from blamespan_tracer.checks.check import Finding
from blamespan_tracer.ledger.values import dimension_of, find_values
from blamespan_tracer.representation.claims import is_common
from blamespan_tracer.representation.equations import calculations, equations
from blamespan_tracer.tokens import MAX_TEXT_CHARS, split_sentences, text_ends

__all__ = ["MESSAGE_RULES", "MessageRule", "SaidMessage", "cut_sign_off", "find_asking_sentences"]

_MAX_CHARS = 8_000
"""Of a longer message its end is read; 97 % are shorter."""

_QUOTED = 180


@dataclass(frozen=True, slots=True)
class SaidMessage:
    """A message that is about to be said.

    Attributes:
        task: What the run was asked.
        text: What it says.
        agent: Whose it is.
        agents: All that have acted so far.
        states: Whether it states a value, brings in a number, a name or an identifier, or has code.
        stated_before: Whether the message before it did.
        find_units: Returns the units that the task and tools gave a number with, empty for none; None of any other.
        new_numbers: Its numbers that nothing before it has, but for those in code and of lists' items.
        latest_numbers: The latest numbers of the run, its own among them.
    """

    task: str
    text: str
    agent: str
    agents: Sequence[str]
    states: bool
    stated_before: bool
    find_units: Callable[[str], Set[str] | None]
    new_numbers: Sequence[str]
    latest_numbers: Sequence[str]


_SIGN_OFF = re.compile(r"[\s*_#]*\b(?:TERMINATED?|DONE|FINISH(?:ED)?|APPROVED?|COMPLETED?|STOP|EXIT)\W{0,4}\Z")
_ASKS = re.compile(
    r"(?i)\bhow (?:many|much|long|far|old|often|large|high)\b|\b(?:what|which|who|when|where)\b|"
    r"\b(?:find|name|give|tell|report|state|determine|calculate|compute|work out|list|identify|implement|write)\b"
)
_NAMES_ONE = re.compile(
    r"\b[A-Z][\w'\u2019-]* (?:is|are|was|were) (?:the|an?)\b|"
    r"(?:\b(?:is|are|was|were|named|called|choose|chose|pick|picked|book)|[=:])\s(?:the )?[A-Z][\w'\u2019-]+ [A-Z]"
)
_LACKS = re.compile(
    r"(?i)\b(?:can(?:not|'t) (?:proceed|continue|go on)|unable to|impossible to|"
    r"(?:I|we)(?: still| first)? (?:need|lack)|(?:is|are|remains?)(?: still)? missing|missing piece|"
    r"wait(?:ing)? for|may I ask|let me have|"
    r"(?:could|would) (?:you|somebody|someone|anybody|anyone) (?:please )?(?:share|give|tell|provide|send)|"
    r"still (?:open|ahead|to come|outstanding)|yet to be|not yet|blocked|too little to go on|once (?:the rest|it) is)\b"
)
_ASKS_FOR = re.compile(
    r"(?i)\b(?:can(?:not|'t) (?:proceed|continue|go on)|unable to|impossible to|without (?:the|knowing)|"
    r"(?:I|we)(?: still| first)? (?:need|lack)|(?:is|are|remains?)(?: still)? missing|missing piece|what is missing|"
    r"(?:I am|we are) waiting for|may I ask|let me have|blocked on|too little to go on|not (?:aware of|know) the|"
    r"(?:could|would) (?:you|somebody|someone|anybody|anyone) (?:please )?(?:share|give|tell|provide|send))\b"
)
_LONGEST_SIGN_OFF = 40
_LEAST_SLIP = 4
"""Digits of a number that others are not like by chance."""
_LEAST_WORDS = 3
"""What is shorter is a word by which one ends a run, and no message."""


def find_asking_sentences(text: str) -> Iterator[str]:
    """Return the sentences of a message that say that something is missing, or ask for it."""
    return (sentence for sentence in _split(text) if _ASKS_FOR.search(sentence))


def cut_sign_off(text: str) -> str:
    """Return a message without the word in capitals that ends a run, such as TERMINATE; the same text without one."""
    end = text[-_LONGEST_SIGN_OFF:]
    return text[: len(text) - len(end)] + _SIGN_OFF.sub("", end)


def _answers(said: SaidMessage) -> Iterator[Finding]:
    """Look for a message that ends the run and states nothing, where the one before it did not either, or it asks."""
    text = said.text.rstrip()
    body = cut_sign_off(text)
    if body == text or said.states or len(body.split()) < _LEAST_WORDS or not _ASKS.search(said.task[-_MAX_CHARS:]):
        return
    asking = next((sentence for sentence in _split(body) if _LACKS.search(sentence)), "")
    if asking or not (said.stated_before or _NAMES_ONE.search(body)):
        reason = "it ends the run and says what is missing" if asking else "it ends the run and states nothing"
        quote = body if len(body) <= _QUOTED else asking or body[-_QUOTED:]
        yield Finding(0, "fail", quote, reason)


_OF_NO_KIND = (
    "certain|reasonable|sensible|suitable|appropriate|normal|usual|fair|decent|rough|particular|fitting|adequate|"
    "sizeable|typical|moderate|ordinary|healthy|modest"
)
_THING = "one|ones|number|amount|value|quantity|figure|sum|name|place"
_BEFORE_VALUE = (
    r"(?:\b(?:is|are|was|were|be|equals?|(?:comes?|amounts?) to|turns out to be|"
    r"(?:value|number|price|cost|rate|part) of|have|get|obtain|gives?|given|makes?|at|put|as)|[=+*:\u00d7-])"
    r"\s{1,3}(?:the\s{1,3})?"
)
_VAGUE = re.compile(
    rf"(?i){_BEFORE_VALUE}(?:(?:an?|the|this|that|some) (?:{_OF_NO_KIND}) (?:{_THING})\b(?! to\b)|"
    rf"some (?:{_THING})\b(?!-)|(?:somewhere )?around there\b|not too (?:many|much)\b|quite a (?:few|lot)\b(?! of)|"
    r"something (?:similar|like that|or other)\b|numerous\b(?! \w)|plenty\b(?! of)|"
    rf"the (?:{_THING}) (?:above|from before|from earlier|in question|we talked about)\b)"
)


def _names_values(said: SaidMessage) -> Iterator[Finding]:
    """Look for a value that is only hinted at: "the rent is a reasonable amount"."""
    text = said.text[-_MAX_CHARS:]
    match = _VAGUE.search(text)
    if match:
        yield Finding(0, "fail", _sentence_around(text, match), "it hints at a value")


_GOES_ON = re.compile(
    r"(?:(?:^|\s)(?:the|an?|and|or|of|our|its|their|is|are|was|were|as|if|from|to|by|with|for|than|be|at)|"
    r"(?<![=!<>])[=+])\Z"
)


def _is_whole(said: SaidMessage) -> Iterator[Finding]:
    """Look for a message that ends in the middle of a sentence or of code."""
    body = cut_sign_off(said.text).rstrip()
    if _GOES_ON.search(body[-20:]) or body.count("```") % 2:
        yield Finding(0, "fail", body[-80:], "it breaks off")


_IN_PLACE_OF = (
    r"\b(?:in the name of|on behalf of|(?:in|take|taking) the (?:role|place|part) of|authority of|in place of|"
    r"replac(?:e|ing)|(?:speak|speaking|act|acting|decide|deciding|answer|answering) (?:for|as)|"
    r"tak(?:e|ing) over (?:from|for)|overrul(?:e|ing)) "
)


def _plays_own_part(said: SaidMessage) -> Iterator[Finding]:
    """Look for an agent that says that it acts in another's name or place."""
    others = [re.escape(name) for name in said.agents if name != said.agent and len(name) > 2]
    if not others or said.states:
        return
    match = re.search(rf"(?i){_IN_PLACE_OF}(?:{'|'.join(others)})(?!\w)", said.text[-_MAX_CHARS:])
    if match:
        yield Finding(0, "fail", _sentence_around(said.text[-_MAX_CHARS:], match), "it acts for another agent")


_HOLDS_BACK = re.compile(
    r"(?i)\b(?:stored|recorded|saved|kept|noted|filed|logged)\b.{0,30}\b(?:locally|for later|privately|internally|"
    r"(?:to|for|with) (?:myself|me)|on my side)\b|"
    r"(?:\bnot|n't|\bwithout) (?:be )?(?:including|sharing|listing|showing|posting|pasting|mentioning|reporting|"
    r"disclosing|passing (?:it|them) on)\b|"
    r"\b(?:won't|will not|prefer not to|rather not|need not) (?:include|share|list|show|mention|report|disclose)\b|"
    r"\b(?:details|specifics|numbers|figures|results?) (?:can|will|may) (?:follow|come|be shared|be given)\b|"
    r"\bkeep(?:ing)? (?:it|them|this|that|the \w{1,20}) (?:to|for) myself\b|\bnever mind (?:that|the|what|which)\b|"
    r"\b(?:on|upon) request\b|\bunless (?:asked|someone|somebody|anyone|anybody)\b"
)


def _tells_results(said: SaidMessage) -> Iterator[Finding]:
    """Look for a message that states nothing and says that there is something to be told."""
    match = None if said.states else _HOLDS_BACK.search(said.text[-_MAX_CHARS:])
    if match:
        yield Finding(0, "fail", _sentence_around(said.text[-_MAX_CHARS:], match), "it holds back what it has found")


_KEPT: Final = frozenset(("#", "money", "g", "m"))
"""What units measure that do not change on the way: magnitude, money, weight and length; who says hours for minutes
mostly counts anew."""


def _keeps_units(said: SaidMessage) -> Iterator[Finding]:
    """Look for a number that the task and tools gave with another unit of the same kind, or without "thousand"."""
    text = said.text[-_MAX_CHARS:]
    for value in find_values(text):
        dimension = dimension_of(value.unit)
        known = said.find_units(value.key) if dimension in _KEPT and len(value.key) > 1 else None
        if known and value.unit not in known and (dimension == "#" or dimension in map(dimension_of, known)):
            others = " or ".join(sorted(unit or "no unit" for unit in known))
            sentence = next((one for one in _split(text) if value.text in one), value.text)
            yield Finding(0, "fail", sentence, f"{value.text} was given with {others}, not {value.unit!r}")
            return


def _derives_numbers(said: SaidMessage) -> Iterator[Finding]:
    """Look for a number that no calculation in the message gives, and no two of the latest numbers to the last digit.

    What is one of these but for its sign or a digit is none that they give. It is stricter than `number-has-source`,
    which takes any of the latest 60 numbers, and what comes near.
    """
    unknown = [number for number in said.new_numbers if not is_common(float(number))] if said.task else []
    if not unknown:
        return
    text = said.text[:MAX_TEXT_CHARS]
    written = {round(side, 6) for one in equations(text) for side in (one.left, one.right)} | calculations(text)
    unknown = [number for number in unknown if round(float(number), 6) not in written]
    for number, is_derived in zip(unknown, _are_derived(unknown, said.latest_numbers), strict=True):
        if not is_derived or _is_slip_of(number, said.latest_numbers):
            sentence = next((one for one in _split(text) if number in one.replace(",", "")), "")
            yield Finding(0, "fail", sentence, f"nothing gives {number!r}")
            return


def _is_slip_of(number: str, latest: Sequence[str]) -> bool:
    """Check whether a number is one of the latest ones but for its sign, or a long one but for a digit or the point."""
    if number.startswith("-"):
        return number[1:] in latest
    digits = number.replace(".", "")
    if len(digits) < _LEAST_SLIP:
        return False
    others = [other.replace(".", "") for other in latest if other != number]
    return digits in others or is_slip(digits, others)


def _are_derived(numbers: Sequence[str], latest: Sequence[str]) -> Iterator[bool]:
    """Yield whether two of the latest numbers, others than the number itself, give each number to its last digit."""
    if not numbers:
        return
    known = np.array([float(number) for number in latest])
    left, right = known[:, None], known[None, :]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        part = left * right / 100
        results = (left + right, left - right, left * right, left / right, part, left - part, left + part)
        sizes = np.abs(np.stack(results))
        for number in numbers:
            value = float(number)
            is_other = known != value
            slack = 0.5 * 10.0 ** -len(number.partition(".")[2]) + 1e-9
            hits = (np.abs(sizes - abs(value)) <= slack) & is_other[:, None] & is_other[None, :]
            yield bool(hits.any())


@lru_cache(maxsize=8)
def _split(text: str) -> tuple[str, ...]:
    return tuple(sentence.strip() for part in text_ends(text) for sentence in split_sentences(part))


def _sentence_around(text: str, match: re.Match[str]) -> str:
    """Return the sentence that a match stands in, as much of it as is quoted."""
    begin = max(text.rfind(mark, 0, match.start()) for mark in ("\n", ". ", "! ", "? "))
    ends = [end for mark in ("\n", ". ", "! ", "? ") if (end := text.find(mark, match.end())) >= 0]
    begin = max(begin + 1, match.start() - _QUOTED // 2)
    return text[begin : min([*ends, begin + _QUOTED])].strip()


@dataclass(frozen=True, slots=True)
class MessageRule:
    """A rule of this file.

    Attributes:
        name: As policies name it.
        title: The rule in one sentence.
        mode: What breaking it is called.
        find: Looks for what breaks it.
    """

    name: str
    title: str
    mode: str
    find: Callable[[SaidMessage], Iterator[Finding]]


MESSAGE_RULES = (
    MessageRule("end-answers", "Who ends the run answers what was asked.", "mast:FM-3.1", _answers),
    MessageRule("value-named", "A value is named, not hinted at.", "mast:FM-2.4", _names_values),
    MessageRule("message-whole", "A message does not break off.", "blamespan:X5", _is_whole),
    MessageRule("own-part", "An agent acts in nobody else's name.", "mast:FM-1.2", _plays_own_part),
    MessageRule("result-told", "What was found is told.", "mast:FM-2.4", _tells_results),
    MessageRule("number-follows", "A new number follows from what was said last.", "blamespan:X1", _derives_numbers),
    MessageRule("unit-kept", "A number keeps its unit.", "blamespan:X3", _keeps_units),
)
