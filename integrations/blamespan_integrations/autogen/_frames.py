"""What is at work right now: which team, agent, tool or model call, one inside the other.

A frame travels in the OpenTelemetry context, so it follows tasks and, by `_runtime`, messages. The two
wrappers here are all that ever stands between a caller and AutoGen: they make a frame's context current
around AutoGen's own code and never across a `yield`.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, ClassVar, TypeAlias

from opentelemetry import context as otel_context
from opentelemetry.context import Context
from opentelemetry.instrumentation.utils import is_instrumentation_enabled

from blamespan.host_safety import shield_host
from blamespan_integrations.autogen._memory import RunMemory
from blamespan_integrations.patching import Function, Patches, attached
from blamespan_integrations.recording import Around, StepRef, around
from blamespan_integrations.recording.nesting import NestedFrame

_FRAME = otel_context.create_key("blamespan-autogen-frame")


class Frame(NestedFrame["Frame"]):
    """Something at work.

    Attributes:
        awaits: What of that which the call returns or yields it wants to see.
        memory: What the run remembers; frames within each other share one.
        onward: The context for what follows within, where that is another one by now.
    """

    framework, key = "autogen", _FRAME
    awaits: ClassVar[tuple[type, ...]] = ()
    context: Context

    def __init__(self, owner: object, outer: Frame | None) -> None:
        super().__init__(owner)
        self.outer = outer
        self.memory: RunMemory = outer.memory if outer is not None else RunMemory()
        self.onward: Context | None = None

    @property
    def is_outermost(self) -> bool:
        """Whether no team, agent, tool or model call of AutoGen's is around it."""
        return self.outer is None or (self.outer.owner is None and self.outer.outer is None)

    @property
    def is_cancelled(self) -> bool:
        """Whether the program itself has ended this, though it goes on for a while."""
        return False

    def is_cut_short(self, error: BaseException) -> bool:
        """Check whether the program ended this early, rather than that it failed.

        A cancelled task and a stream that was left say so themselves. After the program has given up on a run, as by a
        timeout of its own, whatever the rest of it raises is a consequence.
        """
        if isinstance(error, GeneratorExit | asyncio.CancelledError):
            return True
        return any(frame.is_cancelled for frame in self.outwards())


Start: TypeAlias = Callable[[tuple[Any, ...], Mapping[str, Any]], Frame | None]
"""Makes the frame of a call from its arguments; None where the call is not to be recorded."""


def current_frame(context: Context | None = None) -> Frame | None:
    """Find the innermost frame of *context*, or of the current one."""
    frame = otel_context.get_value(_FRAME, context)
    return frame if isinstance(frame, Frame) else None


def is_any(kind: type, of: tuple[type, ...]) -> bool:
    """Return whether objects of *kind* are of any class *of* these, as `isinstance` does at far higher cost.

    AutoGen's are abstract or pydantic's, and this is asked for every item of every stream.
    """
    try:
        return _known_to_be(kind, of)
    except Exception:  # a metaclass of the program's own may do anything
        return False


_known_to_be: Callable[[type, tuple[type, ...]], bool] = lru_cache(maxsize=1_024)(issubclass)


def wrap_call(patches: Patches, start: Start) -> Callable[[Function], Function]:
    """Make the wrapper of coroutine functions whose calls *start* records."""

    def wrapper(original: Function) -> Function:
        @functools.wraps(original)
        async def call(*args: Any, **kwargs: Any) -> Any:
            frame = _start_frame(patches, start, args, kwargs)
            if frame is None:
                return await original(*args, **kwargs)
            try:
                with attached(frame.context):
                    result = await original(*args, **kwargs)
            except BaseException as error:
                _close(frame, error)
                raise
            if is_any(type(result), frame.awaits):
                frame.learn("record a result", frame.see, result)
            _close(frame, None)
            return result

        return call

    return wrapper


def wrap_stream(patches: Patches, start: Start) -> Callable[[Function], Function]:
    """Make the wrapper of async generator functions whose streams *start* records."""

    def wrapper(original: Function) -> Function:
        @functools.wraps(original)
        async def stream(*args: Any, **kwargs: Any) -> Any:
            frame = _start_frame(patches, start, args, kwargs)
            # What the generator itself makes current stays current inside it, and only there.
            context = frame.context if frame is not None else None
            try:
                with attached(context):
                    source = aiter(original(*args, **kwargs))
                    step = anext(source)
                while True:
                    with attached(context) as inside:
                        item = await step
                    context = inside.left
                    if frame is not None and is_any(type(item), frame.awaits):
                        context = _see_in_stream(frame, item, context)
                    try:
                        sent = yield item
                    except GeneratorExit:
                        with attached(context):
                            await source.aclose()
                        raise
                    except BaseException as thrown:
                        step = source.athrow(thrown)
                    else:
                        step = anext(source) if sent is None else source.asend(sent)
            except StopAsyncIteration:
                _close(frame, None)
            except BaseException as error:
                _close(frame, error)
                raise

        return stream

    return wrapper


def _start_frame(patches: Patches, start: Start, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Frame | None:
    if patches.active and is_instrumentation_enabled():
        with shield_host("autogen: begin a span"):
            return start(args, kwargs)
    return None


def _see_in_stream(frame: Frame, item: Any, left: Context | None) -> Context:
    """Have *frame* see *item*; give the context in which the stream goes on that was left in another one."""
    before = frame.context
    frame.learn("record a result", frame.see, item)
    after = frame.context
    if after is before:
        return left or Context()
    changed = {key: value for key, value in after.items() if left is None or left.get(key) is before.get(key)}
    return Context({**(left or {}), **changed})


def _close(frame: Frame | None, error: BaseException | None) -> None:
    if frame is not None:
        frame.learn("end a span", frame.close, error)


class _Foreign(Frame):
    """A step of another framework, within which AutoGen is at work.

    Args:
        step: What is known of it.
    """

    def __init__(self, step: Around) -> None:
        super().__init__(None, None)
        self._step = step
        self.context = otel_context.get_current()

    def predecessors(self) -> list[StepRef]:
        """List what that step builds on, or the call of the tool it is."""
        return self._step.predecessors

    def note_step(self, step: StepRef) -> None:
        """Let that step build on what was said last."""
        self._step.note_steps([step])


def frame_around() -> Frame | None:
    """Find what a team's run or an agent's turn takes place in: AutoGen's own frame, or another framework's step."""
    frame, step = current_frame(), around()
    if step.is_nothing or (frame is not None and step.is_that_of(frame.context)):
        return frame
    return _Foreign(step)
