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
from langchain_core.tools import BaseTool
from langgraph._internal._runnable import RunnableCallable
from langgraph.pregel import Pregel
from langgraph.types import Command

from blamespan.injecting.boundaries import Answer
from blamespan.injecting.injection import active
from blamespan_integrations.injection._langgraph_convert import (
    answer_unasked,
    as_chunk,
    as_lines,
    as_messages,
    as_result,
    chunk_unasked,
    read_answer,
    tool_names,
)
from blamespan_integrations.injection._langgraph_graphs import (
    arun_node,
    current_node,
    graph_astream,
    graph_stream,
    run_node,
    wrap_ainvoke,
    wrap_invoke,
)
from blamespan_integrations.injection._offering import (
    OfferedModelCall,
    find_call_id,
    format_arguments,
    is_asked_within,
    make_exception,
    note_tool_call,
    off_the_loop,
    offer_answer,
    offer_call,
    within,
)
from blamespan_integrations.injection._splice import Function, SplicedHooks

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
        cover(Pregel, {"stream": graph_stream, "astream": graph_astream})
        put(RunnableCallable, "invoke", wrap_invoke)
        put(RunnableCallable, "ainvoke", wrap_ainvoke)
        runner = resolve_name(_RUNNER)
        put(runner, "run_with_retry", run_node)
        put(runner, "arun_with_retry", arun_node)


_tool: ContextVar[Any] = ContextVar("blamespan-injection-tool", default=None)


def _generate(original: Function) -> Function:
    def generate(self: Any, messages: Any, *args: Any, **kwargs: Any) -> Any:
        call = _begin_model_call(messages, kwargs)
        if call is None:
            return original(self, messages, *args, **kwargs)
        sent = as_messages(messages, call.alter_prompt())
        if (answer := call.foretell_answer()) is not None:
            return _alter_result(call, answer_unasked(answer))
        with within(is_asked_within, True):
            result = original(self, sent, *args, **kwargs)
        return _alter_result(call, result)

    return generate


def _agenerate(original: Function) -> Function:
    async def agenerate(self: Any, messages: Any, *args: Any, **kwargs: Any) -> Any:
        call = _begin_model_call(messages, kwargs)
        if call is None:
            return await original(self, messages, *args, **kwargs)
        sent = as_messages(messages, await off_the_loop(call.is_slow, call.alter_prompt))
        if (answer := call.foretell_answer()) is not None:
            return await off_the_loop(call.is_slow, _alter_result, call, answer_unasked(answer))
        with within(is_asked_within, True):
            result = await original(self, sent, *args, **kwargs)
        return await off_the_loop(call.is_slow, _alter_result, call, result)

    return agenerate


def _stream(original: Function) -> Function:
    def stream(self: Any, messages: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
        call = _begin_model_call(messages, kwargs)
        if call is None:
            yield from original(self, messages, *args, **kwargs)
            return
        sent = as_messages(messages, call.alter_prompt())
        if (answer := call.foretell_answer()) is not None:
            yield from _alter_chunks(call, [chunk_unasked(answer)])
            return
        with within(is_asked_within, True):
            chunks = list(original(self, sent, *args, **kwargs))  # what has been shown cannot be taken back
        yield from _alter_chunks(call, chunks)

    return stream


def _astream(original: Function) -> Function:
    async def astream(self: Any, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        call = _begin_model_call(messages, kwargs)
        if call is None:
            async for chunk in original(self, messages, *args, **kwargs):
                yield chunk
            return
        sent = as_messages(messages, await off_the_loop(call.is_slow, call.alter_prompt))
        if (answer := call.foretell_answer()) is not None:
            for chunk in await off_the_loop(call.is_slow, _alter_chunks, call, [chunk_unasked(answer)]):
                yield chunk
            return
        with within(is_asked_within, True):
            chunks = [chunk async for chunk in original(self, sent, *args, **kwargs)]
        for chunk in await off_the_loop(call.is_slow, _alter_chunks, call, chunks):
            yield chunk

    return astream


def _begin_model_call(messages: Any, kwargs: dict[str, Any]) -> OfferedModelCall | None:
    injections = active()
    if not injections or is_asked_within.get():
        return None
    node = current_node.get()
    if node is not None:
        node.has_asked = True
    name = node.name if node is not None else ""
    alias = node.task.name if node is not None else ""
    return OfferedModelCall(injections, name, as_lines(messages), tool_names(kwargs.get("tools")), alias)


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
        if not active() or _tool.get() is self:
            return original(self, *args, **kwargs)
        note_tool_call(find_call_id())
        answer, result = _offer_before_call(self, args, kwargs), None
        if answer is None:
            result = original(self, *args, **kwargs)
            answer = _offer(self, args, kwargs, result)
        if answer is None:
            return result
        time.sleep(answer.delay_s)
        return _tool_result(self, result, answer)

    return run


def _arun(original: Function) -> Function:
    async def arun(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not active() or _tool.get() is self:
            return await original(self, *args, **kwargs)
        note_tool_call(find_call_id())
        answer, result = _offer_before_call(self, args, kwargs), None
        if answer is None:
            with within(_tool, self):  # it may call `_run` in turn
                result = await original(self, *args, **kwargs)
            answer = _offer(self, args, kwargs, result)
        if answer is None:
            return result
        if answer.delay_s:
            await asyncio.sleep(answer.delay_s)
        return _tool_result(self, result, answer)

    return arun


def _offer_before_call(tool: Any, args: Any, kwargs: dict[str, Any]) -> Answer | None:
    """Offer the answer of a tool before it is called."""
    return offer_call(tool.name, _caller(), format_arguments([*args, _own(kwargs)]))


def _offer(tool: Any, args: Any, kwargs: dict[str, Any], result: Any) -> Answer | None:
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
    return offer_answer(tool.name, _caller(), format_arguments([*args, _own(kwargs)]), text)


def _caller() -> str:
    node = current_node.get()
    return node.name if node is not None else ""


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
