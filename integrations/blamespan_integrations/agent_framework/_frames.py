"""What is at work right now: which workflow, executor, agent, tool or model call, one inside the other.

A frame travels in the OpenTelemetry context, so it follows tasks. The wrappers here are all that ever stands between a
caller and Agent Framework: they make a frame's context current around its code and never across a `yield`.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, TypeAlias
from weakref import finalize

from agent_framework import Message as FrameworkMessage
from agent_framework import ResponseStream
from opentelemetry import context as otel_context
from opentelemetry.context import Context
from opentelemetry.instrumentation.utils import is_instrumentation_enabled

from blamespan.host_safety import shield_host
from blamespan_integrations.patching import Function, Patches, attached
from blamespan_integrations.recording import StepRef
from blamespan_integrations.recording.nesting import NestedFrame
from blamespan_integrations.recording.spans import RunState

_FRAME = otel_context.create_key("blamespan-agent-framework-frame")


class RunMemory:
    """What a run remembers so that nothing is recorded twice, its workflows within workflows included.

    Attributes:
        last_said: The latest message of each agent, by name.
        last: The latest message of all.
    """

    def __init__(self) -> None:
        self.last_said: dict[str, StepRef] = {}
        self.last: StepRef | None = None
        self._said: dict[int, tuple[FrameworkMessage, StepRef]] = {}
        self._by_text: dict[int, StepRef] = {}  # by hash: a text is not kept for it
        self._instructions: dict[str, str] = {}
        self._heard: dict[tuple[str, str], dict[int, FrameworkMessage]] = {}

    def note_said(self, name: str, messages: Iterable[FrameworkMessage], step: StepRef, text: str) -> None:
        """Remember that *step* of the agent *name* said *messages*, *text* in all."""
        self.last_said[name] = self.last = step
        for message in messages:
            self._said[id(message)] = message, step  # keeps it alive: another one could get its id
            self._heard.setdefault(("agent", name), {})[id(message)] = message
        if text:
            self._by_text[hash(text)] = step

    def step_of(self, message: FrameworkMessage, *, by_text: bool) -> StepRef | None:
        """Find the step that said *message*, or where *by_text* one that said the same: copies are passed on, too."""
        known = self._said.get(id(message))
        if known is not None:
            return known[1]
        return self._by_text.get(hash(message.text)) if by_text and self._by_text else None

    def is_text_of(self, steps: Iterable[StepRef], text: str) -> bool:
        """Return whether one of *steps* said *text*, and none since."""
        step = self._by_text.get(hash(text)) if text else None
        return step is not None and step in steps

    def is_new_text(self, name: str, text: str) -> bool:
        """Return whether the agent's instructions are other ones than those it had, and remember them."""
        is_new = self._instructions.get(name) != text
        self._instructions[name] = text
        return is_new

    def is_said(self, message: FrameworkMessage) -> bool:
        """Return whether *message* itself is a step's."""
        return id(message) in self._said

    def new_to(self, kind: str, name: str, messages: Iterable[FrameworkMessage]) -> list[FrameworkMessage]:
        """List those of *messages* that the agent (or its model: *kind*) has not been given, and remember them."""
        heard = self._heard.setdefault((kind, name), {})
        new = [message for message in messages if id(message) not in heard]
        heard.update((id(message), message) for message in new)
        return new

    def forget(self) -> None:
        """Let go of all contents."""
        self._said.clear()
        self._heard.clear()
        self._instructions.clear()


class Frame(NestedFrame["Frame"]):
    """Something at work.

    Attributes:
        memory: What the run remembers; frames within each other share it.
        is_exhausted: Whether its stream was read to the end.
        error: What its stream raised.
    """

    framework, key = "agent_framework", _FRAME

    def __init__(self, owner: object) -> None:
        super().__init__(owner)
        self.outer: Frame | None = None
        self.memory = RunMemory()
        self.is_exhausted = False
        self.error: BaseException | None = None

    def begin(self) -> None:
        """Begin: the call is awaited, or its stream read, for the first time."""
        self.outer = current_frame()
        if self.outer is not None:
            self.memory = self.outer.memory
        self.start()

    def start(self) -> None:
        """Start the span, and `enter` its context."""
        raise NotImplementedError

    def see_update(self, update: Any) -> None:
        """Learn the next thing that a stream yields."""


def unique(steps: Iterable[StepRef]) -> list[StepRef]:
    """List *steps*, each once: they compare, but have no hash."""
    return list({step.index: step for step in steps}.values())


def is_cut_short(error: BaseException) -> bool:
    """Check whether the program ended something early, rather than that it failed."""
    return isinstance(error, GeneratorExit | asyncio.CancelledError)


def current_frame(context: Context | None = None) -> Frame | None:
    """Find the innermost frame of *context*, or of the current one."""
    frame = otel_context.get_value(_FRAME, context)
    return frame if isinstance(frame, Frame) else None


Make: TypeAlias = Callable[[tuple[Any, ...], Mapping[str, Any]], Frame | None]
"""Makes the frame of a call from its arguments; None where the call is not to be recorded."""


def wrap_answer(patches: Patches, make: Make) -> Callable[[Function], Function]:
    """Make the wrapper of functions that return an awaitable, or a `ResponseStream`.

    The function itself is called at once, as without us; the frame begins when its answer is first awaited or read.
    """

    def wrapper(original: Function) -> Function:
        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            frame = _make(patches, make, args, kwargs)
            if frame is None:
                return original(*args, **kwargs)
            with attached(Context({**otel_context.get_current(), _FRAME: frame})):  # for its own super()
                answer = original(*args, **kwargs)
            if isinstance(answer, ResponseStream):
                with shield_host("agent_framework: record a stream"):
                    _watch(answer, frame)
                return answer
            return _finish(answer, frame) if inspect.isawaitable(answer) else answer

        return call

    return wrapper


def wrap_call(patches: Patches, make: Make) -> Callable[[Function], Function]:
    """Make the wrapper of coroutine functions."""

    def wrapper(original: Function) -> Function:
        @functools.wraps(original)
        async def call(*args: Any, **kwargs: Any) -> Any:
            frame = _make(patches, make, args, kwargs)
            if frame is None:
                return await original(*args, **kwargs)
            return await _finish(original(*args, **kwargs), frame)

        return call

    return wrapper


def _make(patches: Patches, make: Make, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Frame | None:
    if patches.active and is_instrumentation_enabled():
        with shield_host("agent_framework: begin a span"):
            frame = current_frame()
            is_own_super = frame is not None and frame.context is None and frame.owner is args[0]
            return None if is_own_super else make(args, kwargs)
    return None


async def _finish(answer: Awaitable[Any], frame: Frame) -> Any:
    _begin(frame)
    try:
        with attached(frame.context):
            result = await answer
    except BaseException as error:
        _close(frame, error)
        raise
    _tell(frame, frame.see, result)
    _close(frame, None)
    return result


def _watch(stream: ResponseStream[Any, Any], frame: Frame) -> None:
    """Have *frame* follow *stream*, by the hooks that streams offer: whoever wraps the stream keeps them."""
    stream.with_pull_context_manager(lambda: _Pull(frame))
    stream.with_update_transform(lambda update: _tell(frame, frame.see_update, update))
    stream.with_result_transform(lambda result: _tell(frame, frame.see, result))

    def close() -> None:
        if frame.context is not None:
            _close(frame, None if frame.is_exhausted else frame.error or GeneratorExit())

    stream.with_cleanup_hook(close)
    finalize(stream, _abandon, frame)


class _Pull:
    """Makes a frame's context current while a stream makes its next item."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame

    def __enter__(self) -> None:
        if self._frame.context is None and self._frame.is_open:
            _begin(self._frame)
        self._attached = attached(self._frame.context)
        self._attached.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._attached.__exit__()
        if isinstance(error, StopAsyncIteration):
            self._frame.is_exhausted = True
        elif error is not None:
            self._frame.error = error


def _begin(frame: Frame) -> None:
    with shield_host("agent_framework: begin a span"):
        frame.begin()
        return
    frame.is_open = False


def _tell(frame: Frame, learn: Callable[[Any], None], item: Any) -> None:
    if frame.context is not None:
        frame.learn("record a result", learn, item)


def _close(frame: Frame, error: BaseException | None) -> None:
    if frame.is_open:
        frame.learn("end a span", frame.close, error)


def _abandon(frame: Frame) -> None:
    if frame.context is not None and frame.is_open:
        with shield_host("agent_framework: leave a span"):
            frame.abandon()
    frame.is_open = False


_MOST_TRACES = 256
_traces: OrderedDict[int, tuple[RunState, RunMemory]] = OrderedDict()


def trace_memory(trace_id: int) -> tuple[RunState, RunMemory]:
    """Find what is known of a trace of the program's own, in which it has its agents speak; of the latest traces."""
    known = _traces.setdefault(trace_id, (RunState(), RunMemory()))
    _traces.move_to_end(trace_id)
    while len(_traces) > _MOST_TRACES:
        _traces.popitem(last=False)
    return known
