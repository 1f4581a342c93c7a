"""Hooks at the boundaries of Microsoft Agent Framework.

A model's input and answer at its chat client, a tool's answer at the tool, and a hand-over where an agent asks for it.
Not hooked: who else hears a message and who is next, what executors say that ask no model, an agent's instructions
(they are an option, no message), chat clients that are no `BaseChatClient`, and asking a person through the framework:
where a policy says `ask`, the guard's own `ask` is asked, and without one the next action is taken.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager
from functools import partial
from importlib.util import find_spec
from pkgutil import resolve_name
from typing import Any

from agent_framework import (
    AgentExecutor,
    BaseAgent,
    BaseChatClient,
    ChatResponse,
    Content,
    FunctionTool,
    ResponseStream,
    Workflow,
)

from blamespan.intercepting.boundaries import Answer, RunScope, current_run
from blamespan.intercepting.listeners import active
from blamespan.intercepting.tool_objects import known_tools
from blamespan_integrations.agent_framework._convert import plain_name, result_of
from blamespan_integrations.interception import _agent_framework_convert
from blamespan_integrations.interception._around import Original, around, within
from blamespan_integrations.interception._offering import (
    OfferedModelCall,
    OfferedTool,
    SpeakerTurn,
    acts_for,
    format_arguments,
    is_asked_within,
    make_exception,
    note_tool,
    note_tool_call,
    read_nothing,
    speaker_name,
    speaker_turn,
    tool_at_work,
    tool_names,
)
from blamespan_integrations.interception._splice import Function, SplicedHooks


class AgentFrameworkHooks(SplicedHooks):
    """Puts the hooks in place and takes them out again."""

    def install(self) -> None:
        """Put every hook in place."""
        put, cover = self._splices.put, self._splices.cover
        put(BaseChatClient, "get_response", _ask_model)
        cover(FunctionTool, {"invoke": around(_invoke)})
        put(FunctionTool, "__init__", note_tool)
        known_tools.watch(FunctionTool)
        put(Workflow, "run", partial(_inside, _enter_workflow))
        if find_spec("agent_framework_orchestrations") is not None:
            put(resolve_name(_HANDOFFS), "process", around(_hand_over))
        cover(BaseAgent, {"run": partial(_inside, _enter_agent)})


_HANDOFFS = "agent_framework_orchestrations._handoff:_AutoHandoffMiddleware"

_Enter = Callable[[Any], Callable[[], AbstractContextManager[None]] | None]
"""Makes what makes the context manager within which something runs; None where nothing is to hold."""


def _inside(enter: _Enter, function: Function) -> Function:
    """Make the hook around a function that returns an awaitable or a stream: it runs within what *enter* makes."""

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        answer = function(self, *args, **kwargs)
        inside = enter(self) if active() else None
        if inside is None:
            return answer
        if isinstance(answer, ResponseStream):
            return answer.with_pull_context_manager(inside)
        return _await_inside(answer, inside) if inspect.isawaitable(answer) else answer

    return run


async def _await_inside(answer: Awaitable[Any], inside: Callable[[], AbstractContextManager[None]]) -> Any:
    with inside():
        return await answer


def _enter_workflow(workflow: Any) -> Callable[[], AbstractContextManager[None]] | None:
    run = current_run.get()
    names = tuple(name for name, one in workflow.executors.items() if isinstance(one, AgentExecutor))
    scope = run if run is not None else RunScope()
    scope.agents = tuple(dict.fromkeys((*scope.agents, *names)))
    return partial(within, current_run, scope) if run is None else None


def _enter_agent(agent: Any) -> Callable[[], AbstractContextManager[None]]:
    """Begin the turn of an agent; one within another agent's turn acts for that one."""
    outer, run = speaker_turn.get(), current_run.get()
    if outer is not None and outer.agent is agent:
        return partial(within, speaker_turn, outer)
    around_it = acts_for()
    if outer is not None and around_it[-1:] != (outer.name,):
        around_it = (*around_it, outer.name)
    turn = SpeakerTurn(agent, plain_name(agent), around_it)
    return turn.inside if run is not None else partial(_Alone, turn, RunScope(agents=(turn.name,)))


class _Alone:
    """Holds the run that an agent is which the program runs alone, and its turn."""

    def __init__(self, turn: SpeakerTurn, run: RunScope) -> None:
        self._parts: tuple[AbstractContextManager[None], ...] = (within(current_run, run), turn.inside())

    def __enter__(self) -> None:
        for part in self._parts:
            part.__enter__()

    def __exit__(self, *raised: Any) -> None:
        for part in reversed(self._parts):
            part.__exit__(*raised)


def _ask_model(function: Function) -> Function:
    def get_response(self: Any, messages: Any, *args: Any, **kwargs: Any) -> Any:
        if not active() or is_asked_within.get():
            return function(self, messages, *args, **kwargs)
        original = Original(function, waits=True)
        if not kwargs.get("stream"):
            return _answer(original, self, messages, *args, **kwargs)
        options = kwargs.get("options") or {}
        finish = partial(ChatResponse.from_updates, output_format_type=options.get("response_format"))
        return ResponseStream(_stream(original, self, messages, *args, **kwargs), finalizer=finish)

    return get_response


async def _answer(original: Original, client: Any, messages: Any, *args: Any, **kwargs: Any) -> Any:
    return await _begin_model_call(client, messages, kwargs).ask(original, client, *args, **kwargs)


async def _stream(original: Original, client: Any, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
    async for item in _begin_model_call(client, messages, kwargs).stream(original, client, *args, **kwargs):
        yield item


def _begin_model_call(client: Any, messages: Any, kwargs: dict[str, Any]) -> OfferedModelCall:
    options = kwargs.get("options") or {}
    model = options.get("model") or getattr(client, "model", None) or ""
    return OfferedModelCall(
        active(),
        speaker_name(),
        _agent_framework_convert,
        list(messages),
        tool_names(options.get("tools")),
        model=model if isinstance(model, str) else "",
        can_retry=True,
    )


async def _invoke(original: Original, self: Any, *args: Any, **kwargs: Any) -> Any:
    call = partial(original, self, *args, **kwargs)
    if not active():
        return await call()
    call_id = kwargs.get("tool_call_id") or ""
    arguments, context = kwargs.get("arguments"), kwargs.get("context")
    if arguments is None:
        arguments = context.arguments if context is not None else {}
    dump = getattr(arguments, "model_dump", None)
    text = format_arguments(dump() if callable(dump) else dict(arguments))
    names = (getattr(self.func, "__name__", self.name),)
    tool = OfferedTool(self.name, speaker_name(), text, self, names=names, call_id=call_id)
    if tool_at_work.get() == tool.key:  # its own super()
        return await call()
    note_tool_call(call_id)
    return await tool.use(original, call, _read_result, _write_result)


async def _hand_over(original: Original, self: Any, context: Any, *rest: Any, **kwargs: Any) -> Any:
    """Offer what stands in place of calling a tool that hands over: one that is refused tells the agent why."""
    name, call = context.function.name, partial(original, self, context, *rest, **kwargs)
    target = self._handoff_functions.get(name)
    if not active() or target is None:
        return await call()

    def refuse(_: object, answer: Answer) -> None:
        context.result = _write_result(None, answer)

    arguments, call_id = format_arguments(dict(context.arguments or {})), context.metadata.get("call_id") or ""
    tool = OfferedTool(name, speaker_name(), arguments, context.function, handoff_to=target, call_id=call_id)
    return await tool.use(original, call, read_nothing, refuse)


def _read_result(result: Any) -> str | None:
    text = result_of(result)
    return text if isinstance(text, str) else format_arguments(text)


def _write_result(result: Any, answer: Answer) -> Any:
    if answer.error:
        raise make_exception(answer)
    is_plain = result is not None and not isinstance(result, list)  # parsing was skipped
    return answer.text if is_plain else [Content.from_text(answer.text)]
