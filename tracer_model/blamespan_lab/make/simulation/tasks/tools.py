"""Tools that several families of tasks offer: a calculator, and a word search over a few documents."""

from __future__ import annotations

import ast
import operator
import re
from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType

from blamespan_lab.make.simulation.statements.values import format_value
from blamespan_lab.make.simulation.tasks.task import Tool

_BINARY: Mapping[type[ast.operator], Callable[[float, float], float]] = MappingProxyType(
    {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}
)


def calculate(expression: str) -> str:
    """Work out an arithmetic expression.

    Raises:
        ValueError: if it is longer than 300 characters or holds anything but numbers, + - * / and brackets.
    """
    plain = expression.replace("×", "*").replace("−", "-").replace(",", "")  # noqa: RUF001
    if len(plain) > 300:
        raise ValueError(f"expected at most 300 characters, got {len(plain)}. Work it out in parts")
    try:
        return format_value(_value(ast.parse(plain, mode="eval").body))
    except (SyntaxError, ZeroDivisionError, RecursionError, OverflowError) as error:
        raise ValueError(f"expected arithmetic like '12 * (3 + 4)', got {expression!r}: {error}") from error


def _value(node: ast.expr) -> float:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return float(node.value)
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _BINARY[type(node.op)](_value(node.left), _value(node.right))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand)
    raise ValueError(f"expected numbers, + - * / and brackets, got {type(node).__name__}. Work it out in parts")


CALCULATOR = Tool("calculate", "Work out an arithmetic expression.", {"expression": "e.g. 12 * (3 + 4)"}, calculate)


_COMMON = frozenset(
    ("the", "a", "an", "of", "in", "on", "for", "to", "is", "was", "by", "and", "at", "it", "its", "with")
)


def search_tool(documents: Mapping[str, str], hits: int = 2) -> Tool:
    """Make a tool that gives the *hits* documents with most words of the query, rare words counting more."""
    words = {title: Counter(_words(f"{title} {text}")) for title, text in documents.items()}
    spread = Counter(word for counted in words.values() for word in counted)

    def search_documents(query: str) -> str:
        scores = {
            title: sum(1 / spread[word] for word in sorted(set(_words(query))) if word in counted)
            for title, counted in words.items()
        }
        best = sorted((title for title in scores if scores[title] > 0), key=lambda title: (-scores[title], title))
        return "\n".join(f"[{title}] {documents[title]}" for title in best[:hits]) or "No document matches."

    return Tool("search_documents", "Search the documents.", {"query": "a few words"}, search_documents)


def _words(text: str) -> list[str]:
    return [word for word in re.findall(r"[\w-]+", text.casefold()) if word not in _COMMON]
