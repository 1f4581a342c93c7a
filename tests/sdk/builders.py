"""Small runs and spans that several tests build on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opentelemetry.trace import SpanKind

from blamespan import conventions as words
from blamespan.genai_messages import Message, dump_messages
from blamespan.otlp import spans_to_json
from blamespan.rebuilding.emit import emit
from blamespan.spans import Span, SpanLink
from blamespan.trace import Agent, MessageActionTrace, Step

TRACE_ID = f"{1:032x}"


def said(text: str, role: str = "assistant") -> str:
    """GenAI message JSON of one text."""
    return dump_messages([Message(role, ({"type": "text", "content": text},))])


def span(number: int, name: str, *, parent: int | None = None, at_s: int = 0, **changes: Any) -> Span:
    """A span with id *number*, one second long from second *at_s* on."""
    start = at_s * 1_000_000_000
    fields: dict[str, Any] = {
        "trace_id": TRACE_ID,
        "span_id": f"{number:016x}",
        "parent_id": None if parent is None else f"{parent:016x}",
        "name": name,
        "kind": SpanKind.INTERNAL,
        "start_ns": start,
        "end_ns": start + 1_000_000_000,
    }
    return Span(**(fields | changes))


def workflow(number: int = 1, *, seconds: int = 100, at_s: int = 0, **changes: Any) -> Span:
    """The span of a run."""
    attributes = {words.OPERATION: words.OPERATION_WORKFLOW, words.INPUT_MESSAGES: said("do it", "user")}
    end = (at_s + seconds) * 1_000_000_000
    return span(number, "invoke_workflow team", at_s=at_s, end_ns=end, attributes=attributes, **changes)


def agent(number: int, name: str, text: str, *, parent: int | None = 1, at_s: int = 0, **attributes: Any) -> Span:
    """The span of an agent's message, as any GenAI instrumentation writes it."""
    found = {
        words.OPERATION: words.OPERATION_AGENT,
        words.AGENT_NAME: name,
        words.OUTPUT_MESSAGES: said(text),
        **attributes,
    }
    return span(number, f"invoke_agent {name}", parent=parent, at_s=at_s, attributes=found)


def tool(number: int, name: str, arguments: str, result: str, *, parent: int, at_s: int = 0, **changes: Any) -> Span:
    """The span of a tool at work, as any GenAI instrumentation writes it."""
    found = {
        words.OPERATION: words.OPERATION_TOOL,
        words.TOOL_NAME: name,
        words.TOOL_ARGUMENTS: arguments,
        words.TOOL_RESULT: result,
    }
    return span(number, f"execute_tool {name}", parent=parent, at_s=at_s, attributes=found, **changes)


def link(number: int) -> SpanLink:
    """A link to span *number* of the same trace."""
    return SpanLink(TRACE_ID, f"{number:016x}")


def otlp_lines(*runs: MessageActionTrace | Sequence[Span]) -> str:
    """Runs, or the spans of traces, as lines of OTLP-JSON."""
    return "".join(f"{spans_to_json(emit(run) if isinstance(run, MessageActionTrace) else run)}\n" for run in runs)


def small_run() -> MessageActionTrace:
    """A user, two agents and a tool call with its result."""
    steps = (
        Step(0, f"{2:016x}", "user", content="add 2 and 2"),
        Step(1, f"{3:016x}", "solver", "tool_call", 'add({"a": 2})', inputs=(0,), attributes={words.TOOL_NAME: "add"}),
        Step(2, f"{3:016x}", "solver", "tool_result", "5", inputs=(1,)),
        Step(3, f"{4:016x}", "solver", content="It is 5.", inputs=(0, 2)),
        Step(4, f"{5:016x}", "checker", content="Fine.", inputs=(3,)),
    )
    agents = (Agent("user", "user"), Agent("solver"), Agent("checker"))
    return MessageActionTrace(TRACE_ID, "add 2 and 2", steps, agents, "failed", {"service.name": "sums"})
