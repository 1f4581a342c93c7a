"""What of Agent Framework we patch, and only that."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Any

from agent_framework import (
    BaseAgent,
    BaseChatClient,
    Executor,
    FunctionalWorkflow,
    FunctionTool,
    InProcRunnerContext,
    Workflow,
    WorkflowAgent,
    WorkflowContext,
    observability,
)
from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import INVALID_SPAN, NoOpTracer, Span, Tracer

from blamespan_integrations.agent_framework._agents import agent_start
from blamespan_integrations.agent_framework._executors import (
    executor_start,
    notice_request,
    notice_send,
    notice_yield,
)
from blamespan_integrations.agent_framework._frames import wrap_answer, wrap_call
from blamespan_integrations.agent_framework._runs import notice_apply_checkpoint, run_start, wrap_create_checkpoint
from blamespan_integrations.agent_framework._tools import model_start, tool_start
from blamespan_integrations.patching import Patches, wrap_notice
from blamespan_integrations.recording import Recorder


def wrap(recorder: Recorder, *, stamps_checkpoints: bool) -> Patches:
    """Have Agent Framework's workflows, agents, tools and chat clients recorded by *recorder*.

    If a part of Agent Framework is not as we know it, nothing is patched at all and the error is raised.

    Args:
        recorder: Where to record.
        stamps_checkpoints: Whether the run that saves a checkpoint is written into the checkpoint's metadata.
    """
    patches = Patches("agent_framework")
    try:
        _silence_own_spans(patches)
        run, answer = run_start(recorder), wrap_answer(patches, agent_start(recorder))
        for workflow in (Workflow, FunctionalWorkflow):
            patches.wrap(workflow, "run", wrap_answer(patches, run))
        patches.cover(BaseAgent, {"run": answer}, leave_out=_workflow_agents())
        patches.cover(Executor, {"execute": wrap_call(patches, executor_start(recorder))})
        patches.cover(FunctionTool, {"invoke": wrap_call(patches, tool_start(recorder))})
        patches.wrap(BaseChatClient, "get_response", wrap_answer(patches, model_start(recorder)))
        for owner, name, notice in (
            (WorkflowContext, "send_message", notice_send),
            (WorkflowContext, "yield_output", notice_yield),
            (WorkflowContext, "request_info", notice_request),
            (InProcRunnerContext, "apply_checkpoint", notice_apply_checkpoint),
        ):
            patches.wrap(owner, name, wrap_notice(patches, "agent_framework: note a message", notice))
        create = wrap_create_checkpoint(patches, stamps=stamps_checkpoints)
        patches.wrap(InProcRunnerContext, "create_checkpoint", create)
        patches.outlast_others()
    except BaseException:
        patches.undo()
        raise
    return patches


def _workflow_agents() -> frozenset[type]:
    """Name agents that say nothing themselves: theirs is the workflow's run."""
    from agent_framework._workflows._functional import FunctionalWorkflowAgent

    return frozenset({WorkflowAgent, FunctionalWorkflowAgent})


def _silence_own_spans(patches: Patches) -> None:
    """Have Agent Framework record no spans of its own, nor write on ours.

    Spans a program makes with a tracer of its own stay, also those made with Agent Framework's `get_tracer`.
    """
    get_tracer: Callable[..., Tracer] = observability.get_tracer

    def get_silent_tracer(*args: Any, **kwargs: Any) -> Tracer:
        is_own = sys._getframe(1).f_globals is vars(observability)
        return _SilentTracer() if is_own else get_tracer(*args, **kwargs)

    patches.replace(observability, "get_tracer", get_silent_tracer)
    patches.replace(observability, "trace", _SilentTrace())


class _SilentTracer(NoOpTracer):
    """Makes nothing current: what is current is ours, and programs write on it."""

    def start_span(self, *_: Any, **__: Any) -> Span:
        return INVALID_SPAN

    def start_as_current_span(self, *_: Any, **__: Any) -> AbstractContextManager[Span]:  # type: ignore[override]
        return nullcontext(INVALID_SPAN)


class _SilentTrace(ModuleType):
    """Stands where Agent Framework has `opentelemetry.trace`; a span of the silent tracer is never current."""

    def __init__(self) -> None:
        super().__init__(trace.__name__, trace.__doc__)

    def __getattr__(self, name: str) -> Any:  # the module has all kinds of things
        return getattr(trace, name)

    def get_current_span(self, context: Context | None = None) -> Span:
        """Hide ours."""
        return INVALID_SPAN

    def set_span_in_context(self, span: Span, context: Context | None = None) -> Context:
        """Leave the context as it is."""
        return otel_context.get_current() if context is None else context

    def use_span(self, span: Span, *_: Any, **__: Any) -> AbstractContextManager[Span]:
        """Leave current what is."""
        return nullcontext(span)
