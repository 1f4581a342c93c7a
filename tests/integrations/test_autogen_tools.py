"""Tools of AutoGen agents as spans: the call, its arguments, its answer, its error; once each."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from autogen_agentchat.agents import CodeExecutorAgent
from autogen_agentchat.base import Response
from autogen_agentchat.messages import TextMessage
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import CancellationToken
from autogen_core.tools import (
    BaseTool,
    FunctionTool,
    StaticWorkbench,
    TextResultContent,
    ToolResult,
    ToolSchema,
    Workbench,
)
from autogen_ext.code_executors.local import LocalCommandLineCodeExecutor
from opentelemetry import trace as otel
from pydantic import BaseModel

from blamespan import conventions as words
from blamespan.testing import SpanRecorder
from tests.integrations.autogen_runs import Echo, assistant, calls, named, only, trace_of, tree


def add(one: int, other: int) -> int:
    """Add two numbers."""
    return one + other


async def fail(why: str) -> str:
    """Fail."""
    raise FileNotFoundError(why)


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("fail", {"why": "no such file"}, "FileNotFoundError"),
        ("add", '{"one": 1,', "JSONDecodeError"),
        ("add", {"one": "many"}, "ValidationError"),
        ("unheard_of", {}, "tool_not_found"),
    ],
)
async def test_failing_tool_is_an_error(recorder: SpanRecorder, name: str, arguments: Any, error: str) -> None:
    """A tool that raises, cannot be called or does not exist has an ERROR span that says why; its agent goes on."""
    agent = assistant("writer", calls((name, arguments)), tools=[add, fail])
    await RoundRobinGroupChat([agent], max_turns=1).run(task="go")

    tool = only(recorder, "execute_tool")
    assert (tool.name, tool.status, tool.attributes[words.ERROR_TYPE]) == (f"execute_tool {name}", "error", error)
    assert tool.text(words.TOOL_RESULT)
    assert only(recorder, "invoke_agent writer").status == "unset"


async def test_tools_called_at_once_do_not_build_on_each_other(recorder: SpanRecorder) -> None:
    """Calls that one model answer asks for build on the same steps; the message builds on all answers."""
    agent = assistant("writer", calls(("unheard_of", {}), ("add", {"one": 1, "other": 2})), tools=[add])
    await RoundRobinGroupChat([Echo(), agent], max_turns=2).run(task="go")

    trace = trace_of(recorder)
    asked = [step for step in trace.steps if step.kind == "tool_call"]
    assert [step.inputs for step in asked] == [(0,), (0,)]
    answers = {step.index for step in trace.steps if step.kind == "tool_result"}
    assert set(trace.steps[-1].inputs) == {0} | answers


async def test_tool_sees_its_own_span(recorder: SpanRecorder) -> None:
    """Inside an async tool the current span is the tool's: what it records stands below it."""

    async def look() -> str:
        """Look."""
        with otel.get_tracer("app", tracer_provider=recorder.provider).start_as_current_span("inside"):
            await asyncio.sleep(0)
        return "seen"

    await assistant("writer", calls(("look", {})), tools=[look]).run(task="go")

    assert tree(recorder)["execute_tool look"] == ["inside"]


class Arguments(BaseModel):
    text: str


class Upper(BaseTool[Arguments, Any]):
    """A tool that overrides `run_json` and calls the one above."""

    def __init__(self) -> None:
        super().__init__(Arguments, str, "upper", "Make it loud")

    async def run(self, args: Arguments, cancellation_token: CancellationToken) -> str:
        return args.text.upper()

    async def run_json(
        self, args: Mapping[str, Any], cancellation_token: CancellationToken, call_id: str | None = None
    ) -> Any:
        return await super().run_json(args, cancellation_token, call_id)


class Remote(Workbench):
    """A workbench whose tools are elsewhere."""

    async def list_tools(self) -> list[ToolSchema]:
        return [ToolSchema(name="remote"), ToolSchema(name="broken")]

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
        call_id: str | None = None,
    ) -> ToolResult:
        return ToolResult(name=name, result=[TextResultContent(content="from afar")], is_error=name == "broken")

    async def start(self) -> None: ...
    async def stop(self) -> None: ...
    async def reset(self) -> None: ...
    async def save_state(self) -> Mapping[str, Any]:
        return {}

    async def load_state(self, state: Mapping[str, Any]) -> None: ...


async def test_workbench_of_any_kind_has_one_span_per_call(recorder: SpanRecorder) -> None:
    """A workbench's answer, or its error, is the tool's."""
    agent = assistant("writer", calls(("remote", {}), ("broken", {})), workbench=Remote())
    await agent.run(task="go")

    assert [
        (span.name, span.status, span.attributes.get(words.ERROR_TYPE), span.text(words.TOOL_RESULT))
        for span in named(recorder, "execute_tool")
    ] == [
        ("execute_tool remote", "unset", None, "from afar"),
        ("execute_tool broken", "error", "tool_error", "from afar"),
    ]


async def test_agent_of_the_programs_own_has_its_tools_recorded(recorder: SpanRecorder) -> None:
    """Tools and workbenches called by an agent's own code count once each, whatever they go through."""
    upper = Upper()
    bench = StaticWorkbench([upper, FunctionTool(fail, "Fail")])

    class Calls(Echo):
        async def on_messages(self, messages: Any, cancellation_token: CancellationToken) -> Response:
            await upper.run_json({"text": "one"}, cancellation_token, call_id="mine")
            await bench.call_tool("upper", {"text": "two"}, cancellation_token)
            await bench.call_tool("fail", {"why": "so"}, cancellation_token)
            return Response(chat_message=TextMessage(content="done", source=self.name))

    await RoundRobinGroupChat([Calls()], max_turns=1).run(task="go")

    assert tree(recorder)["invoke_agent echo"] == ["execute_tool upper", "execute_tool upper", "execute_tool fail"]
    assert [span.text(words.TOOL_RESULT) for span in named(recorder, "execute_tool")] == ["ONE", "TWO", "so"]
    assert named(recorder, "execute_tool")[0].attributes[words.TOOL_CALL_ID] == "mine"
    assert only(recorder, "execute_tool fail").attributes[words.ERROR_TYPE] == "FileNotFoundError"


async def test_tool_that_calls_a_tool_is_above_it(recorder: SpanRecorder) -> None:
    """A tool that uses another tool has that one's span below its own."""
    upper = Upper()

    async def outer() -> str:
        """Use the other."""
        return str(await upper.run_json({"text": "x"}, CancellationToken()))

    await assistant("writer", calls(("outer", {})), tools=[outer]).run(task="go")

    assert tree(recorder)["execute_tool outer"] == ["execute_tool upper"]


@pytest.mark.filterwarnings("ignore::UserWarning")  # AutoGen warns of running code
async def test_code_that_fails_is_an_error(recorder: SpanRecorder, tmp_path: Path) -> None:
    """A program that an agent has run and that exits with an error is a failed call, with the code and its output."""
    code = "print(41); exit(3)\n"
    runner = CodeExecutorAgent("runner", LocalCommandLineCodeExecutor(work_dir=tmp_path))
    await runner.run(task=f"```python\n{code}```")

    tool = only(recorder, "execute_tool execute_code")
    assert json.loads(tool.text(words.TOOL_ARGUMENTS) or "") == {"code_blocks": [{"language": "python", "code": code}]}
    assert tool.text(words.TOOL_RESULT) == "41\n"
    assert (tool.attributes.get(words.ERROR_TYPE), tool.status) == ("nonzero_exit", "error")


async def test_tool_outside_every_run_is_the_programs_own(recorder: SpanRecorder) -> None:
    """A tool that no agent calls is not recorded."""
    await Upper().run_json({"text": "x"}, CancellationToken())

    assert recorder.spans() == []
