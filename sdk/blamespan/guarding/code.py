"""What a piece of code may do, read from its text: an allow-list, so what is not known to be harmless is not allowed.

Python is read as a syntax tree. Code reaches other things only by a name, an import or an attribute, so these are held
to lists: harmless builtins, members of pure modules, names that the code has bound itself wherever it reads them,
methods of plain values, and what the policy allows by name. What is built of allowed things is allowed. Shell is a list
of programs with plain words. This is no sandbox: it reads code, and what a policy allows does what it does.
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
import string
import sys
import types
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

__all__ = ["Allowed", "find_breach"]

_MAX_CHARS = 200_000
_MAX_NODES = 100_000
_SHELL_PROGRAMS: Final = frozenset(("echo", "ls", "pwd"))
_SHELL_WORD: Final = re.compile(r"[A-Za-z0-9_./:=,@%+-]+")
_PYTHON_LABELS: Final = frozenset(("python", "python3", "py"))
_SHELL_LABELS: Final = frozenset(("sh", "bash", "shell"))
_CODING: Final = re.compile(r"coding[:=]\s*+(?!utf-?8\b)", re.IGNORECASE)
_CONTROL: Final = re.compile(r"\r(?!\n)|[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f\u0085\u2028\u2029]")

_BUILTINS: Final = frozenset(
    """abs all any bool bytearray bytes chr classmethod complex dict divmod enumerate filter float format frozenset hash
    hex id int isinstance issubclass iter len list map max min next object oct ord pow print property range repr
    reversed round set slice sorted staticmethod str sum tuple zip __name__""".split()  # noqa: SIM905 - shorter
)
_ERRORS: Final = {
    name for name, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(kind, Exception)
}
_MODULES: Final = {
    "bisect": "*",
    "cmath": "*",
    "collections": "ChainMap Counter OrderedDict defaultdict deque namedtuple",
    "copy": "copy deepcopy",
    "dataclasses": "asdict astuple dataclass field replace",
    "datetime": "UTC date datetime time timedelta timezone",
    "decimal": "Decimal ROUND_CEILING ROUND_DOWN ROUND_FLOOR ROUND_HALF_EVEN ROUND_HALF_UP ROUND_UP getcontext",
    "enum": "Enum Flag IntEnum IntFlag auto",
    "fractions": "Fraction",
    "functools": "cache cmp_to_key lru_cache partial reduce total_ordering",
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
    "typing": "Any Callable Dict Generic Iterable Iterator List NamedTuple Optional Sequence Set Tuple TypeVar Union",
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
    *("args", "cache_clear", "name", "value"),
}
_DUNDERS: Final = frozenset(
    f"__{name}__"
    for name in """add bool call contains eq floordiv ge getitem gt hash init iter le len lt mod mul ne neg next
    post_init radd repr rmul setitem str sub truediv""".split()  # noqa: SIM905 - shorter
)
_INERT: Final = ("classmethod", "dataclasses.dataclass", "functools.total_ordering", "property", "staticmethod")
"""Decorators that do not call what they decorate."""
_LEAVING: Final = (ast.Return, ast.Raise, ast.Break, ast.Continue)
_PLAIN_NODES: Final = (
    *(ast.Expr, ast.Assert, ast.With, ast.withitem, ast.Pass, ast.Global, ast.Nonlocal, *_LEAVING),
    *(ast.BinOp, ast.BoolOp, ast.UnaryOp, ast.Compare, ast.IfExp, ast.operator, ast.boolop, ast.unaryop, ast.cmpop),
    *(ast.Constant, ast.Dict, ast.List, ast.Set, ast.Tuple, ast.Subscript, ast.Slice, ast.Starred, ast.expr_context),
    *(ast.Call, ast.keyword, ast.JoinedStr, ast.FormattedValue, ast.Yield, ast.YieldFrom, ast.arguments, ast.arg),
)
"""Parts of Python that do nothing but by their own parts."""
_IN_TYPES: Final = (ast.Subscript, ast.Tuple, ast.BinOp, ast.arguments, ast.arg)
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_IMMUTABLE_TYPE: Final = 1 << 8


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
    global_names: frozenset[str] = frozenset()
    is_comprehension: bool = False


class _Python:
    """Reads one piece of Python; raises `_NotAllowed` at the first thing that is not allowed."""

    def __init__(self, allowed: Allowed) -> None:
        self._allowed = allowed
        self._module = _Scope()
        self._stored: set[str] = set()
        self._classes: set[str] = set()
        self._caught: set[str] = set()
        self._imports: dict[str, str] = {}
        self._attributes: set[str] = set()
        self._bodies: dict[str, list[ast.FunctionDef]] = {}
        self._read_with: dict[str, set[str]] = {}
        self._foreign: set[str] = set()
        self._count = 0

    def read(self, code: str) -> None:
        if any(line.lstrip().startswith("#") and _CODING.search(line) for line in code.split("\n")[:2]):
            raise _NotAllowed("declares another encoding than UTF-8")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # escapes in a text that an agent wrote
            tree = ast.parse(code)
        self._survey(tree)
        self._block(tree.body, self._module)

    def _survey(self, tree: ast.Module) -> None:
        """Read what is imported and bound anywhere."""
        nodes = list(ast.walk(tree))
        classes = {node.name for node in nodes if isinstance(node, ast.ClassDef)}
        others = {name for node in nodes if not isinstance(node, ast.ClassDef) for name in _names_bound_by(node)}
        self._stored, self._classes = classes | others, classes - others
        for node in nodes:
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._read_import(node)
            elif isinstance(node, ast.ClassDef):
                self._attributes |= _bound_names(node.body)
                self._foreign.update([node.name] if not all(map(self._is_ours, node.bases)) else [])
            elif isinstance(node, ast.ExceptHandler) and node.name:
                self._caught.add(node.name)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                self._attributes.add(node.attr)
        self._attributes -= _RESERVED
        wrong = [name for name in self._stored if name in self._imports or (name[:2] == "__" and name not in _DUNDERS)]
        if wrong:
            raise _NotAllowed(f"binds {wrong[0][:80]!r}, which is imported or reserved")

    def _read_import(self, node: ast.Import | ast.ImportFrom) -> None:
        for name, dotted, bound in _imports(node):
            is_module = dotted in _MODULES or any(f"{one}.".startswith(f"{dotted}.") for one in self._allowed.names)
            is_member = isinstance(node, ast.ImportFrom) and self._allows(dotted)
            is_plain = not getattr(node, "level", 0) and (dotted == "__future__.annotations" or is_module or is_member)
            if not is_plain or self._imports.setdefault(name, bound) != bound:
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

    def _block(self, body: Iterable[ast.AST], scope: _Scope) -> None:
        for node in body:
            self._visit(node, scope)

    def _branches(self, bodies: Iterable[list[ast.stmt]], scope: _Scope) -> None:
        """Read branches; bound afterwards is what each that goes on has bound."""
        before, ends = scope.names, []
        for body in bodies:
            scope.names = set(before)
            self._block(body, scope)
            if not (body and _leaves(body[-1])):
                ends.append(scope.names)
        scope.names = set.intersection(*ends) if ends else set(before)

    def _visit(self, node: ast.AST, scope: _Scope, *, is_type: bool = False) -> None:  # noqa: C901 - a table
        self._count += 1
        if self._count > _MAX_NODES:
            raise _NotAllowed("is too long to be judged")
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                self._load(name, scope, is_type=is_type)
            case ast.Name(id=name, ctx=ast.Store()):
                self._bind(name, scope)
            case ast.Attribute(ctx=ast.Load()):
                self._read_attribute(node, scope, is_type=is_type)
            case ast.Attribute(ctx=ast.Store()):
                self._write_attribute(node, scope)
            case ast.Call(func=called, args=arguments, keywords=keywords) if _is_plain_format(called) or (
                _is_super_init(called) and "super" not in self._stored
            ):
                self._block([*arguments, *keywords], scope)
            case ast.Call(func=called, args=arguments, keywords=keywords):
                self._visit(called, scope, is_type=True)
                self._block([*arguments, *keywords], scope)
            case ast.Assign() | ast.AugAssign() | ast.AnnAssign():
                self._assign(node, scope)
            case ast.Delete(targets=targets) if all(isinstance(target, ast.Subscript) for target in targets):
                self._block(targets, scope)
            case ast.Import() | ast.ImportFrom():
                for name, _, _ in _imports(node):
                    self._bind(name, scope)
            case ast.If(test=test, body=body, orelse=otherwise):
                self._visit(test, scope)
                self._branches([body, otherwise], scope)
            case ast.While(test=test, body=body, orelse=otherwise):
                self._visit(test, scope)
                self._branches([body, otherwise, []], scope)
            case ast.For(target=target, iter=source, body=body, orelse=otherwise):
                self._visit(source, scope)
                before = set(scope.names)
                self._block([target, *body], scope)
                scope.names = before
                self._branches([otherwise, []], scope)
            case ast.Try(body=body, handlers=handlers, orelse=otherwise, finalbody=last):
                before = set(scope.names)
                self._branches([[*body, *otherwise], *([handler] for handler in handlers)], scope)  # type: ignore[list-item]
                after, scope.names = scope.names, before
                self._block(last, scope)
                scope.names |= after
            case ast.ExceptHandler():
                self._catch(node, scope)
            case ast.FunctionDef():
                self._define_function(node, scope)
            case ast.ClassDef():
                self._define_class(node, scope)
            case ast.Lambda(args=arguments, body=value):
                self._visit(arguments, scope)
                self._read_body(arguments, [value], scope)
            case ast.NamedExpr(target=target, value=value) if _binding_scope(scope) is not self._module:
                self._visit(value, scope)  # at the module's level it may be skipped, and the name be somebody else's
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                self._comprehend(node, scope)
            case _ if isinstance(node, _PLAIN_NODES):
                for part in ast.iter_child_nodes(node):
                    self._visit(part, scope, is_type=is_type and isinstance(node, _IN_TYPES))
            case _:
                raise _NotAllowed(f"has a part that is not judged ({type(node).__name__})")

    def _bind(self, name: str, scope: _Scope) -> None:
        if name not in scope.global_names:
            scope.names.add(name)

    def _assign(self, node: ast.Assign | ast.AugAssign | ast.AnnAssign, scope: _Scope) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if isinstance(node, ast.AnnAssign):
            self._visit(node.annotation, scope, is_type=True)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            self._load(node.target.id, scope)
        if node.value is not None:
            self._block([node.value, *targets], scope)

    def _catch(self, node: ast.ExceptHandler, scope: _Scope) -> None:
        if node.type is not None:
            self._visit(node.type, scope, is_type=True)
        if node.name and scope is self._module and node.name in scope.names:
            raise _NotAllowed(f"unbinds {node.name[:80]!r}")
        if node.name:
            self._bind(node.name, scope)
        self._block(node.body, scope)
        if node.name and scope is self._module:
            scope.names.discard(node.name)

    def _define_function(self, node: ast.FunctionDef, scope: _Scope) -> None:
        self._block(node.decorator_list, scope)
        self._visit_signature(node, scope)
        self._bind(node.name, scope)
        if scope is self._module:  # read where it is first used: what is bound there is bound when it runs
            self._defer(node.name, [node])
            if node.decorator_list:
                self._load(node.name, scope)
        else:
            self._read_body(node.args, node.body, scope)

    def _define_class(self, node: ast.ClassDef, scope: _Scope) -> None:
        """Read a class: nothing that makes one may call its methods, which are read where it is first used."""
        methods = [one for one in node.body if isinstance(one, ast.FunctionDef)]
        decorators = [*node.decorator_list, *(one for method in methods for one in method.decorator_list)]
        is_local = all(map(self._is_ours, node.bases))
        if node.keywords or not all(map(self._is_inert, decorators)) or not (is_local or not methods):
            raise _NotAllowed("makes a class in a way that is not judged")
        self._foreign.update([] if is_local else [node.name])
        self._block(decorators, scope)
        for base in node.bases:
            self._visit(base, scope, is_type=True)
        for part in node.body:
            if isinstance(part, ast.FunctionDef):
                self._visit_signature(part, scope)
            elif isinstance(part, ast.Assign | ast.AnnAssign):
                self._block([part.value] if part.value is not None else [], scope)
                self._visit(part.annotation, scope, is_type=True) if isinstance(part, ast.AnnAssign) else None
            elif not isinstance(part, ast.Pass) and not (
                isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant)
            ):
                raise _NotAllowed("makes a class in a way that is not judged")
        self._bind(node.name, scope)
        if scope is self._module:
            self._defer(node.name, methods)
        else:
            for method in methods:
                self._read_body(method.args, method.body, scope)

    def _is_ours(self, base: ast.expr) -> bool:
        """Check whether a base is a class of the code's own or an error: neither does anything when it is inherited."""
        name = base.id if isinstance(base, ast.Name) else ""
        is_builtin = (name in _ERRORS or name == "object") and name not in self._stored
        return is_builtin or (name in self._classes and name not in self._foreign)

    def _is_inert(self, node: ast.expr) -> bool:
        called = node.func if isinstance(node, ast.Call) else node
        if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
            return f"{self._imports.get(called.value.id)}.{called.attr}" in _INERT
        name = called.id if isinstance(called, ast.Name) else ""
        return name not in self._stored and self._imports.get(name, name) in _INERT

    def _defer(self, name: str, functions: list[ast.FunctionDef]) -> None:
        self._bodies.setdefault(name, []).extend(functions)
        self._read_with.pop(name, None)

    def _visit_signature(self, node: ast.FunctionDef, scope: _Scope) -> None:
        for part in (node.args, node.returns):
            if part is not None:
                self._visit(part, scope, is_type=True)

    def _read_body(self, arguments: ast.arguments, body: Iterable[ast.AST], scope: _Scope) -> None:
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        own = list(_own_nodes(body))
        elsewhere = {name for one in own if isinstance(one, ast.Global | ast.Nonlocal) for name in one.names}
        global_names = frozenset(name for one in own if isinstance(one, ast.Global) for name in one.names)
        names = {argument.arg for argument in every if argument is not None} | _bound_names(body)
        self._block(body, _Scope(names - elsewhere, scope, global_names))

    def _comprehend(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, scope: _Scope) -> None:
        inner = _Scope(set(), scope, is_comprehension=True)
        for part in node.generators:
            if part.is_async:
                raise _NotAllowed("has a part that is not judged (async)")
            self._block([part.iter, part.target, *part.ifs], inner)
        self._block([node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt], inner)

    def _write_attribute(self, node: ast.Attribute, scope: _Scope) -> None:
        root = _root(node)
        is_own = root not in self._imports and self._is_bound(root, scope) and node.attr in self._attributes
        if not is_own or node.attr.startswith("__") or self._allowed.is_forbidden(node.attr):
            raise _NotAllowed(f"sets the attribute {node.attr[:80]!r} of what is not its own")
        self._visit(node.value, scope)

    def _read_attribute(self, node: ast.Attribute, scope: _Scope, *, is_type: bool) -> None:
        names, inner = [node.attr], node.value
        while isinstance(inner, ast.Attribute):
            names.append(inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name) and inner.id in self._imports:
            self._find(inner.id, scope)
            dotted = ".".join((self._imports[inner.id], *reversed(names)))
            if not self._allows(dotted) or (not is_type and _is_open_class(dotted)):
                raise _NotAllowed(f"uses {dotted[:80]!r}, which is not allowed in code")
            return
        name = node.attr
        is_known = name in _METHODS or name in self._attributes
        if not is_known and self._allowed.names:  # what a module of the policy's returns has methods of its own
            is_internal = name.startswith("_") or name in _RESERVED or name in sys.stdlib_module_names
            is_known = not is_internal and not self._allowed.is_forbidden(name)
        if not is_known or name.startswith("__"):
            raise _NotAllowed(f"uses the attribute {name[:80]!r}, which is not allowed in code")
        self._visit(node.value, scope, is_type=True)

    def _load(self, name: str, scope: _Scope, *, is_type: bool = False) -> None:
        self._find(name, scope)
        dotted = self._imports.get(name, "")
        if dotted and (not self._allows(dotted) or dotted in _MODULES or (not is_type and _is_open_class(dotted))):
            raise _NotAllowed(f"uses {dotted[:80]!r} as a value, which is not allowed in code")

    def _find(self, name: str, scope: _Scope) -> None:
        """Check that a name is bound where it is read, or is somebody else's that code may use."""
        if not self._is_bound(name, scope):
            is_known = (
                name in _BUILTINS or name in _ERRORS or name in self._allowed.names or self._allowed.is_tool(name)
            )
            if not is_known or self._allowed.is_forbidden(name):
                raise _NotAllowed(f"uses {name[:80]!r}, which is not allowed in code")

    def _is_bound(self, name: str, scope: _Scope) -> bool:
        here = scope
        while here.parent is not None and name not in here.global_names:
            if name in here.names:
                return True
            here = here.parent
        names = self._module.names
        if name not in names or (scope is not self._module and name in self._caught):
            return False
        if name in self._bodies and not self._read_with.get(name, {""}) <= names:
            self._read_with[name] = set(names)
            for function in self._bodies[name]:
                self._read_body(function.args, function.body, self._module)
        return True


def _leaves(node: ast.AST) -> bool:
    return isinstance(node, _LEAVING) or (isinstance(node, ast.ExceptHandler) and _leaves(node.body[-1]))


def _imports(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str, str]]:
    """Yield the name that an import binds, what it imports, and what the name stands for, by dotted names."""
    for alias in node.names:
        if isinstance(node, ast.ImportFrom):
            yield alias.asname or alias.name, f"{node.module}.{alias.name}", f"{node.module}.{alias.name}"
        else:
            top = alias.name.partition(".")[0]
            yield alias.asname or top, alias.name, alias.name if alias.asname else top


def _own_nodes(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield the nodes of a body, but for what is within functions, classes and comprehensions of its own."""
    waiting = list(body)
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, _COMPREHENSIONS):
            waiting += [one.target for one in ast.walk(node) if isinstance(one, ast.NamedExpr)]
        elif not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)


def _names_bound_by(node: ast.AST) -> list[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.arg(arg=name) | ast.ExceptHandler(name=str(name)):
            return [name]
        case _:
            return []


def _bound_names(body: Iterable[ast.AST]) -> set[str]:
    """Return the names that a body binds in its own scope."""
    nodes = list(_own_nodes(body))
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    return {name for node in nodes for name in _names_bound_by(node)} | {
        name for node in imports for name, _, _ in _imports(node)
    }


def _binding_scope(scope: _Scope) -> _Scope:
    while scope.is_comprehension and scope.parent is not None:
        scope = scope.parent
    return scope


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _is_member(module: str, name: str) -> bool:
    if _MODULES[module] != "*":
        return name in _MODULES[module].split()
    loaded = importlib.import_module(module)  # of the standard library, and pure
    listed = getattr(loaded, "__all__", None) or vars(loaded)
    return name in listed and not isinstance(getattr(loaded, name), types.ModuleType)


def _is_open_class(dotted: str) -> bool:
    """Check whether a member of a pure module is a class that could be changed for everybody in the process."""
    module, _, name = dotted.partition(".")
    member = getattr(importlib.import_module(module), name, None) if module in _MODULES else None
    return isinstance(member, type) and not member.__flags__ & _IMMUTABLE_TYPE


def _is_plain_format(node: ast.expr) -> bool:
    """Check for `"...".format` whose fields read no attributes or items."""
    if not isinstance(node, ast.Attribute) or node.attr != "format" or not isinstance(node.value, ast.Constant):
        return False
    text = node.value.value
    if not isinstance(text, str):
        return False
    fields = [(name or "", spec or "") for _, name, spec, _ in string.Formatter().parse(text)]
    return not any("." in name or "[" in name or "{" in spec for name, spec in fields)


def _is_super_init(node: ast.expr) -> bool:
    match node:
        case ast.Attribute(value=ast.Call(func=ast.Name(id="super"), args=[], keywords=[]), attr="__init__"):
            return True
        case _:
            return False
