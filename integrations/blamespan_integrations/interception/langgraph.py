"""Hooks at the boundaries of LangGraph.

A chat model's input and answer; a tool's answer; what a node says that asks no model; and what a node writes:
who hears of it and which nodes are next. Plain text models (`BaseLLM`) and the functional API's edges are not hooked.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar
from pkgutil import resolve_name
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import ToolMessage
from langchain_core.outputs import ChatResult
from langchain_core.tools import BaseTool, StructuredTool, Tool
from langgraph._internal._runnable import RunnableCallable
from langgraph.pregel import Pregel
from langgraph.types import Command

from blamespan.instrumenting.host_safety import shield_host
from blamespan.intercepting.boundaries import Answer
from blamespan.intercepting.listeners import active
from blamespan.intercepting.tool_objects import known_tools
from blamespan_integrations.interception._langgraph_convert import (
    answer_unasked,
    as_chunk,
    as_lines,
    as_messages,
    as_result,
    chunk_unasked,
    find_handoff,
    read_answer,
    tool_names,
)
from blamespan_integrations.interception._langgraph_graphs import (
    Node,
    arun_node,
    ask_by_interrupt,
    current_node,
    find_requester,
    graph_astream,
    graph_stream,
    run_node,
    wrap_ainvoke,
    wrap_invoke,
)
from blamespan_integrations.interception._offering import (
    OfferedModelCall,
    OfferedTool,
    find_call_id,
    format_arguments,
    is_asked_within,
    iterate_within,
    make_exception,
    note_tool_call,
    off_the_loop,
    within,
)
from blamespan_integrations.interception._splice import Function, SplicedHooks

__all__ = ["LangGraphHooks"]

_RUNNER = "langgraph.pregel._runner"


class LangGraphHooks(SplicedHooks):
    """Puts the hooks in place and takes them out again."""

    def install(self) -> None:
        """Put every hook in place."""
        put, cover = self._splices.put, self._splices.cover
        cover(
            BaseChatModel,
            {"_generate": _generate, "_agenerate": _agenerate, "_stream": _stream, "_astream": _astream},
        )
        cover(BaseTool, {"_run": _run, "_arun": _arun})
        put(BaseTool, "__init__", _note_tool)
        put(BaseTool, "run", _note_call_id)
        put(BaseTool, "arun", _anote_call_id)
        # what a tool of the program's own does in place of asking `_run`
        own = {"run": _call_own, "invoke": _call_own, "arun": _acall_own, "ainvoke": _acall_own}
        cover(BaseTool, own, leave_out=frozenset({BaseTool, StructuredTool, Tool}))
        known_tools.watch(BaseTool)
        cover(Pregel, {"stream": graph_stream, "astream": graph_astream})
        put(RunnableCallable, "invoke", wrap_invoke)
        put(RunnableCallable, "ainvoke", wrap_ainvoke)
        runner = resolve_name(_RUNNER)
        put(runner, "run_with_retry", lambda original: run_node(original, _foresee_questions))
        put(runner, "arun_with_retry", lambda original: arun_node(original, _foresee_questions))


_tool: ContextVar[tuple[int, str] | None] = ContextVar("blamespan-tool", default=None)
"""The tool at work and its arguments: `_arun` may call `_run` for the same call."""
_call_id: ContextVar[str] = ContextVar("blamespan-call-id", default="")


def _generate(original: Function) -> Function:
    def generate(self: Any, messages: Any, *args: Any, **kwargs: Any) -> Any:
        call = _begin_model_call(messages, kwargs)
        if call is None:
            return original(self, messages, *args, **kwargs)
        lines = call.alter_prompt()
        sent = messages if lines is None else as_messages(messages, lines)
        while True:
            if (answer := call.foretell_answer()) is not None:
                result = _alter_result(call, answer_unasked(answer))
            else:
                try:
                    with within(is_asked_within, True):
                        result = original(self, sent, *args, **kwargs)
                    result = _alter_result(call, result)
                finally:
                    call.end()
            if not call.must_ask_again:
                return result
            sent = as_messages(messages, call.prompt_again())

    return generate


def _agenerate(original: Function) -> Function:
    async def agenerate(self: Any, messages: Any, *args: Any, **kwargs: Any) -> Any:
        call = _begin_model_call(messages, kwargs)
        if call is None:
            return await original(self, messages, *args, **kwargs)
        lines = await off_the_loop(call.is_slow, call.alter_prompt)
        sent = messages if lines is None else as_messages(messages, lines)
        while True:
            if (answer := await call.foretell_answer_async()) is not None:
                result = await off_the_loop(call.is_slow, _alter_result, call, answer_unasked(answer))
            else:
                try:
                    with within(is_asked_within, True):
                        result = await original(self, sent, *args, **kwargs)
                    result = await off_the_loop(call.is_slow, _alter_result, call, result)
                finally:
                    call.end()
            if not call.must_ask_again:
                return result
            sent = as_messages(messages, call.prompt_again())

    return agenerate


def _stream(original: Function) -> Function:
    def stream(self: Any, messages: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
        call = _begin_model_call(messages, kwargs)
        if call is None:
            yield from original(self, messages, *args, **kwargs)
            return
        lines = call.alter_prompt()
        sent = messages if lines is None else as_messages(messages, lines)
        while True:
            if (answer := call.foretell_answer()) is not None:
                shown = _alter_chunks(call, [chunk_unasked(answer)])
            else:
                try:
                    chunks: list[Any] = []  # until all is said: what has been shown cannot be taken back
                    source = iter(original(self, sent, *args, **kwargs))
                    while (chunk := _next_within(source)) is not None:
                        chunks.append(chunk)
                        if not call.is_patient:
                            yield chunk
                    shown = _alter_chunks(call, chunks)
                finally:
                    call.end()
                shown = shown if call.is_patient else []
            if not call.must_ask_again:
                yield from shown
                return
            sent = as_messages(messages, call.prompt_again())

    return stream


def _next_within(source: Iterator[Any]) -> Any:
    """Return the next chunk; what a model asks in turn is part of that. None at the end."""
    with within(is_asked_within, True):
        return next(source, None)


def _astream(original: Function) -> Function:
    async def astream(self: Any, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        call = _begin_model_call(messages, kwargs)
        if call is None:
            async for chunk in original(self, messages, *args, **kwargs):
                yield chunk
            return
        lines = await off_the_loop(call.is_slow, call.alter_prompt)
        sent = messages if lines is None else as_messages(messages, lines)
        while True:
            if (answer := await call.foretell_answer_async()) is not None:
                shown = await off_the_loop(call.is_slow, _alter_chunks, call, [chunk_unasked(answer)])
            else:
                try:
                    chunks: list[Any] = []
                    source = aiter(original(self, sent, *args, **kwargs))
                    async for chunk in iterate_within(lambda: within(is_asked_within, True), source):
                        chunks.append(chunk)
                        if not call.is_patient:
                            yield chunk
                    shown = await off_the_loop(call.is_slow, _alter_chunks, call, chunks)
                finally:
                    call.end()
                shown = shown if call.is_patient else []
            if not call.must_ask_again:
                for chunk in shown:
                    yield chunk
                return
            sent = as_messages(messages, call.prompt_again())

    return astream


def _begin_model_call(messages: Any, kwargs: dict[str, Any]) -> OfferedModelCall | None:
    listeners = active()
    if not listeners or is_asked_within.get():
        return None
    node = current_node.get()
    if node is not None:
        node.has_asked = True
    name = node.name if node is not None else ""
    alias = node.task.name if node is not None else ""
    lines, tools = as_lines(messages), tool_names(kwargs.get("tools"))
    return OfferedModelCall(listeners, name, lines, tools, alias, can_retry=True, ask=ask_by_interrupt)


def _alter_result(call: OfferedModelCall, result: Any) -> Any:
    if not isinstance(result, ChatResult) or not result.generations:
        return result
    answer = read_answer(result.generations[0].message)
    changed = call.alter_answer(answer)
    return as_result(result, changed) if changed != answer else result


def _alter_chunks(call: OfferedModelCall, chunks: list[Any]) -> list[Any]:
    if not chunks:
        return chunks
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole = whole + chunk
    answer = read_answer(whole.message)
    changed = call.alter_answer(answer)
    return [as_chunk(chunks, changed)] if changed != answer else chunks


def _run(original: Function) -> Function:
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not active():
            return original(self, *args, **kwargs)
        tool = _offered_tool(self, *args, **kwargs)
        if _tool.get() == (id(self), tool.arguments):
            return original(self, *args, **kwargs)
        note_tool_call(find_call_id())
        answer, result = tool.offer_call(), None
        if answer is None:
            with tool.inside():
                result = original(self, *args, **kwargs)
            answer = _offer(self, tool, result)
        if answer is None:
            return result
        time.sleep(answer.delay_s)
        return _tool_result(self, result, answer)

    return run


def _arun(original: Function) -> Function:
    async def arun(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not active():
            return await original(self, *args, **kwargs)
        tool = _offered_tool(self, *args, **kwargs)
        if _tool.get() == (id(self), tool.arguments):
            return await original(self, *args, **kwargs)
        note_tool_call(find_call_id())
        answer, result = await tool.offer_call_async(), None
        if answer is None:
            with within(_tool, (id(self), tool.arguments)), tool.inside():  # it may call `_run` in turn
                result = await original(self, *args, **kwargs)
            answer = _offer(self, tool, result)
        if answer is None:
            return result
        if answer.delay_s:
            await asyncio.sleep(answer.delay_s)
        return _tool_result(self, result, answer)

    return arun


def _note_tool(original: Function) -> Function:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - it stands in for that
        original(self, *args, **kwargs)
        known_tools.add(self)

    return __init__


def _note_call_id(original: Function) -> Function:
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        with within(_call_id, kwargs.get("tool_call_id") or ""):
            return original(self, *args, **kwargs)

    return run


def _anote_call_id(original: Function) -> Function:
    async def arun(self: Any, *args: Any, **kwargs: Any) -> Any:
        with within(_call_id, kwargs.get("tool_call_id") or ""):
            return await original(self, *args, **kwargs)

    return arun


def _call_own(original: Function) -> Function:
    def call(self: Any, given: Any, *args: Any, **kwargs: Any) -> Any:
        call_id, arguments = _read_input(given, kwargs)
        with within(_call_id, call_id):
            tool = _offered_tool(self, arguments) if active() else None
            if tool is None or _tool.get() == (id(self), tool.arguments):
                return original(self, given, *args, **kwargs)
            refusal = tool.offer_call()
            if refusal is not None:
                return _refuse_own(self, call_id, refusal)
            with within(_tool, (id(self), tool.arguments)), tool.inside():
                return original(self, given, *args, **kwargs)

    return call


def _acall_own(original: Function) -> Function:
    async def call(self: Any, given: Any, *args: Any, **kwargs: Any) -> Any:
        call_id, arguments = _read_input(given, kwargs)
        with within(_call_id, call_id):
            tool = _offered_tool(self, arguments) if active() else None
            if tool is None or _tool.get() == (id(self), tool.arguments):
                return await original(self, given, *args, **kwargs)
            refusal = await tool.offer_call_async()
            if refusal is not None:
                return _refuse_own(self, call_id, refusal)
            with within(_tool, (id(self), tool.arguments)), tool.inside():
                return await original(self, given, *args, **kwargs)

    return call


def _foresee_questions(node: Node) -> list[str]:
    """List what a person is still to be asked before a node's tools are called."""
    questions: list[str] = []
    with (
        shield_host("guard: foresee questions"),
        within(current_node, node),
    ):  # each call is judged again where it is made
        calls, _ = node.function._parse_input(node.task.input)
        for call in calls:
            tool = node.function.tools_by_name.get(call["name"])
            if tool is not None:
                args, kwargs = tool._to_args_and_kwargs(call["args"], call["id"])
                with within(_call_id, call["id"] or ""):
                    question = _offered_tool(tool, *args, **kwargs).foresee_question(node.answers)
                questions += [question] if question else []
    return questions


def _read_input(given: Any, kwargs: dict[str, Any]) -> tuple[str, Any]:
    """Return the id of a call and what it passes, whether that is a model's call or its arguments alone."""
    is_call = isinstance(given, dict) and given.get("type") == "tool_call" and "args" in given
    call_id = given.get("id") if is_call else kwargs.get("tool_call_id")
    return call_id or _call_id.get(), given["args"] if is_call else given


def _refuse_own(tool: Any, call_id: str, refusal: Answer) -> Any:
    if refusal.error:
        raise make_exception(refusal)
    return ToolMessage(refusal.text, name=tool.name, tool_call_id=call_id) if call_id else refusal.text


def _offered_tool(tool: Any, /, *args: Any, **kwargs: Any) -> OfferedTool:
    call_id = _call_id.get()
    agent, maybe = find_requester(call_id, tool.name)
    named = _own(kwargs)
    arguments = format_arguments([*args, named] if named or not args or not isinstance(args[-1], dict) else args)
    return OfferedTool(tool.name, agent, arguments, tool, maybe, find_handoff(tool), ask_by_interrupt, call_id=call_id)


def _offer(tool: Any, offered: OfferedTool, result: Any) -> Answer | None:
    """Offer a tool's answer, where it is a text or something that LangChain would make one of."""
    content = result[0] if _has_artifact(tool, result) else result
    if isinstance(content, Command):
        return None
    text = (
        content.text
        if isinstance(content, ToolMessage)
        else content
        if isinstance(content, str)
        else format_arguments(content)
    )
    return offered.offer_answer(text)


def _tool_result(tool: Any, result: Any, answer: Answer) -> Any:
    if answer.error:
        raise make_exception(answer)
    if answer.is_due and tool.response_format == "content_and_artifact":
        return (answer.text, None)
    if isinstance(result, tuple):
        return (answer.text, *result[1:])
    return result.model_copy(update={"content": answer.text}) if isinstance(result, ToolMessage) else answer.text


def _has_artifact(tool: Any, result: Any) -> bool:
    return tool.response_format == "content_and_artifact" and isinstance(result, tuple) and len(result) == 2


def _own(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in kwargs.items() if key not in ("config", "run_manager")}
