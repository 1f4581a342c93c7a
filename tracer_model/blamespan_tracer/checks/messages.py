"""What a guard asks of a message as it is said: whether it answers, names its values, is whole, and is its agent's own.

No verdict is made of these checks: they are told to whoever can still say it otherwise. Words are read in English.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final

from blamespan_tracer.checks.bundled.numbers import list_new_numbers
from blamespan_tracer.checks.check import Check, ExaminedRun, Finding, FindInStep, step_check
from blamespan_tracer.checks.reading import ReadStep
from blamespan_tracer.cues import STOP_WORDS
from blamespan_tracer.ledger.ledger import TASK
from blamespan_tracer.ledger.values import Value, dimension_of, find_values
from blamespan_tracer.tokens import find_words, split_sentences, text_ends

_MAX_CHARS = 8_000
"""Of a longer message its end is read; 97 % are shorter."""

_QUOTED = 180
_TOLD = 700
"""Characters that an agent is told of what it asks for: who has lost one fact of a message has lost the others, too."""


def _message_check(name: str, title: str, mode: str) -> Callable[[FindInStep], Check]:
    """Make a check of a function that examines one message; what a program is to read is none."""

    def make(find: FindInStep) -> Check:
        def find_in_prose(run: ExaminedRun, read: ReadStep) -> Iterator[Finding]:
            if read.step.kind == "message" and not read.step.content.lstrip().startswith("{"):
                yield from find(run, read)

        return step_check(name, title, mode=mode)(find_in_prose)

    return make


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


def cut_sign_off(text: str) -> str:
    """Return a message without the word in capitals that ends a run, such as TERMINATE; the same text without one."""
    end = text[-_LONGEST_SIGN_OFF:]
    return text[: len(text) - len(end)] + _SIGN_OFF.sub("", end)


@_message_check("end-answers", "Who ends the run answers what was asked.", "mast:FM-3.1")
def _ends_answer(run: ExaminedRun, read: ReadStep) -> Iterator[Finding]:
    """Look for a message that ends the run and states nothing, where the one before it did not either, or it asks."""
    text = read.step.content.rstrip()
    body = cut_sign_off(text)
    if body == text or read.states or len(body.split()) < _LEAST_WORDS:
        return
    if not _ASKS.search(run.trace.task[-_MAX_CHARS:]):
        return
    asking = next((sentence for sentence in _split(body) if _LACKS.search(sentence)), "")
    if asking or not (read.follows_statement or _NAMES_ONE.search(body)):
        reason = "it ends the run and says what is missing" if asking else "it ends the run and states nothing"
        quote = body if len(body) <= _QUOTED else asking or body[-_QUOTED:]
        yield Finding(read.step.index, "fail", quote, reason)


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


@_message_check("value-named", "A value is named, not hinted at.", "mast:FM-2.4")
def _values_are_named(run: ExaminedRun, read: ReadStep) -> Iterator[Finding]:
    """Look for a value that is only hinted at: "the rent is a reasonable amount"."""
    text = read.step.content[-_MAX_CHARS:]
    match = _VAGUE.search(text)
    if match:
        yield Finding(read.step.index, "fail", _sentence_around(text, match), "it hints at a value")


_GOES_ON = re.compile(
    r"(?:(?:^|\s)(?:the|an?|and|or|of|our|its|their|is|are|was|were|as|if|from|to|by|with|for|than|be|at)|"
    r"(?<![=!<>])[=+])\Z"
)


@_message_check("message-whole", "A message does not break off.", "blamespan:X5")
def _messages_are_whole(run: ExaminedRun, read: ReadStep) -> Iterator[Finding]:
    """Look for a message that ends in the middle of a sentence or of code."""
    body = cut_sign_off(read.step.content).rstrip()
    if _GOES_ON.search(body[-20:]) or body.count("```") % 2:
        yield Finding(read.step.index, "fail", body[-80:], "it breaks off")


_IN_PLACE_OF = (
    r"\b(?:in the name of|on behalf of|(?:in|take|taking) the (?:role|place|part) of|authority of|in place of|"
    r"replac(?:e|ing)|(?:speak|speaking|act|acting|decide|deciding|answer|answering) (?:for|as)|"
    r"tak(?:e|ing) over (?:from|for)|overrul(?:e|ing)) "
)


@_message_check("own-part", "An agent acts in nobody else's name.", "mast:FM-1.2")
def _agents_play_their_part(run: ExaminedRun, read: ReadStep) -> Iterator[Finding]:
    """Look for an agent that says that it acts in another's name or place."""
    others = [re.escape(name) for name in sorted(run.agents) if name != read.step.agent and len(name) > 2]
    if not others or read.states:
        return
    text = read.step.content[-_MAX_CHARS:]
    match = re.search(rf"(?i){_IN_PLACE_OF}(?:{'|'.join(others)})(?!\w)", text)
    if match:
        yield Finding(read.step.index, "fail", _sentence_around(text, match), "it acts for another agent")


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


@_message_check("result-told", "What was found is told.", "mast:FM-2.4")
def _results_are_told(run: ExaminedRun, read: ReadStep) -> Iterator[Finding]:
    """Look for a message that states nothing and says that there is something to be told."""
    text = read.step.content[-_MAX_CHARS:]
    match = None if read.states else _HOLDS_BACK.search(text)
    if match:
        yield Finding(read.step.index, "fail", _sentence_around(text, match), "it holds back what it has found")


_KEPT: Final = frozenset(("#", "money", "g", "m"))
"""What units measure that do not change on the way: magnitude, money, weight and length; who says hours for minutes
mostly counts anew."""


@_message_check("unit-kept", "A number keeps its unit.", "blamespan:X3")
def _numbers_keep_their_units(run: ExaminedRun, read: ReadStep) -> Iterator[Finding]:
    """Look for a number that the task and tools gave with another unit of the same kind, or without "thousand"."""
    for claim in read.claims:
        value = claim.mention.value
        if value.form != "number" or not value.unit or len(value.key) < 2:
            continue
        dimension = dimension_of(value.unit)
        given = [one.source for one in claim.contradictions if one.kind == "unit"]
        for source in given if dimension in _KEPT else ():
            step = None if source.step == TASK else run.step_at(source.step)
            is_given = source.step == TASK or source.is_input or (step is not None and step.kind == "tool_result")
            if is_given and dimension in ("#", dimension_of(source.value.unit)):
                reason = f"{value.text} was given with {source.value.unit}, not {value.unit!r}"
                yield Finding(read.step.index, "fail", _sentence_with(value, read), reason)
                return


@_message_check("number-follows", "A new number follows from what was said last.", "blamespan:X1")
def _numbers_follow(run: ExaminedRun, read: ReadStep) -> Iterator[Finding]:
    """Look for a number that no calculation in the message gives, and none from the latest numbers, to its last digit.

    What is one of these but for its sign or a digit is none that they give. It is stricter than `number-has-source`,
    which takes any numbers that are known.
    """
    for claim in list_new_numbers(read) if run.trace.task else ():
        value = claim.mention.value
        is_slip = len(value.key) >= _LEAST_SLIP and any(one.kind == "near" for one in claim.contradictions)
        if is_slip or claim.calculated.operands not in ("beside", "latest"):
            yield Finding(read.step.index, "fail", _sentence_with(value, read), f"nothing gives {value.text!r}")
            return


@_message_check("asked-was-said", "Nobody asks for what was said.", "mast:FM-1.4")
def _asked_was_not_said(run: ExaminedRun, read: ReadStep) -> Iterator[Finding]:
    """Look for somebody who cannot go on without what the task, a tool or anybody has stated before."""
    asking = [one for one in _split(read.step.content) if _ASKS_FOR.search(one)]
    if not asking:
        return
    before = [("task", "", run.trace.task)]
    before += [(step.kind, step.agent, step.content) for step in run.steps_before(read.step)]
    telling = {word for kind, _, text in before if kind in _GIVES for word in _list_content(text)}
    own = [_list_content(one) & telling for one in _split(read.step.content) if one not in asking and find_values(one)]
    for sentence in asking:
        asked = _list_content(sentence) & telling
        if len(asked) < _LEAST_ASKED or any(asked <= words for words in own):
            continue
        for kind, agent, text in reversed(before):
            told = next((one for one in _split(text) if _is_said_of(one, asked, telling)), None)
            if told is not None and kind != "tool_call":
                begin = max(0, text.find(told) - _TOLD // 3) if len(text) > _TOLD else 0
                who = {"task": "the task says", "tool_result": "a tool answered"}.get(kind, f"{agent} said")
                reason = f"{who} {text[begin : begin + _TOLD].strip()!r}"
                yield Finding(read.step.index, "fail", sentence, reason)
                return


_GIVES = ("task", "tool_call", "tool_result")
"""Whose words tell one thing from another."""
_UNIT = re.compile(r"\A[ -]?\w+")
_LEAST_ASKED = 2
"""One word names nothing."""


def _list_content(text: str) -> frozenset[str]:
    """List the words of a text that may say what it is about."""
    words = map(str.lower, (word for part in text_ends(text) for word in find_words(part)))
    return frozenset(word for word in words if word[0].isalpha()) - STOP_WORDS


def _is_said_of(sentence: str, asked: frozenset[str], telling: set[str]) -> bool:
    """Check whether a sentence gives a value of the thing that these words name, and of no other."""
    if _ASKS_FOR.search(sentence) or sentence.endswith("?"):
        return False
    values = sorted((one for one in find_values(sentence) if one.form != "opposite"), key=lambda one: one.start)
    stated = [one for one in values if one.form != "name"] or values
    if not stated:
        return False
    behind = sentence[stated[-1].stop :]
    words = _list_content(sentence[: stated[-1].start] + (_UNIT.sub("", behind) if stated[-1].unit else behind))
    return words & telling == asked


def _sentence_with(value: Value, read: ReadStep) -> str:
    return next((one for one in _split(read.step.content) if value.text in one), value.text)


@lru_cache(maxsize=8)
def _split(text: str) -> tuple[str, ...]:
    return tuple(sentence.strip() for part in text_ends(text) for sentence in split_sentences(part))


def _sentence_around(text: str, match: re.Match[str]) -> str:
    """Return the sentence that a match stands in, as much of it as is quoted."""
    begin = max(text.rfind(mark, 0, match.start()) for mark in ("\n", ". ", "! ", "? "))
    ends = [end for mark in ("\n", ". ", "! ", "? ") if (end := text.find(mark, match.end())) >= 0]
    begin = max(begin + 1, match.start() - _QUOTED // 2)
    return text[begin : min([*ends, begin + _QUOTED])].strip()


MESSAGE_CHECKS = (
    *(_ends_answer, _values_are_named, _messages_are_whole, _agents_play_their_part, _results_are_told),
    *(_numbers_follow, _numbers_keep_their_units, _asked_was_not_said),
)
