"""A workflow's run: from the call of `Workflow.run` to its result, the error, or nobody reading it any more."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from agent_framework import (
    AgentExecutor,
    AgentResponseUpdate,
    FanInEdgeGroup,
    WorkflowAgent,
    WorkflowExecutor,
    WorkflowMessage,
    WorkflowRunResult,
    WorkflowRunState,
)
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import SpanContext
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from blamespan import conventions as words
from blamespan.genai_messages import Message
from blamespan.host_safety import shield_host
from blamespan.trace import Agent
from blamespan_integrations.agent_framework._convert import from_payload, payload_text, plain_name
from blamespan_integrations.agent_framework._frames import Frame, Make, current_frame, is_cut_short
from blamespan_integrations.patching import Function, Patches
from blamespan_integrations.recording import Recorder, StepRef, around
from blamespan_integrations.recording.objects import SafeReader

_MAX_TASK_CHARS = 4_096
"""Kept of what a run was asked, for the run that goes on from it."""
_MOST_CHECKPOINTS = 1_024
USER = "user"
"""Who asks a workflow, and is asked by `request_info`."""
_STAMP = "blamespan.run"
"""Key in a checkpoint's metadata: the run that saved it, as a W3C traceparent."""
_METADATA = 5
"""Arguments of `create_checkpoint` before `metadata`."""


def run_start(recorder: Recorder) -> Make:
    """Record `Workflow.run(message, ...)`, and a functional workflow's."""

    def make(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Frame | None:
        message = args[1] if len(args) > 1 else kwargs.get("message")
        responses = kwargs.get("responses")
        return WorkflowRun(recorder, args[0], message, responses)

    return make


@dataclass(frozen=True, slots=True)
class _Earlier:
    """A run that another one goes on from, and what it was asked."""

    run: SpanContext
    task: str


class WorkflowRun(Frame):
    """A workflow at work.

    Attributes:
        carried: What executors have sent, by who sent it and the payload's identity: the steps it is, or comes of.
        waiting: Steps that executors have received since their agent last spoke, by executor.
        outputs: Steps that it has yielded.
        entry: Steps that it itself comes of: what the run around it builds on.
        conversation_id: The workflow's id: the same in every run of this workflow.
    """

    def __init__(self, recorder: Recorder, workflow: object, message: object, responses: object) -> None:
        super().__init__(workflow)
        self._recorder, self._message, self._responses = recorder, message, responses
        self.carried: dict[tuple[str, int], tuple[object, list[StepRef]]] = {}
        self.waiting: dict[str, list[StepRef]] = {}
        self.outputs: list[StepRef] = []
        self.entry: list[StepRef] = []
        self.conversation_id: str | None = getattr(workflow, "id", None)
        self._tail: list[Any] = []
        self._tail_of: str | None = None

    def start(self) -> None:
        """Start its span."""
        workflow, reader = self.owner, SafeReader()
        self._step = around()
        self.entry = self.outer.predecessors() if self.outer is not None else self._step.predecessors
        asked: object = self._message
        if asked is None and isinstance(self._responses, Mapping):
            asked = list(self._responses.values())
            asked = asked[0] if len(asked) == 1 else asked
        task = reader.read_list("task", lambda: from_payload(asked, "user", USER))
        self._task = "\n".join(str(part.get("content", "")) for message in task for part in message.parts)
        self._task = self._task[:_MAX_TASK_CHARS]
        agents = reader.read_list("agents", lambda: _agents_of(workflow))
        self._span = self._recorder.start_run(
            plain_name(workflow), task=task, agents=agents, conversation_id=self.conversation_id
        )
        reader.report(self._span.lose)
        self.enter(self._span.context)
        if self._message is None and self._responses is not None:
            with suppress(TypeError):  # a workflow of the program's own need not be hashable
                self._continue(_waiting_runs.pop(workflow, None))

    def predecessors(self) -> list[StepRef]:
        """List what begins directly within builds on: the latest message."""
        return [self.memory.last] if self.memory.last is not None else self.entry

    def note_step(self, step: StepRef) -> None:
        """Leave it: the run's memory has the latest."""

    def goes_on_from(self, checkpoint: Any) -> None:
        """Link to the run that saved *checkpoint*, where that is known."""
        self._continue(_checkpoints.get(checkpoint.checkpoint_id) or _read_stamp(checkpoint.metadata))

    def stamp(self) -> dict[str, str]:
        """Return what a checkpoint's metadata say of this run."""
        carrier: dict[str, str] = {}
        TraceContextTextMapPropagator().inject(carrier, self._span.context)
        return {_STAMP: carrier["traceparent"]} if carrier else {}

    def note_checkpoint(self, checkpoint_id: str) -> None:
        """Learn that the run has saved a checkpoint."""
        _checkpoints[checkpoint_id] = _Earlier(self._span.span.get_span_context(), self._task)
        while len(_checkpoints) > _MOST_CHECKPOINTS:
            _checkpoints.popitem(last=False)

    def _continue(self, earlier: _Earlier | None) -> None:
        own = self._span.span.get_span_context()
        if earlier is None or not earlier.run.is_valid or earlier.run.trace_id == own.trace_id:
            return
        self._span.span.add_link(earlier.run, {words.LINK_RELATION: "continues"})
        if earlier.task:
            self._task = earlier.task
            self._span.add({words.RUN_TASK: self._task})

    def see_update(self, update: Any) -> None:
        """Keep the latest output: of one that is streamed all that its executor has streamed since another spoke."""
        if update.type != "output":
            return
        if not isinstance(update.data, AgentResponseUpdate) or update.executor_id != self._tail_of:
            self._tail = []
        self._tail.append(update.data)
        self._tail_of = update.executor_id

    def see(self, result: Any) -> None:
        """Take the outputs from the result."""
        if isinstance(result, WorkflowRunResult) and self.is_open:
            for event in result:
                self.see_update(event)
            self._end(result)

    def close(self, error: BaseException | None) -> None:
        """End the run: failed, left by the program, or in order."""
        if error is None:
            self._end(None)
        else:
            is_left = is_cut_short(error)
            self._leave()
            self._span.end(error=None if is_left else error, is_complete=not is_left)

    def abandon(self) -> None:
        """End its span, whatever has come of it."""
        if self.is_open:
            self._leave()
        self._span.abandon()

    def _end(self, result: object) -> None:
        workflow, reader = self.owner, SafeReader()
        output = reader.read_list("output", self._output)
        reader.report(self._span.lose)
        pauses = getattr(workflow, "status", None) is WorkflowRunState.IDLE_WITH_PENDING_REQUESTS
        if isinstance(result, WorkflowRunResult):
            pauses = result.get_final_state() is WorkflowRunState.IDLE_WITH_PENDING_REQUESTS
        if pauses and self.outer is None:
            self._span.add({words.RUN_INTERRUPTED: True})
            with suppress(TypeError):
                _waiting_runs[workflow] = _Earlier(self._span.span.get_span_context(), self._task)
        self._leave()
        self._span.end(output=output, result=result)

    def _output(self) -> list[Message]:
        if len(self._tail) > 1:
            text = "".join(payload_text(update) for update in self._tail)
            return [Message.of_text("assistant", text, name=self._tail_of)]
        return from_payload(self._tail[0], "assistant", self._tail_of or "") if self._tail else []

    def _leave(self) -> None:
        self.is_open = False
        self.carried.clear()
        steps = self.outputs or ([self.memory.last] if self.memory.last is not None else [])
        if self.outer is not None:
            for step in steps:
                self.outer.note_step(step)
        else:
            self._step.note_steps(steps[-1:])
            self.memory.forget()

    def hearers(self, executor_id: str, payload: object, target_id: str | None = None) -> list[str]:
        """List who hears what an executor sends; whom an edge with a condition leads to is known only later.

        An orchestrator tells what it hears to all others.
        """
        targets = [target_id] if target_id is not None else self._targets(executor_id, payload)
        names = dict.fromkeys(hearer for name in targets for hearer in _hearers_of(self.owner, name))
        names.pop(executor_id, None)
        return list(names)

    def yields_output(self, executor_id: str) -> bool:
        """Return whether what an executor yields is an output of the workflow."""
        is_terminal = getattr(self.owner, "is_terminal_executor", None)
        return is_terminal is None or bool(is_terminal(executor_id))

    def _targets(self, executor_id: str, payload: object) -> list[str]:
        executors = self.owner.executors
        message = WorkflowMessage(data=payload, source_id=executor_id)
        bundle = WorkflowMessage(data=[payload], source_id=executor_id)
        return [
            edge.target_id
            for group in self.owner.edge_groups
            if getattr(group, "_selection_func", None) is None
            for edge in group.edges
            if edge.source_id == executor_id and not edge.has_condition and edge.target_id in executors
            if executors[edge.target_id].can_handle(bundle if isinstance(group, FanInEdgeGroup) else message)
        ]


def _hearers_of(workflow: Any, executor_id: str) -> list[str]:
    """List who hears what an executor receives: its agent, those whom it tells, or who begins in its workflow."""
    executor = workflow.executors.get(executor_id)
    if is_orchestrator(executor):
        return [*_targets_of(workflow, executor_id), *_managers_of(executor)]
    if type(executor).__name__.endswith("AgentRequestInfoExecutor"):  # of `with_request_info`
        return [USER]
    if isinstance(executor, WorkflowExecutor):
        inner, start = executor.workflow, executor.workflow.start_executor_id
        return _hearers_of(inner, start) or _targets_of(inner, start)
    return [] if executor is None or is_plumbing(executor) else [executor_id]


def _targets_of(workflow: Any, executor_id: str) -> list[str]:
    edges = [edge for group in workflow.edge_groups for edge in group.edges]
    return [edge.target_id for edge in edges if edge.source_id == executor_id]


def is_plumbing(executor: object) -> bool:
    """Return whether an executor is Agent Framework's own: it passes on what others say."""
    return (
        type(executor).__module__.startswith("agent_framework")
        and not isinstance(executor, AgentExecutor)
        and type(executor).__name__ not in ("FunctionExecutor", "WorkflowExecutor", "AgentApprovalExecutor")
    )


def is_orchestrator(executor: object) -> bool:
    """Return whether an executor leads a group chat: a class of a package that need not be installed."""
    return any(kind.__name__ == "BaseGroupChatOrchestrator" for kind in type(executor).__mro__)


def _agents_of(workflow: object) -> list[Agent]:
    executors: Mapping[str, object] = getattr(workflow, "executors", {})
    agents = []
    for name, executor in executors.items():
        if isinstance(executor, AgentExecutor) and not isinstance(agent := executor.agent, WorkflowAgent):
            agents.append(Agent(name, id=getattr(agent, "id", None), description=getattr(agent, "description", None)))
        elif is_orchestrator(executor):
            agents += [Agent(manager) for manager in _managers_of(executor)]
    return agents


def _managers_of(orchestrator: object) -> list[str]:
    """Name the agent that leads a group chat, where one does."""
    manager = getattr(orchestrator, "_manager", orchestrator)
    agent = getattr(manager, "_agent", None)
    return [plain_name(agent)] if agent is not None else []


_waiting_runs: WeakKeyDictionary[Any, _Earlier] = WeakKeyDictionary()
"""By workflow: the run that has asked somebody outside, until the answer comes."""
_checkpoints: OrderedDict[str, _Earlier] = OrderedDict()
"""Which run has saved the latest checkpoints, by their ids."""


def wrap_create_checkpoint(patches: Patches, *, stamps: bool) -> Callable[[Function], Function]:
    """Make the wrapper of a runner context's `create_checkpoint(...)`: a later run may go on from there.

    Args:
        patches: Whose wrapper it is.
        stamps: Whether the run is noted in the checkpoint's metadata.
    """

    def wrapper(original: Function) -> Function:
        @functools.wraps(original)
        async def create_checkpoint(self: Any, *args: Any, **kwargs: Any) -> Any:
            run = _outermost_run() if patches.active else None
            if run is not None and stamps and len(args) <= _METADATA:
                with shield_host("agent_framework: stamp a checkpoint"):
                    kwargs["metadata"] = {**(kwargs.get("metadata") or {}), **run.stamp()}
            checkpoint_id = await original(self, *args, **kwargs)
            if run is not None:
                with shield_host("agent_framework: note a checkpoint"):
                    run.note_checkpoint(checkpoint_id)
            return checkpoint_id

        return create_checkpoint

    return wrapper


def notice_apply_checkpoint(_: object, checkpoint: Any) -> None:
    """Note that `apply_checkpoint(checkpoint)` is called: the run goes on from there."""
    run = _outermost_run()
    if run is not None:
        run.goes_on_from(checkpoint)


def _outermost_run() -> WorkflowRun | None:
    frame = current_frame()
    run = frame.enclosing(WorkflowRun) if frame is not None else None
    return run if run is not None and run.outer is None else None


def _read_stamp(metadata: Mapping[str, Any]) -> _Earlier | None:
    context = TraceContextTextMapPropagator().extract({"traceparent": str(metadata.get(_STAMP, ""))}, Context())
    run = trace.get_current_span(context).get_span_context()
    return _Earlier(run, "") if run.is_valid else None
