"""Calculations of the same for several things: what one multiplies with, the others do, too."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from blamespan_tracer.checks.check import ExaminedRun, Finding, Source, check

_NUMBER: Final = r"(?:EUR |USD |[$\u20ac\u00a3])?\d[\d,]*(?:\.\d+)?(?: ?(?:EUR|USD|\u20ac))?"
_PRODUCT: Final = re.compile(
    rf"^[ \t]*(?:[-*\u2022|]|\d{{1,2}}[.)])?[ *_]*(?P<name>[^\W\d_][^:=|\d]{{0,40}}?)[*_ ]*[:|][*_ ]*"
    rf"(?P<factors>{_NUMBER}(?: ?[\u00d7*x] ?{_NUMBER})+) ?=",
    re.MULTILINE,
)
"""`- Boardly: 45 x $29.00 x 12 =`."""
_FACTOR: Final = re.compile(r"\d+(?:\.\d+)?")
_PER: Final = re.compile(r"(?i)(?:\bper |/ ?)([^\W\d_]+)(?:(?: and|,|/) ?([^\W\d_]+))?")
_MAX_CHARS: Final = 10_000
_MAX_CLAUSE: Final = 120


@dataclass(frozen=True, slots=True)
class _Product:
    name: str
    factors: frozenset[str]
    text: str


@check(
    "factor-in-all",
    "What one of several like calculations multiplies with, the others do, too.",
    mode="mast:FM-2.6",
    trust=0.7,
)
def factors_are_in_all(run: ExaminedRun) -> Iterator[Finding]:
    """Look for a line that lacks a factor that all other lines of its list have beside one that they share."""
    for step in run.decisions:
        if step.kind == "tool_call":
            continue
        products = _read_products(step.content[:_MAX_CHARS])
        if len(products) < 2:
            continue
        found = next(_find_lacking(products), None)
        if found is None:
            yield Finding(step.index, "pass")
            continue
        product, other, factor = found
        texts = [one.content[:_MAX_CHARS] for one in run.trace.steps[: step.index]]
        if _list_units(product.name, other.name, texts) == _list_units(other.name, product.name, texts):
            reason = f"{factor} is a factor of {other.name[:40]!r}, not here"
            yield Finding(step.index, "fail", product.text, reason, source=Source(step.index, other.text))


def _find_lacking(products: Sequence[_Product]) -> Iterator[tuple[_Product, _Product, str]]:
    """Yield each product with another one and a factor that all others have, which have more factors than it."""
    for product in products:
        others = [other for other in products if other is not product]
        missing = frozenset[str].intersection(*(other.factors for other in others)) - product.factors
        is_alike = any(product.factors & other.factors for other in others)
        if missing and is_alike and all(len(product.factors) < len(other.factors) for other in others):
            yield product, others[0], min(missing)


def _read_products(text: str) -> Sequence[_Product]:
    return [
        _Product(match["name"].strip(), frozenset(_FACTOR.findall(match["factors"].replace(",", ""))), match[0].strip())
        for match in _PRODUCT.finditer(text)
    ]


def _list_units(name: str, other: str, texts: Sequence[str]) -> frozenset[str]:
    """Return what the value of a thing is said to be per: `per seat and month`."""
    units = set()
    for text in texts:
        for match in re.finditer(re.escape(name), text):
            clause = re.split(rf"[\n;]|{re.escape(other)}", text[match.end() : match.end() + _MAX_CLAUSE])[0]
            units |= {unit for one in _PER.finditer(clause) for unit in one.groups() if unit}
    return frozenset(units)
