"""What a piece of code may do, read from its text: an allow-list, so what is not known to be harmless is not allowed.

Python is read as a syntax tree. Code reaches other things only by a name, an import or an attribute, so these are held
to lists: harmless builtins, members of pure modules, names that the code has bound itself wherever it reads them,
methods of plain values, and what the policy allows by name. What is built of allowed things is allowed; classes,
decorators and attributes that code sets are not. Shell is a list of programs with plain words. This is no sandbox: it
reads code, and what a policy allows does what it does.
"""

from __future__ import annotations

import ast
import builtins
import collections
import datetime
import decimal
import fractions
import importlib
import re
import sys
import types
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

_MAX_CHARS = 200_000
_MAX_NODES = 100_000
_SHELL_PROGRAMS: Final = frozenset(("echo", "ls", "pwd"))
_SHELL_WORD: Final = re.compile(r"[A-Za-z0-9_./:=,@%+-]+")
_PYTHON_LABELS: Final = frozenset(("python", "python3", "py"))
_SHELL_LABELS: Final = frozenset(("sh", "bash", "shell"))
_CODING: Final = re.compile(r"coding[:=]\s*+(?!utf-?8\b)", re.IGNORECASE)
_CONTROL: Final = re.compile(r"\r(?!\n)|[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f\u0085\u2028\u2029]")

_BUILTINS: Final = frozenset(
    """abs all any bool bytearray bytes chr complex dict divmod enumerate filter float format frozenset hash hex id int
    isinstance issubclass iter len list map max min next object oct ord pow print range repr reversed round set slice
    sorted str sum tuple zip __name__""".split()  # noqa: SIM905 - shorter
)
_ERRORS: Final = {
    name for name, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(kind, Exception)
}
_MODULES: Final = {
    "bisect": "*",
    "cmath": "*",
    "collections": "ChainMap Counter OrderedDict defaultdict deque",
    "copy": "copy deepcopy",
    "datetime": "UTC date datetime time timedelta timezone",
    "decimal": "Decimal ROUND_CEILING ROUND_DOWN ROUND_FLOOR ROUND_HALF_EVEN ROUND_HALF_UP ROUND_UP getcontext",
    "fractions": "Fraction",
    "functools": "cache cmp_to_key lru_cache partial reduce",
    "heapq": "*",
    "itertools": "*",
    "json": "dumps loads",
    "math": "*",
    "operator": "add eq floordiv ge gt itemgetter le lt mod mul ne neg sub truediv xor",
    "random": "choice choices gauss randint random randrange sample seed shuffle uniform",
    "re": "DOTALL I IGNORECASE M MULTILINE S VERBOSE compile escape findall finditer fullmatch match search split sub",
    "statistics": "*",
    "string": "ascii_letters ascii_lowercase ascii_uppercase capwords digits hexdigits punctuation whitespace",
    "textwrap": "dedent fill indent shorten wrap",
    "time": "monotonic perf_counter strftime strptime time",
    "typing": "Any Callable Dict Iterable Iterator List Optional Sequence Set Tuple Union",
}
"""Pure modules and their members that code may use; `*` is what a module lists as public."""
_PLAIN_TYPES: Final = (
    *(str, bytes, list, dict, set, tuple, int, float, complex, range, re.Pattern, re.Match, types.GeneratorType),
    *(datetime.datetime, datetime.timedelta, decimal.Decimal, fractions.Fraction),
    *(collections.Counter, collections.deque, collections.OrderedDict),
)
_INTERNAL_TYPES: Final = (
    *(types.AsyncGeneratorType, types.CodeType, types.CoroutineType, types.FrameType, types.GeneratorType),
    *(types.TracebackType, type),
)
_RESERVED: Final = {name for kind in _INTERNAL_TYPES for name in dir(kind)} - {"clear", "close", "send", "throw"} | {
    *("format", "format_map")
}
"""Attributes by which an object leads to the interpreter, and texts to attributes of what they are filled with."""
_METHODS: Final = {
    *(name for kind in _PLAIN_TYPES for name in dir(kind) if name[0] != "_" and name not in _RESERVED),
    *("args", "cache_clear"),
}
_CACHES: Final = ("functools.cache", "functools.lru_cache")
"""The only decorators: they do not call what they decorate."""
_PLAIN_FORMAT: Final = re.compile(r"(?:[^{}]|\{\{|\}\}|\{\w*(?:![rsa])?(?::[^{}]*)?\})*")
"""A text whose fields read no attributes or items of what they are filled with."""
_LEAVING: Final = (ast.Return, ast.Raise, ast.Break, ast.Continue)
_PLAIN_NODES: Final = (
    *(ast.Expr, ast.Assert, ast.Pass, ast.Nonlocal, *_LEAVING),
    *(ast.BinOp, ast.BoolOp, ast.UnaryOp, ast.Compare, ast.IfExp, ast.operator, ast.boolop, ast.unaryop, ast.cmpop),
    *(ast.Constant, ast.Dict, ast.List, ast.Set, ast.Tuple, ast.Subscript, ast.Slice, ast.Starred, ast.expr_context),
    *(ast.Call, ast.keyword, ast.JoinedStr, ast.FormattedValue, ast.Yield, ast.YieldFrom, ast.arguments, ast.arg),
)
"""Parts of Python that do nothing but by their own parts."""
_INERT_NODES: Final = (
    *(ast.Assign, ast.AnnAssign, ast.Expr, ast.Import, ast.ImportFrom, ast.alias, ast.arguments, ast.arg, ast.Constant),
    *(ast.Name, ast.Attribute, ast.Tuple, ast.List, ast.Dict, ast.Set, ast.BinOp, ast.UnaryOp, ast.operator),
    *(ast.unaryop, ast.expr_context),
)
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)


@dataclass(frozen=True, slots=True)
class Allowed:
    """What a policy adds to what code may do.

    Attributes:
        names: Modules, functions and names of Python by their dotted names, and programs of a shell.
        is_tool: Whether the tool of a name may be called.
        is_forbidden: Whether a name is forbidden whatever else allows it.
    """

    names: Collection[str] = ()
    is_tool: Callable[[str], bool] = lambda _: False
    is_forbidden: Callable[[str], bool] = lambda _: False


class _NotAllowed(Exception):
    """Says what in a piece of code is not allowed."""


def find_breach(code: str, language: str, allowed: Allowed) -> str:
    """Return what in a piece of code is not allowed; empty where everything is.

    Args:
        code: Its text.
        language: Its label. Code without one must be allowed both as Python and as shell.
        allowed: What the policy adds.
    """
    label = language.strip().casefold()
    try:
        if len(code) > _MAX_CHARS or _CONTROL.search(code):
            raise _NotAllowed("is too long to be judged, or has control characters")
        if label and label not in _PYTHON_LABELS | _SHELL_LABELS:
            raise _NotAllowed("is in a language that is not judged: only Python and shell are")
        if label not in _SHELL_LABELS:
            _Python(allowed).read(code)
        if label not in _PYTHON_LABELS:
            _read_shell(code, allowed)
    except _NotAllowed as reason:
        return str(reason)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
        return f"cannot be read ({type(error).__name__})"
    return ""


def _read_shell(code: str, allowed: Allowed) -> None:
    for line in code.replace("\r\n", "\n").split("\n"):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if not all(map(_SHELL_WORD.fullmatch, words)):
            raise _NotAllowed("has more than programs and plain words: quotes, expansions, pipes or other signs")
        is_known = words[0] in _SHELL_PROGRAMS or (words[0] in allowed.names and "=" not in words[0])
        if not is_known or allowed.is_forbidden(words[0]):
            raise _NotAllowed(f"runs the program {words[0][:80]!r}, which is not allowed in code")


@dataclass(slots=True)
class _Scope:
    """Names that are bound at this place; within a function all that it binds anywhere, as Python does."""

    names: set[str] = field(default_factory=set)
    parent: _Scope | None = None
    is_function: bool = False


class _Python:
    """Reads one piece of Python; raises `_NotAllowed` at the first thing that is not allowed."""

    def __init__(self, allowed: Allowed) -> None:
        self._allowed = allowed
        self._module = _Scope()
        self._caught: set[str] = set()
        self._imports: dict[str, str] = {}
        self._stored: frozenset[str] = frozenset()
        self._unread: list[ast.FunctionDef] = []
        self._count = 0

    def read(self, code: str) -> None:
        if any(line.lstrip().startswith("#") and _CODING.search(line) for line in code.split("\n")[:2]):
            raise _NotAllowed("declares another encoding than UTF-8")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # escapes in a text that an agent wrote
            tree = ast.parse(code)
        self._survey(list(ast.walk(tree)))
        for statement in tree.body:
            parts = (statement.args, statement.returns) if isinstance(statement, ast.FunctionDef) else (statement,)
            if not self._is_inert(*parts):
                self._read_functions()  # which may run now, and find the names that are bound now
            if isinstance(statement, ast.FunctionDef):
                self._define(statement, self._module)
                self._unread.append(statement)
            else:
                self._visit(statement, self._module)
        self._read_functions()

    def _is_inert(self, *parts: ast.AST | None) -> bool:
        """Check whether parts of the code certainly run none of its functions: they bind names to plain values."""
        for node in (node for part in parts if part is not None for node in ast.walk(part)):
            is_unpacking = isinstance(node, ast.Tuple | ast.List) and isinstance(node.ctx, ast.Store)
            is_type = isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name)
            is_type = is_type and node.value.id not in self._stored  # type: ignore[attr-defined]
            if is_unpacking or not (is_type or isinstance(node, _INERT_NODES)):
                return False
        return True

    def _survey(self, nodes: list[ast.AST]) -> None:
        """Read what is imported, and refuse to have it bound otherwise or unbound."""
        for node in nodes:
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._read_import(node)
        self._caught = {node.name for node in nodes if isinstance(node, ast.ExceptHandler) and node.name}
        declared = {name for node in nodes if isinstance(node, ast.Global) for name in node.names}
        self._stored = frozenset(
            name for node in nodes for name in _names_bound_by(node) if not isinstance(node, ast.alias)
        )
        wrong = sorted(name for name in self._stored if name in self._imports or name[:2] == "__")
        wrong += sorted(declared & self._caught)
        if wrong:
            raise _NotAllowed(f"binds {wrong[0][:80]!r}, which is imported, reserved or unbound again")

    def _read_import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            dotted = f"{node.module}.{alias.name}" if isinstance(node, ast.ImportFrom) else alias.name
            is_short = isinstance(node, ast.Import) and not alias.asname  # which binds the package alone
            bound = dotted.partition(".")[0] if is_short else dotted
            is_module = dotted in _MODULES or any(f"{one}.".startswith(f"{dotted}.") for one in self._allowed.names)
            is_member = isinstance(node, ast.ImportFrom) and self._allows(dotted)
            is_plain = not getattr(node, "level", 0) and (dotted == "__future__.annotations" or is_module or is_member)
            if not is_plain or self._imports.setdefault(_names_bound_by(alias)[0], bound) != bound:
                raise _NotAllowed(f"imports {dotted[:80]!r}, which is not allowed in code")

    def _allows(self, dotted: str) -> bool:
        """Check whether a member of a module, or a method of one, may be used."""
        parts = dotted.split(".")
        if any(part.startswith("_") for part in parts[1:]) or any(map(self._allowed.is_forbidden, parts)):
            return False
        for length in range(len(parts), 0, -1):
            prefix, rest = ".".join(parts[:length]), parts[length:]
            if prefix in self._allowed.names or prefix in _MODULES:
                is_listed = prefix in self._allowed.names and not set(rest[:1]) & sys.stdlib_module_names
                is_known = is_listed or (prefix in _MODULES and bool(rest) and _is_member(prefix, rest[0]))
                return is_known and all(part in _METHODS for part in rest[1:])
        return False

    def _read_functions(self) -> None:
        """Read the bodies of the module's functions, which run when they are called."""
        while self._unread:
            function = self._unread.pop()
            self._read_body(function.args, function.body, self._module)

    def _block(self, body: Iterable[ast.AST], scope: _Scope) -> None:
        for node in body:
            self._visit(node, scope)

    def _branches(self, bodies: Iterable[list[Any]], scope: _Scope) -> None:
        """Read branches; bound afterwards is what each that goes on has bound."""
        before, ends = scope.names, []
        for body in bodies:
            scope.names = set(before)
            self._block(body, scope)
            if not (body and _leaves(body[-1])):
                ends.append(scope.names)
        scope.names = set.intersection(*ends) if ends else set(before)

    def _visit(self, node: ast.AST, scope: _Scope) -> None:  # noqa: C901 - a table
        self._count += 1
        if self._count > _MAX_NODES:
            raise _NotAllowed("is too long to be judged")
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                self._load(name, scope)
            case ast.Name(id=name, ctx=ast.Store()):
                scope.names.add(name)
            case ast.Attribute(ctx=ast.Load()):
                self._read_attribute(node, scope)
            case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)), attr="format")) if (
                _PLAIN_FORMAT.fullmatch(text)
            ):
                self._block([*node.args, *node.keywords], scope)
            case ast.Assign(targets=targets, value=value):
                self._block([value, *targets], scope)
            case ast.AugAssign(target=target, value=value):
                self._load(target.id, scope) if isinstance(target, ast.Name) else None
                self._block([value, target], scope)
            case ast.AnnAssign(target=target, annotation=annotation, value=value):
                self._block([annotation, *([value, target] if value is not None else [])], scope)
            case ast.Delete(targets=targets) if all(isinstance(target, ast.Subscript) for target in targets):
                self._block(targets, scope)
            case ast.Import() | ast.ImportFrom():
                scope.names.update(name for alias in node.names for name in _names_bound_by(alias))
            case ast.Global(names=names) if self._module.names.issuperset(names):
                pass
            case ast.If(test=test, body=body, orelse=otherwise):
                self._visit(test, scope)
                self._branches([body, otherwise], scope)
            case ast.While(test=test, body=body, orelse=otherwise):
                self._visit(test, scope)
                self._branches([body, otherwise, []], scope)
            case ast.For(target=target, iter=source, body=body, orelse=otherwise):
                self._visit(source, scope)
                self._branches([[target, *body], otherwise, []], scope)
            case ast.Try(body=body, handlers=handlers, orelse=otherwise, finalbody=last):
                before = set(scope.names)
                self._branches([[*body, *otherwise], *([handler] for handler in handlers)], scope)
                after, scope.names = scope.names, before
                self._block(last, scope)
                scope.names |= after
            case ast.ExceptHandler(type=kind, name=name, body=body):
                self._block([kind] if kind is not None else [], scope)
                self._catch(name, body, scope)
            case ast.With(items=items, body=body):
                self._block([item.context_expr for item in items], scope)
                targets = [item.optional_vars for item in items if item.optional_vars is not None]
                self._branches([[*targets, *body], []], scope)  # what it holds off may be an error within
            case ast.FunctionDef() if scope is not self._module:  # there in a branch, which may be skipped
                self._define(node, scope)
                self._read_body(node.args, node.body, scope)
            case ast.Lambda(args=arguments, body=value):
                self._visit(arguments, scope)
                self._read_body(arguments, [value], scope)
            case ast.NamedExpr(target=target, value=value) if scope.is_function:
                self._visit(value, scope)  # elsewhere it may be skipped, and the name be somebody else's
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                self._comprehend(node, scope)
            case _ if isinstance(node, _PLAIN_NODES):
                self._block(ast.iter_child_nodes(node), scope)
            case _:
                raise _NotAllowed(f"has a part that is not judged ({type(node).__name__})")

    def _catch(self, name: str | None, body: list[ast.stmt], scope: _Scope) -> None:
        if scope is not self._module or name is None:
            self._block(body, scope)
            return
        if name in scope.names:
            raise _NotAllowed(f"unbinds {name[:80]!r}")
        scope.names.add(name)
        self._block(body, scope)
        scope.names.discard(name)

    def _define(self, node: ast.FunctionDef, scope: _Scope) -> None:
        """Read what defining a function does; its body is for later."""
        for decorator in node.decorator_list:
            given = [*decorator.args, *decorator.keywords] if isinstance(decorator, ast.Call) else []
            is_cache = self._dotted(decorator.func if isinstance(decorator, ast.Call) else decorator) in _CACHES
            if not is_cache or not all(
                isinstance(getattr(one, "value", None), ast.Constant | bool | int) for one in given
            ):
                raise _NotAllowed("has a decorator that is not judged")
        self._block([*node.decorator_list, node.args, *([node.returns] if node.returns else [])], scope)
        scope.names.add(node.name)

    def _read_body(self, arguments: ast.arguments, body: Iterable[ast.AST], scope: _Scope) -> None:
        own = [name for node in _own_nodes([arguments, *body]) for name in _names_bound_by(node)]
        self._block(body, _Scope(set(own), scope, is_function=True))

    def _comprehend(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, scope: _Scope) -> None:
        first, *_ = node.generators
        self._visit(first.iter, scope)
        inner = _Scope({name for part in node.generators for name in _stored_in(part.target)}, scope)
        for part in node.generators:
            if part.is_async:
                raise _NotAllowed("has a part that is not judged (async)")
            self._block([part.target, *part.ifs, *([part.iter] if part is not first else [])], inner)
        self._block([node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt], inner)

    def _dotted(self, node: ast.expr) -> str:
        """Return the dotted name of what is imported; empty for anything else."""
        if isinstance(node, ast.Attribute):
            return f"{before}.{node.attr}" if (before := self._dotted(node.value)) else ""
        return self._imports.get(node.id, "") if isinstance(node, ast.Name) else ""

    def _read_attribute(self, node: ast.Attribute, scope: _Scope) -> None:
        dotted, name = self._dotted(node), node.attr
        if dotted:
            inner = next(one for one in ast.walk(node) if isinstance(one, ast.Name))
            self._find(inner.id, scope)
            if not self._allows(dotted):
                raise _NotAllowed(f"uses {dotted[:80]!r}, which is not allowed in code")
            return
        is_known = name in _METHODS
        if not is_known and self._allowed.names:  # what a module of the policy's returns has methods of its own
            is_internal = name.startswith("_") or name in _RESERVED or name in sys.stdlib_module_names
            is_known = not is_internal and not self._allowed.is_forbidden(name)
        if not is_known:
            raise _NotAllowed(f"uses the attribute {name[:80]!r}, which is not allowed in code")
        self._visit(node.value, scope)

    def _load(self, name: str, scope: _Scope) -> None:
        self._find(name, scope)
        dotted = self._imports.get(name, "")
        if dotted and (not self._allows(dotted) or dotted in _MODULES):
            raise _NotAllowed(f"uses {dotted[:80]!r} as a value, which is not allowed in code")

    def _find(self, name: str, scope: _Scope) -> None:
        """Check that a name is bound where it is read, or is somebody else's that code may use."""
        here = scope
        while here.parent is not None and name not in here.names:
            here = here.parent
        if name in here.names and (here is scope or here.parent is not None or name not in self._caught):
            return
        is_known = name in _BUILTINS or name in _ERRORS or name in self._allowed.names or self._allowed.is_tool(name)
        if not is_known or self._allowed.is_forbidden(name):
            raise _NotAllowed(f"uses {name[:80]!r}, which is not allowed in code")


def _leaves(node: ast.AST) -> bool:
    return isinstance(node, _LEAVING) or (isinstance(node, ast.ExceptHandler) and _leaves(node.body[-1]))


def _own_nodes(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield the nodes of a body, but for what is within functions and comprehensions of its own."""
    waiting = list(body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.Lambda, *_COMPREHENSIONS)):
            waiting += ast.iter_child_nodes(node)


def _names_bound_by(node: ast.AST) -> list[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.FunctionDef(name=name):
            return [name]
        case ast.arg(arg=name) | ast.ExceptHandler(name=str(name)):
            return [name]
        case ast.alias(name=name, asname=asname):
            return [asname or name.partition(".")[0]]
        case _:
            return []


def _stored_in(target: ast.expr) -> list[str]:
    return [name for node in ast.walk(target) for name in _names_bound_by(node)]


def _is_member(module: str, name: str) -> bool:
    if _MODULES[module] != "*":
        return name in _MODULES[module].split()
    loaded = importlib.import_module(module)  # of the standard library, and pure
    listed = getattr(loaded, "__all__", None) or vars(loaded)
    return name in listed and not isinstance(getattr(loaded, name), types.ModuleType)
