"""Hooks at the boundaries of AutoGen AgentChat.

A model's input and answer at its client; a tool's answer at the tool, at a workbench that has tools of its own
and at a code executor; a message where a participant of a team receives it, and where the team's manager
decides who is next; and what an agent says that asks no model.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import nullcontext
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
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
from autogen_core.models import ChatCompletionClient
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
from blamespan_integrations.interception import _autogen_convert
from blamespan_integrations.interception._around import Original, around, around_stream, iterate_within, within
from blamespan_integrations.interception._autogen_convert import find_handoff
from blamespan_integrations.interception._offering import (
    OfferedModelCall,
    OfferedTool,
    SpeakerTurn,
    acts_for,
    ask_model,
    format_arguments,
    join_questions,
    make_exception,
    note_tool,
    note_tool_call,
    offer_mail,
    read_answers,
    read_nothing,
    speaker_name,
    speaker_turn,
    stream_model,
    tool_at_work,
    tool_names,
)
from blamespan_integrations.interception._splice import Function, SplicedHooks
from blamespan_integrations.recording.recorder import RUN_KEY
from blamespan_integrations.recording.spans import RunState


class AutoGenHooks(SplicedHooks):
    """Puts the hooks in place and takes them out again."""

    def install(self) -> None:
        """Put every hook in place."""
        put, cover = self._splices.put, self._splices.cover
        cover(
            ChatCompletionClient,
            {
                "create": around(partial(ask_model, _begin_model_call)),
                "create_stream": around_stream(partial(stream_model, _begin_model_call)),
            },
        )
        tools = {"run": around(_run_tool), "run_stream": around_stream(_run_tool_stream)}
        cover(BaseTool, {**tools, "return_value_as_string": _as_string})
        own = {"run_json": around(_run_tool), "run_json_stream": around_stream(_run_tool_stream)}
        cover(BaseTool, own, leave_out=frozenset({BaseTool, BaseStreamTool}))  # which ask `run`
        put(BaseTool, "__init__", note_tool)
        known_tools.watch(BaseTool)
        cover(Workbench, {"call_tool": around(_call_tool), "call_tool_stream": around_stream(_call_tool_stream)})
        put(UserProxyAgent, "_get_input", around(_get_input))
        cover(CodeExecutor, {"execute_code_blocks": around(_execute_code)})
        cover(
            ChatAgent,
            {"on_messages": around(_on_messages), "on_messages_stream": around_stream(_on_messages_stream)},
            leave_out=frozenset({MessageFilterAgent}),  # says nothing itself: its message is the wrapped agent's
        )
        cover(Team, {"run_stream": around_stream(_run_stream)})
        cover(BaseGroupChatManager, {"select_speaker": around(_select_speaker)})
        put(BaseGroupChatManager, "_apply_termination_condition", around(_apply_termination))
        put(SequentialRoutedAgent, "on_message_impl", around(_on_message_impl))
        put(ChatAgentContainer, "_buffer_message", _buffer_message)
        put(AssistantAgent, "_execute_tool_call", around(_execute_tool_call))


_called_as: ContextVar[tuple[Any, str]] = ContextVar("blamespan-called-as", default=(None, ""))
"""The tool that a workbench calls, and the name by which it was asked to."""


def _begin_model_call(client: Any, messages: Any, kwargs: dict[str, Any]) -> OfferedModelCall:
    turn = speaker_turn.get()
    if turn is not None:
        turn.has_asked = True
    tools = tool_names(kwargs.get("tools"))
    return OfferedModelCall(
        active(),
        speaker_name(),
        _autogen_convert,
        messages,
        tools,
        model=model_of(client),
        can_retry=True,
        ask=ask_person,
    )


class _RewrittenText(str):
    """A tool's answer as it was rewritten: no value of the tool's own type any more."""

    __slots__ = ()


async def _run_tool(original: Original, self: Any, args: Any, *rest: Any, **kwargs: Any) -> Any:
    tool, read = _offered_tool(self, args)
    call = partial(original, self, args, *rest, **kwargs)
    return await (call() if tool is None else tool.use(original, call, read, _rewrite))


def _run_tool_stream(original: Original, self: Any, args: Any, *rest: Any, **kwargs: Any) -> AsyncIterator[Any]:
    tool, read = _offered_tool(self, args)
    source = partial(original.iterate, self, args, *rest, **kwargs)
    return source() if tool is None else tool.use_stream(original, source, read, _rewrite)


def _offered_tool(tool: Any, args: Any) -> tuple[OfferedTool | None, Callable[[Any], str | None]]:
    """Return a tool that is about to work, and what reads its result: that of `run_json` is `run`'s, or nobody's.

    There is none where nobody listens, or where it was offered as `run_json` already.
    """
    at_work, is_run = tool_at_work.get(), hasattr(args, "model_dump")
    read = tool.return_value_as_string if is_run else read_nothing
    if not active() or (at_work is not None and at_work[0] == id(tool)):
        return None, read
    called, name = _called_as.get()
    name, handoff = name if called is tool else tool.name, find_handoff(tool)
    arguments = format_arguments(args.model_dump() if is_run else dict(args))
    offered = OfferedTool(name, speaker_name(), arguments, tool, handoff_to=handoff, ask=ask_person, names=(tool.name,))
    return offered, read


def _rewrite(_: Any, answer: Answer) -> _RewrittenText:
    if answer.error:
        raise make_exception(answer)
    return _RewrittenText(answer.text)


def _as_string(original: Function) -> Function:
    def return_value_as_string(self: Any, value: Any) -> Any:
        return str(value) if isinstance(value, _RewrittenText) else original(self, value)

    return return_value_as_string


async def _call_tool(original: Original, self: Any, name: str, arguments: Any = None, *rest: Any, **kwargs: Any) -> Any:
    call = partial(original, self, name, arguments, *rest, **kwargs)
    tool, around_it = _tool_of_workbench(self, name, arguments) if active() else (None, nullcontext())
    if tool is not None:
        return await tool.use(original, call, _read_result, partial(_write_result, name))
    with around_it:
        return await call()


def _call_tool_stream(
    original: Original, self: Any, name: str, arguments: Any = None, *rest: Any, **kwargs: Any
) -> AsyncIterator[Any]:
    source = partial(original.iterate, self, name, arguments, *rest, **kwargs)
    tool, _ = _tool_of_workbench(self, name, arguments) if active() else (None, None)
    if tool is not None:
        return tool.use_stream(original, source, _read_result, partial(_write_result, name))
    return iterate_within(lambda: _tool_of_workbench(self, name, arguments)[1], source())


def _tool_of_workbench(workbench: Any, name: str, arguments: Any) -> tuple[OfferedTool | None, Any]:
    """Return the tool that a workbench calls; None where that one is asked itself, and what holds until it is."""
    own_name = getattr(workbench, "_override_name_to_original", {}).get(name, name)
    is_static = isinstance(workbench, StaticWorkbench)
    subject = next((one for one in workbench._tools if one.name == own_name), None) if is_static else None
    if isinstance(subject, BaseTool):
        return None, within(_called_as, (subject, name))
    text = format_arguments(arguments)
    return OfferedTool(name, speaker_name(), text, subject, ask=ask_person, names=(own_name,)), nullcontext()


def _read_result(result: Any) -> str | None:
    return result.to_text() if isinstance(result, ToolResult) and not result.is_error else None


def _write_result(name: str, _: Any, answer: Answer) -> ToolResult:
    return ToolResult(name=name, result=[TextResultContent(content=answer.text)], is_error=bool(answer.error))


async def _execute_code(original: Original, self: Any, code_blocks: Any, *rest: Any, **kwargs: Any) -> Any:
    blocks = [{"language": block.language, "code": block.code} for block in code_blocks] if active() else []
    code = json.dumps({"code_blocks": blocks}, ensure_ascii=False)
    tool = OfferedTool(CODE_TOOL, speaker_name(), code, maybe=_code_authors(code_blocks), ask=ask_person)
    call = partial(original, self, code_blocks, *rest, **kwargs)
    return await tool.use(original, call, lambda result: result.output, _write_output)


def _write_output(result: Any, answer: Answer) -> Any:
    result = result or CodeResult(exit_code=0, output="")
    return replace(result, output=answer.text, exit_code=1 if answer.error else result.exit_code)


def _code_authors(blocks: Any) -> tuple[str, ...]:
    """Name who wrote the code that an executor runs; everybody who spoke where that cannot be told."""
    run = current_run.get()
    if run is None:
        return ()
    texts = [block.code.strip() for block in blocks]
    authors = [name for text, name in run.authors.items() if any(code and code in text for code in texts)]
    return tuple(dict.fromkeys(authors or run.authors.values()))


async def _execute_tool_call(original: Original, *args: Any, **kwargs: Any) -> Any:
    call = args[0] if args else kwargs.get("tool_call")
    if isinstance(call, FunctionCall):
        note_tool_call(call.id)
    return await original(*args, **kwargs)


async def _on_messages(original: Original, self: Any, *args: Any, **kwargs: Any) -> Any:
    turn = _begin(self)
    if turn is None:
        return await original(self, *args, **kwargs)
    with turn.inside():
        return _offer_speech(turn, await original(self, *args, **kwargs))


async def _on_messages_stream(original: Original, self: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
    turn = _begin(self)
    within_turn = nullcontext if turn is None else turn.inside
    async for item in iterate_within(within_turn, original.iterate(self, *args, **kwargs)):
        yield item if turn is None else _offer_speech(turn, item)


def _begin(agent: Any) -> SpeakerTurn | None:
    """Begin the turn of an agent; one within another agent's turn acts for that one."""
    turn = speaker_turn.get()
    if not active() or (turn is not None and turn.agent is agent):
        return None
    around = acts_for()
    if turn is not None and isinstance(turn.agent, ChatAgent) and around[-1:] != (turn.name,):
        around = (*around, turn.name)
    return SpeakerTurn(agent, agent.name, around)


def _offer_speech(turn: SpeakerTurn, item: Any) -> Any:
    """Offer what an agent says that has asked no model; executors and people say nothing of their own."""
    listeners = active()
    if not listeners or turn.has_asked or not isinstance(item, Response) or agent_role(turn.agent) != "agent":
        return item
    text = getattr(item.chat_message, "content", None)
    if not isinstance(text, str):
        return item
    answer = OfferedModelCall(listeners, turn.name, _autogen_convert, ask=ask_person).alter_answer(Said(text))
    if answer.text == text:
        return item
    return replace(item, chat_message=item.chat_message.model_copy(update={"content": answer.text}))


async def _run_stream(original: Original, self: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
    run = _enter_team(self, args[0] if args else kwargs.get("task")) if active() else None
    within_run = nullcontext if run is None else lambda: within(current_run, run)
    try:
        async for item in iterate_within(within_run, original.iterate(self, *args, **kwargs)):
            is_end = run is not None and current_run.get() is None and isinstance(item, TaskResult)
            yield _show_questions(run, item) if is_end else item
    finally:
        if run is not None and current_run.get() is None and _open_questions(run):
            _waiting[self] = run


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


async def _get_input(original: Original, self: Any, prompt: str, *args: Any, **kwargs: Any) -> Any:
    run = current_run.get()
    if active() and run is not None and _open_questions(run):
        prompt = f"{_show(run)}\n{prompt}"
    return await original(self, prompt, *args, **kwargs)


def ask_person(text: str) -> bool | None:
    """Ask a person: the team stops, or a person of the team is next; None until the answer has come.

    An answer allows one call: the same one a second time is asked about again.
    """
    run = current_run.get()
    if run is None:
        return None
    question = run.questions.get(text)
    if question is None:
        run.questions[text] = Question(speaker_name())
        return None
    if question.answer:
        del run.questions[text]
    return question.answer


async def _on_message_impl(original: Original, self: Any, *args: Any, **kwargs: Any) -> Any:
    if not active():
        return await original(self, *args, **kwargs)
    topic = getattr(self, "_group_topic_type", None) or getattr(self, "_parent_topic_type", None)
    run = _runs_by_topic.get(str(topic)) or current_run.get()
    with within(current_run, run):
        if not isinstance(self, BaseGroupChatManager):
            return await original(self, *args, **kwargs)
        with within(speaker_turn, SpeakerTurn(self, getattr(self, "_name", ""))):
            return await original(self, *args, **kwargs)


async def _apply_termination(original: Original, self: Any, *args: Any, **kwargs: Any) -> Any:
    run = current_run.get()
    questions = _open_questions(run) if run is not None and active() else []
    if run is None or not questions or set(run.people).intersection(self._participant_names):
        return await original(self, *args, **kwargs)
    if self._termination_condition is not None:
        await self._termination_condition.reset()
    self._current_turn = 0
    await self._signal_termination(StopMessage(content=_show(run), source=self._name))
    return True


async def _select_speaker(original: Original, self: Any, thread: Any, *args: Any, **kwargs: Any) -> Any:
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
