"""Which names a piece of code mentions, and whether it hides what it calls. The code is read, never run."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from blamespan.guarding.tool_names import make_plain, skeleton

__all__ = ["CodeNames", "read_code_names"]

_WORD = re.compile(r"\w+")
_MAX_CHARS = 200_000
_OPAQUE = (
    frozenset(
        (
            "eval",
            "exec",
            "compile",
            "globals",
            "locals",
            "vars",
            "dir",
            "__import__",
            "importlib",
            "runpy",
            "ctypes",
            "pickle",
        )
    )
    | frozenset(
        (
            "marshal",
            "gc",
            "inspect",
            "__dict__",
            "__globals__",
            "__builtins__",
            "__subclasses__",
            "__getattribute__",
            "modules",
        )
    )
    | frozenset(
        (
            "attrgetter",
            "methodcaller",
            "subprocess",
            "system",
            "popen",
            "spawn",
            "b64decode",
            "fromhex",
            "unhexlify",
            "codecs",
        )
    )
    | frozenset(("chr", "setattr", "builtins", "__closure__", "__code__", "FunctionType", "cell_contents"))
)
"""Names by which Python code reaches what it does not name."""
_OPAQUE_SHELL = re.compile(
    r"(?i)\beval\b|\bexec\b|base64|\bxxd\b|\bod\b|printf|\brev\b|\btr\b|\bsed\b|\bawk\b|\$\(|`|\$\{|python|perl|ruby|node|"
    r"\bsource\b|\bcurl\b|\bwget\b|\\x|\\u|\\[0-7]|iex|frombase64"
)
_GLUE = re.compile(r"[\"'\\+^,()\[\]{}\s$&.]+")


@dataclass(frozen=True, slots=True)
class CodeNames:
    """What a piece of code mentions.

    Attributes:
        names: Every name, attribute and word of a text in it.
        glued: All of it as it looks without quotes, signs and blanks, where it is no Python that can be read.
        is_opaque: Whether it may call what it does not name.
    """

    names: frozenset[str]
    glued: str = ""
    is_opaque: bool = False


def read_code_names(code: str) -> CodeNames:
    """Read which names *code* mentions: of Python its parts, of everything else its words."""
    if len(code) > _MAX_CHARS:
        return CodeNames(frozenset(), is_opaque=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # escapes in a text that an agent wrote
            tree = ast.parse(code)
        return _read_python(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        plain = make_plain(code)
        return CodeNames(
            frozenset(_WORD.findall(plain)), skeleton(_GLUE.sub("", plain)), bool(_OPAQUE_SHELL.search(plain))
        )


def _read_python(tree: ast.AST) -> CodeNames:
    names: set[str] = set()
    is_opaque = False
    for node in ast.walk(tree):
        names.update(_names_of(node))
        is_opaque = is_opaque or _hides(node)
    return CodeNames(frozenset(names), is_opaque=is_opaque or not _OPAQUE.isdisjoint(map(make_plain, names)))


def _names_of(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.AsyncFunctionDef(name=name) | ast.arg(arg=name):
            yield name
        case ast.alias(name=name, asname=other):
            yield from name.split(".")
            yield other or ""
        case ast.keyword(arg=name) if name:
            yield name
        case ast.Constant(value=str(text)):
            yield from _words(text)
        case ast.BinOp() | ast.JoinedStr() | ast.Call():
            folded = _fold(node)
            if folded is not None:
                yield from _words(folded)
        case _:
            return


def _words(text: str) -> Iterator[str]:
    yield text[:200]
    yield from _WORD.findall(make_plain(text))


def _fold(node: ast.AST) -> str | None:
    """Return the text that an expression of constants comes to; None where it cannot be told."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            first, second = _fold(left), _fold(right)
            return None if first is None or second is None else first + second
        case ast.JoinedStr(values=values):
            parts = [_fold(value.value if isinstance(value, ast.FormattedValue) else value) for value in values]
            return None if None in parts else "".join(part for part in parts if part is not None)
        case ast.Call(func=ast.Attribute(value=glue, attr="join"), args=[ast.List(elts=items) | ast.Tuple(elts=items)]):
            between, parts = _fold(glue), [_fold(item) for item in items]
            return (
                None if between is None or None in parts else between.join(part for part in parts if part is not None)
            )
        case _:
            return None


def _hides(node: ast.AST) -> bool:
    """Check whether a node calls or reads what it does not name."""
    match node:
        case ast.Call(func=ast.Name(id=("getattr" | "hasattr")), args=[_, name, *_]):
            return _fold(name) is None
        case ast.Name(id="getattr"):
            return False
        case ast.Call(func=ast.Subscript(slice=key)):
            return not isinstance(key, ast.Constant) and _fold(key) is None
        case ast.ImportFrom(names=[ast.alias(name="*")]):
            return True
        case _:
            return False
