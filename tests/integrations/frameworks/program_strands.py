"""The desk with Strands: a swarm whose boss asks the researcher, an agent as a tool, and hands over to the writer."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from typing import Any

from strands import Agent, tool
from strands.models.model import Model
from strands.multiagent import Swarm

from tests.integrations.frameworks import desk

Call = tuple[str, dict[str, Any]]


class ScriptedModel(Model):
    """Answers by what it reads."""

    def __init__(self, reply: Callable[[str], str | Call]) -> None:
        self._reply = reply
        self._calls = 0

    def update_config(self, **_: Any) -> None:
        return None

    def get_config(self) -> Any:
        return {"model_id": "scripted"}

    def structured_output(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, *_: Any, **__: Any) -> AsyncGenerator[Any, None]:
        said = self._reply(json.dumps(messages))
        self._calls += 1
        yield {"messageStart": {"role": "assistant"}}
        if isinstance(said, str):
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": said}}}
        else:
            name, arguments = said
            yield {"contentBlockStart": {"start": {"toolUse": {"name": name, "toolUseId": f"{name}_{self._calls}"}}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(arguments)}}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn" if isinstance(said, str) else "tool_use"}}
        usage = {"inputTokens": 20, "outputTokens": 5, "totalTokens": 25}
        yield {"metadata": {"usage": usage, "metrics": {"latencyMs": 1}}}


def run(fault: desk.Fault) -> str:
    """Run the desk once; return the answer."""

    def research(read: str) -> str | Call:
        return desk.report(read, fault) if desk.FOUND.search(read) else ("look_up", desk.CALL)

    def lead(read: str) -> str | Call:
        if "handoff_to_agent" in read:
            return "The writer answers."
        if reported := desk.REPORTED.search(read):
            return "handoff_to_agent", {"agent_name": "writer", "message": f"{reported[0]}."}
        return "researcher", {"input": desk.TASK}

    def agent(name: str, prompt: str, reply: Any, tools: Any = ()) -> Agent:
        return Agent(
            ScriptedModel(reply),
            name=name,
            description=prompt,
            system_prompt=prompt,
            tools=list(tools),
            callback_handler=None,
        )

    researcher = agent("researcher", desk.RESEARCHER, research, [tool(desk.look_up)])
    writer = agent("writer", desk.WRITER, lambda read: desk.answer(read, fault))
    boss = agent("boss", "You lead the desk.", lead, [researcher.as_tool()])
    result = Swarm([boss, writer], entry_point=boss)(desk.TASK)
    return str(result.results["writer"].result).strip()
