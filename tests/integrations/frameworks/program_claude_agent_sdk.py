"""The desk with the Claude Agent SDK: the session has its researcher, a subagent, look the article up, and answers.

The command line that the SDK starts is stood in for by a transport that answers as that writes.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Iterator
from typing import Any

from claude_agent_sdk import AgentDefinition, ClaudeAgentOptions, ResultMessage, Transport, query

from tests.integrations.frameworks import desk


class ScriptedTransport(Transport):
    """Answers the control protocol, and the task with the messages of a session."""

    def __init__(self, fault: desk.Fault) -> None:
        self._fault = fault
        self._waiting: deque[dict[str, Any]] = deque()
        self._is_open = False

    async def connect(self) -> None:
        self._is_open = True

    async def write(self, data: str) -> None:
        for line in data.splitlines():
            message = json.loads(line)
            if message["type"] == "control_request":
                answer = {"subtype": "success", "request_id": message["request_id"], "response": {}}
                self._waiting.append({"type": "control_response", "response": answer})
            elif message["type"] == "user":
                self._waiting.extend(self._session())

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        while self._is_open:
            if self._waiting:
                message = self._waiting.popleft()
                yield message
                if message["type"] == "result":
                    return
            await asyncio.sleep(0.001)

    async def close(self) -> None:
        self._is_open = False

    def is_ready(self) -> bool:
        return self._is_open

    async def end_input(self) -> None:
        return None

    def _session(self) -> Iterator[dict[str, Any]]:
        found = desk.look_up(**desk.CALL)
        report = desk.report(found, self._fault)
        answer = desk.answer(report, self._fault)
        asked = {"subagent_type": "researcher", "description": "Look up", "prompt": desk.TASK}
        yield {"type": "system", "subtype": "init", "session_id": "session", "model": "scripted", "tools": []}
        yield _said([_call("call_1", "Task", asked)])
        yield _said([_call("call_2", "mcp__shop__look_up", desk.CALL)], parent="call_1")
        yield _answered("call_2", found, parent="call_1")
        yield _said([{"type": "text", "text": report}], parent="call_1")
        yield _answered("call_1", report)
        yield _said([{"type": "text", "text": answer}])
        yield {
            "type": "result",
            "subtype": "success",
            "duration_ms": 1,
            "duration_api_ms": 1,
            "is_error": False,
            "num_turns": 2,
            "session_id": "session",
            "result": answer,
            "usage": {"input_tokens": 40, "output_tokens": 10},
        }


def _call(id_: str, name: str, arguments: dict[str, str]) -> dict[str, Any]:
    return {"type": "tool_use", "id": id_, "name": name, "input": arguments}


def _said(blocks: list[dict[str, Any]], parent: str | None = None) -> dict[str, Any]:
    message = {"role": "assistant", "model": "scripted", "content": blocks}
    return {"type": "assistant", "message": message, "parent_tool_use_id": parent, "session_id": "session"}


def _answered(id_: str, text: str, parent: str | None = None) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": id_, "content": [{"type": "text", "text": text}]}
    message = {"role": "user", "content": [block]}
    return {"type": "user", "message": message, "parent_tool_use_id": parent, "session_id": "session"}


def run(fault: desk.Fault) -> str:
    """Run the desk once; return the answer."""
    researcher = AgentDefinition(description=desk.RESEARCHER, prompt=desk.RESEARCHER)
    options = ClaudeAgentOptions(system_prompt=desk.WRITER, agents={"researcher": researcher})

    async def answered() -> str:
        messages = [m async for m in query(prompt=desk.TASK, options=options, transport=ScriptedTransport(fault))]
        return next(str(m.result) for m in messages if isinstance(m, ResultMessage))

    return asyncio.run(answered())
