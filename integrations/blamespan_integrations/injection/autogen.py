"""Hooks at the boundaries of AutoGen AgentChat.

A model's input and answer at its client; a tool's answer at the tool, at a workbench that has tools of its own
and at a code executor; a message where a participant of a team receives it, and where the team's manager
decides who is next; and what an agent says that asks no model.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import nullcontext
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from autogen_agentchat.agents import AssistantAgent, MessageFilterAgent
from autogen_agentchat.base import ChatAgent, Response, Team
from autogen_agentchat.messages import BaseChatMessage
from autogen_agentchat.teams._group_chat._base_group_chat_manager import BaseGroupChatManager
from autogen_agentchat.teams._group_chat._chat_agent_container import ChatAgentContainer
from autogen_agentchat.teams._group_chat._sequential_routed_agent import SequentialRoutedAgent
from autogen_core import FunctionCall
from autogen_core.code_executor import CodeExecutor, CodeResult
from autogen_core.models import ChatCompletionClient, CreateResult
from autogen_core.tools import (
    BaseTool,
    StaticStreamWorkbench,
    StaticWorkbench,
    TextResultContent,
    ToolResult,
    Workbench,
)
from opentelemetry import context as otel_context
from opentelemetry.trace import SpanContext

from blamespan.injecting.boundaries import Answer, Mail, RunScope, Said, Where, current_run
from blamespan.injecting.injection import active
from blamespan_integrations.autogen._convert import agent_role
from blamespan_integrations.injection._autogen_convert import (
    answer_unasked,
    as_lines,
    as_messages,
    as_result,
    read_answer,
    tool_names,
)
from blamespan_integrations.injection._offering import (
    OfferedModelCall,
    format_arguments,
    is_asked_within,
    iterate_within,
    make_exception,
    note_tool_call,
    off_the_loop,
    offer_answer,
    offer_call,
    offer_mail,
    within,
)
from blamespan_integrations.injection._splice import Function, SplicedHooks
from blamespan_integrations.recording.recorder import RUN_KEY
from blamespan_integrations.recording.spans import RunState

__all__ = ["AutoGenHooks"]

_CODE_TOOL = "execute_code"


class AutoGenHooks(SplicedHooks):
    """Puts the hooks in place and takes them out again."""

    def install(self) -> None:
        """Put every hook in place."""
        put, cover = self._splices.put, self._splices.cover
        cover(ChatCompletionClient, {"create": _create, "create_stream": _create_stream})
        cover(BaseTool, {"run": _run_tool, "run_stream": _run_tool_stream, "return_value_as_string": _as_string})
        own_tools = frozenset({StaticWorkbench, StaticStreamWorkbench})  # their tools are asked themselves
        cover(Workbench, {"call_tool": _call_tool}, leave_out=own_tools)
        cover(CodeExecutor, {"execute_code_blocks": _execute_code})
        cover(
            ChatAgent,
            {"on_messages": _on_messages, "on_messages_stream": _on_messages_stream},
            leave_out=frozenset({MessageFilterAgent}),  # says nothing itself: its message is the wrapped agent's
        )
        cover(Team, {"run_stream": _run_stream})
        cover(BaseGroupChatManager, {"select_speaker": _select_speaker})
        put(SequentialRoutedAgent, "on_message_impl", _on_message_impl)
        put(ChatAgentContainer, "_buffer_message", _buffer_message)
        put(AssistantAgent, "_execute_tool_call", _execute_tool_call)


class _SpeakerTurn:
    """An agent that is about to speak."""

    __slots__ = ("agent", "has_asked", "name")

    def __init__(self, agent: object, name: str) -> None:
        self.agent = agent
        self.name = name
        self.has_asked = False


_turn: ContextVar[_SpeakerTurn | None] = ContextVar("blamespan-injection-turn", default=None)


def _create(original: Function) -> Function:
    async def create(self: Any, messages: Any, *args: Any, **kwargs: Any) -> Any:
        call = _begin_model_call(messages, kwargs)
        if call is None:
            return await original(self, messages, *args, **kwargs)
        sent = as_messages(messages, await off_the_loop(call.is_slow, call.alter_prompt))
        if (answer := call.foretell_answer()) is not None:
            return await _alter_result(call, answer_unasked(answer))
        with within(is_asked_within, True):
            result = await original(self, sent, *args, **kwargs)
        return await _alter_result(call, result)

    return create


def _create_stream(original: Function) -> Function:
    async def create_stream(self: Any, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        call = _begin_model_call(messages, kwargs)
        if call is None:
            async for item in iterate_within(nullcontext, aiter(original(self, messages, *args, **kwargs))):
                yield item
            return
        sent = as_messages(messages, await off_the_loop(call.is_slow, call.alter_prompt))
        if (answer := call.foretell_answer()) is not None:
            yield await _alter_result(call, answer_unasked(answer))
            return
        chunks: list[str] = []  # until all is said: what has been shown cannot be taken back
        source = aiter(original(self, sent, *args, **kwargs))
        async for item in iterate_within(lambda: within(is_asked_within, True), source):
            if not isinstance(item, CreateResult):
                chunks.append(item)
                continue
            result = await _alter_result(call, item)
            if result is not item:
                chunks = [result.content] if isinstance(result.content, str) else []
            for chunk in chunks:
                yield chunk
            chunks = []
            yield result
        for chunk in chunks:
            yield chunk

    return create_stream


def _begin_model_call(messages: Any, kwargs: dict[str, Any]) -> OfferedModelCall | None:
    injections = active()
    if not injections or is_asked_within.get():
        return None
    turn = _turn.get()
    if turn is not None:
        turn.has_asked = True
    return OfferedModelCall(
        injections, turn.name if turn is not None else "", as_lines(messages), tool_names(kwargs.get("tools"))
    )


async def _alter_result(call: OfferedModelCall, result: Any) -> Any:
    if not isinstance(result, CreateResult):
        return result
    answer = read_answer(result)
    changed = await off_the_loop(call.is_slow, call.alter_answer, answer)
    return as_result(result, changed) if changed != answer else result


class _RewrittenText(str):
    """A tool's answer as it was rewritten: no value of the tool's own type any more."""

    __slots__ = ()


def _run_tool(original: Function) -> Function:
    async def run(self: Any, args: Any, *rest: Any, **kwargs: Any) -> Any:
        if not active() or is_asked_within.get():
            return await original(self, args, *rest, **kwargs)
        refusal = offer_call(self.name, _speaker(), format_arguments(args.model_dump()))
        if refusal is not None:
            return await _give_answer(refusal)
        return await _tool_answer(self, args, await original(self, args, *rest, **kwargs))

    return run


def _run_tool_stream(original: Function) -> Function:
    async def run_stream(self: Any, args: Any, *rest: Any, **kwargs: Any) -> AsyncIterator[Any]:
        refusal = offer_call(self.name, _speaker(), format_arguments(args.model_dump())) if active() else None
        if refusal is not None:
            yield await _give_answer(refusal)
            return
        last: list[Any] = []  # the last item is the answer, and which is the last shows only then
        async for item in iterate_within(nullcontext, aiter(original(self, args, *rest, **kwargs))):
            for earlier in last:
                yield earlier
            last = [item]
        for item in last:
            yield await _tool_answer(self, args, item) if active() else item

    return run_stream


async def _tool_answer(tool: Any, args: Any, result: Any) -> Any:
    answer = offer_answer(
        tool.name, _speaker(), format_arguments(args.model_dump()), tool.return_value_as_string(result)
    )
    return result if answer is None else await _give_answer(answer)


async def _give_answer(answer: Answer) -> _RewrittenText:
    if answer.delay_s:  # else it would change places with answers given side by side
        await asyncio.sleep(answer.delay_s)
    if answer.error:
        raise make_exception(answer)
    return _RewrittenText(answer.text)


def _as_string(original: Function) -> Function:
    def return_value_as_string(self: Any, value: Any) -> Any:
        return str(value) if isinstance(value, _RewrittenText) else original(self, value)

    return return_value_as_string


def _call_tool(original: Function) -> Function:
    async def call_tool(self: Any, name: str, arguments: Any = None, *rest: Any, **kwargs: Any) -> Any:
        answer, result = offer_call(name, _speaker(), format_arguments(arguments)) if active() else None, None
        if answer is None:
            result = await original(self, name, arguments, *rest, **kwargs)
            if not active() or not isinstance(result, ToolResult) or result.is_error:
                return result
            answer = offer_answer(name, _speaker(), format_arguments(arguments), result.to_text())
        if answer is None:
            return result
        if answer.delay_s:
            await asyncio.sleep(answer.delay_s)
        return ToolResult(name=name, result=[TextResultContent(content=answer.text)], is_error=bool(answer.error))

    return call_tool


def _execute_code(original: Function) -> Function:
    async def execute_code_blocks(self: Any, code_blocks: Any, *rest: Any, **kwargs: Any) -> Any:
        code = "\n".join(block.code for block in code_blocks) if active() else ""
        answer, result = offer_call(_CODE_TOOL, _speaker(), code), CodeResult(exit_code=0, output="")
        if answer is None:
            result = await original(self, code_blocks, *rest, **kwargs)
            answer = offer_answer(_CODE_TOOL, _speaker(), code, result.output)
        if answer is None:
            return result
        if answer.delay_s:
            await asyncio.sleep(answer.delay_s)
        return replace(result, output=answer.text, exit_code=1 if answer.error else result.exit_code)

    return execute_code_blocks


def _execute_tool_call(original: Function) -> Function:
    async def execute_tool_call(*args: Any, **kwargs: Any) -> Any:
        call = args[0] if args else kwargs.get("tool_call")
        if isinstance(call, FunctionCall):
            note_tool_call(call.id)
        return await original(*args, **kwargs)

    return execute_tool_call


def _on_messages(original: Function) -> Function:
    async def on_messages(self: Any, *args: Any, **kwargs: Any) -> Any:
        turn = _begin(self)
        if turn is None:
            return await original(self, *args, **kwargs)
        with within(_turn, turn):
            return _offer_speech(turn, await original(self, *args, **kwargs))

    return on_messages


def _on_messages_stream(original: Function) -> Function:
    async def on_messages_stream(self: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        turn = _begin(self)
        around = nullcontext if turn is None else lambda: within(_turn, turn)
        async for item in iterate_within(around, aiter(original(self, *args, **kwargs))):
            yield item if turn is None else _offer_speech(turn, item)

    return on_messages_stream


def _begin(agent: Any) -> _SpeakerTurn | None:
    turn = _turn.get()
    return None if not active() or (turn is not None and turn.agent is agent) else _SpeakerTurn(agent, agent.name)


def _offer_speech(turn: _SpeakerTurn, item: Any) -> Any:
    """Offer what an agent says that has asked no model; executors and people say nothing of their own."""
    injections = active()
    if not injections or turn.has_asked or not isinstance(item, Response) or agent_role(turn.agent) != "agent":
        return item
    text = getattr(item.chat_message, "content", None)
    if not isinstance(text, str):
        return item
    call = OfferedModelCall(injections, turn.name, (), ())
    answer = call.alter_answer(Said(text))
    if answer.text == text:
        return item
    return replace(item, chat_message=item.chat_message.model_copy(update={"content": answer.text}))


def _run_stream(original: Function) -> Function:
    async def run_stream(self: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        run = (current_run.get() or RunScope()) if active() else None
        if run is not None:
            run.agents = tuple(dict.fromkeys((*run.agents, *getattr(self, "_participant_names", ()))))
        around = nullcontext if run is None else lambda: within(current_run, run)
        async for item in iterate_within(around, aiter(original(self, *args, **kwargs))):
            yield item

    return run_stream


def _on_message_impl(original: Function) -> Function:
    async def on_message_impl(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not active() or not isinstance(self, BaseGroupChatManager):
            return await original(self, *args, **kwargs)
        with within(_turn, _SpeakerTurn(self, getattr(self, "_name", ""))):
            return await original(self, *args, **kwargs)

    return on_message_impl


def _select_speaker(original: Function) -> Function:
    async def select_speaker(self: Any, thread: Any, *args: Any, **kwargs: Any) -> Any:
        chosen = await original(self, thread, *args, **kwargs)
        names: tuple[str, ...] = tuple(getattr(self, "_participant_names", ()))
        spoken = [item for item in thread if isinstance(item, BaseChatMessage) and item.source in names]
        run = current_run.get()
        if not active() or not spoken or run is None:
            return chosen
        run.speakers = [message.source for message in spoken]
        following = (chosen,) if isinstance(chosen, str) else tuple(chosen)
        last = spoken[-1]
        mail = offer_mail(last.source, Mail(last.to_text(), following=following), lambda: _find_step(last))
        return chosen if mail.following == following else [name for name in mail.following if name in names]

    return select_speaker


def _buffer_message(original: Function) -> Function:
    def buffer_message(self: Any, message: BaseChatMessage) -> None:
        run = current_run.get()
        if run is None or not active() or message.source not in run.agents:
            original(self, message)
            return
        mail = run.mail.get(message.id)
        if mail is None:
            receivers = tuple(name for name in run.agents if name != message.source)
            mail = offer_mail(message.source, Mail(message.to_text(), receivers), lambda: _find_step(message))
            run.mail[message.id] = mail
        for copy in range(mail.copies if mail.receivers else 0):
            original(self, message if copy == 0 else message.model_copy(update={"id": f"{message.id}-{copy}"}))

    return buffer_message


def _find_step(message: BaseChatMessage) -> Where | None:
    """Find the step in which a message was said."""
    state = otel_context.get_value(RUN_KEY)
    ref = state.steps_by_message.get(message.id) if isinstance(state, RunState) else None
    if ref is None:
        return None
    span: SpanContext = ref.span
    index = ref.index
    return Where(span, lambda: index)


def _speaker() -> str:
    turn = _turn.get()
    return turn.name if turn is not None else ""
