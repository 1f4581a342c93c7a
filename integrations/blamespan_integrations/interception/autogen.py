"""Hooks at the boundaries of AutoGen AgentChat.

A model's input and answer at its client; a tool's answer at the tool, at a workbench that has tools of its own
and at a code executor; a message where a participant of a team receives it, and where the team's manager
decides who is next; and what an agent says that asks no model.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from autogen_agentchat.agents import AssistantAgent, MessageFilterAgent, UserProxyAgent
from autogen_agentchat.base import ChatAgent, Response, TaskResult, Team
from autogen_agentchat.messages import BaseChatMessage, HandoffMessage, StopMessage
from autogen_agentchat.teams._group_chat._base_group_chat_manager import BaseGroupChatManager
from autogen_agentchat.teams._group_chat._chat_agent_container import ChatAgentContainer
from autogen_agentchat.teams._group_chat._sequential_routed_agent import SequentialRoutedAgent
from autogen_agentchat.teams._group_chat._swarm_group_chat import SwarmGroupChatManager
from autogen_core import FunctionCall
from autogen_core.code_executor import CodeExecutor, CodeResult
from autogen_core.models import ChatCompletionClient, CreateResult
from autogen_core.tools import (
    BaseStreamTool,
    BaseTool,
    StaticWorkbench,
    TextResultContent,
    ToolResult,
    Workbench,
)
from opentelemetry import context as otel_context
from opentelemetry.trace import SpanContext

from blamespan.intercepting.boundaries import CODE_TOOL, Answer, Mail, Question, RunScope, Said, Where, current_run
from blamespan.intercepting.listeners import active
from blamespan.intercepting.tool_objects import known_tools
from blamespan_integrations.autogen._convert import agent_role, model_of
from blamespan_integrations.interception._autogen_convert import (
    answer_unasked,
    as_lines,
    as_messages,
    as_result,
    find_handoff,
    read_answer,
    tool_names,
)
from blamespan_integrations.interception._offering import (
    AtWork,
    OfferedModelCall,
    OfferedTool,
    acting_for,
    acts_for,
    format_arguments,
    is_asked_within,
    iterate_within,
    join_questions,
    make_exception,
    note_tool_call,
    off_the_loop,
    offer_mail,
    read_answers,
    within,
)
from blamespan_integrations.interception._splice import Function, SplicedHooks
from blamespan_integrations.recording.recorder import RUN_KEY
from blamespan_integrations.recording.spans import RunState

__all__ = ["AutoGenHooks"]


class AutoGenHooks(SplicedHooks):
    """Puts the hooks in place and takes them out again."""

    def install(self) -> None:
        """Put every hook in place."""
        put, cover = self._splices.put, self._splices.cover
        cover(ChatCompletionClient, {"create": _create, "create_stream": _create_stream})
        cover(BaseTool, {"run": _run_tool, "run_stream": _run_tool_stream, "return_value_as_string": _as_string})
        own = {"run_json": _run_json, "run_json_stream": _run_json_stream}
        cover(BaseTool, own, leave_out=frozenset({BaseTool, BaseStreamTool}))  # which ask `run`
        put(BaseTool, "__init__", _note_tool)
        known_tools.watch(BaseTool)
        cover(Workbench, {"call_tool": _call_tool, "call_tool_stream": _call_tool_stream})
        put(UserProxyAgent, "_get_input", _get_input)
        cover(CodeExecutor, {"execute_code_blocks": _execute_code})
        cover(
            ChatAgent,
            {"on_messages": _on_messages, "on_messages_stream": _on_messages_stream},
            leave_out=frozenset({MessageFilterAgent}),  # says nothing itself: its message is the wrapped agent's
        )
        cover(Team, {"run_stream": _run_stream})
        cover(BaseGroupChatManager, {"select_speaker": _select_speaker})
        put(BaseGroupChatManager, "_apply_termination_condition", _apply_termination)
        put(SequentialRoutedAgent, "on_message_impl", _on_message_impl)
        put(ChatAgentContainer, "_buffer_message", _buffer_message)
        put(AssistantAgent, "_execute_tool_call", _execute_tool_call)


class _SpeakerTurn:
    """An agent that is about to speak."""

    __slots__ = ("agent", "around", "has_asked", "name")

    def __init__(self, agent: object, name: str, around: tuple[str, ...] = ()) -> None:
        self.agent = agent
        self.name = name
        self.around = around
        self.has_asked = False

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Hold what holds while it is this agent's turn."""
        with within(_turn, self), within(acting_for, self.around), AtWork(self.name):
            yield


_turn: ContextVar[_SpeakerTurn | None] = ContextVar("blamespan-speaker-turn", default=None)


_answered: ContextVar[Any] = ContextVar("blamespan-answered-tool", default=None)
"""The tool whose call was offered already: one of the program's own kind may ask `run` in turn."""
_called_as: ContextVar[tuple[Any, str]] = ContextVar("blamespan-called-as", default=(None, ""))
"""The tool that a workbench calls, and the name by which it was asked to."""


def _create(original: Function) -> Function:
    async def create(self: Any, messages: Any, *args: Any, **kwargs: Any) -> Any:
        call = _begin_model_call(messages, kwargs)
        if call is None:
            return await original(self, messages, *args, **kwargs)
        lines = await off_the_loop(call.is_slow, call.alter_prompt)
        sent = messages if lines is None else as_messages(messages, lines)
        while True:
            if (answer := await call.foretell_answer_async()) is not None:
                result = await _alter_result(call, answer_unasked(answer), self)
            else:
                try:
                    with within(is_asked_within, True):
                        result = await original(self, sent, *args, **kwargs)
                    result = await _alter_result(call, result, self)
                finally:
                    call.end()
            if not call.must_ask_again:
                return result
            sent = as_messages(messages, call.prompt_again())

    return create


def _create_stream(original: Function) -> Function:
    async def create_stream(self: Any, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        call = _begin_model_call(messages, kwargs)
        if call is None:
            async for item in iterate_within(nullcontext, aiter(original(self, messages, *args, **kwargs))):
                yield item
            return
        lines = await off_the_loop(call.is_slow, call.alter_prompt)
        sent = messages if lines is None else as_messages(messages, lines)
        while True:
            if (answer := await call.foretell_answer_async()) is not None:
                items: list[Any] = [await _alter_result(call, answer_unasked(answer), self)]
            else:
                items = []  # until all is said: what has been shown cannot be taken back
                source = aiter(original(self, sent, *args, **kwargs))
                try:
                    async for item in iterate_within(lambda: within(is_asked_within, True), source):
                        items = await _take_item(call, items, item, self)
                        for shown in () if call.is_patient else items:
                            yield shown
                        items = items if call.is_patient else []
                finally:
                    call.end()
            if not call.must_ask_again:
                for item in items:
                    yield item
                return
            sent = as_messages(messages, call.prompt_again())

    return create_stream


async def _take_item(call: OfferedModelCall, items: list[Any], item: Any, client: Any) -> list[Any]:
    """Return what is to be shown of a stream after *item* has come: the whole answer may be another one."""
    if not isinstance(item, CreateResult):
        return [*items, item]
    result = await _alter_result(call, item, client)
    if result is not item:
        items = [result.content] if isinstance(result.content, str) else []
    return [*items, result]


def _begin_model_call(messages: Any, kwargs: dict[str, Any]) -> OfferedModelCall | None:
    listeners = active()
    if not listeners or is_asked_within.get():
        return None
    turn = _turn.get()
    if turn is not None:
        turn.has_asked = True
    name = turn.name if turn is not None else ""
    lines, tools = as_lines(messages), tool_names(kwargs.get("tools"))
    return OfferedModelCall(listeners, name, lines, tools, can_retry=True, ask=ask_person)


async def _alter_result(call: OfferedModelCall, result: Any, client: Any) -> Any:
    if not isinstance(result, CreateResult):
        return result
    answer = replace(read_answer(result), model=model_of(client))
    changed = await off_the_loop(call.is_slow, call.alter_answer, answer)
    return as_result(result, changed) if changed != answer else result


class _RewrittenText(str):
    """A tool's answer as it was rewritten: no value of the tool's own type any more."""

    __slots__ = ()


def _run_tool(original: Function) -> Function:
    async def run(self: Any, args: Any, *rest: Any, **kwargs: Any) -> Any:
        if not active() or _answered.get() is self:
            return await original(self, args, *rest, **kwargs)
        tool = _offered_tool(self, args)
        refusal = await tool.offer_call_async()
        if refusal is not None:
            return await _give_answer(refusal)
        with tool.inside():
            result = await original(self, args, *rest, **kwargs)
        return await _tool_answer(self, tool, result)

    return run


def _run_json(original: Function) -> Function:
    async def run_json(self: Any, args: Any, *rest: Any, **kwargs: Any) -> Any:
        if not active() or _answered.get() is self:
            return await original(self, args, *rest, **kwargs)
        tool = _offer_object(self, format_arguments(dict(args)))
        refusal = await tool.offer_call_async()
        if refusal is not None:
            return await _give_answer(refusal)
        with within(_answered, self):
            return await original(self, args, *rest, **kwargs)

    return run_json


def _run_json_stream(original: Function) -> Function:
    async def run_json_stream(self: Any, args: Any, *rest: Any, **kwargs: Any) -> AsyncIterator[Any]:
        tool = _offer_object(self, format_arguments(dict(args))) if active() and _answered.get() is not self else None
        refusal = await tool.offer_call_async() if tool is not None else None
        if refusal is not None:
            yield await _give_answer(refusal)
            return
        source = aiter(original(self, args, *rest, **kwargs))
        async for item in iterate_within(nullcontext if tool is None else lambda: within(_answered, self), source):
            yield item

    return run_json_stream


def _run_tool_stream(original: Function) -> Function:
    async def run_stream(self: Any, args: Any, *rest: Any, **kwargs: Any) -> AsyncIterator[Any]:
        tool = _offered_tool(self, args) if active() and _answered.get() is not self else None
        refusal = await tool.offer_call_async() if tool is not None else None
        if refusal is not None:
            yield await _give_answer(refusal)
            return
        around = nullcontext if tool is None else tool.inside
        last: list[Any] = []  # the last item is the answer, and which is the last shows only then
        async for item in iterate_within(around, aiter(original(self, args, *rest, **kwargs))):
            for earlier in last:
                yield earlier
            last = [item]
        for item in last:
            yield item if tool is None else await _tool_answer(self, tool, item)

    return run_stream


def _offered_tool(tool: Any, args: Any) -> OfferedTool:
    return _offer_object(tool, format_arguments(args.model_dump()))


def _offer_object(tool: Any, arguments: str) -> OfferedTool:
    called, name = _called_as.get()
    name = name if called is tool else tool.name
    handoff = find_handoff(tool)
    return OfferedTool(name, _speaker(), arguments, tool, handoff_to=handoff, ask=ask_person, names=(tool.name,))


async def _tool_answer(tool: Any, offered: OfferedTool, result: Any) -> Any:
    answer = offered.offer_answer(tool.return_value_as_string(result))
    return result if answer is None else await _give_answer(answer)


async def _give_answer(answer: Answer) -> _RewrittenText:
    if answer.delay_s:  # else it would change places with answers given side by side
        await asyncio.sleep(answer.delay_s)
    if answer.error:
        raise make_exception(answer)
    return _RewrittenText(answer.text)


def _note_tool(original: Function) -> Function:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - it stands in for that
        original(self, *args, **kwargs)
        known_tools.add(self)

    return __init__


def _as_string(original: Function) -> Function:
    def return_value_as_string(self: Any, value: Any) -> Any:
        return str(value) if isinstance(value, _RewrittenText) else original(self, value)

    return return_value_as_string


def _call_tool(original: Function) -> Function:
    async def call_tool(self: Any, name: str, arguments: Any = None, *rest: Any, **kwargs: Any) -> Any:
        if not active():
            return await original(self, name, arguments, *rest, **kwargs)
        tool, around = _tool_of_workbench(self, name, arguments)
        answer, result = await tool.offer_call_async() if tool is not None else None, None
        if answer is None:
            with around:
                result = await original(self, name, arguments, *rest, **kwargs)
            if tool is None or not isinstance(result, ToolResult) or result.is_error:
                return result
            answer = tool.offer_answer(result.to_text())
        return result if answer is None else await _give_result(name, answer)

    return call_tool


def _call_tool_stream(original: Function) -> Function:
    async def call_tool_stream(
        self: Any, name: str, arguments: Any = None, *rest: Any, **kwargs: Any
    ) -> AsyncIterator[Any]:
        tool, _ = _tool_of_workbench(self, name, arguments) if active() else (None, None)
        refusal = await tool.offer_call_async() if tool is not None else None
        if refusal is not None:
            yield await _give_result(name, refusal)
            return
        source = aiter(original(self, name, arguments, *rest, **kwargs))
        around = (lambda: _tool_of_workbench(self, name, arguments)[1]) if active() else nullcontext
        async for item in iterate_within(around, source):
            answer = tool.offer_answer(item.to_text()) if tool is not None and isinstance(item, ToolResult) else None
            yield item if answer is None else await _give_result(name, answer)

    return call_tool_stream


def _tool_of_workbench(workbench: Any, name: str, arguments: Any) -> tuple[OfferedTool | None, Any]:
    """Return the tool that a workbench calls, None where that one is asked itself, and what holds while it works."""
    own_name = getattr(workbench, "_override_name_to_original", {}).get(name, name)
    is_static = isinstance(workbench, StaticWorkbench)
    subject = next((one for one in workbench._tools if one.name == own_name), None) if is_static else None
    if isinstance(subject, BaseTool):
        return None, within(_called_as, (subject, name))
    text = format_arguments(arguments)
    tool = OfferedTool(name, _speaker(), text, subject, ask=ask_person, names=(own_name,))
    return tool, tool.inside()


async def _give_result(name: str, answer: Answer) -> ToolResult:
    if answer.delay_s:
        await asyncio.sleep(answer.delay_s)
    return ToolResult(name=name, result=[TextResultContent(content=answer.text)], is_error=bool(answer.error))


def _execute_code(original: Function) -> Function:
    async def execute_code_blocks(self: Any, code_blocks: Any, *rest: Any, **kwargs: Any) -> Any:
        blocks = [{"language": block.language, "code": block.code} for block in code_blocks] if active() else []
        code = json.dumps({"code_blocks": blocks}, ensure_ascii=False)
        tool = OfferedTool(CODE_TOOL, _speaker(), code, maybe=_code_authors(code_blocks), ask=ask_person)
        answer, result = await tool.offer_call_async(), CodeResult(exit_code=0, output="")
        if answer is None:
            result = await original(self, code_blocks, *rest, **kwargs)
            answer = tool.offer_answer(result.output)
        if answer is None:
            return result
        if answer.delay_s:
            await asyncio.sleep(answer.delay_s)
        return replace(result, output=answer.text, exit_code=1 if answer.error else result.exit_code)

    return execute_code_blocks


def _code_authors(blocks: Any) -> tuple[str, ...]:
    """Name who wrote the code that an executor runs; everybody who spoke where that cannot be told."""
    run = current_run.get()
    if run is None:
        return ()
    texts = [block.code.strip() for block in blocks]
    authors = [name for text, name in run.authors.items() if any(code and code in text for code in texts)]
    return tuple(dict.fromkeys(authors or run.authors.values()))


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
        with turn.inside():
            return _offer_speech(turn, await original(self, *args, **kwargs))

    return on_messages


def _on_messages_stream(original: Function) -> Function:
    async def on_messages_stream(self: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        turn = _begin(self)
        around = nullcontext if turn is None else turn.inside
        async for item in iterate_within(around, aiter(original(self, *args, **kwargs))):
            yield item if turn is None else _offer_speech(turn, item)

    return on_messages_stream


def _begin(agent: Any) -> _SpeakerTurn | None:
    """Begin the turn of an agent; one within another agent's turn acts for that one."""
    turn = _turn.get()
    if not active() or (turn is not None and turn.agent is agent):
        return None
    around = acts_for()
    if turn is not None and isinstance(turn.agent, ChatAgent) and around[-1:] != (turn.name,):
        around = (*around, turn.name)
    return _SpeakerTurn(agent, agent.name, around)


def _offer_speech(turn: _SpeakerTurn, item: Any) -> Any:
    """Offer what an agent says that has asked no model; executors and people say nothing of their own."""
    listeners = active()
    if not listeners or turn.has_asked or not isinstance(item, Response) or agent_role(turn.agent) != "agent":
        return item
    text = getattr(item.chat_message, "content", None)
    if not isinstance(text, str):
        return item
    call = OfferedModelCall(listeners, turn.name, (), (), ask=ask_person)
    answer = call.alter_answer(Said(text))
    if answer.text == text:
        return item
    return replace(item, chat_message=item.chat_message.model_copy(update={"content": answer.text}))


def _run_stream(original: Function) -> Function:
    async def run_stream(self: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        run = _enter_team(self, args[0] if args else kwargs.get("task")) if active() else None
        around = nullcontext if run is None else lambda: within(current_run, run)
        try:
            async for item in iterate_within(around, aiter(original(self, *args, **kwargs))):
                is_end = run is not None and current_run.get() is None and isinstance(item, TaskResult)
                yield _show_questions(run, item) if is_end else item
        finally:
            if run is not None and current_run.get() is None and _open_questions(run):
                _waiting[self] = run

    return run_stream


_waiting: WeakKeyDictionary[Any, RunScope] = WeakKeyDictionary()
"""The runs of teams that wait for a person's answer: it comes as the task of their next run."""
_runs_by_topic: WeakValueDictionary[str, RunScope] = WeakValueDictionary()
"""The run of each team at work, by its topic: a runtime that was started before knows nothing of it."""


def _enter_team(team: Any, task: Any) -> RunScope:
    """Find or begin the run of a team that starts; where it waits for an answer, its task is the answer."""
    run = current_run.get()
    if run is None:
        run = _waiting.pop(team, None) or RunScope()
        if task is not None:
            _answer_questions(run, _task_text(task))
    run.agents = tuple(dict.fromkeys((*run.agents, *getattr(team, "_participant_names", ()))))
    participants = getattr(team, "_participants", ())
    people = [one.name for one in participants if isinstance(one, ChatAgent) and agent_role(one) == "user"]
    run.people = tuple(dict.fromkeys((*run.people, *people)))
    topic = getattr(team, "_group_topic_type", None)
    if isinstance(topic, str):
        _runs_by_topic[topic] = run
    return run


def _task_text(task: Any) -> str:
    last = task[-1] if isinstance(task, list | tuple) and task else task
    return last if isinstance(last, str) else str(getattr(last, "content", ""))


def _open_questions(run: RunScope) -> list[str]:
    return [text for text, question in run.questions.items() if question.answer is None]


def _show(run: RunScope) -> str:
    """Write what a person is to be asked; from here on an answer belongs to it."""
    questions = _open_questions(run)
    for text in questions:
        run.questions[text].is_shown = True
    return join_questions(questions)


def _show_questions(run: Any, result: TaskResult) -> TaskResult:
    """Show what is still to be asked where a team ends otherwise than by asking."""
    hidden = [text for text in _open_questions(run) if not run.questions[text].is_shown]
    if not hidden:
        return result
    return result.model_copy(update={"stop_reason": " ".join(filter(None, (result.stop_reason, _show(run))))})


def _answer_questions(run: RunScope, answer: str) -> None:
    shown = [text for text in _open_questions(run) if run.questions[text].is_shown]
    for text, is_allowed in read_answers(shown, answer).items():
        run.questions[text].answer = is_allowed


def _get_input(original: Function) -> Function:
    async def get_input(self: Any, prompt: str, *args: Any, **kwargs: Any) -> Any:
        run = current_run.get()
        if active() and run is not None and _open_questions(run):
            prompt = f"{_show(run)}\n{prompt}"
        return await original(self, prompt, *args, **kwargs)

    return get_input


def ask_person(text: str) -> bool | None:
    """Ask a person: the team stops, or a person of the team is next; None until the answer has come.

    An answer allows one call: the same one a second time is asked about again.
    """
    run = current_run.get()
    if run is None:
        return None
    question = run.questions.get(text)
    if question is None:
        run.questions[text] = Question(_speaker())
        return None
    if question.answer:
        del run.questions[text]
    return question.answer


def _on_message_impl(original: Function) -> Function:
    async def on_message_impl(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not active():
            return await original(self, *args, **kwargs)
        topic = getattr(self, "_group_topic_type", None) or getattr(self, "_parent_topic_type", None)
        run = _runs_by_topic.get(str(topic)) or current_run.get()
        with within(current_run, run):
            if not isinstance(self, BaseGroupChatManager):
                return await original(self, *args, **kwargs)
            with within(_turn, _SpeakerTurn(self, getattr(self, "_name", ""))):
                return await original(self, *args, **kwargs)

    return on_message_impl


def _apply_termination(original: Function) -> Function:
    async def apply_termination(self: Any, *args: Any, **kwargs: Any) -> Any:
        run = current_run.get()
        questions = _open_questions(run) if run is not None and active() else []
        if run is None or not questions or set(run.people).intersection(self._participant_names):
            return await original(self, *args, **kwargs)
        if self._termination_condition is not None:
            await self._termination_condition.reset()
        self._current_turn = 0
        await self._signal_termination(StopMessage(content=_show(run), source=self._name))
        return True

    return apply_termination


def _select_speaker(original: Function) -> Function:
    async def select_speaker(self: Any, thread: Any, *args: Any, **kwargs: Any) -> Any:
        run, names = current_run.get(), tuple(getattr(self, "_participant_names", ()))
        if active() and run is not None and (waiting := _speaker_for_questions(run, names, thread)):
            return waiting
        chosen = await original(self, thread, *args, **kwargs)
        spoken = [item for item in thread if isinstance(item, BaseChatMessage) and item.source in names]
        if not active() or not spoken or run is None:
            return chosen
        run.speakers = [message.source for message in spoken]
        following = (chosen,) if isinstance(chosen, str) else tuple(chosen)
        last = spoken[-1]
        if isinstance(self, SwarmGroupChatManager):  # where the last handoff counts, however long ago
            last = next((item for item in reversed(spoken) if isinstance(item, HandoffMessage)), last)
        is_handoff = isinstance(last, HandoffMessage) and following == (last.target,)
        mail = Mail(last.to_text(), following=following, is_handoff=is_handoff)
        way = offer_mail(last.source, mail, lambda: _find_step(last))
        return chosen if way.following == following else [name for name in way.following if name in names]

    return select_speaker


def _speaker_for_questions(run: RunScope, names: tuple[str, ...], thread: Any) -> list[str]:
    """Return who speaks next where a person is asked: the person, and once they have answered, who waits for it."""
    people = [name for name in run.people if name in names]
    if _open_questions(run) and people:
        last = thread[-1] if thread else None
        if not (isinstance(last, BaseChatMessage) and last.source in people):
            return people[:1]
        _answer_questions(run, _task_text(last))
    for question in run.questions.values():
        if question.answer is not None and not question.is_over and question.agent in names:
            question.is_over = True
            return [question.agent]
    return []


def _buffer_message(original: Function) -> Function:
    def buffer_message(self: Any, message: BaseChatMessage) -> None:
        run = current_run.get()
        if run is None or not active() or message.source not in run.agents:
            original(self, message)
            return
        receivers = tuple(name for name in run.agents if name != message.source)
        mail = run.mail.get(message.id)
        if mail is None:
            mail = offer_mail(message.source, Mail(message.to_text(), receivers), lambda: _find_step(message))
            run.mail[message.id] = mail
            run.addressed[message.id] = set(receivers)
        elif self._agent.name in receivers and self._agent.name not in run.addressed[message.id] and mail.receivers:
            # it takes part in a team that has begun since: nobody has been asked about it yet
            alone = Mail(message.to_text(), (self._agent.name,))
            reached = offer_mail(message.source, alone, lambda: _find_step(message)).receivers
            mail = run.mail[message.id] = replace(mail, receivers=(*mail.receivers, *reached))
            run.addressed[message.id].add(self._agent.name)
        is_left_out = self._agent.name in receivers and self._agent.name not in mail.receivers
        for copy in range(0 if is_left_out or not mail.receivers else mail.copies):
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
