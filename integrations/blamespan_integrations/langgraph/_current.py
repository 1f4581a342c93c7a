"""Makes a node's or tool's span current around its own code, so that spans the program makes nest under it.

Callbacks must not attach a context: start and end run in different tasks and threads. But both frameworks
run a node's or tool's code in a copy of the caller's context, made for that one call by a function called
`set_config_context`. Attaching there needs no detaching, cannot leak to a stream's consumer and is never
held across a `yield`. Where a release lacks that function, spans nest under the run's caller instead.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import Context as VariableContext
from typing import Any
from uuid import UUID

from opentelemetry import context as otel_context
from opentelemetry.context import Context
from wrapt import FunctionWrapper, wrap_function_wrapper  # type: ignore[import-untyped]  # wrapt 1 has no types

from blamespan.guard import guard

__all__ = ["restore", "wrap"]

_FUNCTION = "set_config_context"
_MODULES = ("langgraph._internal._runnable", "langchain_core.tools.base")
"""Where nodes (and tasks) and tools look the function up."""


def wrap(context_of: Callable[[UUID | None], Context | None]) -> None:
    """Make spans current; *context_of* gives the context of a LangChain run, None for none of ours."""

    def run_in_span(
        wrapped: Callable[..., AbstractContextManager[VariableContext]],
        _: object,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> AbstractContextManager[VariableContext]:
        copied = wrapped(*args, **kwargs)
        context: Context | None = None
        with guard("langgraph: find the span of a node"):
            config = args[0] if args else kwargs.get("config")
            context = context_of(getattr(config.get("callbacks"), "parent_run_id", None)) if config else None
        return copied if context is None else _with_span(copied, context)

    for name in _MODULES:
        with guard("langgraph: make node spans current"):
            module = importlib.import_module(name)
            if not isinstance(getattr(module, _FUNCTION, None), FunctionWrapper | None):
                wrap_function_wrapper(name, _FUNCTION, run_in_span)


def restore() -> None:
    """Give both frameworks their own function back."""
    for name in _MODULES:
        with guard("langgraph: restore the frameworks"):
            module = importlib.import_module(name)
            found = getattr(module, _FUNCTION, None)
            if isinstance(found, FunctionWrapper):
                setattr(module, _FUNCTION, found.__wrapped__)


@contextmanager
def _with_span(copied: AbstractContextManager[VariableContext], context: Context) -> Iterator[VariableContext]:
    with copied as variables:
        with guard("langgraph: make a span current"):
            variables.run(otel_context.attach, context)
        yield variables
