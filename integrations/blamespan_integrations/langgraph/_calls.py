"""Tools and model calls within a graph's run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.outputs import LLMResult
from langgraph.errors import GraphBubbleUp, GraphInterrupt

from blamespan import conventions as words
from blamespan.rebuilding.messages import Message
from blamespan_integrations.langgraph import _words as own_words
from blamespan_integrations.langgraph._convert import interrupt_text, tool_answer
from blamespan_integrations.langgraph._models import chat_answer, fallback_name, model_name
from blamespan_integrations.langgraph._nodes import Nodes, requester
from blamespan_integrations.langgraph._places import Chat, Node, Place, Tool, actor
from blamespan_integrations.recording import Recorder

__all__ = ["Calls"]


@dataclass(frozen=True, slots=True)
class Calls:
    """Records tools and model calls with *recorder*."""

    recorder: Recorder
    nodes: Nodes

    def begin_tool(self, place: Place, serialized: Mapping[str, Any], arguments: Any, call_id: str | None) -> Tool:
        """Begin a tool call at *place*."""
        by = actor(place)
        name, description = fallback_name(serialized, "tool"), serialized.get("description")
        agent: str | None
        executor = by if isinstance(by, Node) and by.span is None and call_id in by.calls else None
        if executor is not None and call_id is not None:
            agent, builds_on = requester(executor, call_id, executor.calls[call_id][1])
        else:
            self._count_as_agent(by)
            agent, builds_on = _agent_of(by), []
        span = self.recorder.start_tool(
            name,
            arguments=arguments,
            call_id=call_id,
            description=description if isinstance(description, str) else None,
            agent=agent,
            builds_on=builds_on,
            parent=place.context,
        )
        return Tool(span, place, agent, call_id, executor)

    def end_tool(self, tool: Tool, output: Any) -> None:
        """End a tool that has returned *output*, which may itself say that it is an error."""
        text, failed, goto = tool_answer(output, tool.call_id, tool.span.losing(words.TOOL_RESULT))
        if goto:
            tool.span.add({words.MESSAGE_RECIPIENTS: goto})
        ref = tool.span.end(result=text, error=failed)
        if tool.executor is not None and tool.call_id:
            tool.executor.answers[tool.call_id] = ref

    def fail_tool(self, tool: Tool, error: BaseException) -> None:
        """End a tool that has raised *error*."""
        if isinstance(error, GraphInterrupt):
            tool.span.add({own_words.STEP_INTERRUPTED: True})
        elif not isinstance(error, Exception):
            tool.span.add({own_words.STEP_CANCELLED: True})
        is_failure = isinstance(error, Exception) and not isinstance(error, GraphBubbleUp)
        asked = interrupt_text(error) if isinstance(error, GraphInterrupt) else None
        ref = tool.span.end(result=asked, error=error if is_failure else None)
        if is_failure:
            tool.run.remember(error)
        if tool.executor is not None and tool.call_id:
            tool.executor.answers[tool.call_id] = ref

    def begin_chat(
        self,
        place: Place,
        serialized: Mapping[str, Any] | None,
        sent: Sequence[BaseMessage] | Sequence[str],
        metadata: Mapping[str, Any],
        asked: Mapping[str, Any],
    ) -> Chat:
        """Begin a model call at *place*.

        Args:
            place: Where it belongs.
            serialized: What LangChain says of the model.
            sent: Messages, or prompts of a plain text model.
            metadata: LangChain's.
            asked: The parameters of the call.
        """
        by = actor(place)
        self._count_as_agent(by)
        if isinstance(by, Node):
            by.uses_model = True
        agent = _agent_of(by)
        prompts = [Message.of_text("user", text) for text in sent if isinstance(text, str)]
        messages = [message for message in sent if not isinstance(message, str)]
        provider = metadata.get("ls_provider")
        span = self.recorder.start_chat(
            model_name(serialized, metadata, asked),
            sent=prompts or place.run.memory.unsent(agent or "", messages),
            provider=provider if isinstance(provider, str) else None,
            agent=agent,
            parent=place.context,
        )
        return Chat(span, place, agent)

    def end_chat(self, chat: Chat, result: LLMResult) -> None:
        """End a model call that was answered."""
        answer = chat_answer(result)
        chat.span.end(
            output=answer.messages,
            usage=answer.usage,
            finish_reasons=answer.finish_reasons,
            response_model=answer.model,
        )
        for generation in (generation for batch in result.generations for generation in batch):
            message = getattr(generation, "message", None)
            if message is not None:
                chat.run.memory.has_answered(chat.agent or "", message)

    def fail_chat(self, chat: Chat, error: BaseException) -> None:
        """End a model call that failed; one that was stopped from outside is not a failure."""
        chat.span.end(error=error if isinstance(error, Exception) else None)

    def _count_as_agent(self, by: object) -> None:
        if isinstance(by, Node):
            self.nodes.give_span(by)


def _agent_of(by: object) -> str | None:
    return by.agent if isinstance(by, Node | Tool) else None
