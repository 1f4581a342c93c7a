"""The one callback handler: LangChain's events, guarded, to `GraphRecorder`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from langchain_core.messages import BaseMessage
from langchain_core.outputs import LLMResult
from langchain_core.tracers.base import BaseTracer
from langchain_core.tracers.schemas import Run
from opentelemetry.context import Context

from blamespan.host_safety import shield_host
from blamespan_integrations.langgraph._frames import StartedRunnable
from blamespan_integrations.langgraph._graphs import GraphRecorder

_START = "langgraph: record the start of a runnable"
_END = "langgraph: record the end of a runnable"


class GraphCallbacks(BaseTracer):
    """Hears everything LangChain does, and records what belongs to graphs.

    It is a tracer by type only, so that a node's `TracePolicy` (what of its state tracers may see)
    holds for it too; it overrides everything a tracer does with runs and keeps none.

    `run_inline` keeps events in order in async programs, where other handlers run in a thread pool.
    Events come with signatures that grow with each release, so what is not needed is taken as it comes.

    Args:
        graphs: Where to record.
        announce: Called with the context of each run that has begun outside all others.
    """

    run_inline = True
    ignore_chain = ignore_llm = ignore_chat_model = ignore_agent = False  # properties there: asked at every event
    ignore_retriever = False
    ignore_retry = ignore_custom_event = True

    def __init__(self, graphs: GraphRecorder, announce: Callable[[Context], None] | None = None) -> None:
        super().__init__()
        self.graphs = graphs
        self.announce = announce

    @property
    def raise_error(self) -> bool:  # type: ignore[override]  # a plain attribute there
        """Whether LangChain passes our errors on: never, but in our own tests."""
        return shield_host.strict

    def on_chain_start(  # type: ignore[override]  # a tracer returns its record of the run; we keep none
        self,
        serialized: dict[str, Any] | None,
        inputs: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        name: str | None = None,
        **_: Any,
    ) -> None:
        """Begin a graph, a node or a runnable between them."""
        try:
            parent_id = None if parent_run_id is None else parent_run_id.int
            self.graphs.begin(
                StartedRunnable(run_id.int, parent_id, name or "graph", inputs, tags or (), metadata or {})
            )
            if parent_id is None and self.announce is not None:
                context = self.graphs.context_of(run_id.int)
                if context is not None:
                    self.announce(context)
        except Exception as error:  # a shield, entered and left at every node, is four calls more
            report(_START, error)

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **_: Any) -> None:  # type: ignore[override]  # as above
        """End one."""
        try:
            self.graphs.end(run_id.int, outputs)
        except Exception as error:
            report(_END, error)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:  # type: ignore[override]
        """End one that raised."""
        with shield_host("langgraph: record the failure of a runnable"):
            self.graphs.fail(run_id.int, error)

    def on_tool_start(  # type: ignore[override]  # as above
        self,
        serialized: dict[str, Any] | None,
        input_str: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        inputs: dict[str, Any] | None = None,
        tool_call_id: str | None = None,
        **_: Any,
    ) -> None:
        """Begin a tool."""
        with shield_host("langgraph: record the start of a tool"):
            arguments = inputs if inputs is not None else input_str
            self.graphs.begin_tool(run_id.int, _int(parent_run_id), serialized or {}, arguments, tool_call_id)

    def on_tool_end(self, output: Any, *, run_id: UUID, **_: Any) -> None:  # type: ignore[override]  # as above
        """End one."""
        with shield_host("langgraph: record the end of a tool"):
            self.graphs.end_tool(run_id.int, output)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:  # type: ignore[override]
        """End one that raised."""
        with shield_host("langgraph: record the failure of a tool"):
            self.graphs.fail_tool(run_id.int, error)

    def on_chat_model_start(  # type: ignore[override]  # as above
        self,
        serialized: dict[str, Any] | None,
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        """Begin a call of a chat model."""
        with shield_host("langgraph: record the start of a model call"):
            sent = [message for batch in messages for message in batch]
            asked = options.get("invocation_params") or {}
            self.graphs.begin_chat(run_id.int, _int(parent_run_id), serialized, sent, metadata or {}, asked)

    def on_llm_start(  # type: ignore[override]  # as above
        self,
        serialized: dict[str, Any] | None,
        prompts: list[str],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        """Begin a call of a plain text model."""
        with shield_host("langgraph: record the start of a model call"):
            asked = options.get("invocation_params") or {}
            self.graphs.begin_chat(run_id.int, _int(parent_run_id), serialized, prompts, metadata or {}, asked)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: Any) -> None:  # type: ignore[override]
        """End one."""
        with shield_host("langgraph: record the end of a model call"):
            self.graphs.end_chat(run_id.int, response)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:  # type: ignore[override]
        """End one that raised."""
        with shield_host("langgraph: record the failure of a model call"):
            self.graphs.fail_chat(run_id.int, error)

    def on_retriever_start(  # type: ignore[override]  # as above
        self,
        serialized: dict[str, Any] | None,
        query: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **_: Any,
    ) -> None:
        """Begin a retriever: no step, since what it finds is in the state; but it may call models."""
        with shield_host(_START):
            self.graphs.begin(StartedRunnable(run_id.int, _int(parent_run_id), "retriever", query, (), {}))

    def on_retriever_end(self, documents: Any, *, run_id: UUID, **_: Any) -> None:  # type: ignore[override]
        """End one."""
        with shield_host(_END):
            self.graphs.end(run_id.int, documents)

    def on_retriever_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:  # type: ignore[override]
        """End one that raised."""
        with shield_host("langgraph: record the failure of a runnable"):
            self.graphs.fail(run_id.int, error)

    def on_llm_new_token(self, *_: Any, **__: Any) -> None:  # type: ignore[override]
        """Ignore tokens: the answer comes whole at the end."""

    def _persist_run(self, run: Run) -> None:
        """Keep nothing."""


def report(action: str, error: Exception) -> None:
    """Do with *error* what a shield does."""
    if shield_host.strict:
        raise error
    shield_host.report(action, error)


def _int(run_id: UUID | None) -> int | None:
    """Take the number: a UUID's own hash is a Python call, and there are a dozen for each node."""
    return run_id.int if run_id is not None else None
