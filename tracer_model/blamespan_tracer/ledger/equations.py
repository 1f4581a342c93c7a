"""Sums with their results, worked out again: `12 * 3 = 35` does not hold, nor does "12 * 3 gives 35".

Only what is wholly written in digits is judged. A side that may be part of something longer (`2x + 3 = 7`,
`sqrt(9 + 16) = 5`) is left alone: silence is better than a wrong objection.

Where the result is said in words ("12 x 3 gives 36", "the total is 36, which is 12 x 3"), a clause is judged that has
one calculation, one other number, and words that make that number its result. All else is left alone: ranges and dates
(`3-5`, `24/7`), guesses ("about 40"), factorials, LaTeX, and clauses that deny or compare.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice, pairwise

from blamespan_tracer.tokens import NUMBER_PATTERN

_NUMBER = re.compile(NUMBER_PATTERN)
_COMMON = frozenset((24.0, 30.0, 60.0, 100.0, 180.0, 360.0, 365.0, 1000.0, 3600.0))
"""Numbers of more than a dozen that need no source."""

_SAME = str.maketrans({"\u00d7": "*", "\u00f7": "/", "\u00b7": "*", "\u2212": "-", "$": None, "\u20ac": None})
_SPEAKS_OF_SUMS = frozenset(
    ("times", "of", "by", "plus", "minus", "half", "double", "twice", "over", "divided", "multiplied", "modulo", "mod")
)
_WORD_BEFORE = re.compile(r"(\w{1,20})\s*\Z")
_BELOW_ZERO = re.compile(r"\s+[-\u2212]\d")
"""How a side begins with a number below zero, and not with a sign that takes away from what stands before it."""
_SIGNS = frozenset("+-*/^\u00d7\u00f7\u00b7\u2212")
_MAX_DEPTH, _MAX_POWER, _MAX_VALUE = 12, 64, 1e15

_MADE_OF = "0123456789.,()+-*/^\u00d7\u00f7\u00b7\u2212=$\u20ac \t"
_MAX_RUN_CHARS = 300
"""What a written sum is made of, and how far it is looked for to both sides of its first `=`."""

_CALCULATES = re.compile(r"[\d)][ \t]{0,4}[-+*/^\u00d7\u00f7\u00b7\u2212]")
_LATEX = (("\\times", "*"), ("\\cdot", "*"), ("\\div", "/"), ("\\,", ""), ("\\$", ""))
_BULLET = re.compile(r"[ \t]{0,20}(?:[-*+]|\d{1,2}[.)])[ \t]+(?=[\d(-])")
_MAX_EQUATIONS = 200

_SIGN = "(?: ?[\u00d7\u00f7\u00b7] ?| [-+*/\u2212] )"
_OPERAND = rf"\(?[$\u20ac]?{NUMBER_PATTERN}\)?"
_FIRST = rf"(?:(?<![\d)] )[-\u2212](?=\d))?{_OPERAND}"
"""Where nothing stands before it to take away from, it may be below zero."""
_SUM = re.compile(rf"(?<![\w.,/^%$\u20ac-]){_FIRST}(?:{_SIGN}{_OPERAND}){{1,40}}(?![\w^%(!]|\)!|[.,]\d| ?%)")
_HAS_SIGN = re.compile(rf"\d\)?{_SIGN}[($\u20ac\d]")
_OTHER = re.compile(rf"(?<![\w.,/-])-?[$\u20ac]?{NUMBER_PATTERN}(?![\w%/]|[.,]\d| ?%)")
_FOLLOWS_SIGN = re.compile(r"(?:[-+/^\u00d7\u00f7\u00b7\u2212]|(?<!\*)\*)\s*\Z")
_LIST_MARK = re.compile(r"\s*(?:[-*+]|\d{1,2}[.)])\s+")
_CLAUSE_END = re.compile(r"[.!?;](?=\s|\Z)|\n")
_REACH = 240
"""How far a clause goes to both sides of its calculation, in characters."""

_MAX_SUMS = 200
_RESULT_VERBS = (
    r"is|are|was|were|gives?|giving|makes?|making|yields?|equals?|totals?|comes?|amounts?|results?|leads?|leaves?"
    r"|leaving|becomes?|gets?|have|has|obtain|arrive|produces?|returns?|means|works?|turns?|find|reach|be"
)
_IS = rf"(?:\b(?:{_RESULT_VERBS})\b|[\u2192\u21d2\u2248:]|->|=>)"
_GIVES = re.compile(_IS, re.IGNORECASE)
_GIVES_AT_ONCE = re.compile(rf"[\s)*]{{0,4}}{_IS}(?:[\s*]+[a-z]+){{0,5}}[\s*$\u20ac-]{{0,4}}\Z", re.IGNORECASE)
_COMES_FROM = re.compile(
    r"\b(?:which is|that is|this is|namely|i\.e\.|from|since|because|as|being|via|by)\b", re.IGNORECASE
)
_BESIDE = re.compile(r"[\s*]*(?:[^\W\d]+[\s*]*){0,2}\Z")
_LEADS_IN = re.compile(
    r"(?:\A|[,:]\s*)(?:so |then |and |now )?(?:working |computing |starting |going )?"
    r"(?:with|since|from|given|using|taking|computing|calculating|by|as|adding|out|of)\s*\Z",
    re.IGNORECASE,
)
_UNIT = r"(?: ?(?:[%$\u20ac\u00a3]|(?![abciknxyz]\b)[^\W\d_]{1,12}(?:/[^\W\d_]{1,8})?))"
_CURRENCY = r"[$\u20ac\u00a3]?"
_WITH_UNIT = rf"\(?{_CURRENCY}{NUMBER_PATTERN}{_UNIT}?\)?"
_ANY_SIGN = r"[-+*/\u00d7\u00f7\u00b7\u2212]"
_ENDS = rf"(?![\w%]|[.,:/]\d| ?(?:{_ANY_SIGN}|x) ?\d)"
_UNIT_SUM = re.compile(
    rf"(?<![\w.,/%$\u20ac\u00a3-])(?P<sum>{_WITH_UNIT}(?:(?: ?{_ANY_SIGN} ?| x ){_WITH_UNIT}){{1,20}})"
    rf" ?= ?{_CURRENCY}(?P<result>-?{NUMBER_PATTERN})(?P<unit>{_UNIT})?{_ENDS}"
)
_UNIT_OF = re.compile(rf"(?<=\d){_UNIT}(?=[ )]|$)")
_PERCENT = re.compile(rf"({NUMBER_PATTERN}) ?%")
_ADDS = re.compile(r"[-+\u2212]")
_WHOLE = rf"(?P<whole>{NUMBER_PATTERN})(?: [^\W\d_]{{1,12}})?"
_PERCENT_OF = re.compile(
    rf"(?<![\w.,/-])(?P<part>{NUMBER_PATTERN}) ?% of {_CURRENCY}{_WHOLE}"
    rf"(?: ?= ?|,? (?:is|are|equals|gives|makes|comes to) ){_CURRENCY}(?P<result>{NUMBER_PATTERN})(?![\w%]|[.,]\d| ?%)"
)
_SHARE_OF = re.compile(
    rf"(?<![\w.,/-])(?P<part>{NUMBER_PATTERN}) (?:out )?of (?:the )?{_WHOLE}"
    rf"(?: ?= ?|,? (?:is|are|that is|which is|or|i\.e\.) )(?P<result>{NUMBER_PATTERN}) ?%"
)
_DENIES = re.compile(
    r"n't\b|\b(?:not|never|rather|instead|about|approximately|roughly|around|almost|nearly|least|most|than|would|should"
    r"|if|unless|wrong|incorrect|mistaken|mod|modulo|between|versus|vs)\b|~",
    re.IGNORECASE,
)


_SUBTRACTS = re.compile(r"[-\u2212\u2013]")
"""Where a calculation has none of these, a result below zero is what is deducted: "meals: 3 x 5.60 = -16.80"."""


@dataclass(frozen=True, slots=True)
class Equation:
    """Two sides that are said to be equal, at least one of them a calculation.

    Attributes:
        start: Where it begins in the text, and
        end: where it ends.
        left: What the left side comes to.
        right: What the right side comes to.
        holds: Whether they are equal, as far as they are rounded.
    """

    start: int
    end: int
    left: float
    right: float
    holds: bool

    def comes_to(self, value: float) -> bool:
        """Check whether its right side is *value*, but for rounding."""
        return abs(self.right - value) < 1e-6 * max(1.0, abs(value))


@lru_cache(maxsize=256)
def equations(text: str) -> tuple[Equation, ...]:
    """Find the sums of *text* that can be worked out again, in order; of those with `=`, and in words, the first 200.

    Cached: features and several checks ask for those of the same texts.
    """
    in_signs = _read_sums_in_signs(text) if "=" in text else []
    in_words = [Equation(*fields) for fields in _read_sums_in_words(text)]
    plain = [*in_signs, *in_words]
    of_units = [
        equation
        for equation in (*_read_sums_of_units(text), *_read_percentages(text))
        if not any(equation.start < other.end and other.start < equation.end for other in plain)
    ]
    return tuple(sorted([*plain, *of_units], key=lambda equation: equation.start))


def spell_number(value: float) -> str:
    """Spell a number the one way: without zeros behind its last place."""
    return f"{round(value, 6) + 0.0:.6f}".rstrip("0").rstrip(".")


def is_common(value: float) -> bool:
    """Check whether a number needs no source: counts, list numbers, hours, per cent."""
    return abs(value) <= 12 or value in _COMMON


@lru_cache(maxsize=256)
def calculations(text: str) -> frozenset[float]:
    """Return what the calculations of *text* come to, whether their results are written or not; of the first 200."""
    if not _HAS_SIGN.search(text):
        return frozenset()
    found = (_read_side(_unwrap(match[0])) for match in islice(_SUM.finditer(text), _MAX_SUMS))
    return frozenset(round(side.value, 6) for side in found if side is not None)


def _read_sums_in_signs(text: str) -> list[Equation]:
    for latex, plain in _LATEX if "\\" in text else ():
        text = text.replace(latex, plain.ljust(len(latex)))  # same length: indices stay
    sums: list[Equation] = []
    at = text.find("=")
    while at >= 0 and len(sums) < _MAX_EQUATIONS:
        before, after = text[max(0, at - _MAX_RUN_CHARS) : at], text[at : at + _MAX_RUN_CHARS]
        start = at - (len(before) - len(before.rstrip(_MADE_OF)))
        end = at + len(after) - len(after.lstrip(_MADE_OF))
        if _CALCULATES.search(text, start, end) and "==" not in text[at:end]:
            sums += _split_run(text, start, end)
        at = text.find("=", end)
    return sums


def _split_run(text: str, start: int, end: int) -> Iterator[Equation]:
    bullet = _BULLET.match(text, start, end) if start == 0 or text[start - 1] == "\n" else None
    start = bullet.end() if bullet else start
    signs = [start - 1, *(start + m.start() for m in re.finditer("=", text[start:end])), end]
    sides = [(before + 1, after) for before, after in pairwise(signs)]
    read: list[_Side | None] = []
    for number, (begin, stop) in enumerate(sides):
        side = text[begin:stop]
        is_part = (number == 0 and _goes_on_before(text, start, side)) or (
            number == len(sides) - 1 and _goes_on_after(text, end)
        )
        read.append(None if is_part else _read_side(side))
    for (left, right), ((begin, middle), (_, stop)) in zip(pairwise(read), pairwise(sides), strict=True):
        if left is not None and right is not None and (left.operators or right.operators):
            lead = len(text[begin:stop]) - len(text[begin:stop].lstrip(" \t,.)"))
            equation = text[begin:stop].rstrip(" \t,.(")
            is_deduction = (
                not right.operators and right.value < 0 < left.value and not _SUBTRACTS.search(text[begin:middle])
            )
            holds = _are_equal(left, replace(right, value=-right.value) if is_deduction else right)
            yield Equation(begin + lead, begin + len(equation), left.value, right.value, holds)


def _read_sums_in_words(text: str) -> Iterator[tuple[int, int, float, float, bool]]:
    """Find sums without `=` that can be worked out again; of the first 200 calculations.

    Yields:
        Where it begins and ends in *text*, what the calculation comes to, the result that is said, and whether the two
        are equal as far as they are rounded.
    """
    if not _HAS_SIGN.search(text):
        return
    for count, match in enumerate(_SUM.finditer(text)):
        if count >= _MAX_SUMS:
            return
        begin, end = _find_clause(text, match.start(), match.end())
        if _goes_on_before(text, match.start(), match[0]) or _FOLLOWS_SIGN.search(text[begin : match.start()]):
            continue
        result = _find_result(text, begin, match.start(), match.end(), end)
        if result is None:
            continue
        left, right = _read_side(_unwrap(match[0])), _read_side(result[0])
        if left is not None and right is not None:
            first, last = min(match.start(), result.start()), max(match.end(), result.end())
            yield first, last, left.value, right.value, _are_equal(left, right)


def _read_sums_of_units(text: str) -> Iterator[Equation]:
    """Find sums whose numbers have units or percent signs: `3 x 220 lb = 660 lb`, `45 / 1,250 = 3.6 %`."""
    if "=" not in text:
        return
    for match in islice(_UNIT_SUM.finditer(text), _MAX_SUMS):
        if _goes_on_before(text, match.start(), match["sum"]) or _FOLLOWS_SIGN.search(
            text[max(0, match.start() - 3) : match.start()]
        ):
            continue
        units = [unit for unit in (_fold_unit(found) for found in _UNIT_OF.findall(match["sum"])) if unit]
        written = _UNIT_OF.sub("", _PERCENT.sub(r"(\1/100)", match["sum"])).replace(" x ", "*")
        left, right = _read_side(written), _read_side(match["result"])
        if left is None or right is None or not left.operators:
            continue
        units += [rate.partition("/")[0] for rate in units if rate.partition("/")[2] in units]
        unit, decimals = _fold_unit(match["unit"] or ""), right.decimals
        if unit == "%":
            is_equal = any(
                _are_equal(_Side(left.value * factor, 1, decimals, divides=True), right) for factor in (1.0, 100.0)
            )
        elif not units or not unit or set(units) == {unit} or (unit in units and not _ADDS.search(written)):
            is_equal = _are_equal(
                _Side(left.value, 1, left.decimals, divides=left.divides or bool("%" in match["sum"])), right
            )
        else:  # one unit turned into another
            continue
        yield Equation(match.start(), match.end(), left.value, right.value, is_equal)


def _read_percentages(text: str) -> Iterator[Equation]:
    """Find shares worked out in words: `12 % of 250 is 30`, `45 of 1,250, that is 3.6 %`."""
    if "%" not in text:
        return
    for pattern, is_share in ((_PERCENT_OF, False), (_SHARE_OF, True)):
        for match in islice(pattern.finditer(text), _MAX_SUMS):
            if not is_share and _goes_on_after(text, match.end()):
                continue
            part, whole, result = (_read_side(match[name]) for name in ("part", "whole", "result"))
            if part is None or whole is None or result is None or (is_share and not whole.value):
                continue
            value = 100 * part.value / whole.value if is_share else part.value / 100 * whole.value
            worked_out = _Side(value, 1, result.decimals, divides=True)
            yield Equation(match.start(), match.end(), value, result.value, _are_equal(worked_out, result))


def _fold_unit(unit: str) -> str:
    """Return a unit in one spelling: `hours` and `hour` are one."""
    folded = unit.strip().casefold()
    return folded[:-1] if len(folded) > 3 and folded.endswith("s") else folded


def _find_clause(text: str, start: int, end: int) -> tuple[int, int]:
    """Find the clause around a calculation, without the mark of a list."""
    before = [m.end() for m in _CLAUSE_END.finditer(text, max(0, start - _REACH), start)]
    after = _CLAUSE_END.search(text, end, end + _REACH)
    begin = before[-1] if before else max(0, start - _REACH)
    mark = _LIST_MARK.match(text, begin, start)
    return (mark.end() if mark else begin), (after.start() if after else min(len(text), end + _REACH))


def _find_result(text: str, begin: int, start: int, end: int, stop: int) -> re.Match[str] | None:
    """Find the number that a clause says its calculation comes to; None where that is not plain."""
    around = text[begin:start] + " " + text[end:stop]
    if "=" in around or "\\" in around or _DENIES.search(around) or _HAS_SIGN.search(around):
        return None
    others = [*_OTHER.finditer(text, begin, start), *_OTHER.finditer(text, end, stop)]
    if len(others) != 1 or len(re.findall(r"\d+", around)) != len(re.findall(r"\d+", others[0][0])):
        return None
    result = others[0]
    if result.start() < start:
        between = text[result.end() : start]
        is_beside = text[start] == "(" and _BESIDE.match(between)
        return result if is_beside or _COMES_FROM.search(between) else None
    if _GIVES_AT_ONCE.match(text[end : result.start()]):
        return result
    is_led_in = text[end : end + 1] == "," and _LEADS_IN.search(text[begin:start])
    return result if is_led_in and _GIVES.search(text, end, result.start()) else None


def _unwrap(text: str) -> str:
    """Drop a bracket that belongs to the text around."""
    surplus = text.count("(") - text.count(")")
    return text.removeprefix("(") if surplus > 0 else text.removesuffix(")") if surplus < 0 else text


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of an equation.

    Attributes:
        value: What it comes to.
        operators: How many signs of calculation it has; none in a bare number.
        decimals: Most places behind the point of any of its numbers.
        divides: Whether it may have been rounded.
    """

    value: float
    operators: int
    decimals: int
    divides: bool


def _read_side(text: str) -> _Side | None:
    """Read one side of an equation; None where it cannot be worked out."""
    stripped = text.translate(_SAME).strip().rstrip(".,(").strip()
    if not stripped or not any(char.isdigit() for char in stripped):
        return None
    value = value_of(stripped)
    if value is None:
        return None
    operators = sum(stripped.count(sign) for sign in "+-*/^") - (stripped[0] == "-")
    decimals = max((len(n.partition(".")[2]) for n in _NUMBER.findall(stripped)), default=0)
    return _Side(value, operators, decimals, "/" in stripped)


def _are_equal(left: _Side, right: _Side) -> bool:
    """Compare as exactly as the less exact side is written: a quotient may be rounded to its last place."""
    if math.isclose(left.value, right.value, rel_tol=1e-9, abs_tol=1e-9):
        return True
    rounded = [side for side in (left, right) if not side.operators] or [left, right]
    is_inexact = left.divides or right.divides or left.decimals != right.decimals
    slack = max(10.0**-side.decimals for side in rounded) if is_inexact else 0.0
    return abs(left.value - right.value) <= slack * 1.001


def _goes_on_before(text: str, start: int, side: str) -> bool:
    """Check whether the first side of a run may be the end of something that is not all digits."""
    before = text[max(0, start - 24) : start]
    if not before or before[-1] == "\n":
        return False
    if before[-1].isalnum() or before[-1] in "_)]}%":
        is_glued = not side[:1].isspace()
        if is_glued or (side.strip()[:1] in _SIGNS and not _BELOW_ZERO.match(side)):
            return True
    word = _WORD_BEFORE.search(before)
    if word is None:
        return before.rstrip()[-1:] in ("%", "]", "}", "|", "!", "&", "<", ">")
    return (len(word[1]) == 1 and word[1] not in "aA") or word[1].lower() in _SPEAKS_OF_SUMS


def _goes_on_after(text: str, end: int) -> bool:
    """Check whether the last side of a run may go on in something that is not all digits."""
    after = text[end : end + 12]
    if not after:
        return False
    if text[end - 1].isspace():
        word = re.match(r"\w+", after)
        return after[0] in "%\\!|" or (word is not None and (len(word[0]) == 1 or word[0].lower() in _SPEAKS_OF_SUMS))
    return after[0].isalnum() or after[0] in "_%\\!([{|"


def value_of(text: str) -> float | None:
    """Work out a sum of numbers, `+ - * / ^ **` and brackets; None where it is none, or too large."""
    plain = _NUMBER.sub(lambda number: f" {float(number[0].replace(',', ''))!r} ", text).replace("^", "**")
    if not _SUM_SIGNS.fullmatch(plain) or plain.count("(") > _MAX_DEPTH:
        return None
    try:
        value = _work_out(ast.parse(plain.strip(), mode="eval").body)
    except (SyntaxError, ValueError, KeyError, ZeroDivisionError, OverflowError):
        return None
    return value if abs(value) <= _MAX_VALUE else None


def _work_out(node: ast.expr) -> float:
    """Return what a node of a syntax tree comes to.

    Raises:
        ValueError: if it is no sum, or a power too high.
    """
    if isinstance(node, ast.Constant) and isinstance(node.value, float):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_work_out(node.operand)
    if not isinstance(node, ast.BinOp):
        raise ValueError(ast.dump(node))
    left, right = _work_out(node.left), _work_out(node.right)
    if isinstance(node.op, ast.Pow) and (abs(right) > _MAX_POWER or (left < 0 and right != int(right))):
        raise ValueError(right)
    return float(_OPERATIONS[type(node.op)](left, right))


_OPERATIONS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
_SUM_SIGNS = re.compile(r"[\d.e+ \t*/()-]+")
