"""What a text demands of who reads it: a language, a form, a length, a tool, a limit, a recipient, silence, approval.

Demands are read sentence by sentence, by cues in English, without a model: `demands.toml` has them. What is not
understood is no demand.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

from blamespan_tracer.cues import STOP_WORDS
from blamespan_tracer.instructions.languages import LANGUAGES
from blamespan_tracer.ledger.values import Value, dimension_of, find_values
from blamespan_tracer.tokens import MAX_TEXT_CHARS, split_sentences

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


_DATA: Final = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
_CUES: Final[Mapping[str, re.Pattern[str]]] = {
    name: re.compile(pattern.replace("\n", "")) for name, pattern in _DATA["cues"].items()
}
_HINTS: Final[Mapping[str, re.Pattern[str]]] = {
    "language": re.compile("|".join(LANGUAGES)),
    **{kind: re.compile(pattern) for kind, pattern in _DATA["hints"].items()},
}
_LANGUAGE = re.compile(rf"\b({'|'.join(LANGUAGES)})\b(?!\s+(?:[a-z]+ed|law|customers?|market|version|team|text|word))")
_WORD = re.compile(r"[^\W_]+(?:[@.'-][^\W_]+)*")
_STOP: Final = STOP_WORDS - {*_DATA["words"]["meant"].split()} | {*_DATA["words"]["passing"].split()}
_UNIT_NAMES: Final = {"char": "character", "letter": "character", "bullet point": "line", "bullet": "line"}
_MAX_CHOICE_WORDS = 16
_SHORT_WISH = 12


def _shows(cue: str, text: str) -> bool:
    return _CUES[cue].search(text) is not None


@dataclass(frozen=True, slots=True)
class _Sentence:
    """A sentence as it is written, in small letters, and whether it says no."""

    text: str
    small: str
    is_negated: bool


@dataclass(frozen=True, slots=True)
class _Matter:
    """What is demanded: the fields of a `Demand` but for its sentence."""

    is_wanted: bool
    value: str = ""
    number: float = 0.0
    unit: str = ""


def read_demands(text: str, kinds: frozenset[DemandKind] = KINDS) -> tuple[Demand, ...]:
    """Read what *text* demands, of these kinds, in its order; of a long text its first 8,000 characters."""
    return _read(text[:MAX_TEXT_CHARS], kinds) if kinds else ()


@lru_cache(maxsize=512)
def _read(text: str, kinds: frozenset[DemandKind]) -> tuple[Demand, ...]:
    sentences = [sentence.strip()[:_MAX_SENTENCE_CHARS] for sentence in islice(split_sentences(text), _MAX_SENTENCES)]
    demands = list(_read_secrets(text, sentences)) if "secret" in kinds else []
    small = text.lower()
    wanted = frozenset(kind for kind in kinds if kind not in _HINTS or _HINTS[kind].search(small))
    if wanted - {"secret"}:
        for index, sentence in enumerate(sentences):
            beside = " ".join(sentences[max(0, index - 1) : index + 2]).lower()
            demands += _read_sentence(sentence, beside, wanted)
    return tuple(demands)


def _read_sentence(text: str, beside: str, kinds: frozenset[DemandKind]) -> Iterator[Demand]:
    """Read one sentence, its form first and what it is about where it says nothing of that; *beside* are neighbours."""
    if _shows("data", text):
        return
    small = text.lower().replace("\u2019", "'")
    sentence = _Sentence(text, small, _shows("not", small))
    rows: list[tuple[DemandKind, _Matter]] = []
    for readers in (_FORM_READERS, _MATTER_READERS):
        for kind, read in readers.items():
            is_forbidden = kind in ("topic", "act") and any(not matter.is_wanted for _, matter in rows)
            if kind in kinds and not is_forbidden:
                rows += ((kind, matter) for matter in read(sentence))
        if rows:
            break
    for kind, matter in rows:
        is_topic = kind == "topic"
        stems = stems_of(matter.value if is_topic and not matter.is_wanted else small)
        context = stems_of(beside) if is_topic and matter.is_wanted else frozenset[str]()
        yield Demand(
            kind,
            text,
            matter.is_wanted,
            matter.value,
            matter.number,
            matter.unit,
            stems,
            _shows("strict", small),
            context,
        )


def _read_language(sentence: _Sentence) -> Iterator[_Matter]:
    small = sentence.small
    if not _shows("speaks", small) or "translat" in small:
        return
    names = list(dict.fromkeys(match[1] for match in _LANGUAGE.finditer(small)))
    if len(names) == 1:
        is_forbidden = sentence.is_negated and _shows("none_of_this", small[: small.index(names[0])])
        yield _Matter(not is_forbidden, names[0])
        return
    wanted = [name for name in names if not _shows("not_this", small[: small.index(name)])]
    if len(wanted) == 1:  # "in English, not in German"
        yield _Matter(True, wanted[0])


def _read_format(sentence: _Sentence) -> Iterator[_Matter]:
    small = sentence.small
    if not _shows("formats", small) and len(small.split()) > 8:
        return
    for match in _CUES["form"].finditer(small):
        form, before = match.lastgroup or "", small[max(0, match.start() - 24) : match.start()]
        is_forbidden = _shows("no_form", before)
        if is_forbidden or (form != "list" and _shows("form_asked", before)):  # a list of what: that is no form
            yield _Matter(not is_forbidden, form)


def _read_length(sentence: _Sentence) -> Iterator[_Matter]:
    small = _CUES["one"].sub("1", sentence.small)
    for value in find_values(small):
        unit = _CUES["length_unit"].match(small, value.stop)
        if value.form != "number" or unit is None or float(value.key) <= 0:
            continue
        around = small[max(0, value.start - 60) : unit.end() + 20]
        is_most = not _shows("at_least", around) and _shows("at_most", small[max(0, value.start - 60) : unit.end()])
        name = unit[1].rstrip("s")
        yield _Matter(not is_most, "", float(value.key), _UNIT_NAMES.get(name, name))
        return
    if _shows("long", small) and (_shows("asks", small) or _shows("speaks", small)):
        yield _Matter(True, "", 0.0, "words")


def _read_tool(sentence: _Sentence) -> Iterator[_Matter]:
    for match in _CUES["identifier"].finditer(sentence.text):
        yield _Matter(not sentence.is_negated, next(filter(None, match.groups())).lower())


def _read_wording(sentence: _Sentence) -> Iterator[_Matter]:
    small = sentence.small
    if _shows("wording", small) and (not small.endswith("?") or _CUES["asks"].match(small)):
        for match in _CUES["quoted"].finditer(sentence.text):
            yield _Matter(not sentence.is_negated, (match[1] or match[2]).strip().lower())


def _read_approval(sentence: _Sentence) -> Iterator[_Matter]:
    is_waived = _shows("waives", sentence.small) and not _shows("not_waived", sentence.small)
    if is_waived or _shows("approves", sentence.small):
        yield _Matter(not is_waived)


def _read_limit(sentence: _Sentence) -> Iterator[_Matter]:
    small = sentence.small
    is_rule = _shows("limits", small) and not small.endswith("?") and not _shows("condition", small)
    if not is_rule and not (_shows("asks", small) or _shows("directs", small)):
        return
    for value in find_values(sentence.text):
        if value.form != "number" or not any(map(str.isdigit, value.text)) or float(value.key) <= 0:
            continue
        is_most = _shows("at_most", sentence.text[: value.start].lower())
        if (is_most and is_rule) or (not is_most and not sentence.is_negated):
            yield _Matter(not is_most, "", *_read_amount(sentence.text, value))


def _read_amount(text: str, value: Value) -> tuple[float, str]:
    """Return a number and what is counted: money in its currency's unit, and of anything else the word behind it."""
    if dimension_of(value.unit) == "money":
        return value.amount, "money"
    counted = _CUES["counted"].match(text.lower(), value.stop)
    return value.amount, "" if counted is None or counted[1] in _STOP else _stem(counted[1])


def _read_topic(sentence: _Sentence) -> Iterator[_Matter]:
    small = sentence.small
    for cue in ("no_topic", "topic_declined", "topic_closed"):
        if match := _CUES[cue].search(small):
            yield _Matter(False, match[1])
            return
    if not sentence.is_negated and (_shows("question", small) or _shows("asks", small)):
        yield _Matter(True)


def _read_act(sentence: _Sentence) -> Iterator[_Matter]:
    small = sentence.small
    if sentence.is_negated:
        match = _CUES["no_act"].search(small)
        if match and not _shows("condition", small) and match[1] not in _STOP:
            yield _Matter(False, _stem(match[1]))
    elif _shows("asks", small) or _shows("orders", small):
        yield _Matter(True)


def _read_choice(sentence: _Sentence) -> Iterator[_Matter]:
    """Read what is to be chosen: what stands behind the last preposition, or before a verb of its own."""
    small = sentence.small
    if _shows("condition", small) or len(small.split()) > _MAX_CHOICE_WORDS:
        return
    if not _shows("directs", small) and not _shows("directs_otherwise", small):
        return
    first = _CUES["excluded"].split(small)[0]
    places = ((_trim(first[match.end() :]), match[0]) for match in reversed([*_CUES["preposition"].finditer(first)]))
    named = [next((place for place in places if place[0]), ("", ""))]
    named += ((address, "address") for address in _CUES["address"].findall(first))
    for role in ("subject", "object"):
        match = _CUES[f"chosen_{role}"].search(first)
        named.append((_trim(match[1]) if match else "", role))
    yield from (_Matter(True, value, 0.0, role) for value, role in named if value)


def _trim(phrase: str) -> str:
    """Return the words of a phrase that name something; empty where none does, or too many."""
    words = [word for word in _WORD.findall(phrase) if word not in _STOP]
    return " ".join(words) if 0 < len(words) <= 5 else ""


_Reader: TypeAlias = Callable[[_Sentence], Iterator[_Matter]]
_FORM_READERS: Final[Mapping[DemandKind, _Reader]] = {
    "language": _read_language,
    "format": _read_format,
    "length": _read_length,
    "tool": _read_tool,
    "word": _read_wording,
    "approval": _read_approval,
}
_MATTER_READERS: Final[Mapping[DemandKind, _Reader]] = {
    "limit": _read_limit,
    "topic": _read_topic,
    "act": _read_act,
    "choice": _read_choice,
}


def _read_secrets(text: str, sentences: Sequence[str]) -> Iterator[Demand]:
    """Read what must not be told on; its name and the order may stand in two sentences."""
    for index, sentence in enumerate(sentences):
        if _shows("secret", sentence):
            for near in (sentence, sentences[index - 1] if index else ""):
                if name := _CUES["secret_name"].search(near):
                    stems = stems_of((near[: name.start()] + near[name.end() :]).lower())
                    quote = f"{near} {sentence}" if near != sentence and f"{near} {sentence}" in text else sentence
                    yield Demand("secret", quote, False, name[0], stems=stems, is_strict=True)
                    break
        elif _shows("reveals", small := sentence.lower()) and not _shows("not", small) and "keep" not in small:
            yield Demand("secret", sentence, True, stems=stems_of(small))


def can_be_rule(demand: Demand) -> bool:
    """Check whether a demand is of those that can be held against what an agent does."""
    if demand.kind in ("topic", "act", "secret", "limit", "tool"):
        return not demand.is_wanted
    if demand.kind == "choice":
        return demand.is_strict
    return demand.is_wanted or demand.kind != "approval"


def are_opposed(one: Demand, other: Demand) -> bool:
    """Check whether nobody can do what both demand."""
    return one.kind == other.kind and (_opposes(one, other) or _opposes(other, one))


def _opposes(one: Demand, other: Demand) -> bool:
    """Check whether the first demand rules the second one out."""
    kind = one.kind
    if kind == "choice":
        return _are_other_choices(one, other)
    if kind in ("language", "format") and one.is_wanted and other.is_wanted:
        return one.value != other.value and "markdown" not in (one.value, other.value)
    if one.is_wanted != (kind == "approval") or other.is_wanted == one.is_wanted:
        return False
    match kind:
        case "length":
            return other.number == 0 or (one.unit == other.unit and other.number > one.number)
        case "limit":
            return other.number > one.number and one.unit == other.unit and bool(one.stems & other.stems)
        case "secret":
            return bool(one.stems & other.stems)
        case "topic":
            return bool(one.stems & (other.stems | other.context))
        case "act":
            return one.value in other.stems
        case "approval":
            return True
        case _:
            return one.value == other.value or (one.value == "list" and other.value in ("bullets", "numbered"))


def _are_other_choices(one: Demand, other: Demand) -> bool:
    """Check a rule against a wish: about the same, or in the same words, and for another thing."""
    rule, wish = one.quote.lower(), other.quote.lower()
    if not one.is_strict or not _shows("binds", rule) or len(wish.split()) > _SHORT_WISH:
        return False
    chosen, wished = stems_of(one.value), stems_of(other.value)
    excluded = _CUES["not_chosen"].split(rule, maxsplit=1)[1:]  # "to A, never to B"
    is_excluded = bool(excluded) and wished <= stems_of(excluded[0])
    if chosen & (other.stems | wished) or (wished & one.stems and not is_excluded):
        return False
    is_same_matter = bool((one.stems & other.stems) - chosen - wished)
    has_same_place = one.unit == other.unit or {one.unit, other.unit} <= {"subject", "object"}
    return (has_same_place or other.unit == "object") and (is_same_matter or _shows("points", wish))


@lru_cache(maxsize=4_096)
def stems_of(text: str) -> frozenset[str]:
    """Return the stems of the words of *text*, in small letters, that say what it is about."""
    return frozenset(_stem(word) for word in _WORD.findall(text) if word not in _STOP and len(word) > 2)


def _stem(word: str) -> str:
    """Cut a word to what its forms share: five letters tell `refund` of `refunds` and `reserve` of `reservation`."""
    return word if "@" in word or "." in word else word.rstrip("s")[:5]


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
