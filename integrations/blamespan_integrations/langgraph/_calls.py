"""Tools and model calls within a graph's run, and what models are called and answer.

`Any` stands for what LangChain passes on as providers give it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.outputs import LLMResult
from langgraph.errors import GraphBubbleUp, GraphInterrupt

from blamespan import conventions as words
from blamespan.genai_messages import Message
from blamespan.trace import Usage
from blamespan_integrations.langgraph import _words as own_words
from blamespan_integrations.langgraph._convert import interrupt_text, tool_answer
from blamespan_integrations.langgraph._frames import ChatFrame, Frame, NodeFrame, ToolFrame, find_actor
from blamespan_integrations.langgraph._messages import text_or_none, to_message
from blamespan_integrations.langgraph._nodes import NodeRecorder, requester
from blamespan_integrations.recording import Recorder


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """What a model answered."""

    messages: tuple[Message, ...]
    usage: Usage | None
    finish_reasons: tuple[str, ...]
    model: str | None


def chat_answer(result: LLMResult) -> ChatAnswer:
    """Read the answer of a chat model, or of a plain text model."""
    generations = [generation for batch in result.generations for generation in batch]
    raw = [getattr(generation, "message", None) for generation in generations]
    messages = [
        to_message(message) if message is not None else Message.of_text("assistant", generation.text)
        for message, generation in zip(raw, generations, strict=True)
    ]
    provider_output = result.llm_output or {}
    reasons = [
        reason
        for message, generation in zip(messages, generations, strict=True)
        if (reason := message.finish_reason or text_or_none((generation.generation_info or {}).get("finish_reason")))
    ]
    metadata: Mapping[str, Any] = next((m.response_metadata for m in raw if m is not None and m.response_metadata), {})
    model = metadata.get("model_name") or metadata.get("model") or provider_output.get("model_name")
    return ChatAnswer(tuple(messages), _usage(raw, provider_output), tuple(reasons), text_or_none(model))


def _usage(messages: Iterable[Any], provider_output: Mapping[str, Any]) -> Usage | None:
    counted = [usage for message in messages if (usage := getattr(message, "usage_metadata", None))]
    if counted:
        return Usage(sum(c.get("input_tokens", 0) for c in counted), sum(c.get("output_tokens", 0) for c in counted))
    tokens = provider_output.get("token_usage") or provider_output.get("usage")
    if not isinstance(tokens, Mapping):
        return None
    read = tokens.get("prompt_tokens", tokens.get("input_tokens"))
    written = tokens.get("completion_tokens", tokens.get("output_tokens"))
    return None if read is None and written is None else Usage(int(read or 0), int(written or 0))


def model_name(serialized: Mapping[str, Any] | None, metadata: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    """Find the model's name: what LangChain says of it, the call's parameters, else the class's name."""
    candidates = [metadata.get("ls_model_name"), *(asked.get(key) for key in ("model", "model_name", "model_id"))]
    named = next((value for value in candidates if isinstance(value, str) and value), None)
    return named or fallback_name(serialized, "model")


def fallback_name(serialized: Mapping[str, Any] | None, otherwise: str) -> str:
    """Read the name off what LangChain serialized of a tool or model."""
    name = (serialized or {}).get("name")
    path = (serialized or {}).get("id")
    last = path[-1] if isinstance(path, list) and path else None
    return next((value for value in (name, last) if isinstance(value, str) and value), otherwise)


@dataclass(frozen=True, slots=True)
class CallRecorder:
    """Records tools and model calls with *recorder*."""

    recorder: Recorder
    nodes: NodeRecorder

    def begin_tool(self, frame: Frame, serialized: Mapping[str, Any], arguments: Any, call_id: str | None) -> ToolFrame:
        """Begin a tool call at *frame*."""
        by = find_actor(frame)
        name, description = fallback_name(serialized, "tool"), serialized.get("description")
        agent: str | None
        executor = by if isinstance(by, NodeFrame) and by.span is None and call_id in by.calls else None
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
            parent=frame.context,
        )
        return ToolFrame(span, frame, agent, call_id, executor)

    def end_tool(self, tool: ToolFrame, output: Any) -> None:
        """End a tool that has returned *output*, which may itself say that it is an error."""
        text, failed, goto = tool_answer(output, tool.call_id, tool.span.loss_recorder(words.TOOL_RESULT))
        if goto:
            tool.span.add({words.MESSAGE_RECIPIENTS: goto})
        ref = tool.span.end(result=text, error=failed)
        if tool.executor is not None and tool.call_id:
            tool.executor.answers[tool.call_id] = ref

    def fail_tool(self, tool: ToolFrame, error: BaseException) -> None:
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
        frame: Frame,
        serialized: Mapping[str, Any] | None,
        sent: Sequence[BaseMessage] | Sequence[str],
        metadata: Mapping[str, Any],
        asked: Mapping[str, Any],
    ) -> ChatFrame:
        """Begin a model call at *frame*.

        Args:
            frame: Where it belongs.
            serialized: What LangChain says of the model.
            sent: Messages, or prompts of a plain text model.
            metadata: LangChain's.
            asked: The parameters of the call.
        """
        by = find_actor(frame)
        self._count_as_agent(by)
        if isinstance(by, NodeFrame):
            by.uses_model = True
        agent = _agent_of(by)
        prompts = [Message.of_text("user", text) for text in sent if isinstance(text, str)]
        messages = [message for message in sent if not isinstance(message, str)]
        provider = metadata.get("ls_provider")
        span = self.recorder.start_chat(
            model_name(serialized, metadata, asked),
            sent=prompts or frame.run.memory.select_unsent(agent or "", messages),
            provider=provider if isinstance(provider, str) else None,
            agent=agent,
            parent=frame.context,
        )
        return ChatFrame(span, frame, agent)

    def end_chat(self, chat: ChatFrame, result: LLMResult) -> None:
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
                chat.run.memory.note_answer(chat.agent or "", message)

    def fail_chat(self, chat: ChatFrame, error: BaseException) -> None:
        """End a model call that failed; one that was stopped from outside is not a failure."""
        chat.span.end(error=error if isinstance(error, Exception) else None)

    def _count_as_agent(self, by: object) -> None:
        if isinstance(by, NodeFrame):
            self.nodes.give_span(by)


def _agent_of(by: object) -> str | None:
    return by.agent if isinstance(by, NodeFrame | ToolFrame) else None
