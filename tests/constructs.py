"""What is recorded of each construct of each framework, as the tests say it: a page of the reference.

A test marked `@pytest.mark.construct(framework, name)` is a row: the first sentence of its docstring says what is
recorded, and the drawing it compares with is shown below. Tests are read, not run, so no framework is needed.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TypeAlias

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests" / "integrations"
FIRST = ("AutoGen", "LangGraph")
"""Frameworks that open the page; others follow by name."""
HEAD = """\
# What is recorded of each construct

Each row is a test that runs the real framework and compares the whole rebuilt trace with a literal, shown below the
table. A drawing has a line per step: its index, the agent, what kind of step it is and what it says, then to whom it
is addressed, the steps it builds on, how it ended and what it cost.
"""

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Construct:
    """One row.

    Attributes:
        says: What is recorded, in a sentence.
        drawings: The literals that the test compares with; several where it looks several times.
        file: The test's, relative to the repository.
        test: The test's name.
    """

    framework: str
    name: str
    says: str
    drawings: tuple[str, ...]
    file: str
    test: str


def constructs(folder: Path) -> list[Construct]:
    """Read the constructs off the tests in *folder*, in the order of files and lines.

    Raises:
        ValueError: if a mark's arguments are not two texts, or a marked test has no docstring.
    """
    return [found for path in sorted(folder.rglob("test_*.py")) for found in _in_file(path)]


def page(rows: Sequence[Construct]) -> str:
    """Write the page: for each framework its table, then its drawings."""
    order = {name: place for place, name in enumerate(FIRST)}
    ordered = sorted(rows, key=lambda row: (order.get(row.framework, len(order)), row.framework))
    parts = [HEAD]
    for framework, of in groupby(ordered, key=lambda row: row.framework):
        parts += [f"\n## {framework}\n\n", *_framework(list(of))]
    return "".join(parts)


def _in_file(path: Path) -> Iterator[Construct]:
    tree = ast.parse(path.read_text(), str(path))
    texts = {
        target.id: statement.value.value
        for statement in tree.body
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant)
        for target in statement.targets
        if isinstance(target, ast.Name) and isinstance(statement.value.value, str)
    }
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    for function in sorted(functions, key=lambda function: function.lineno):
        for framework, name in _marks(function, path, texts):
            yield _construct(function, framework, name, path, texts)


def _marks(function: Function, path: Path, texts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Find marks among the decorators, also those on single parameters."""
    for call in (inner for decorator in function.decorator_list for inner in ast.walk(decorator)):
        if not isinstance(call, ast.Call) or ast.unparse(call.func) != "pytest.mark.construct":
            continue
        said = [_text(argument, texts) for argument in call.args]
        if len(said) != 2 or not all(said) or call.keywords:
            raise ValueError(
                f"{path.name}:{call.lineno}: expected @pytest.mark.construct(framework, name) with two texts, "
                f"got {ast.unparse(call)!r}. Write both out"
            )
        yield str(said[0]), str(said[1])


def _text(node: ast.expr, texts: Mapping[str, str]) -> str | None:
    if isinstance(node, ast.Name):
        return texts.get(node.id)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _construct(function: Function, framework: str, name: str, path: Path, texts: Mapping[str, str]) -> Construct:
    docstring = ast.get_docstring(function)
    if not docstring:
        raise ValueError(
            f"{path.name}:{function.lineno}: {function.name!r} is marked as a construct and must say in its docstring "
            "what is recorded, got none. Add one sentence"
        )
    says = re.split(r"(?<=[.!?])\s", " ".join(docstring.split("\n\n")[0].split()))[0]
    inner = [_text(node, texts) for node in ast.walk(function) if isinstance(node, ast.Constant | ast.Name)]
    drawings = tuple(dict.fromkeys(_dedented(text) for text in inner if text and _is_drawing(text)))
    file = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
    return Construct(framework, name, says, drawings, file, function.name)


def _is_drawing(text: str) -> bool:
    return bool(re.search(r"^\s*task: ?.*\n\s*agents: ", text, re.MULTILINE))


def _dedented(text: str) -> str:
    return textwrap.dedent(text).strip("\n").rstrip()


def _framework(rows: Sequence[Construct]) -> Iterator[str]:
    yield "| construct | what is recorded | test |\n|---|---|---|\n"
    for row in rows:
        yield f"| {_cell(row.name)} | {_cell(row.says)} | `{row.file}::{row.test}` |\n"
    by_drawings: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        by_drawings.setdefault(row.drawings, []).append(row.name)
    for drawings, names in by_drawings.items():
        if drawings:
            fenced = "\n\n".join(f"```text\n{drawing}\n```" for drawing in drawings)
            summary = "; ".join(map(_html, dict.fromkeys(names)))
            yield f"\n<details markdown><summary>{summary}</summary>\n\n{fenced}\n\n</details>\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _html(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")
