"""What a text demands of who reads it: a language, a form, a length, a tool, a limit, a recipient, silence, approval.

Demands are read sentence by sentence, by cues in English, without a model. What is not understood is no demand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Final, Literal, TypeAlias, get_args

from blamespan_tracer.instructions.languages import LANGUAGES
from blamespan_tracer.representation.cues import STOP_WORDS
from blamespan_tracer.tokens import MAX_TEXT_CHARS, split_sentences

__all__ = ["KINDS", "Demand", "DemandKind", "are_opposed", "can_be_rule", "count_units", "read_demands", "stems_of"]

DemandKind: TypeAlias = Literal[
    "language", "format", "length", "tool", "limit", "word", "secret", "approval", "topic", "act", "choice"
]
"""What a demand is about. `act`: something is, or is not, to be done; `choice`: one of several is to be used."""

KINDS: Final[frozenset[DemandKind]] = frozenset(get_args(DemandKind))
"""All of them."""

_MAX_SENTENCES = 400
_MAX_SENTENCE_CHARS = 400


@dataclass(frozen=True, slots=True)
class Demand:
    """One demand.

    Attributes:
        kind: What it is about.
        quote: The sentence, as it stands in the text.
        is_wanted: Whether the value is wanted; else it is forbidden.
        value: The language, form, tool, word or secret; of a choice what is to be chosen, in small letters.
        number: Most, or least, of a length or amount; 0 where there is none.
        unit: What is counted.
        stems: Stems of the words that the sentence is about.
        is_strict: Whether it says must, only, never, always or the like.
        context: Of a question or a wish, stems of the sentences before and behind it.
    """

    kind: DemandKind
    quote: str
    is_wanted: bool
    value: str = ""
    number: float = 0.0
    unit: str = ""
    stems: frozenset[str] = frozenset()
    is_strict: bool = False
    context: frozenset[str] = frozenset()


_NOT = re.compile(
    r"\b(?:never|not|no|none|nobody|nothing|without|avoid|refuse|forbidden|prohibited|banned|cannot|off[- ]limits|"
    r"decline[ds]?|keep away|refrain|leave)\b|n't\b|\bunder no circumstances\b"
)
_STRICT = re.compile(
    r"\b(?:must|have to|has to|only|never|always|every|all|any|alone|exclusively|nothing else|nowhere else|"
    r"at all times|under no circumstances|forbidden|not allowed|may not|required|strictly)\b"
)
_ASKS = re.compile(
    r"\b(?:please|can you|could you|would you|will you|i (?:want|need|would (?:like|rather))|i'd (?:like|rather)|"
    r"let us|let's|tell me|give me|help me|show me|make|just|go ahead|instead|anyway|right away|this time|from now on|"
    r"ignore|forget|disregard|now)\b|\?"
)
_CONDITION = re.compile(r"\b(?:if|unless|when|whenever|except|in case|as long as|provided|otherwise)\b")
_IS_DATA = re.compile(r"[\"'] ?: ?[\"'\[{\d]|https?://|</|[{};]\s*$")
"""In sentences that are data or code."""
_WORD = re.compile(r"[^\W_]+(?:[@.'-][^\W_]+)*")
_NOT_THIS = re.compile(r"(?:\bnot|n't|\bnever|\binstead of|\brather than)(?: (?:in|use|write|speak))? $")
"""Right before a language that is not wanted, where another is."""
_QUOTED = re.compile(r"[\"\u201c]([^\"\u201d\n]{1,60})[\"\u201d]|(?<!\w)'([^'\n]{2,60})'(?!\w)")

_PASSING = """
above ahead allowed always am answer answers anybody anyone anything away because cannot case circumstances doing
done either ever every everybody everything exception first forbidden further get give given go going however
instead itself like limit limits long make message messages much need never nobody none nothing now nowhere off once
output put rather really replies reply respond response right say somebody something soon still take tell thank
thanks thing things though through time times today tomorrow until upon use used using wait want way well whatever
whole within without write written yes yet yours yourself
"""
_MEANT = """
between both d during ll m one re s t ve via
"""
_STOP: Final = STOP_WORDS - set(_MEANT.split()) | set(_PASSING.split())
"""Words that no demand is about."""

_NUMBER_WORDS: Final = {
    **{
        word: float(index)
        for index, word in enumerate(
            ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
        )
    },
    "a single": 1.0,
    "twelve": 12.0,
    "fifteen": 15.0,
    "twenty": 20.0,
    "thirty": 30.0,
    "fifty": 50.0,
}
_NUMBER = r"(\d{1,9}(?:[.,]\d{3})*(?:\.\d+)?|" + "|".join(_NUMBER_WORDS) + ")"
_LENGTH_UNITS = r"(words?|sentences?|characters?|chars|letters|lines?|paragraphs?|bullet points?|bullets)"
_LENGTH = re.compile(rf"\b{_NUMBER}[- ]{_LENGTH_UNITS}\b")
_AMOUNT = re.compile(rf"(?:[$\u20ac\u00a3]\s?)?\b{_NUMBER}\b(?:\s?(%|[^\W\d_]{{2,20}}))?")
_LIMITS = re.compile(
    r"\b(?:never|do not|don't|must not|may not|not allowed|cannot|you (?:may|can|are allowed to)|may only|forbidden|"
    r"prohibited|must stay|must remain|limit\w*)\b"
)
_MONEY = re.compile(r"(?:dollar|euro|pound|franc|cent|yen|usd|eur|gbp|chf)s?\b")
_AT_MOST = re.compile(
    r"\b(?:at most|no more than|not more than|more than|under|below|less than|fewer than|up to|maximum|max|limited to|"
    r"exceed\w*|longer than|within|above|over|the most|no longer than|beyond|restrict\w*)\b"
)
_AT_LEAST = re.compile(r"\b(?:at least|no fewer than|no less than|not less than|minimum|or more|or longer)\b")
_LONG = re.compile(r"\b(?:in (?:full |great )?detail|at length|lengthy|(?:very |as )long|long answer|elaborate)\b")
_FORMS: Final = (
    ("json", r"json"),
    ("yaml", r"yaml"),
    ("xml", r"xml"),
    ("html", r"html"),
    ("csv", r"csv"),
    ("table", r"tables?|tabular"),
    ("numbered", r"numbered lists?|enumerated lists?|numbered steps"),
    ("bullets", r"bullet(?:ed)?[- ](?:points?|lists?)|bulleted lists?|bullets|(?:list of )?bullet points"),
    ("prose", r"plain (?:text|prose)|prose|full sentences|running text"),
    ("list", r"lists?"),
    ("markdown", r"markdown"),
)
_FORM = re.compile("|".join(rf"\b(?P<{name}>{pattern})\b" for name, pattern in _FORMS))
_FORMATS = re.compile(
    r"\b(?:as|in|into|return|output|format\w*|give|write|use|have|has to be|must be|reply|answer|respond|make|put)\b"
)
_FORM_IS_FORBIDDEN = re.compile(r"\b(?:no|not|never|without|avoid|don't)\b[\w\s]{0,14}$")
_FORM_IS_ASKED = re.compile(
    r"\b(?:as|in|into|return|output|format\w*|give|write|have|be|only|ever|put|use|rather|any|instead|a|an|valid|the)\s*$|"
    r"[,:]\s*$|^\s*$|\b(?:as|in) an? [\w\s]{0,20}$"
)
_LANGUAGE = re.compile(rf"\b({'|'.join(LANGUAGES)})\b(?!\s+(?:[a-z]+ed|law|customers?|market|version|team|text|word))")
_SPEAKS = re.compile(
    r"\b(?:answer\w*|repl\w+|respon\w+|write|written|speak|talk|language|messages?|need it|output|say|said|communicate|"
    r"converse)\b"
)
_IDENTIFIER = re.compile(r"`([\w.-]{2,60})`|\b([a-z][a-z0-9]*(?:_[a-z0-9]+)+)\b|\b(?:tool|function) [\"']?(\w{2,40})")
_WORDING = re.compile(r"\b(?:say|write|use|contain|mention|begin|start|end|appear|avoid|include)\b")
_SECRET = re.compile(
    r"\b(?:(?:keep|stay|stays|remain|remains|is|are|strictly|kept|treat)\b.{0,30}(?<!\bin )\b"
    r"(?:secret|confidential|private)|"
    r"(?:never|do not|don't|must not|may not|not be) (?:ever )?(?:reveal|disclose|share|tell|give|told)\w*|"
    r"keep (?:it|this|that) to yourself)\b",
    re.IGNORECASE,
)
_REVEALS = re.compile(r"\b(?:what is|what's|tell|print|repeat|share|need|give|show|reveal|send|write|read out|say)\b")
_APPROVES = re.compile(
    r"\b(?:ask\w*|confirm\w*|approv\w+|permission|consent|checks?|questions?|go-ahead)\b.{0,80}?"
    r"\b(?:before|first|until|wait)\b|\b(?:before|until)\b.{0,120}?\b(?:ask|confirm\w*|approv\w+|permission|consent)\b|"
    r"\bwithout (?:asking|confirm\w*|approv\w+|permission|consent)\b.{0,20}\bfirst\b|"
    r"\bnever\b.{1,60}\bwithout (?:asking|confirm\w*|approv\w+|permission|consent)\b"
)
_WAIVES = re.compile(
    r"\b(?:do not|don't|not have to|no need to|needn't|stop|skip|without|no|never mind)\b.{0,20}?"
    r"\b(?:ask\w*|confirm\w*|approv\w+|permission|questions?)\b"
)
_SUBJECT = (
    r"(?:advice (?:on|about)|advise (?:\w+ )?on|talk\w* about|speak\w* (?:about|of)|discuss\w*|questions? (?:on|about)|"
    r"comment\w* on|(?:answer|say) anything (?:on|about)|opinions? (?:on|about))"
)
_FORBIDS_TOPIC = (
    re.compile(
        r"\b(?:never|not|n't|avoid|refrain|refuse|declin\w+|no)\b[^.,;]{0,30}?"
        + _SUBJECT
        + r" (?P<topic>[^.,;:]{2,60})"
    ),
    re.compile(
        r"\bquestions? (?:on|about) (?P<topic>[^.,;:]{2,60}?) (?:is|are|must|should|have to)\b.{0,30}"
        r"\b(?:declined|refused|not|off)"
    ),
    re.compile(
        r"^(?P<topic>[^.,;:]{2,40}?) (?:is|are) (?:not a subject|no subject|not a topic|no topic|off[- ]limits)\b"
    ),
)
_ACTS = re.compile(
    r"\b(?:send|state|sign|give|quote|take|use|look|base|hand|pass|refer|report|write|call|address|round|express|format|"
    r"start|end|list|name|cite|store|save|pay|order|buy|book|ship|route|assign|deliver|forward|escalate|contact|ask|search|"
    r"rely|describe|measure|convert|show|post|publish|upload|put|keep|add|place|email|mail|let|want|make|involve|prefer)"
)
_DIRECTS = re.compile(
    r"^(?:[-*\u2022\d.)]+ *)?(?:(?:please|and|just|always|only|never|now|then|so|could you|can you|would you|will you|"
    r"you (?:must|have to|should|may only|are to|shall|need to)|i (?:want|need)(?: you to)?|i would (?:like|rather)|"
    r"the \w+ (?:has|have) to|make sure)[ ,]+(?:always |only |also |that )*)*" + _ACTS.pattern.removeprefix(r"\b")
)
_DIRECTS_OTHERWISE = re.compile(
    r"\b(?:must|has to|have to|should|may) (?:always |only )?(?:be \w+ed|be given|be sent|be shown|go|come|end)\b|"
    r"\b(?:go|goes) to .{2,40} only\b|\bonly .{2,40}? (?:may|counts?|deals?|gets?|can|is to)\b|\bi want\b|"
    r"\bhas to (?:go|be)\b|\bknows? it better\b"
)
_MAX_CHOICE_WORDS = 16
_CHOSEN_SUBJECT = re.compile(
    r"(?:please )?(?:make sure (?:that )?)?(?:only )?(.{2,40}?) (?:counts?|may|deals?|gets?|takes?|knows?|is the only|"
    r"has to|can)\b"
)
_CHOSEN_OBJECT = re.compile(
    r"\b(?:let|that|use|put|involve|want|name|but|with|get) (.{2,40}?)(?: (?:deal|gets?|to|for|under|at|this|instead|"
    r"take)\b|[,!]|\.(?:\s|$)|$)"
)
_POINTS = re.compile(r"\b(?:it|this|that|them|these)\b|\binstead\b")
_ADDRESS = re.compile(r"[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+")
_HINTS: Final[Mapping[DemandKind, re.Pattern[str]]] = {
    "language": re.compile("|".join(LANGUAGES)),
    "format": re.compile(
        r"json|yaml|xml|html|csv|tab(?:le|ular)|list|bullet|prose|plain text|full sent|markdown|steps"
    ),
    "length": re.compile(r"words?|sentences?|characters?|chars|letters|lines?|paragraphs?|bullets?|detail|length|long"),
    "tool": re.compile(r"_|`|tool|function"),
    "word": re.compile(r"[\"'\u201c]"),
    "approval": re.compile(r"ask|confirm|approv|permission|consent|check|question"),
    "limit": re.compile(r"\d"),
}
"""What stands in any text that demands something of a kind; a text without is not read for it."""
_PREPOSITION = re.compile(r"\b(?:to|as|in|from|with|by|on|at)\b")
_FORBIDS_ACT = re.compile(
    r"\b(?:never|do not|don't|must not|may not|shall not|should not|not allowed to|forbidden to|"
    r"under no circumstances)\s+"
    r"(?:(?:ever|be|may|you|use|call|make|do)\s+)*([a-z]{3,20})"
)


def read_demands(text: str, kinds: frozenset[DemandKind] = KINDS) -> tuple[Demand, ...]:
    """Read what *text* demands, of these kinds, in its order; of a long text its first 8,000 characters."""
    return _read(text[:MAX_TEXT_CHARS], kinds) if kinds else ()


@lru_cache(maxsize=512)
def _read(text: str, kinds: frozenset[DemandKind]) -> tuple[Demand, ...]:
    sentences = [sentence.strip()[:_MAX_SENTENCE_CHARS] for sentence in islice(split_sentences(text), _MAX_SENTENCES)]
    demands = list(_read_secrets(text, sentences)) if "secret" in kinds else []
    small = text.lower()
    wanted = frozenset(kind for kind in kinds if kind not in _HINTS or _HINTS[kind].search(small))
    if not wanted - {"secret"}:
        return tuple(demands)
    for index, sentence in enumerate(sentences):
        beside = " ".join(sentences[max(0, index - 1) : index + 2]).lower()
        demands += _read_sentence(sentence, beside, wanted)
    return tuple(demands)


def _read_sentence(sentence: str, beside: str, kinds: frozenset[DemandKind]) -> Iterator[Demand]:
    """Read one sentence; *beside* are it and its neighbours."""
    if _IS_DATA.search(sentence):
        return
    small = sentence.lower().replace("\u2019", "'")
    is_negated = bool(_NOT.search(small))
    rows = [*_read_form(sentence, small, is_negated, kinds)]
    rows = rows or [*_read_matter(small, is_negated, kinds)]
    if not rows:
        return
    stems, is_strict = stems_of(small), bool(_STRICT.search(small))
    for kind, is_wanted, value, number, unit in rows:
        context = stems_of(beside) if kind == "topic" and is_wanted else frozenset()
        about = stems_of(value) if kind == "topic" and not is_wanted else stems
        yield Demand(kind, sentence, is_wanted, value, number, unit, about, is_strict, context)


_Row: TypeAlias = tuple[DemandKind, bool, str, float, str]


def _read_form(sentence: str, small: str, is_negated: bool, kinds: frozenset[DemandKind]) -> Iterator[_Row]:
    """Read what a sentence says in words that are about nothing else."""
    if "language" in kinds:
        yield from _read_language(small, is_negated)
    if "format" in kinds:
        yield from _read_format(small)
    if "length" in kinds:
        yield from _read_length(small)
    if "tool" in kinds:
        yield from _read_tool(sentence, is_negated)
    if "word" in kinds:
        yield from _read_wording(sentence, small, is_negated)
    if "approval" in kinds:
        yield from _read_approval(small)


def _read_matter(small: str, is_negated: bool, kinds: frozenset[DemandKind]) -> Iterator[_Row]:
    """Read what a sentence says of amounts, subjects and acts."""
    limits = [*_read_limit(small)] if "limit" in kinds else []
    yield from limits
    if all(is_wanted for _, is_wanted, *_ in limits):
        if "topic" in kinds:
            yield from _read_topic(small)
        if "act" in kinds:
            yield from _read_act(small, is_negated)
    if "choice" in kinds:
        yield from _read_choice(small)


def _read_language(small: str, is_negated: bool) -> Iterator[_Row]:
    if not _SPEAKS.search(small) or "translat" in small:
        return
    names = list(dict.fromkeys(match[1] for match in _LANGUAGE.finditer(small)))
    if len(names) == 1:
        before = small[: small.index(names[0])]
        forbids = is_negated and bool(re.search(r"(?:not|n't|never|no|avoid)\b[^,;]{0,30}$", before))
        yield "language", not forbids, names[0], 0.0, ""
        return
    wanted = [name for name in names if not _NOT_THIS.search(small[: small.index(name)])]
    if len(wanted) == 1:  # "in English, not in German"
        yield "language", True, wanted[0], 0.0, ""


def _read_format(small: str) -> Iterator[_Row]:
    if not _FORMATS.search(small) and len(small.split()) > 8:
        return
    for match in _FORM.finditer(small):
        form = match.lastgroup or ""
        before = small[max(0, match.start() - 24) : match.start()]
        is_negated = bool(_FORM_IS_FORBIDDEN.search(before))
        is_asked = bool(_FORM_IS_ASKED.search(before))
        if form == "list" and not is_negated:
            continue  # a list of what: that is no form
        if is_negated or is_asked:
            yield "format", not is_negated, form, 0.0, ""


def _read_length(small: str) -> Iterator[_Row]:
    for match in _LENGTH.finditer(small):
        number = _to_number(match[1])
        unit = _unit(match[2])
        if number <= 0:
            continue
        around = small[max(0, match.start() - 60) : match.end() + 20]
        is_least = bool(_AT_LEAST.search(around))
        is_most = not is_least and bool(_AT_MOST.search(around[: match.end()]))
        yield "length", not is_most, "", number, unit
        return
    if _LONG.search(small) and (_ASKS.search(small) or _SPEAKS.search(small)):
        yield "length", True, "", 0.0, "words"


def _unit(word: str) -> str:
    return {"char": "character", "letter": "character", "bullet point": "line", "bullet": "line"}.get(
        word.rstrip("s"), word.rstrip("s")
    )


def _read_tool(sentence: str, is_negated: bool) -> Iterator[_Row]:
    for match in _IDENTIFIER.finditer(sentence):
        name = next(group for group in match.groups() if group)
        yield "tool", not is_negated, name.lower(), 0.0, ""


def _read_wording(sentence: str, small: str, is_negated: bool) -> Iterator[_Row]:
    if not _WORDING.search(small) or (small.endswith("?") and not _ASKS.match(small)):
        return
    for match in _QUOTED.finditer(sentence):
        yield "word", not is_negated, (match[1] or match[2]).strip().lower(), 0.0, ""


def _read_approval(small: str) -> Iterator[_Row]:
    if _WAIVES.search(small) and not re.search(r"\bnever\b|\bfirst\b|\bmust not\b|\bmay not\b", small):
        yield "approval", False, "", 0.0, ""
    elif _APPROVES.search(small) or re.search(r"\buntil it (?:was|is|has been) (?:confirmed|approved)\b", small):
        yield "approval", True, "", 0.0, ""


def _read_limit(small: str) -> Iterator[_Row]:
    is_rule = bool(_LIMITS.search(small)) and not small.endswith("?") and not _CONDITION.search(small)
    if not is_rule and not (_ASKS.search(small) or _DIRECTS.search(small)):
        return
    for match in _AMOUNT.finditer(small):
        number = _to_number(match[1])
        if number <= 0 or not match[1][0].isdigit():
            continue
        unit = "money" if match[0][0] in "$\u20ac\u00a3" or _MONEY.match(match[2] or "") else _stem(match[2] or "")
        unit = "" if match[2] in _STOP else unit
        is_most = bool(_AT_MOST.search(small[: match.start()]))
        if is_most and is_rule:
            yield "limit", False, "", number, unit
        elif not is_most and not _NOT.search(small):
            yield "limit", True, "", number, unit


def _read_topic(small: str) -> Iterator[_Row]:
    for pattern in _FORBIDS_TOPIC:
        match = pattern.search(small)
        if match:
            yield "topic", False, match["topic"], 0.0, ""
            return
    if not _NOT.search(small) and (re.search(r"\?\W*$", small) or _ASKS.search(small)):
        yield "topic", True, "", 0.0, ""


def _read_act(small: str, is_negated: bool) -> Iterator[_Row]:
    if is_negated:
        match = _FORBIDS_ACT.search(small)
        if match and not _CONDITION.search(small) and match[1] not in _STOP:
            yield "act", False, _stem(match[1]), 0.0, ""
    elif _ASKS.search(small) or re.match(r"[a-z]{3,20} (?:it|the|this|that|my|all|them)\b", small):
        yield "act", True, "", 0.0, ""


def _read_choice(small: str) -> Iterator[_Row]:
    """Read what is to be chosen: what stands behind the last preposition, or before a verb of its own."""
    if _CONDITION.search(small) or len(small.split()) > _MAX_CHOICE_WORDS:
        return
    if not _DIRECTS.search(small) and not _DIRECTS_OTHERWISE.search(small):
        return
    first = re.split(r",? (?:and not|never|not|and nobody|and nowhere|and nothing|but not)\b|[;:]", small)[0]
    for match in reversed(list(_PREPOSITION.finditer(first))):
        value = _trim(first[match.end() :])
        if value:
            yield "choice", True, value, 0.0, match[0]
            break
    for address in _ADDRESS.findall(first):
        yield "choice", True, address, 0.0, "address"
    subject = _CHOSEN_SUBJECT.match(first)
    if subject and (value := _trim(subject[1])):
        yield "choice", True, value, 0.0, "subject"
    named = _CHOSEN_OBJECT.search(first)
    if named and (value := _trim(named[1])):
        yield "choice", True, value, 0.0, "object"


def _trim(phrase: str) -> str:
    """Return the words of a phrase that name something; empty where none does, or too many."""
    words = [word for word in _WORD.findall(phrase) if word not in _STOP]
    return " ".join(words) if 0 < len(words) <= 5 else ""


def _read_secrets(text: str, sentences: Sequence[str]) -> Iterator[Demand]:
    """Read what is told and must not be told on; its name and the order may stand in two sentences."""
    for index, sentence in enumerate(sentences):
        if _SECRET.search(sentence):
            for told in (sentence, sentences[index - 1] if index else ""):
                names = _secret_in(told)
                if names:
                    value, stems = names
                    quote = sentence if told is sentence else f"{told} {sentence}"
                    yield Demand("secret", quote if quote in text else sentence, False, value, 0.0, "", stems, True)
                    break
        elif _REVEALS.search(small := sentence.lower()) and not _NOT.search(small) and "keep" not in small:
            yield Demand("secret", sentence, True, "", 0.0, "", stems_of(small))


def _secret_in(sentence: str) -> tuple[str, frozenset[str]] | None:
    for token in re.finditer(r"[\w-]*\d[\w-]*|\b[A-Z][A-Z0-9-]{3,}\b|(?<=\bis )[A-Z][\w-]{2,}|(?<=\()[\w-]{3,}(?=\))|"
                             r"^[A-Z][\w-]{2,}(?= is the)|[A-Z][\w-]{2,}(?= must)", sentence):  # fmt: skip
        stems = stems_of((sentence[: token.start()] + sentence[token.end() :]).lower())
        return token[0], stems
    return None


def can_be_rule(demand: Demand) -> bool:
    """Check whether a demand is of those that can be held against what an agent does."""
    if demand.kind in ("topic", "act", "secret", "limit", "tool"):
        return not demand.is_wanted
    if demand.kind == "choice":
        return demand.is_strict
    return demand.is_wanted or demand.kind != "approval"


def are_opposed(one: Demand, other: Demand) -> bool:
    """Check whether nobody can do what both demand."""
    if one.kind != other.kind:
        return False
    opposed = _OPPOSED.get(one.kind)
    return opposed is not None and (opposed(one, other) or opposed(other, one))


def _is_forbidden_and_wanted(one: Demand, other: Demand) -> bool:
    return not one.is_wanted and other.is_wanted and one.value == other.value


def _are_other_languages(one: Demand, other: Demand) -> bool:
    if one.is_wanted and other.is_wanted:
        return one.value != other.value
    return _is_forbidden_and_wanted(one, other)


_LISTS = frozenset({"bullets", "numbered", "list"})


def _are_other_formats(one: Demand, other: Demand) -> bool:
    if one.is_wanted and other.is_wanted:
        return one.value != other.value and "markdown" not in (one.value, other.value)
    if one.is_wanted or not other.is_wanted:
        return False
    return other.value == one.value or (one.value == "list" and other.value in _LISTS)


def _are_other_lengths(one: Demand, other: Demand) -> bool:
    if one.is_wanted or not other.is_wanted:
        return False
    return other.number == 0 or (one.unit == other.unit and other.number > one.number)


def _are_other_limits(one: Demand, other: Demand) -> bool:
    return (
        not one.is_wanted
        and other.is_wanted
        and other.number > one.number
        and one.unit == other.unit
        and bool(one.stems & other.stems)
    )


def _are_secret_and_asked(one: Demand, other: Demand) -> bool:
    return not one.is_wanted and other.is_wanted and bool(one.stems & other.stems)


def _are_approved_and_waived(one: Demand, other: Demand) -> bool:
    return one.is_wanted and not other.is_wanted


def _are_topic_and_question(one: Demand, other: Demand) -> bool:
    return not one.is_wanted and other.is_wanted and bool(one.stems & (other.stems | other.context))


def _are_act_and_asked(one: Demand, other: Demand) -> bool:
    return not one.is_wanted and other.is_wanted and one.value in other.stems


def _are_other_choices(one: Demand, other: Demand) -> bool:
    """Check a rule against a wish: about the same, or in the same words, and for another thing."""
    if not one.is_strict or not _BINDS.search(one.quote.lower()) or len(other.quote.split()) > _SHORT_WISH:
        return False
    chosen, wished = stems_of(one.value), stems_of(other.value)
    if chosen & (other.stems | wished) or (wished & one.stems and not _is_named_as_excluded(one, other)):
        return False
    is_same_matter = bool((one.stems & other.stems) - chosen - wished)
    points = bool(_POINTS.search(other.quote.lower()))
    has_same_place = one.unit == other.unit or {one.unit, other.unit} <= {"subject", "object"}
    return (has_same_place or other.unit == "object") and (is_same_matter or points)


def _is_named_as_excluded(rule: Demand, wish: Demand) -> bool:
    """Check whether the rule names what is wished for as what is not to be chosen: `to A, never to B`."""
    excluded = re.split(r"\b(?:never|not|nobody but)\b", rule.quote.lower(), maxsplit=1)[1:]
    return bool(excluded) and stems_of(wish.value) <= stems_of(excluded[0])


_SHORT_WISH = 12
_BINDS = re.compile(
    r"\b(?:only|always|never|every|all|exclusively|alone|nowhere else|nobody else|nothing else|must|you have to)\b"
)


_OPPOSED = {
    "language": _are_other_languages,
    "format": _are_other_formats,
    "length": _are_other_lengths,
    "tool": _is_forbidden_and_wanted,
    "word": _is_forbidden_and_wanted,
    "limit": _are_other_limits,
    "secret": _are_secret_and_asked,
    "approval": _are_approved_and_waived,
    "topic": _are_topic_and_question,
    "act": _are_act_and_asked,
    "choice": _are_other_choices,
}


@lru_cache(maxsize=4_096)
def stems_of(text: str) -> frozenset[str]:
    """Return the stems of the words of *text*, in small letters, that say what it is about."""
    return frozenset(_stem(word) for word in _WORD.findall(text) if word not in _STOP and len(word) > 2)


def _stem(word: str) -> str:
    """Cut a word to what its forms share: five letters tell `refund` of `refunds` and `reserve` of `reservation`."""
    return word if "@" in word or "." in word else word.rstrip("s")[:5]


def _to_number(text: str) -> float:
    if text in _NUMBER_WORDS:
        return _NUMBER_WORDS[text]
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return 0.0


def count_units(text: str, unit: str) -> int:
    """Count the words, sentences, characters, lines or paragraphs of a text."""
    if unit == "character":
        return len(text)
    if unit == "line":
        return sum(bool(line.strip()) for line in text.splitlines())
    if unit == "paragraph":
        return sum(bool(part.strip()) for part in re.split(r"\n\s*\n", text))
    if unit == "sentence":
        return sum(1 for _ in split_sentences(text))
    return len(text.split())
