"""What the hooks of both frameworks share: offering what passes at a boundary to the injections that hold there."""

from __future__ import annotations

import asyncio
import builtins
import functools
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, TypeVar

from opentelemetry import context as otel_context
from opentelemetry import trace

from blamespan import conventions as words
from blamespan.injecting.boundaries import (
    Answer,
    ContentT,
    Line,
    Mail,
    Mechanism,
    Opportunity,
    RunScope,
    Said,
    Where,
    current_run,
)
from blamespan.injecting.injection import Injection, active
from blamespan_integrations.recording.spans import AGENT_KEY, AgentSpan

__all__ = [
    "OfferedModelCall",
    "agent_where",
    "find_agent_name",
    "find_call_id",
    "format_arguments",
    "is_asked_within",
    "iterate_within",
    "make_exception",
    "note_tool_call",
    "off_the_loop",
    "offer_answer",
    "offer_call",
    "offer_mail",
    "run_here",
    "tool_where",
    "within",
]

ValueT = TypeVar("ValueT")
_MOST_RESULTS = 32
"""Answers of one tool that are kept, to be stale later."""

is_asked_within: ContextVar[bool] = ContextVar("blamespan-injection-within", default=False)
"""Set while a model or tool is at work: what it asks in turn (its own super(), a cache's model) is part of that."""


class OfferedModelCall:
    """A model that is about to be asked.

    Args:
        injections: Those that hold here.
        agent: On whose behalf, as the framework calls it.
        lines: What it is sent.
        tools: Names of the tools on offer.
        alias: What the framework calls the agent otherwise.
    """

    def __init__(
        self,
        injections: tuple[Injection, ...],
        agent: str,
        lines: tuple[Line, ...],
        tools: tuple[str, ...],
        alias: str = "",
    ) -> None:
        self._injections = injections
        self._run = run_here(injections)
        self._agent = find_agent_name() or agent
        self._alias = alias or agent
        self._tools = tools
        self._decision, self._own = self._run.decide(self._agent)
        self._lines = tuple(
            replace(line, sender=self._run.authors.get(line.text, ""))
            if line.role == "assistant" and not line.sender
            else line
            for line in lines
        )

    @property
    def is_slow(self) -> bool:
        """Return whether to ask off the event loop."""
        return any(injection.is_blocking for injection in self._injections)

    def alter_prompt(self) -> tuple[Line, ...]:
        """Return what it is sent instead; what this agent was told otherwise before, or has lost, stays so."""
        altered = self._run.altered.setdefault(self._agent, {})
        original = self._lines
        self._lines = tuple(
            altered_line for line in original if (altered_line := _apply_alteration(line, altered)) is not None
        )
        before = self._lines
        self._lines = self._offer("memory", self._lines)
        self._lines = self._offer("prompt", self._lines)
        if self._lines != before:
            now = {line.place: line for line in self._lines}
            altered.update({_anywhere(line): now.get(line.place) for line in original if now.get(line.place) != line})
        return self._lines

    def foretell_answer(self) -> Said | None:
        """Return what it answers without being asked; None where it is to be asked."""
        at = self._at("response")
        return next((answer for item in self._injections if (answer := item.foretell(at)) is not None), None)

    def alter_answer(self, answer: Said) -> Said:
        """Return what it answers instead."""
        where = functools.cache(agent_where)  # one for all, which moves to the call of a tool
        changed = self._offer("response", answer, where)
        if changed.calls != answer.calls and (step := where()) is not None:
            self._run.calls.update({call.id: step for call in changed.calls if call not in answer.calls})
        if changed.text:
            self._run.authors[changed.text] = self._agent
        self._run.speakers.append(self._agent)
        return changed

    def _offer(
        self, mechanism: Mechanism, content: ContentT, where: Callable[[], Where | None] | None = None
    ) -> ContentT:
        at = self._at(mechanism)
        for injection in self._injections:
            content = injection.change(at, content, where or agent_where)
        return content

    def _at(self, mechanism: Mechanism) -> Opportunity:
        own: list[str] = []
        from_others: list[str] = []
        for line in self._lines:
            if line.role != "system" and line.text.strip():
                (own if self._is_own(line) else from_others).append(line.text)
        task = next((line.text for line in self._lines if line.role == "user"), "")
        return Opportunity(
            mechanism,
            self._run,
            self._agent,
            self._decision,
            self._own,
            alias=self._alias,
            task=task,
            heard=tuple(from_others),
            said=tuple(own),
            others=tuple(name for name in self._run.agents if name not in (self._agent, self._alias)),
            tools=self._tools,
        )

    def _is_own(self, line: Line) -> bool:
        if line.role != "assistant":
            return False
        return line.sender in ("", self._agent, self._alias)


def _anywhere(line: Line) -> Line:
    return replace(line, place=-1)


def _apply_alteration(line: Line, altered: Mapping[Line, Line | None]) -> Line | None:
    value = altered.get(_anywhere(line), line)
    return replace(value, place=line.place) if value is not None else None


async def off_the_loop(is_slow: bool, call: Callable[..., ValueT], *arguments: Any) -> ValueT:
    """Call what may wait for an endpoint in a thread, and everything else here."""
    return await asyncio.to_thread(call, *arguments) if is_slow else call(*arguments)


def offer_call(tool: str, agent: str, arguments: str) -> Answer | None:
    """Offer the answer of a tool that is about to be called; None where it is to be called."""
    injections = active()
    return (
        _offer_tool_answer(injections, _at_tool(injections, tool, agent, arguments), Answer("", is_due=True))
        if injections
        else None
    )


def offer_answer(tool: str, agent: str, arguments: str, text: str) -> Answer | None:
    """Offer what a tool answers; None where it stays as it is."""
    injections = active()
    if not injections:
        return None
    at = _at_tool(injections, tool, agent, arguments)
    results = at.run.results.setdefault(tool, [])
    results.append(text)
    del results[:-_MOST_RESULTS]
    return _offer_tool_answer(injections, at, Answer(text))


def _at_tool(injections: tuple[Injection, ...], tool: str, agent: str, arguments: str) -> Opportunity:
    around = trace.get_current_span()
    is_run = _attribute(around, words.OPERATION) == words.OPERATION_WORKFLOW
    caller = None if is_run else _attribute(around, words.AGENT_NAME)  # not always whose turn it is
    run, alias = run_here(injections), agent
    agent = caller if isinstance(caller, str) else find_agent_name() or agent
    return Opportunity(
        "tool",
        run,
        agent,
        max(0, run.decisions - 1),  # the answer that asks for it
        run.decided(agent),
        alias=alias,
        others=tuple(name for name in run.agents if name != agent),
        tool=tool,
        arguments=arguments,
        earlier=tuple(run.results.get(tool, ())),
    )


def _offer_tool_answer(injections: tuple[Injection, ...], at: Opportunity, original: Answer) -> Answer | None:
    answer = original
    for injection in injections:
        answer = injection.change(at, answer, tool_where)
    return answer if answer != original else None


def offer_mail(agent: str, mail: Mail, where: Callable[[], Where | None], *, alias: str = "") -> Mail:
    """Offer a message that *agent* sends."""
    injections = active()
    if injections:
        run = run_here(injections)
        others = tuple(name for name in run.agents if name not in (agent, alias))
        own = run.decided(agent)
        at = Opportunity("routing", run, agent, max(0, run.decisions - 1), own, alias=alias or agent, others=others)
        for injection in injections:
            mail = injection.change(at, mail, where)
    return mail


def run_here(injections: tuple[Injection, ...]) -> RunScope:
    """Find the run; what happens outside every run is one of its own for each injection."""
    return current_run.get() or injections[0].loose


class within:  # noqa: N801 - reads as a statement: `with within(current_run, scope):`
    """Sets a context variable in a `with` block; never held across a `yield`."""

    __slots__ = ("_token", "_value", "_variable")

    def __init__(self, variable: ContextVar[Any], value: object) -> None:
        self._variable, self._value = variable, value

    def __enter__(self) -> None:
        self._token = self._variable.set(self._value)

    def __exit__(self, *_: object) -> None:
        with suppress(ValueError):  # closed from another task
            self._variable.reset(self._token)


async def iterate_within(around: Callable[[], Any], source: AsyncIterator[ValueT]) -> AsyncIterator[ValueT]:
    """Read on in *source*, with a context manager that *around* makes, at each step and never across a `yield`."""
    try:
        while True:
            with around():
                try:
                    item = await anext(source)
                except StopAsyncIteration:
                    return
            yield item
    finally:
        close = getattr(source, "aclose", None)
        if close is not None:
            with around():
                await close()


def note_tool_call(call_id: str) -> None:
    """Note that a tool is called: if the call is a faulty one, its step is here."""
    injections = active()
    if injections and (where := run_here(injections).calls.get(call_id)) is not None:
        here = tool_where(is_call=True)
        if here is not None and where.place() is None:  # else what asked for it is a step already
            where.move(here)


def find_agent_name() -> str:
    """Name the agent as its span does; empty where none is recorded."""
    agent = otel_context.get_value(AGENT_KEY)
    return agent.name if isinstance(agent, AgentSpan) and agent.span.is_recording() else ""


def find_call_id() -> str:
    """Return the model's id of the call that the tool at work answers, where that is recorded."""
    value = _attribute(trace.get_current_span(), words.TOOL_CALL_ID)
    return value if isinstance(value, str) else ""


def agent_where() -> Where | None:
    """Find the span of the agent whose turn it is, else that of what is at work."""
    agent = otel_context.get_value(AGENT_KEY)
    return _where(agent.span if isinstance(agent, AgentSpan) else trace.get_current_span(), words.STEP_INDEX)


def tool_where(*, is_call: bool = False) -> Where | None:
    """Find the span of the tool at work: its answer, or the call."""
    span = trace.get_current_span()
    if _attribute(span, words.OPERATION) != words.OPERATION_TOOL:
        return agent_where()
    return _where(span, words.STEP_INDEX if is_call else words.STEP_RESULT_INDEX)


def make_exception(answer: Answer) -> Exception:
    """Make the exception that a tool raises."""
    kind = getattr(builtins, answer.error, RuntimeError)
    is_error: bool = isinstance(kind, type) and issubclass(kind, Exception)
    error: Exception = (kind if is_error else RuntimeError)(answer.text)
    return error


def _where(span: trace.Span, key: str) -> Where | None:
    context = span.get_span_context()

    def place() -> int | None:
        value = _attribute(span, key)
        return value if isinstance(value, int) else None

    return Where(context, place) if context.is_valid else None


def _attribute(span: trace.Span, key: str) -> object:
    """Read an attribute; only the SDK's spans can be read."""
    attributes: Any = getattr(span, "attributes", None)
    return attributes.get(key) if attributes is not None else None


def format_arguments(value: object) -> str:
    """Write a tool's arguments as text, the same for the same arguments."""
    try:
        return json.dumps(
            value, ensure_ascii=False, sort_keys=True, default=lambda item: f"<{type(item).__qualname__}>"
        )
    except (ValueError, TypeError, RecursionError):
        return f"<{type(value).__qualname__}>"
