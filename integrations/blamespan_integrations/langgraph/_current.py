"""Makes a node's or tool's span current around its own code, so that spans the program makes nest under it.

Callbacks must not attach a context: start and end run in different tasks and threads. But both frameworks
run a node's or tool's code in a copy of the caller's context, made for that one call by a function called
`set_config_context`. Attaching there needs no detaching, cannot leak to a stream's consumer and is never
held across a `yield`. Where a release lacks that function, spans nest under the run's caller instead.

While OpenInference's handler hears of the start of an outermost run, the run's span is current: its spans belong to the
same trace as ours.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import Context as VariableContext
from contextvars import ContextVar
from types import TracebackType
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry.context import Context

from blamespan.host_safety import shield_host
from blamespan_integrations.langgraph._callbacks import report
from blamespan_integrations.patching import Patches

_FIND = shield_host("langgraph: find the span of a node")
_ATTACH = shield_host("langgraph: make a span current")
_ContextOf = Callable[[int | None], Context | None]


def wrap(patches: Patches, context_of: _ContextOf) -> None:
    """Make spans current; *context_of* gives the context of a LangChain run, None for none of ours."""
    for name, function, make in (
        ("langgraph._internal._runnable", "_set_config_context", _attach_in_copy),  # called within the copied context
        ("langchain_core.tools.base", "set_config_context", _enter_copy),  # gives the copied context
    ):
        with shield_host("langgraph: make node spans current"):
            patches.wrap(importlib.import_module(name), function, functools.partial(make, context_of=context_of))


def lead(patches: Patches, is_ours: Callable[[object], bool]) -> None:
    """Have the handler that *is_ours* hear of a graph's start before OpenInference's, which joins our trace then."""
    module = importlib.import_module("langgraph.pregel.main")
    for name, make in (
        ("get_callback_manager_for_config", _lead_start),
        ("get_async_callback_manager_for_config", _lead_start_async),
    ):
        with shield_host("langgraph: begin a run before others do"):
            patches.wrap(module, name, functools.partial(_with_lead, make=make, is_ours=is_ours))


def _with_lead(original: Callable[..., Any], make: Callable[..., Any], is_ours: Any) -> Callable[..., Any]:
    @functools.wraps(original)
    def get_manager(*args: Any, **kwargs: Any) -> Any:
        manager = original(*args, **kwargs)
        with shield_host("langgraph: begin a run before others do"):
            if manager.parent_run_id is None and any(map(_follows, manager.handlers)):
                manager.on_chain_start = make(manager, manager.on_chain_start, is_ours)  # of this manager alone
        return manager

    return get_manager


def _follows(handler: object) -> bool:
    """Check whether a handler begins spans below what is current, and leaves what is current alone, as not all do."""
    return type(handler).__module__.startswith("openinference.")


def announce(context: Context) -> None:
    """Make *context*, of a run that has just begun, current until all handlers have heard of its start."""
    if _is_announcing.get():
        otel_context.attach(context)


_is_announcing: ContextVar[bool] = ContextVar("blamespan-announcing", default=False)


@contextmanager
def _announcing(manager: Any, is_ours: Callable[[object], bool]) -> Iterator[None]:
    handlers = manager.handlers
    manager.handlers = sorted(handlers, key=lambda handler: not is_ours(handler))
    flag, token = _is_announcing.set(True), otel_context.attach(otel_context.get_current())
    try:
        yield
    finally:
        manager.handlers = handlers
        with suppress(ValueError):  # closed from another task
            _is_announcing.reset(flag)
            token.var.reset(token)


def _lead_start(manager: Any, original: Callable[..., Any], is_ours: Callable[[object], bool]) -> Callable[..., Any]:
    @functools.wraps(original)
    def on_chain_start(*args: Any, **kwargs: Any) -> Any:
        with _announcing(manager, is_ours):
            return original(*args, **kwargs)

    return on_chain_start


def _lead_start_async(
    manager: Any, original: Callable[..., Any], is_ours: Callable[[object], bool]
) -> Callable[..., Any]:
    @functools.wraps(original)
    async def on_chain_start(*args: Any, **kwargs: Any) -> Any:
        with _announcing(manager, is_ours):
            return await original(*args, **kwargs)

    return on_chain_start


def _attach_in_copy(original: Callable[..., Any], context_of: _ContextOf) -> Callable[..., Any]:
    @functools.wraps(original)
    def set_in_copy(config: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(config, *args, **kwargs)
        try:
            context = _context(config, context_of)
            if context is not None:
                otel_context.attach(context)
        except Exception as error:  # a shield, entered and left twice a node, is four calls more
            report("langgraph: make a span current", error)
        return result

    return set_in_copy


def _enter_copy(
    original: Callable[..., AbstractContextManager[VariableContext]], context_of: _ContextOf
) -> Callable[..., AbstractContextManager[VariableContext]]:
    @functools.wraps(original)
    def run_in_span(config: Any, *args: Any, **kwargs: Any) -> AbstractContextManager[VariableContext]:
        copied = original(config, *args, **kwargs)
        context: Context | None = None
        with _FIND:
            context = _context(config, context_of)
        return copied if context is None else _WithSpan(copied, context)

    return run_in_span


def _context(config: Any, context_of: _ContextOf) -> Context | None:
    run_id = getattr(config.get("callbacks"), "parent_run_id", None) if config else None
    return context_of(run_id.int) if run_id is not None else None


class _WithSpan:
    """What the frameworks' function gives, with a span current in the copied context."""

    __slots__ = ("_context", "_copied")

    def __init__(self, copied: AbstractContextManager[VariableContext], context: Context) -> None:
        self._copied = copied
        self._context = context

    def __enter__(self) -> VariableContext:
        variables = self._copied.__enter__()
        with _ATTACH:
            variables.run(otel_context.attach, self._context)
        return variables

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return self._copied.__exit__(kind, error, traceback)
