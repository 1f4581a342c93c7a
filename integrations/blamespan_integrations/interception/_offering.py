"""What the hooks of all frameworks share: offering what passes at a boundary to the listeners that hold there."""

from __future__ import annotations

import builtins
import functools
import json
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, is_dataclass, replace
from types import ModuleType
from typing import Any, TypeAlias

from opentelemetry import context as otel_context
from opentelemetry import trace

from blamespan import conventions as words
from blamespan.forking import renewed_after_fork
from blamespan.intercepting.boundaries import (
    Answer,
    ContentT,
    Line,
    Mail,
    Mechanism,
    MustWait,
    Opportunity,
    RunScope,
    Said,
    Where,
    current_run,
)
from blamespan.intercepting.listeners import Listener, active
from blamespan.intercepting.tool_objects import known_tools
from blamespan_integrations.interception._around import Original, iterate_within, within
from blamespan_integrations.interception._splice import Function
from blamespan_integrations.recording.spans import AGENT_KEY, AgentSpan

_MOST_RESULTS = 32
"""Answers of one tool that are kept, to be stale later."""

_WAIT_S = 0.002
"""How soon a listener that could not say yet whether a model may be asked is tried again."""

is_asked_within: ContextVar[bool] = ContextVar("blamespan-asked-within", default=False)
"""Set while a model or tool is at work: what it asks in turn (its own super(), a cache's model) is part of that."""


tool_at_work: ContextVar[tuple[int, str] | None] = ContextVar("blamespan-tool-at-work", default=None)
"""The tool object at work and its arguments: what it calls of itself for them is offered already."""
acting_for: ContextVar[tuple[str, ...]] = ContextVar("blamespan-acting-for", default=())
"""The agents within whose tools something happens, the outermost first."""


class _ActingAgents:
    """Who acts now, by thread: a thread that the program starts itself knows nothing of who started it."""

    def __init__(self) -> None:
        self._renew()
        renewed_after_fork(self, _ActingAgents._renew)

    def _renew(self) -> None:
        self._lock = threading.Lock()
        self._acting: Counter[tuple[int, str]] = Counter()

    def change(self, key: tuple[int, str], number: int) -> None:
        with self._lock:
            self._acting[key] += number
            if self._acting[key] <= 0:
                del self._acting[key]

    def elsewhere(self) -> tuple[str, ...]:
        """List who acts in other threads."""
        here = threading.get_ident()
        with self._lock:
            return tuple(dict.fromkeys(name for thread, name in self._acting if thread != here and name))


_acting_agents = _ActingAgents()


class AtWork:
    """Notes that an agent acts, in a `with` block.

    Args:
        name: The agent.
    """

    __slots__ = ("_key",)

    def __init__(self, name: str) -> None:
        self._key = (threading.get_ident(), name)

    def __enter__(self) -> None:
        _acting_agents.change(self._key, 1)

    def __exit__(self, *_: object) -> None:
        _acting_agents.change(self._key, -1)


def acts_for() -> tuple[str, ...]:
    """List the agents for which something happens here, the outermost first; else all that may be meant."""
    known = acting_for.get()
    return known if known or current_run.get() is not None else _acting_agents.elsewhere()


class SpeakerTurn:
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
        with within(speaker_turn, self), within(acting_for, self.around), within(tool_at_work, None), AtWork(self.name):
            yield


speaker_turn: ContextVar[SpeakerTurn | None] = ContextVar("blamespan-speaker-turn", default=None)
"""Whose turn it is, where the framework's hooks say so."""


def speaker_name() -> str:
    """Return the name of whoever's turn it is, or empty."""
    turn = speaker_turn.get()
    return turn.name if turn is not None else ""


class OfferedModelCall:
    """A model that is about to be asked.

    Args:
        listeners: Those that hold here.
        agent: On whose behalf, as the framework calls it.
        convert: Reads and writes the framework's messages and results.
        messages: What it is sent, as the framework has it.
        tools: Names of the tools on offer.
        alias: What the framework calls the agent otherwise.
        model: Its name, where no answer tells it.
        can_retry: Whether it is a model, which can be asked again.
        ask: Asks a person, as `Opportunity.ask`.
    """

    def __init__(
        self,
        listeners: tuple[Listener, ...],
        agent: str,
        convert: ModuleType,
        messages: Sequence[Any] = (),
        tools: tuple[str, ...] = (),
        alias: str = "",
        *,
        model: str = "",
        can_retry: bool = False,
        ask: Callable[[str], bool | None] | None = None,
    ) -> None:
        self._listeners = listeners
        self._run = run_here(listeners)
        self._agent = find_agent_name() or agent
        self._alias = alias or agent
        self._tools = tools
        self._can_retry, self._ask = can_retry, ask
        self._attempt = 0
        self._decision, self._own = self._run.decide(self._agent)
        self._convert, self._messages, self._model = convert, messages, model
        self._own_lines: tuple[Line, ...] = convert.as_lines(messages, self._run.authors)
        self._lines = self._own_lines
        self._what_is_wrong = ""
        self._reasons: tuple[Line, ...] = ()
        self._read_lines: tuple[Line, ...] | None = None
        self._read: tuple[tuple[str, ...], tuple[str, ...], str] = ((), (), "")

    async def ask(self, original: Original, client: Any, *args: Any, **kwargs: Any) -> Any:
        """Ask the model until an answer stands, and return that."""
        sent, convert = await self._prepare(original), self._convert
        while True:
            if (answer := await self._foretell(original)) is not None:
                result = await original.call(self._is_slow, self._alter_result, convert.answer_unasked(answer))
            else:
                try:
                    with within(is_asked_within, True):
                        result = await original(client, sent, *args, **kwargs)
                    result = await original.call(self._is_slow, self._alter_result, result)
                finally:
                    self._end()
            if not self._what_is_wrong:
                return result
            sent = self._prepare_again()

    async def stream(self, original: Original, client: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """Ask the model until an answer stands, and yield that; what has been shown cannot be taken back."""
        sent, convert = await self._prepare(original), self._convert
        is_patient = any(listener.is_patient for listener in self._listeners)
        while True:
            if (answer := await self._foretell(original)) is not None:
                items = await original.call(self._is_slow, self._alter_items, convert.items_unasked(answer))
            else:
                try:
                    items = []
                    source = original.iterate(client, sent, *args, **kwargs)
                    async for item in iterate_within(lambda: within(is_asked_within, True), source):
                        items.append(item)
                        if not is_patient and not convert.is_last_item(item):
                            yield item
                    items = await original.call(self._is_slow, self._alter_items, items)
                finally:
                    self._end()
                items = [item for item in items if is_patient or convert.is_last_item(item)]
            if not self._what_is_wrong:
                for item in items:
                    yield item
                return
            sent = self._prepare_again()

    @property
    def _is_slow(self) -> bool:
        """Return whether to ask off the event loop."""
        return any(listener.is_blocking for listener in self._listeners)

    async def _prepare(self, original: Original) -> Sequence[Any]:
        lines = await original.call(self._is_slow, self._alter_prompt)
        return self._messages if lines is None else self._write(lines)

    def _write(self, lines: Sequence[Line]) -> Sequence[Any]:
        """Write what it is sent instead; messages that nobody has changed are the program's own."""
        return [
            self._convert.new_message(line)
            if line.place < 0
            else self._messages[line.place]
            if line.text == self._own_lines[line.place].text
            else self._convert.with_text(self._messages[line.place], line.text)
            for line in lines
        ]

    def _prepare_again(self) -> Sequence[Any]:
        """Return what it is sent after an answer that does not stand: the same, and what was wrong with each answer."""
        self._attempt += 1
        self._reasons = (*self._reasons, Line("user", self._what_is_wrong, "guard"))
        self._what_is_wrong = ""
        return self._write((*self._lines, *self._reasons))

    async def _foretell(self, original: Original) -> Said | None:
        """Return what it answers without being asked; None where it is to be asked. Waits as long as it must."""
        while True:
            try:
                return await original.call(self._is_slow, self._ask_listeners)
            except MustWait:
                await original.pause(_WAIT_S)

    def _ask_listeners(self) -> Said | None:
        at = self._at("response")
        return next((answer for item in self._listeners if (answer := item.foretell(at)) is not None), None)

    def _end(self) -> None:
        """Tell the listeners that the model has answered, or failed to."""
        at = self._at("response")
        for listener in self._listeners:
            listener.end_call(at)

    def _alter_prompt(self) -> tuple[Line, ...] | None:
        """Return what it is sent instead, None for what it was to be sent anyway.

        What this agent was told otherwise before, or has lost, stays so.
        """
        altered = self._run.altered.setdefault(self._agent, {})
        original = self._lines
        if altered:
            self._lines = tuple(
                altered_line for line in original if (altered_line := _apply_alteration(line, altered)) is not None
            )
        before = self._lines
        self._lines = self._offer("memory", self._lines)
        self._lines = self._offer("prompt", self._lines)
        if self._lines is not before and self._lines != before:
            now = {line.place: line for line in self._lines}
            altered.update({_anywhere(line): now.get(line.place) for line in original if now.get(line.place) != line})
        return None if self._lines is original else self._lines

    def _alter_result(self, result: Any) -> Any:
        answer = self._convert.read_answer(result)
        changed = self.alter_answer(answer) if answer is not None else None
        return result if changed == answer else self._convert.as_result(result, changed)

    def _alter_items(self, items: list[Any]) -> list[Any]:
        answer = self._convert.read_items(items)
        changed = self.alter_answer(answer) if answer is not None else None
        return items if changed == answer else self._convert.as_items(items, changed)

    def alter_answer(self, answer: Said) -> Said:
        """Return what it answers instead."""
        where = functools.cache(agent_where)  # one for all, which moves to the call of a tool
        answer = answer if answer.model else replace(answer, model=self._model)
        changed = self._offer("response", answer, where)
        if changed.again:
            self._what_is_wrong = changed.again
            return answer
        if changed.calls != answer.calls and (step := where()) is not None:
            self._run.calls.update({call.id: step for call in changed.calls if call not in answer.calls})
        self._run.requests.update({call.id or call.name: self._agent for call in changed.calls})
        if changed.text:
            self._run.authors[changed.text] = self._agent
        self._run.speakers.append(self._agent)
        return changed

    def _offer(
        self, mechanism: Mechanism, content: ContentT, where: Callable[[], Where | None] | None = None
    ) -> ContentT:
        at = self._at(mechanism)
        for listener in self._listeners:
            content = listener.change(at, content, where or agent_where)
        return content

    def _at(self, mechanism: Mechanism) -> Opportunity:
        if self._lines is not self._read_lines:  # a long history is read once, not at each boundary
            self._read_lines, self._read = self._lines, self._read_history()
        from_others, own, task = self._read
        return Opportunity(
            mechanism,
            self._run,
            self._agent,
            self._decision,
            self._own,
            alias=self._alias,
            task=task,
            heard=from_others,
            said=own,
            others=tuple(name for name in self._run.agents if name not in (self._agent, self._alias)),
            tools=self._tools,
            on_behalf_of=acts_for(),
            attempt=self._attempt,
            can_retry=self._can_retry,
            where=agent_where,
            ask=self._ask,
        )

    def _read_history(self) -> tuple[tuple[str, ...], tuple[str, ...], str]:
        """Return what others told the agent, what it said itself, and the task."""
        own: list[str] = []
        from_others: list[str] = []
        for line in self._lines:
            if line.role != "system" and line.text.strip():
                (own if self._is_own(line) else from_others).append(line.text)
        task = next((line.text for line in self._lines if line.role == "user"), "")
        return tuple(from_others), tuple(own), task

    def _is_own(self, line: Line) -> bool:
        if line.role != "assistant":
            return False
        return line.sender in ("", self._agent, self._alias)


def _anywhere(line: Line) -> Line:
    return replace(line, place=-1)


def _apply_alteration(line: Line, altered: Mapping[Line, Line | None]) -> Line | None:
    value = altered.get(_anywhere(line), line)
    return replace(value, place=line.place) if value is not None else None


def tool_names(tools: Any) -> tuple[str, ...]:  # tools, functions, names, or what describes them
    """List the names of the tools on offer."""
    names = []
    for tool in tools if isinstance(tools, list | tuple) else [tools]:
        described = tool.get("function", tool) if isinstance(tool, dict) else tool
        if isinstance(described, dict):
            name = described.get("name")
        else:
            name = getattr(described, "name", None) or getattr(described, "__name__", described)
        names += [name] if isinstance(name, str) else []
    return tuple(names)


def as_json(value: object) -> str:
    """Write what a model calls a tool with as JSON; what cannot be as Python writes it."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return str(value)


_YES = frozenset({"yes", "y", "ok", "allow", "allowed", "approve", "approved", "accept", "true"})
"""What a person answers who allows something; everything else refuses."""


def is_yes(answer: object) -> bool:
    """Return whether a person's whole answer allows what was asked: a yes with a condition is none."""
    if isinstance(answer, Mapping):  # as human-in-the-loop interfaces answer
        decisions = answer.get("decisions")
        if isinstance(decisions, list):
            return bool(decisions) and all(is_yes(decision) for decision in decisions)
        return is_yes(answer.get("type", answer.get("action", answer.get("answer"))))
    if isinstance(answer, list):
        return len(answer) == 1 and is_yes(answer[0])
    return answer is True or (isinstance(answer, str) and answer.strip(" \t\n.!").casefold() in _YES)


def join_questions(questions: Sequence[str]) -> str:
    """Write all that is asked at once as one text: an answer holds for what it lists, and for nothing else."""
    if len(questions) == 1:
        return questions[0]
    listed = " ".join(f"({number}) {question}." for number, question in enumerate(questions, 1))
    return f"{len(questions)} questions, one answer for all of them: {listed}"


def read_answers(questions: Sequence[str], answer: object) -> dict[str, bool]:
    """Read what a person answers to questions that were shown together: one answer for all, or a list with one each."""
    listed = answer.get("decisions") if isinstance(answer, Mapping) else answer
    if isinstance(listed, list) and len(listed) == len(questions):
        return {question: is_yes(one) for question, one in zip(questions, listed, strict=True)}
    return dict.fromkeys(questions, is_yes(answer))


_Begin: TypeAlias = Callable[[Any, Any, dict[str, Any]], OfferedModelCall | None]
"""Finds what is offered when a model is asked: gets the model, what it is sent, and how; None where nobody listens."""


async def ask_model(begin: _Begin, original: Original, self: Any, messages: Any, *args: Any, **kwargs: Any) -> Any:
    """Stand in for a model's call."""
    call = _begin(begin, self, messages, kwargs)
    ask = functools.partial(original, self, messages) if call is None else functools.partial(call.ask, original, self)
    return await ask(*args, **kwargs)


def stream_model(
    begin: _Begin, original: Original, self: Any, messages: Any, *args: Any, **kwargs: Any
) -> AsyncIterator[Any]:
    """Stand in for a model's call that streams."""
    call = _begin(begin, self, messages, kwargs)
    if call is None:
        return original.iterate(self, messages, *args, **kwargs)
    return call.stream(original, self, *args, **kwargs)


def _begin(begin: _Begin, model: Any, messages: Any, kwargs: dict[str, Any]) -> OfferedModelCall | None:
    return None if not active() or is_asked_within.get() else begin(model, messages, kwargs)


def read_nothing(_: object) -> None:
    """Read no text of a tool's result: it is offered elsewhere, or by nobody."""


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool at work.

    Attributes:
        name: Its name.
        agent: Who called, as the framework says.
        arguments: What it was called with, as text.
        subject: The tool itself.
        maybe: Who else may have called, where the framework does not say.
        handoff_to: Whom it hands the work to.
        ask: Asks a person, as `Opportunity.ask`.
        names: What it is called beside its name.
        call_id: As `Opportunity.call_id`.
    """

    name: str
    agent: str
    arguments: str
    subject: object = None
    maybe: tuple[str, ...] = ()
    handoff_to: str = ""
    ask: Callable[[str], bool | None] | None = None
    names: tuple[str, ...] = ()
    call_id: str = ""

    async def use(
        self,
        original: Original,
        call: Callable[[], Coroutine[Any, Any, Any]],
        read: Callable[[Any], str | None],
        write: Callable[[Any, Answer], Any],
    ) -> Any:
        """Call the tool unless something else stands in place of its answer, and return what stands.

        Args:
            original: What calls it.
            call: Calls it.
            read: Returns its result as text; None where nothing is to be offered.
            write: Writes an answer in place of a result, or of None where it was not called.
        """
        answer, result = await self._offer_call(original), None
        if answer is None:
            with self.inside():
                result = await call()
            text = read(result)
            answer = self.offer_answer(text) if text is not None else None
        if answer is None:
            return result
        await original.pause(answer.delay_s)
        return write(result, answer)

    async def use_stream(
        self,
        original: Original,
        source: Callable[[], AsyncIterator[Any]],
        read: Callable[[Any], str | None],
        write: Callable[[Any, Answer], Any],
    ) -> AsyncIterator[Any]:
        """Do the same with a tool that streams: the last item is the answer, and which is the last shows only then."""
        answer = await self._offer_call(original)
        if answer is not None:
            await original.pause(answer.delay_s)
            yield write(None, answer)
            return
        last: list[Any] = []
        async for item in iterate_within(self.inside, source()):
            for earlier in last:
                yield earlier
            last = [item]
        for item in last:
            text = read(item)
            answer = self.offer_answer(text) if text is not None else None
            if answer is not None:
                await original.pause(answer.delay_s)
            yield item if answer is None else write(item, answer)

    async def _offer_call(self, original: Original) -> Answer | None:
        """Offer its answer before it is called; None where it is to be called."""
        listeners = _listeners_of_tools()
        if not listeners:
            return None
        is_slow, due = any(listener.is_blocking for listener in listeners), Answer("", is_due=True)
        return await original.call(is_slow, _offer_tool_answer, listeners, self._at(listeners), due)

    def foresee_question(self, answered: Collection[str]) -> str:
        """Return what a person is asked before it is called; empty where nothing is, or they have answered it."""
        listeners = active()
        at = self._at(listeners) if listeners else None
        foreseeing = [one.foresee for one in listeners if hasattr(one, "foresee")]  # guards do
        return next((question for foresee in foreseeing if (question := foresee(at, answered))), "")

    def offer_answer(self, text: str) -> Answer | None:
        """Offer what it answers; None where that stays as it is."""
        listeners = _listeners_of_tools()
        if not listeners:
            return None
        at = self._at(listeners)
        results = at.run.results.setdefault(self.name, [])
        results.append(text)
        del results[:-_MOST_RESULTS]
        return _offer_tool_answer(listeners, at, Answer(text))

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Hold what holds while it works: agents within it act for its caller, what it calls in turn is part of it."""
        caller = _find_caller(self.agent)
        with within(acting_for, (*acts_for(), caller)), within(tool_at_work, self.key), AtWork(caller):
            yield

    @property
    def key(self) -> tuple[int, str]:
        """Return what tells the call from others, as `tool_at_work` has it."""
        return id(self.subject), self.arguments

    def _at(self, listeners: tuple[Listener, ...]) -> Opportunity:
        run, agent = run_here(listeners), _find_caller(self.agent)
        return Opportunity(
            "tool",
            run,
            agent,
            max(0, run.decisions - 1),  # the answer that asks for it
            run.decided(agent),
            alias=self.agent,
            others=tuple(name for name in run.agents if name != agent),
            tool=self.name,
            arguments=self.arguments,
            earlier=tuple(run.results.get(self.name, ())),
            on_behalf_of=acts_for(),
            maybe=self.maybe,
            subject=self.subject,
            handoff_to=self.handoff_to,
            tool_names=self.names,
            call_id=self.call_id,
            ask=self.ask,
        )


def _listeners_of_tools() -> tuple[Listener, ...]:
    """List the listeners that hold here; of what happens within a model that is asked only guards hear."""
    listeners = active()
    return tuple(listener for listener in listeners if listener.is_guard) if is_asked_within.get() else listeners


def _find_caller(agent: str) -> str:
    """Name who called the tool at work as spans do, else as the framework does."""
    around = trace.get_current_span()
    is_run = _attribute(around, words.OPERATION) == words.OPERATION_WORKFLOW
    caller = None if is_run else _attribute(around, words.AGENT_NAME)  # not always whose turn it is
    return caller if isinstance(caller, str) else find_agent_name() or agent


def _offer_tool_answer(listeners: tuple[Listener, ...], at: Opportunity, original: Answer) -> Answer | None:
    answer = original
    for listener in listeners:
        answer = listener.change(at, answer, tool_where)
    return answer if answer != original else None


def offer_mail(agent: str, mail: Mail, where: Callable[[], Where | None], *, alias: str = "") -> Mail:
    """Offer a message that *agent* sends."""
    listeners = active()
    if listeners:
        run = run_here(listeners)
        others = tuple(name for name in run.agents if name not in (agent, alias))
        own = run.decided(agent)
        at = Opportunity("routing", run, agent, max(0, run.decisions - 1), own, alias=alias or agent, others=others)
        for listener in listeners:
            mail = listener.change(at, mail, where)
    return mail


def run_here(listeners: tuple[Listener, ...]) -> RunScope:
    """Find the run; what happens outside every run is one of its own for each listener."""
    return current_run.get() or listeners[0].loose


def note_tool(original: Function) -> Function:
    """Make the hook around the `__init__` of tools: they are known from then on."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - it stands in for that
        original(self, *args, **kwargs)
        known_tools.add(self)

    return __init__


def note_tool_call(call_id: str) -> None:
    """Note that a tool is called: if the call is a faulty one, its step is here."""
    listeners = active()
    if listeners and (where := run_here(listeners).calls.get(call_id)) is not None:
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

    return Where(context, place, span) if context.is_valid else None


def _attribute(span: trace.Span, key: str) -> object:
    """Read an attribute; only the SDK's spans can be read."""
    attributes: Any = getattr(span, "attributes", None)
    return attributes.get(key) if attributes is not None else None


def format_arguments(value: object) -> str:
    """Write a tool's arguments as text, the same for the same arguments."""
    try:
        return json.dumps(value, ensure_ascii=False, sort_keys=True, default=_as_plain)
    except Exception:  # of a record of the program's own: rules on arguments find that they cannot be read
        return f"<{type(value).__qualname__}>"


def _as_plain(value: Any) -> Any:  # whatever a tool takes
    """Return a record as its fields, and anything else as the name of its type."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    dump = getattr(value, "model_dump", None)
    return dump() if callable(dump) and not isinstance(value, type) else f"<{type(value).__qualname__}>"
