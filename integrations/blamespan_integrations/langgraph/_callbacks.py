"""The one callback handler: LangChain's events, guarded, to `GraphRecorder`."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from langchain_core.messages import BaseMessage
from langchain_core.outputs import LLMResult
from langchain_core.tracers.base import BaseTracer
from langchain_core.tracers.schemas import Run

from blamespan.guard import guard
from blamespan_integrations.langgraph._graphs import GraphRecorder, Started

__all__ = ["GraphCallbacks"]


class GraphCallbacks(BaseTracer):
    """Hears everything LangChain does, and records what belongs to graphs.

    It is a tracer by type only, so that a node's `TracePolicy` (what of its state tracers may see)
    holds for it too; it overrides everything a tracer does with runs and keeps none.

    `run_inline` keeps events in order in async programs, where other handlers run in a thread pool.
    Events come with signatures that grow with each release, so what is not needed is taken as it comes.

    Args:
        graphs: Where to record.
    """

    run_inline = True

    def __init__(self, graphs: GraphRecorder) -> None:
        super().__init__()
        self.graphs = graphs

    @property
    def raise_error(self) -> bool:  # type: ignore[override]  # a plain attribute there
        """Tell LangChain to pass our errors on: never, but in our own tests."""
        return guard.strict

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
        with guard("langgraph: record the start of a runnable"):
            self.graphs.begin(Started(run_id, parent_run_id, name or "graph", inputs, tags or (), metadata or {}))

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **_: Any) -> None:  # type: ignore[override]  # as above
        """End one."""
        with guard("langgraph: record the end of a runnable"):
            self.graphs.end(run_id, outputs)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:  # type: ignore[override]
        """End one that raised."""
        with guard("langgraph: record the failure of a runnable"):
            self.graphs.fail(run_id, error)

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
        with guard("langgraph: record the start of a tool"):
            arguments = inputs if inputs is not None else input_str
            self.graphs.begin_tool(run_id, parent_run_id, serialized or {}, arguments, tool_call_id)

    def on_tool_end(self, output: Any, *, run_id: UUID, **_: Any) -> None:  # type: ignore[override]  # as above
        """End one."""
        with guard("langgraph: record the end of a tool"):
            self.graphs.end_tool(run_id, output)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:  # type: ignore[override]
        """End one that raised."""
        with guard("langgraph: record the failure of a tool"):
            self.graphs.fail_tool(run_id, error)

    def on_chat_model_start(  # type: ignore[override]  # as above
        self,
        serialized: dict[str, Any] | None,
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        **said: Any,
    ) -> None:
        """Begin a call of a chat model."""
        with guard("langgraph: record the start of a model call"):
            sent = [message for batch in messages for message in batch]
            asked = said.get("invocation_params") or {}
            self.graphs.begin_chat(run_id, parent_run_id, serialized, sent, metadata or {}, asked)

    def on_llm_start(  # type: ignore[override]  # as above
        self,
        serialized: dict[str, Any] | None,
        prompts: list[str],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        **said: Any,
    ) -> None:
        """Begin a call of a plain text model."""
        with guard("langgraph: record the start of a model call"):
            asked = said.get("invocation_params") or {}
            self.graphs.begin_chat(run_id, parent_run_id, serialized, prompts, metadata or {}, asked)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: Any) -> None:  # type: ignore[override]
        """End one."""
        with guard("langgraph: record the end of a model call"):
            self.graphs.end_chat(run_id, response)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:  # type: ignore[override]
        """End one that raised."""
        with guard("langgraph: record the failure of a model call"):
            self.graphs.fail_chat(run_id, error)

    def on_llm_new_token(self, *_: Any, **__: Any) -> None:  # type: ignore[override]
        """Ignore tokens: the answer comes whole at the end."""

    def on_retry(self, *_: Any, **__: Any) -> None:  # type: ignore[override]
        """Ignore LangChain's own retries: each attempt of a node comes as a run of its own."""

    def on_retriever_start(self, *_: Any, **__: Any) -> None:  # type: ignore[override]
        """Ignore retrievers: what they find is in the state."""

    def on_retriever_end(self, *_: Any, **__: Any) -> None:  # type: ignore[override]
        """Ignore retrievers."""

    def on_retriever_error(self, *_: Any, **__: Any) -> None:  # type: ignore[override]
        """Ignore retrievers."""

    def _persist_run(self, run: Run) -> None:
        """Keep nothing."""
