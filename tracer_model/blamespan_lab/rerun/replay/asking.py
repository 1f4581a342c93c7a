"""Handing a task to an AutoGen team, a LangGraph graph or a function, and reading its answer, by what each can do."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from typing import Any, get_type_hints
from uuid import uuid4

from blamespan.errors import ConfigError

__all__ = ["answer_of", "is_graph", "is_runnable", "is_team", "start_program"]

_INPUTS = ("task", "question", "query", "input", "request")
"""Where a graph whose state has no `messages` may take its task, the likeliest first."""
_ANSWERS = ("answer", "final_answer", "output", "result", "response", "report")
"""Where such a graph may leave its answer."""


def is_graph(program: Any) -> bool:
    """Return whether *program* is a compiled LangGraph graph."""
    return callable(getattr(program, "ainvoke", None)) and hasattr(program, "get_state") and hasattr(program, "nodes")


def is_team(program: Any) -> bool:
    """Return whether *program* is an AutoGen team or agent, or is run as they are."""
    run = getattr(program, "run", None)
    if not callable(run):
        return False
    try:
        parameters = inspect.signature(run).parameters
    except (TypeError, ValueError):
        return False
    return "task" in parameters


def is_runnable(program: Any) -> bool:
    """Return whether `start_program` could run *program*."""
    if inspect.isclass(program):
        return False
    return (
        is_graph(program) or is_team(program) or callable(getattr(program, "ainvoke", None)) or _takes_a_task(program)
    )


def start_program(program: Any, task: str, config: Mapping[str, Any] | None = None) -> Any:
    """Run *program* on *task*.

    Args:
        program: What a factory gave.
        task: What it is asked.
        config: LangGraph's, for a graph; a thread of its own where it has a checkpointer and none is named.

    Returns:
        What it gives, or an awaitable of that.

    Raises:
        ConfigError: if it is a graph in whose state there is no place for a task.
    """
    if is_graph(program):
        run_config = dict(config or {})
        if getattr(program, "checkpointer", None) and "configurable" not in run_config:
            run_config["configurable"] = {"thread_id": uuid4().hex}
        call = program.invoke if _is_sync_only(program) else program.ainvoke
        return call(_state(program, task), run_config)
    if is_team(program):
        return program.run(task=task)
    return program.ainvoke(task) if hasattr(program, "ainvoke") else program(task)


def answer_of(result: Any) -> str:
    """Read the answer in what a program gave: a text, a result or state with messages, or a state with one text."""
    if isinstance(result, str):
        return result
    messages = result.get("messages") if isinstance(result, Mapping) else getattr(result, "messages", None)
    if isinstance(messages, Sequence) and not isinstance(messages, str):
        texts = [text for message in messages if (text := _said(message))]
        return texts[-1] if texts else ""
    if isinstance(result, Mapping):
        answers = [result[key] for key in _ANSWERS if isinstance(result.get(key), str)]
        return str(answers[0]) if answers else json.dumps(result, ensure_ascii=False, sort_keys=True, default=str)
    answer = getattr(result, "text", None) or getattr(result, "content", None)
    return str(answer) if isinstance(answer, str) else "" if result is None else str(result)


def _said(message: Any) -> str:
    """Return what a message says; nothing for what users say, and for a team's events, which are no messages."""
    if getattr(message, "source", "") == "user" or getattr(message, "type", "") in ("human", "system"):
        return ""
    if isinstance(message, Mapping):
        return str(message.get("content") or "") if message.get("role") != "user" else ""
    if hasattr(message, "to_text"):
        return str(message.to_text()) if hasattr(message, "to_model_text") else ""
    text = getattr(message, "text", None)
    return str(text) if text is not None else str(getattr(message, "content", "") or "")


def _takes_a_task(program: Any) -> bool:
    if not callable(program):
        return False
    try:
        inspect.signature(program).bind("a task")
    except TypeError:
        return False
    except ValueError:  # built in: it has no signature to look at
        return True
    return True


def _state(graph: Any, task: str) -> dict[str, Any]:
    """Put the task where the graph takes it."""
    channels = {name for name in getattr(graph, "channels", {}) if not name.startswith(("__", "branch:"))}
    if "messages" in channels:
        from langchain_core.messages import HumanMessage  # a graph is here, so it is installed

        return {"messages": [HumanMessage(task)]}
    schema = getattr(getattr(graph, "builder", None), "input_schema", None)
    texts = [name for name, kind in _hints(schema).items() if kind is str and name in channels]
    named = [name for name in _INPUTS if name in texts] or (texts if len(texts) == 1 else [])
    if not named:
        raise ConfigError(
            f"expected a graph whose state has `messages` or one text to put the task in, got {sorted(channels)!r}. "
            "Let the factory give a function instead: lambda task: graph.invoke({...: task})"
        )
    return {named[0]: task}


def _hints(schema: Any) -> dict[str, Any]:
    try:
        return get_type_hints(schema) if schema is not None else {}
    except (TypeError, NameError):  # a schema that is no class, or names what cannot be found
        return {}


def _is_sync_only(graph: Any) -> bool:
    """Return whether a graph's checkpointer refuses to be awaited; everything else in a graph runs in an event loop."""
    read = getattr(getattr(graph, "checkpointer", None), "aget_tuple", None)
    code = getattr(read, "__code__", None)
    return code is not None and "NotImplementedError" in code.co_names
