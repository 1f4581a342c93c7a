"""A tool at work, however many of AutoGen's layers one call goes through: agent, workbench, tool."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import functools
import json
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any

from autogen_core import FunctionCall
from autogen_core.code_executor import CodeBlock
from autogen_core.tools import ToolResult

from blamespan.host_safety import shield_host
from blamespan_integrations.autogen._agents import CalledTool
from blamespan_integrations.autogen._convert import answer_of, text_attribute, tool_outcome
from blamespan_integrations.autogen._frames import Frame, Start, current_frame
from blamespan_integrations.autogen._managers import manager_at_work
from blamespan_integrations.autogen._participants import plain_name
from blamespan_integrations.patching import Function, Patches
from blamespan_integrations.recording import Recorder, ToolSpan
from blamespan_integrations.recording.objects import SafeReader
from blamespan_integrations.recording.spans import STEP_CANCELLED

CODE_TOOL = "execute_code"
"""Name of the tool that stands for a code executor."""

_Begin = Callable[[Frame], ToolSpan]


class Layer(IntEnum):
    """Where in AutoGen a call of a tool was noticed, outside in."""

    AGENT = 0
    """`AssistantAgent._execute_tool_call`: also knows calls that never reach a tool."""
    WORKBENCH = 1
    TOOL = 2
    CODE = 3


def agent_tool_start(recorder: Recorder) -> Start:
    """Record `AssistantAgent._execute_tool_call(tool_call, ...)`."""

    def start(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Frame | None:
        call: FunctionCall = args[0] if args else kwargs["tool_call"]

        def begin(outer: Frame) -> ToolSpan:
            return recorder.start_tool(
                call.name, arguments=call.arguments, call_id=call.id, agent=manager_at_work(outer)
            )

        return _enter_layer(Layer.AGENT, call, begin)

    return start


def workbench_start(recorder: Recorder) -> Start:
    """Record `Workbench.call_tool(name, arguments, cancellation_token, call_id)` and its stream."""

    def start(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Frame | None:
        name: str = args[1] if len(args) > 1 else kwargs["name"]
        arguments = args[2] if len(args) > 2 else kwargs.get("arguments")
        call_id = args[4] if len(args) > 4 else kwargs.get("call_id")

        def begin(outer: Frame) -> ToolSpan:
            return recorder.start_tool(name, arguments=arguments or {}, call_id=call_id, agent=manager_at_work(outer))

        return _enter_layer(Layer.WORKBENCH, args[0], begin)

    return start


def tool_start(recorder: Recorder) -> Start:
    """Record `BaseTool.run_json(args, cancellation_token, call_id)` and its stream."""

    def start(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Frame | None:
        tool = args[0]
        arguments = args[1] if len(args) > 1 else kwargs.get("args")
        call_id = args[3] if len(args) > 3 else kwargs.get("call_id")

        def begin(outer: Frame) -> ToolSpan:
            return recorder.start_tool(
                plain_name(tool),
                arguments=arguments or {},
                call_id=call_id,
                description=text_attribute(tool, "description"),
                agent=manager_at_work(outer),
            )

        return _enter_layer(Layer.TOOL, tool, begin)

    return start


def wrap_function_tool(patches: Patches) -> Callable[[Function], Function]:
    """Make the wrapper of `FunctionTool.run(args, ...)`: a plain function sees its tool's span from its thread.

    AutoGen hands a plain function to a thread, which knows nothing of the caller's context.
    """

    def wrapper(original: Function) -> Function:
        @functools.wraps(original)
        async def run(self: Any, *args: Any, **kwargs: Any) -> Any:
            if patches.active and current_frame() is not None:
                with shield_host("autogen: take the context into a tool's thread"):
                    function = self._func
                    if not asyncio.iscoroutinefunction(function):
                        context = contextvars.copy_context()
                        self = copy.copy(self)
                        self._func = lambda *args, **kwargs: context.run(function, *args, **kwargs)
            return await original(self, *args, **kwargs)

        return run

    return wrapper


def code_start(recorder: Recorder) -> Start:
    """Record `CodeExecutor.execute_code_blocks(code_blocks, ...)`: an agent's code, run like a tool."""

    def start(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Frame | None:
        blocks: Sequence[CodeBlock] = args[1] if len(args) > 1 else kwargs["code_blocks"]
        arguments = {"code_blocks": [{"language": block.language, "code": block.code} for block in blocks]}

        def begin(outer: Frame) -> ToolSpan:
            return recorder.start_tool(CODE_TOOL, arguments=arguments, agent=manager_at_work(outer))

        return _enter_layer(Layer.CODE, args[0], begin)

    return start


def _enter_layer(layer: Layer, owner: object, begin: _Begin) -> Frame | None:
    """Begin a call, or go one layer deeper into the one at work. Outside every run it is not ours."""
    outer = current_frame()
    if outer is None:
        return None
    if isinstance(outer, _Layered) and outer.leads_to(layer, owner):
        return _InnerToolLayer(layer, owner, outer)
    return _OuterToolLayer(layer, owner, outer, begin(outer))


class _Layered(CalledTool):
    """One layer of a call."""

    awaits = (object,)

    def __init__(self, layer: Layer, owner: object, outer: Frame) -> None:
        super().__init__(owner, outer)
        self._layer = layer
        self._last: object = None

    @property
    def call(self) -> _OuterToolLayer:
        """The call this is a layer of."""
        raise NotImplementedError

    def leads_to(self, layer: Layer, owner: object) -> bool:
        """Return whether going to *layer* from here is the same call: deeper, or the tool's own super()."""
        return self.is_open and (layer > self._layer or (layer == self._layer and owner is self.owner))

    def see(self, item: Any) -> None:
        """Keep the latest: a stream's last item is the answer. An exception that was returned is one all the same."""
        self._last = item
        if isinstance(item, BaseException):
            self.call.returned = item
        elif self._layer is Layer.TOOL:
            self.call.returned = None


class _OuterToolLayer(_Layered):
    """The outermost layer of a call: it has the span."""

    def __init__(self, layer: Layer, owner: object, outer: Frame, span: ToolSpan) -> None:
        super().__init__(layer, owner, outer)
        self.raised: BaseException | None = None
        self.returned: BaseException | None = None
        self.went_deeper = False
        self._span = span
        self.call_step = span.call
        self.enter(span.context)

    @property
    def call(self) -> _OuterToolLayer:
        return self

    def close(self, error: BaseException | None) -> None:
        """End the call: with its answer, an answer that is an error, or an exception."""
        if not self.is_open:
            return
        self.is_open = False
        is_answered = error is None or (isinstance(error, GeneratorExit) and isinstance(self._last, ToolResult))
        if not is_answered and error is not None:
            if self.is_cut_short(error):
                self._span.add({STEP_CANCELLED: True})
            self._span.end(error=None if self.is_cut_short(error) else error)
            return
        reader = SafeReader()
        outcome = reader.read("result", lambda: tool_outcome(self._last), None)
        reader.report(self._span.lose)
        if outcome is not None:
            text, is_error = outcome
            self._span.end(result=text, error=self._reason() if is_error else self.returned)
        else:
            self._span.end(result=answer_of(self.owner, self._last), error=self.returned)

    def abandon(self) -> None:
        """End its span, whatever has come of it."""
        self.is_open = False
        self._span.abandon()

    def _reason(self) -> BaseException | str:
        """Name why the answer is an error: what the tool raised on the way, if anything."""
        if self.raised is not None:
            return self.raised
        if self._layer is Layer.AGENT and not self.went_deeper and isinstance(self.owner, FunctionCall):
            try:
                json.loads(self.owner.arguments)
            except ValueError as error:
                return error
            return "tool_not_found"
        return "nonzero_exit" if self._layer is Layer.CODE else "tool_error"


class _InnerToolLayer(_Layered):
    """A layer within the outermost one."""

    def __init__(self, layer: Layer, owner: object, outer: _Layered) -> None:
        super().__init__(layer, owner, outer)
        self._call = outer.call
        self._call.went_deeper = True
        self.call_step = outer.call_step
        self.enter(outer.context)

    @property
    def call(self) -> _OuterToolLayer:
        return self._call

    def close(self, error: BaseException | None) -> None:
        """Remember what the tool raised: the layers above turn it into text."""
        self.is_open = False
        if isinstance(error, Exception) and self._call.raised is None:
            self._call.raised = error
