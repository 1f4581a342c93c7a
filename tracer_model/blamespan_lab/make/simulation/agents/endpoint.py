"""A real LLM in place of the simulated agents, behind any OpenAI-compatible endpoint.

The teams, tools, tasks and checks stay as they are; only what an agent answers comes from the endpoint of the
`BLAMESPAN_SUITE_*` variables. An answer that does not come, or is none, is asked for again; then the run is void.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from blamespan.plugins import missing_extra
from blamespan_lab.make.simulation.agents.agent import AgentProfile
from blamespan_lab.make.simulation.agents.policy import InputMessage, NoAnswer, Reply, RequestedCall, ToolSpec
from blamespan_lab.make.simulation.random_stream import stable_seed

if TYPE_CHECKING:
    from blamespan_lab.make.simulation.program import PolicyFor
    from blamespan_tracer.alternatives.endpoint import Endpoint

URL_VARIABLE = "BLAMESPAN_SUITE_URL"
"""Where it is set, the bundled teams are spoken for by the LLM there."""

_LEADS = (
    "Who comes next is read from your message: end it with a line `NEXT: name`, with the name of one of the others. "
    "When the question is answered and checked, give the answer and say FINISH."
)
_STATES = "State amounts and names as the question calls them, and the final answer in a full sentence."


def policy_from_environment() -> PolicyFor | None:
    """Make what asks the endpoint of the `BLAMESPAN_SUITE_*` variables; None where none is configured.

    Raises:
        ConfigError: if a variable is missing or wrong.
        MissingExtra: if httpx is not installed.
    """
    if not os.environ.get(URL_VARIABLE, "").strip():
        return None
    try:
        from blamespan_tracer.alternatives.endpoint import SUITE, Endpoint
    except ModuleNotFoundError as error:
        raise missing_extra(error, URL_VARIABLE) or error from error
    endpoint = Endpoint.from_environment(SUITE)
    return lambda profile: EndpointPolicy(profile, endpoint)


@dataclass
class EndpointPolicy:
    """An agent of a bundled team, spoken for by an LLM.

    Attributes:
        profile: Who it is.
        endpoint: Whom to ask.
        pause_s: Seconds before the second attempt; doubled before each further one.
        failures: Why attempts gave nothing, and how often.
    """

    profile: AgentProfile
    endpoint: Endpoint
    pause_s: float = 0.5
    failures: Counter[str] = field(default_factory=Counter)
    _asked: int = 0

    async def areply(self, messages: Sequence[InputMessage], tools: Sequence[ToolSpec]) -> Reply:
        """Ask the endpoint for the agent's answer to *messages*, the latest last.

        Raises:
            NoAnswer: if no attempt gave one.
        """
        from blamespan_tracer.alternatives.endpoint import ATTEMPTS, EndpointError

        request = self._request(messages, tools)
        self._asked += 1
        for attempt in range(ATTEMPTS):
            try:
                reply = _read_reply(await self.endpoint.ask_async(request))
                refused = EndpointError("nonsense")
            except EndpointError as error:
                reply, refused = None, error
            if reply is not None:
                return reply
            self.failures[refused.reason] += 1
            if not refused.is_transient:
                break
            if attempt + 1 < ATTEMPTS:
                await asyncio.sleep(refused.wait_s(attempt, self.pause_s))
        reasons = ", ".join(f"{reason} {count} times" for reason, count in sorted(self.failures.items()))
        raise NoAnswer(f"the endpoint {self.endpoint!r} gave {self.profile.member.name!r} no answer: {reasons}")

    def _request(self, messages: Sequence[InputMessage], tools: Sequence[ToolSpec]) -> dict[str, object]:
        who = self.profile
        request: dict[str, object] = {
            "model": self.endpoint.model,
            "messages": _format_messages(messages, self._duties()),
            "seed": stable_seed("endpoint", who.seed, who.member.name, self._asked) % 2**31,
        }
        if tools:
            request["tools"] = [{"type": "function", "function": _describe_tool(tool)} for tool in tools]
        return request

    def _duties(self) -> str:
        """Write what the team's wiring reads from this agent's messages."""
        parts = [_STATES]
        if self.profile.member.role == "orchestrator":
            parts.append(_LEADS)
        return " ".join(parts)


def _format_messages(messages: Sequence[InputMessage], duties: str) -> list[dict[str, Any]]:
    """Write what an agent was sent as the endpoint wants it: every call answered, in order, right after it."""
    rows: list[dict[str, Any]] = []
    open_calls: list[str] = []
    for index, message in enumerate(messages):
        if message.kind != "tool_result" and open_calls:
            rows += [_format_result(label, "(no answer)") for label in open_calls]
            open_calls = []
        if message.kind == "own" and message.calls:
            open_calls = [f"call_{index}_{number}" for number in range(len(message.calls))]
            rows.append(_format_calls(message, open_calls))
        elif message.kind == "tool_result" and open_calls:
            rows.append(_format_result(open_calls.pop(0), message.text))
        else:
            rows.append(_format_message(message))
    rows += [_format_result(label, "(no answer)") for label in open_calls]
    if not any(row["role"] == "system" for row in rows):
        return [{"role": "system", "content": duties}, *rows]
    return [{**row, "content": f"{row['content']} {duties}"} if row["role"] == "system" else row for row in rows]


def _format_message(message: InputMessage) -> dict[str, Any]:
    if message.kind in ("system", "own"):
        return {"role": "system" if message.kind == "system" else "assistant", "content": _plain(message.text)}
    if message.kind == "tool_result":
        return {"role": "user", "content": _plain(f"{message.sender} answered: {message.text}")}
    return {"role": "user", "content": _plain(f"{message.sender}: {message.text}" if message.sender else message.text)}


def _format_calls(message: InputMessage, labels: Sequence[str]) -> dict[str, Any]:
    calls = [
        {"id": label, "type": "function", "function": {"name": call.name, "arguments": _plain(call.arguments)}}
        for label, call in zip(labels, message.calls, strict=True)
    ]
    return {"role": "assistant", "content": _plain(message.text) or None, "tool_calls": calls}


def _format_result(label: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": label, "content": _plain(text)}


def _plain(text: str) -> str:
    """Leave out half characters, which cannot be sent as UTF-8."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _describe_tool(tool: ToolSpec) -> dict[str, Any]:
    properties = {name: {"type": "string"} for name in tool.parameters}
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": {"type": "object", "properties": properties, "required": list(tool.parameters)},
    }


def _read_reply(body: bytes) -> Reply | None:
    """Read an answer strictly: text, calls of named tools, or both; None where it is neither."""
    try:
        message = json.loads(body)["choices"][0]["message"]
        text = message.get("content") or ""
        calls = tuple(_read_call(call["function"]) for call in message.get("tool_calls") or ())
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    if not isinstance(text, str) or not (text.strip() or calls):
        return None
    return Reply(text, calls)


def _read_call(function: Mapping[str, Any]) -> RequestedCall:
    name, arguments = function["name"], function.get("arguments", "{}")
    if not isinstance(name, str) or not name or not isinstance(arguments, str):
        raise TypeError("a call names a tool and gives its arguments as a text")
    return RequestedCall(name, arguments)
