"""Reading rules: sentences that say how one thing follows from others, without any amount in them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from blamespan_lab.simulation.facts import Rule

__all__ = ["rule_in"]

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


def rule_in(
    sentence: str, mentions: Sequence[tuple[int, int, str]], groups: Mapping[str, tuple[str, ...]]
) -> Rule | None:
    """Read the rule that *sentence* states, or None.

    Args:
        sentence: One sentence.
        mentions: Start, end and key of each fact it names, in order.
        groups: Facts that are picked from all of a kind, with what they are picked from.
    """
    bare, place = "", 0
    for number, (start, end, _) in enumerate(mentions):
        bare += sentence[place:start] + f"#{number}#"
        place = end
    bare += sentence[place:]
    if _DENIED.search(bare):
        return None
    if mentions[0][2] in groups:
        return _group_rule(bare, mentions[0][2], groups)
    if len(mentions) < 3 or _DIGIT.search(re.sub(_ONE, "", bare)):
        return None
    return _plain_rule(bare, [key for _, _, key in mentions])


def _group_rule(bare: str, out: str, groups: Mapping[str, tuple[str, ...]]) -> Rule | None:
    low, high = _LOWEST.search(bare), _HIGHEST.search(bare)
    if low is None and high is None:
        return None
    is_low = high is None or (low is not None and low.start() < high.start())
    return Rule(out, "lowest" if is_low else "highest", groups[out])


def _plain_rule(bare: str, keys: Sequence[str]) -> Rule | None:
    last, first = _OUT_LAST.search(bare), _OUT_FIRST.search(bare)
    found = last or first
    if first is not None and not bare[: first.start()].strip(" ,:-").lower().endswith(
        ("add", "take", "divide", "multiply")
    ):
        found = first if last is None or first.start() < last.start() else last
    if found is None:
        return None
    rest = bare[: found.start()] + " | " + bare[found.end() :]
    for pattern, operation, is_reversed in _EXPRESSIONS:
        match = pattern.search(rest)
        if match is None:
            continue
        inputs = [keys[int(number)] for number in re.findall(r"#(\d+)#", match.group())]
        if operation == "product" and _DIVIDES.search(rest):
            operation = "quotient"
        if is_reversed:
            inputs = [inputs[-1], *inputs[:-1]]
        return Rule(keys[int(found.group(1))], operation, tuple(inputs))
    return None
