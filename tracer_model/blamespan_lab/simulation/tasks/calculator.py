"""Arithmetic as a tool: only numbers and the four operations, nothing is evaluated."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType

from blamespan_lab.simulation.tasks.task import Tool
from blamespan_lab.simulation.values import written

__all__ = ["CALCULATOR", "calculate"]

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
        return written(_value(ast.parse(plain, mode="eval").body))
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
