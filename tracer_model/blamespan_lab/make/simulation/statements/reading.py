"""Reading prose: which facts does a text state, with which values, and which rules?

The reader knows what things are called (a `TaskLexicon`), never their values. It goes by the order of phrases,
values and a few small words, so that it reads rewordings, lists, units and corrections it was not written for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from blamespan_lab.make.simulation.statements.facts import DerivationRule, FactValue, Limit, TaskFact
from blamespan_lab.make.simulation.statements.values import ValueMatch, find_fact_values

_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")
_LIST_MARK = re.compile(r"^\s*(?:[-*\u2022\u2013]|\(?\d{1,2}[.)]|\(?[a-z][.)])\s+")
_QUOTED = re.compile(r"[\"“”]([^\"“”\n]{12,})[\"“”]")
_PRONOUN = re.compile(
    r"^(?:correction|sorry|no|rather|i mean|make (?:that|it)|in short|to conclude|all in all|to sum up|overall|"
    r"bottom line|that gives|this leads to|that brings us to|"
    r"which makes|(?:so|hence|thus|therefore),? (?:it|we)|(?:it|that|this)(?: one)? (?:is|should|must|comes|was))\b",
    re.IGNORECASE,
)
_NOTHING_MORE = re.compile(r"[\s.,!;)]*(?:(?:instead|now|though|then|in the end|overall|in total)[\s.!]*)?")
_OTHER_WORDS = re.compile(r"\b(?:for|as|the|is|was|because|by)\b", re.IGNORECASE)
_DENIES = re.compile(r"(?:\bnot|n't|\brather than|\binstead of|\bnever|\bno longer)(?:\W+\w+){0,1}\W*$", re.IGNORECASE)
_GONE = re.compile(r"\bfrom\W*$", re.IGNORECASE)
_BACK = re.compile(
    r"^[\s)]*(?:\w+ )?(?:for|as|is|was|makes|gives|being|equals|goes to|belongs to|stands for|under|at)\W*$",
    re.IGNORECASE,
)
_ANSWER = ("the answer", "our answer", "my answer", "final answer", "team's answer", "final result")
_FAR = 70
"""Most characters between a phrase and its value."""


@dataclass(frozen=True, slots=True)
class FactStatement:
    """One statement: the fact *key* has *value*; or, denied, has not."""

    key: str
    value: FactValue
    is_denied: bool = False


@dataclass(frozen=True, slots=True)
class ParsedText:
    """What a text says, in order; what it quotes comes first, so that its own words win."""

    statements: tuple[FactStatement, ...] = ()
    rules: tuple[DerivationRule, ...] = ()


@dataclass(frozen=True, slots=True)
class _KeyMention:
    start: int
    end: int
    keys: tuple[str, ...]


@dataclass(frozen=True)
class TaskLexicon:
    """What things are called in a task.

    Attributes:
        facts: By key.
        groups: Rules whose inputs need not be said, as they go over all there is of a kind: out key to inputs. A
            sentence that names the out fact and says lowest or highest is such a rule.
        target: What the question asks for.
    """

    facts: Mapping[str, TaskFact]
    target: str
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __hash__(self) -> int:
        return id(self)

    def read(self, text: str) -> ParsedText:
        """Read *text*."""
        return _read(self, text)


@lru_cache(maxsize=4096)
def _read(lexicon: TaskLexicon, text: str) -> ParsedText:
    text = text.replace("**", "").replace("__", "").replace("\u2019", "'")
    quoted = [match.group(1) for match in _QUOTED.finditer(text)]
    lines = [line for line in text.split("\n") if not line.lstrip().startswith(">")]
    cited = [line.lstrip("> ") for line in text.split("\n") if line.lstrip().startswith(">")]
    reader = _ProseReader(lexicon, _vocabulary(lexicon))
    reader.take("\n".join([*quoted, *cited]))
    reader.take(_QUOTED.sub(" ", "\n".join(lines)))
    return ParsedText(tuple(reader.statements), tuple(reader.rules))


@lru_cache(maxsize=512)
def _vocabulary(lexicon: TaskLexicon) -> tuple[re.Pattern[str], dict[str, tuple[str, ...]]]:
    keys: dict[str, list[str]] = {}
    for key, phrase in [
        *((key, fact.phrase) for key, fact in lexicon.facts.items()),
        *((lexicon.target, word) for word in _ANSWER),
    ]:
        keys.setdefault(_normalize(phrase), []).append(key)
    longest = sorted(keys, key=len, reverse=True)
    body = "|".join(re.escape(phrase).replace(r"\ ", r"[\s-]+") for phrase in longest)
    article = r"(?:(?:the|a|an|its|our|your|this|that|my)\s+)?"
    pattern = re.compile(rf"(?<![\w-]){article}(?P<phrase>{body})(?!\w)", re.IGNORECASE)
    return pattern, {phrase: tuple(names) for phrase, names in keys.items()}


class _ProseReader:
    def __init__(self, lexicon: TaskLexicon, vocabulary: tuple[re.Pattern[str], dict[str, tuple[str, ...]]]) -> None:
        self._lexicon = lexicon
        self._pattern, self._keys = vocabulary
        self._last: tuple[str, ...] = ()
        self.statements: list[FactStatement] = []
        self.rules: list[DerivationRule] = []

    def take(self, text: str) -> None:
        for part in _SENTENCE.split(text):
            sentence = _LIST_MARK.sub("", part)
            if sentence.rstrip().endswith("?"):
                continue
            mentions = [
                _KeyMention(m.start(), m.end(), self._keys[_normalize(m["phrase"])])
                for m in self._pattern.finditer(sentence)
            ]
            if mentions:
                self._take_sentence(sentence, mentions)
            elif self._last and _PRONOUN.match(sentence.strip()):
                self._take_afterthought(sentence)

    def _take_afterthought(self, sentence: str) -> None:
        """Read "It should be 14 instead.": of what was named last, and only where nothing else is named."""
        matches = find_fact_values(sentence, self._lexicon.facts[self._last[0]])
        if (
            matches
            and _NOTHING_MORE.fullmatch(sentence[matches[-1].end :])
            and not _OTHER_WORDS.search(sentence[matches[0].end : matches[-1].start])
        ):
            self._take_values(self._last, sentence, matches)

    def _take_sentence(self, sentence: str, mentions: Sequence[_KeyMention]) -> None:
        rule = read_rule(sentence, [(m.start, m.end, m.keys[0]) for m in mentions], self._lexicon.groups)
        if rule is not None:
            self.rules.append(rule)
            return
        used = 0
        for index, mention in enumerate(mentions):
            stop = mentions[index + 1].start if index + 1 < len(mentions) else len(sentence)
            used = self._take_mention(sentence, mention, used, stop, is_last=index + 1 == len(mentions))

    def _take_mention(self, sentence: str, mention: _KeyMention, used: int, stop: int, *, is_last: bool) -> int:
        """Find the value of a mention before or after it; give the place up to which the sentence is used up."""
        fact = self._lexicon.facts[mention.keys[0]]
        self._last = mention.keys
        head, tail = sentence[used : mention.start], sentence[mention.end : stop]
        before = find_fact_values(head, fact)
        if before and fact.kind != "verdict" and _BACK.match(head[before[-1].end :]):
            self._take_values(mention.keys, head, before[-1:])
            return mention.end
        after = find_fact_values(tail, fact)
        if after and not is_last and fact.kind != "verdict" and _BACK.match(tail[after[-1].end :]):
            after = after[:-1]  # it is said of the next one: "... and 3 euros for the fee"
        if not after or after[0].start > _FAR:
            return mention.end
        self._take_values(mention.keys, tail, after)
        return mention.end + after[-1].end

    def _take_values(self, keys: tuple[str, ...], text: str, matches: Sequence[ValueMatch]) -> None:
        for key in keys:
            fact = self._lexicon.facts[key]
            tokens = find_fact_values(text, fact) if fact.kind == "verdict" else matches
            statement = _choose_value(key, fact, text, tokens)
            if statement is not None:
                self.statements.append(statement)


def _choose_value(key: str, fact: TaskFact, text: str, tokens: Sequence[ValueMatch]) -> FactStatement | None:
    """Decide which of several values is meant: "not 12 but 14", "from 12 to 14", "3 x 4 = 12"."""
    if not tokens:
        return None
    denied = [token for token in tokens if _DENIES.search(text[: token.start])]
    values = [token for token in tokens if token not in denied and not _GONE.search(text[: token.start])]
    if not values:
        return _read_denial(key, fact, denied)
    equals = text.rfind("=")
    after = [token for token in values if token.start > equals]
    chosen = after[0] if equals >= 0 and after else values[0]
    return FactStatement(key, chosen.value)


def _read_denial(key: str, fact: TaskFact, denied: Sequence[ValueMatch]) -> FactStatement | None:
    if not denied:
        return None
    if fact.kind == "verdict" and len(fact.choices) == 2:
        return FactStatement(key, next(choice for choice in fact.choices if choice != denied[0].value))
    value = denied[0].value
    if isinstance(value, Limit):
        return FactStatement(key, Limit(">=" if value.relation == "<=" else "<=", value.amount))
    return FactStatement(key, value, is_denied=True)


def _normalize(phrase: str) -> str:
    return re.sub(r"[\s-]+", " ", phrase).casefold()


_LIST = r"#\d+#(?:(?:\s*,\s*(?:and |then )?|\s+and\s+|\s+plus\s+|\s*\+\s*)#\d+#)*"
_ONE = r"#\d+#"
_EXPRESSIONS: tuple[tuple[re.Pattern[str], str, bool], ...] = tuple(
    (re.compile(pattern.replace("LIST", _LIST).replace("ONE", _ONE), re.IGNORECASE), operation, is_reversed)
    for pattern, operation, is_reversed in (
        (
            r"(?:the )?(?:larger|greater|later|higher|largest|latest|highest|greatest|maximum) (?:one )?of LIST",
            "larger",
            False,
        ),
        (
            r"(?:the )?(?:smaller|lesser|earlier|lower|smallest|earliest|lowest|minimum) (?:one )?of LIST",
            "smaller",
            False,
        ),
        (r"(?:subtract|deduct) LIST from ONE", "difference", True),
        (r"take LIST (?:away |off )?from ONE", "difference", True),
        (r"ONE (?:minus|less|reduced by|without|-|−) LIST", "difference", False),  # noqa: RUF001
        (r"(?:the )?difference between ONE and ONE", "difference", False),
        (r"(?:take )?ONE of ONE", "percent", False),
        (r"(?:multiply |the product of )?ONE (?:times|by|multiplied by|and by|×|\*|x) ONE", "product", False),  # noqa: RUF001
        (r"(?:the product of|multiply) ONE and ONE", "product", False),
        (
            r"(?:divide |split |share )?ONE (?:divided by|by|over|/|÷|split by|shared among|among) ONE",
            "quotient",
            False,
        ),
        (r"(?:add(?: up)? |the sum of |the total of |put together )LIST", "sum", False),
        (r"add ONE to ONE", "sum", False),
        (r"ONE(?: plus| and| \+|,) LIST(?: together| taken together| added up)?", "sum", False),
        (r"ONE (?:increased by|together with|on top of|added to) ONE", "sum", False),
    )
)
_DIVIDES = re.compile(r"\b(?:divide[sd]?|dividing|split|shared?|over|quotient|÷)", re.IGNORECASE)
_OUT_FIRST = re.compile(
    r"#(\d+)#\s*(?:,\s*)?(?:is|equals|=|:|must be|should be|comes to|results from|follows from|comes from|"
    r"means|will be|"
    r"is found as|is got as|is worked out as|is given by|is what you get when you|starts at|is reached when you)"
    r"\s*(?!not\b)",
    re.IGNORECASE,
)
_OUT_LAST = re.compile(
    r"(?:\bto get|\bto find|\bto obtain|\bto reach|\bfor|\bgives(?: us| you)?|\bmakes|\byields|\bwhich is|"
    r"\band call it|\bthat is|\bto arrive at|\bas)\s*#(\d+)#",
    re.IGNORECASE,
)
_LOWEST = re.compile(r"\b(?:lowest|smallest|least|fewest|cheapest|earliest|minimum|oldest|bottom)\b", re.IGNORECASE)
_HIGHEST = re.compile(r"\b(?:highest|largest|most|greatest|dearest|latest|maximum|youngest|top)\b", re.IGNORECASE)
_DENIED = re.compile(r"\b(?:not|n't|never)\b", re.IGNORECASE)
_DIGIT = re.compile(r"\d")


def read_rule(
    sentence: str, mentions: Sequence[tuple[int, int, str]], groups: Mapping[str, tuple[str, ...]]
) -> DerivationRule | None:
    """Read the rule that *sentence* states, or None.

    Args:
        sentence: One sentence.
        mentions: Start, end and key of each fact it names, in order.
        groups: Facts that are picked from all of a kind, with what they are picked from.
    """
    bare, rest_start = "", 0
    for number, (start, end, _) in enumerate(mentions):
        bare += sentence[rest_start:start] + f"#{number}#"
        rest_start = end
    bare += sentence[rest_start:]
    if _DENIED.search(bare):
        return None
    if mentions[0][2] in groups:
        return _read_group_rule(bare, mentions[0][2], groups)
    if len(mentions) < 3 or _DIGIT.search(re.sub(_ONE, "", bare)):
        return None
    return _read_plain_rule(bare, [key for _, _, key in mentions])


def _read_group_rule(bare: str, out: str, groups: Mapping[str, tuple[str, ...]]) -> DerivationRule | None:
    low, high = _LOWEST.search(bare), _HIGHEST.search(bare)
    if low is None and high is None:
        return None
    is_low = high is None or (low is not None and low.start() < high.start())
    return DerivationRule(out, "lowest" if is_low else "highest", groups[out])


def _read_plain_rule(bare: str, keys: Sequence[str]) -> DerivationRule | None:
    last, first = _OUT_LAST.search(bare), _OUT_FIRST.search(bare)
    out = last or first
    if first is not None and not bare[: first.start()].strip(" ,:-").lower().endswith(
        ("add", "take", "divide", "multiply")
    ):
        out = first if last is None or first.start() < last.start() else last
    if out is None:
        return None
    rest = bare[: out.start()] + " | " + bare[out.end() :]
    for pattern, operation, is_reversed in _EXPRESSIONS:
        match = pattern.search(rest)
        if match is None:
            continue
        inputs = [keys[int(number)] for number in re.findall(r"#(\d+)#", match.group())]
        if operation == "product" and _DIVIDES.search(rest):
            operation = "quotient"
        if is_reversed:
            inputs = [inputs[-1], *inputs[:-1]]
        return DerivationRule(keys[int(out.group(1))], operation, tuple(inputs))
    return None
