"""Hooks at the boundaries of LangGraph.

A chat model's input and answer; a tool's answer; what a node says that asks no model; and what a node writes:
who hears of it and which nodes are next. Plain text models (`BaseLLM`) and the functional API's edges are not hooked.
"""

from __future__ import annotations

from contextvars import ContextVar
from functools import partial
from pkgutil import resolve_name
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, StructuredTool, Tool
from langgraph._internal._runnable import RunnableCallable
from langgraph.pregel import Pregel
from langgraph.types import Command

from blamespan.host_safety import shield_host
from blamespan.intercepting.boundaries import Answer
from blamespan.intercepting.listeners import active
from blamespan.intercepting.tool_objects import known_tools
from blamespan_integrations.interception import _langgraph_convert
from blamespan_integrations.interception._around import Original, around, around_stream, within
from blamespan_integrations.interception._langgraph_convert import find_handoff
from blamespan_integrations.interception._langgraph_graphs import (
    Node,
    ask_by_interrupt,
    current_node,
    find_requester,
    invoke_node,
    run_node,
    stream_graph,
)
from blamespan_integrations.interception._offering import (
    OfferedModelCall,
    OfferedTool,
    ask_model,
    find_call_id,
    format_arguments,
    make_exception,
    note_tool,
    note_tool_call,
    read_nothing,
    stream_model,
    tool_at_work,
    tool_names,
)
from blamespan_integrations.interception._splice import SplicedHooks

_RUNNER = "langgraph.pregel._runner"


class LangGraphHooks(SplicedHooks):
    """Puts the hooks in place and takes them out again."""

    def install(self) -> None:
        """Put every hook in place."""
        put, cover = self._splices.put, self._splices.cover
        runner = resolve_name(_RUNNER)
        for waits, a in ((False, ""), (True, "a")):
            asking = around(partial(ask_model, _begin_model_call), waits=waits)
            streaming = around_stream(partial(stream_model, _begin_model_call), waits=waits)
            cover(BaseChatModel, {f"_{a}generate": asking, f"_{a}stream": streaming})
            cover(BaseTool, {f"_{a}run": around(_run, waits=waits)})
            put(BaseTool, f"{a}run", around(_note_call_id, waits=waits))
            # what a tool of the program's own does in place of asking `_run`
            own = dict.fromkeys((f"{a}run", f"{a}invoke"), around(_call_own, waits=waits))
            cover(BaseTool, own, leave_out=frozenset({BaseTool, StructuredTool, Tool}))
            cover(Pregel, {f"{a}stream": around_stream(stream_graph, waits=waits)})
            put(RunnableCallable, f"{a}invoke", around(invoke_node, waits=waits))
            put(runner, f"{a}run_with_retry", around(partial(run_node, _foresee_questions), waits=waits))
        put(BaseTool, "__init__", note_tool)
        known_tools.watch(BaseTool)


_call_id: ContextVar[str] = ContextVar("blamespan-call-id", default="")


def _begin_model_call(_: Any, messages: Any, kwargs: dict[str, Any]) -> OfferedModelCall:
    node = current_node.get()
    if node is not None:
        node.has_asked = True
    name, alias = (node.name, node.task.name) if node is not None else ("", "")
    tools = tool_names(kwargs.get("tools"))
    return OfferedModelCall(
        active(), name, _langgraph_convert, messages, tools, alias, can_retry=True, ask=ask_by_interrupt
    )


async def _run(original: Original, self: Any, *args: Any, **kwargs: Any) -> Any:
    tool = _offered_tool(self, *args, **kwargs)
    call = partial(original, self, *args, **kwargs)
    if tool is None:
        return await call()
    note_tool_call(find_call_id())
    return await tool.use(original, call, partial(_read_result, self), partial(_write_result, self))


async def _note_call_id(original: Original, self: Any, *args: Any, **kwargs: Any) -> Any:
    with within(_call_id, kwargs.get("tool_call_id") or ""):
        return await original(self, *args, **kwargs)


async def _call_own(original: Original, self: Any, given: Any, *args: Any, **kwargs: Any) -> Any:
    call_id, arguments = _read_input(given, kwargs)
    call = partial(original, self, given, *args, **kwargs)
    with within(_call_id, call_id):
        tool = _offered_tool(self, arguments)
        return await (call() if tool is None else tool.use(original, call, read_nothing, partial(_refuse, self)))


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
                    offered = _offered_tool(tool, *args, **kwargs)
                    question = offered.foresee_question(node.answers) if offered is not None else ""
                questions += [question] if question else []
    return questions


def _read_input(given: Any, kwargs: dict[str, Any]) -> tuple[str, Any]:
    """Return the id of a call and what it passes, whether that is a model's call or its arguments alone."""
    is_call = isinstance(given, dict) and given.get("type") == "tool_call" and "args" in given
    call_id = given.get("id") if is_call else kwargs.get("tool_call_id")
    return call_id or _call_id.get(), given["args"] if is_call else given


def _refuse(tool: Any, _: Any, refusal: Answer) -> Any:
    call_id = _call_id.get()
    if refusal.error:
        raise make_exception(refusal)
    return ToolMessage(refusal.text, name=tool.name, tool_call_id=call_id) if call_id else refusal.text


def _offered_tool(tool: Any, /, *args: Any, **kwargs: Any) -> OfferedTool | None:
    """Return a tool that is about to work; None where nobody listens, or this call of it was offered already."""
    if not active():
        return None
    call_id = _call_id.get()
    agent, maybe = find_requester(call_id, tool.name)
    named = {key: value for key, value in kwargs.items() if key not in ("config", "run_manager")}
    arguments = format_arguments([*args, named] if named or not args or not isinstance(args[-1], dict) else args)
    offered = OfferedTool(
        tool.name, agent, arguments, tool, maybe, find_handoff(tool), ask_by_interrupt, call_id=call_id
    )
    return None if tool_at_work.get() == offered.key else offered


def _read_result(tool: Any, result: Any) -> str | None:
    """Return a tool's answer, where it is a text or something that LangChain would make one of."""
    has_artifact = tool.response_format == "content_and_artifact" and isinstance(result, tuple) and len(result) == 2
    content = result[0] if has_artifact else result
    if isinstance(content, Command):
        return None
    text = content.text if isinstance(content, ToolMessage) else content
    return text if isinstance(text, str) else format_arguments(text)


def _write_result(tool: Any, result: Any, answer: Answer) -> Any:
    if answer.error:
        raise make_exception(answer)
    if answer.is_due and tool.response_format == "content_and_artifact":
        return (answer.text, None)
    if isinstance(result, tuple):
        return (answer.text, *result[1:])
    return result.model_copy(update={"content": answer.text}) if isinstance(result, ToolMessage) else answer.text
