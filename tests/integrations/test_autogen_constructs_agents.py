"""Each kind of AutoGen agent, tool and model client: the whole trace that comes of it."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from autogen_agentchat.agents import AssistantAgent, CodeExecutorAgent, UserProxyAgent
from autogen_agentchat.base import Response
from autogen_agentchat.messages import BaseAgentEvent, BaseChatMessage, StopMessage, TextMessage
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_agentchat.tools import AgentTool, TeamTool
from autogen_core import CancellationToken
from autogen_core.models import (
    ChatCompletionClient,
    CreateResult,
    LLMMessage,
    ModelCapabilities,
    ModelInfo,
    RequestUsage,
)
from autogen_core.tools import FunctionTool, StaticWorkbench, Tool, ToolSchema
from autogen_ext.code_executors.local import LocalCommandLineCodeExecutor
from autogen_ext.tools.mcp import McpWorkbench, StdioServerParams
from pydantic import BaseModel

from blamespan import conventions as words
from blamespan.testing import SpanRecorder
from tests.integrations.autogen_runs import INFO, Echo, assistant, calls, drawn, named, only, outline, replay
from tests.integrations.drawing import literal
from tests.integrations.drawing import read_messages as read


class Streams(Echo):
    """Overrides `on_messages_stream` alone, as many agents do that show what they are at."""

    async def on_messages_stream(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> AsyncGenerator[BaseAgentEvent | BaseChatMessage | Response, None]:
        yield TextMessage(content="thinking", source=self.name)
        yield Response(chat_message=TextMessage(content="streamed", source=self.name))


class Stops(Echo):
    async def on_messages(self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken) -> Response:
        return Response(chat_message=StopMessage(content="enough", source=self.name))


@pytest.mark.construct("AutoGen", "BaseChatAgent subclasses")
async def test_agents_of_the_programs_own(recorder: SpanRecorder) -> None:
    """One span per message whichever method a subclass overrides, its own kind of message told apart."""
    await RoundRobinGroupChat([Echo(), Streams("streams"), Stops("stops")], max_turns=3).run(task="go")

    assert drawn(recorder) == literal("""
        invoke_workflow RoundRobinGroupChat, complete, stopped: Maximum number of turns 3 reached.
        task: go
        agents: echo, streams, stops
        0 echo: message 'echo: go' to streams, stops
        1 streams: message 'thinking' after 0
        2 streams: message 'streamed' to echo, stops after 1
        3 stops: termination 'enough' to echo, streams after 0 2
        """)
    assert outline(recorder) == literal("""
        invoke_workflow RoundRobinGroupChat
          invoke_agent echo
          invoke_agent streams
          invoke_agent streams
          invoke_agent stops
        """)


@pytest.mark.construct("AutoGen", "AssistantAgent alone")
async def test_assistant_alone(recorder: SpanRecorder) -> None:
    """An agent that the program runs without a team is a run of its own: with its task, complete, its step below."""
    await assistant("writer", "a draft").run(task="write")

    assert drawn(recorder) == literal("""
        invoke_workflow writer, complete
        task: write
        agents: writer
        0 writer: message 'a draft', 5+2 tokens
        """)
    assert outline(recorder) == literal("""
        invoke_workflow writer
          invoke_agent writer
            chat replay
        """)


@pytest.mark.filterwarnings("ignore::UserWarning")  # AutoGen warns of running code
@pytest.mark.construct("AutoGen", "CodeExecutorAgent")
async def test_code_executor(recorder: SpanRecorder, tmp_path: Path) -> None:
    """Executed code is a tool call with the code and its output, below the executor's message."""
    coder = assistant("coder", "```python\nprint(6 * 7)\n```")
    runner = CodeExecutorAgent("runner", LocalCommandLineCodeExecutor(work_dir=tmp_path))
    await RoundRobinGroupChat([coder, runner], max_turns=2).run(task="6 * 7?")

    assert drawn(recorder) == literal(r"""
        invoke_workflow RoundRobinGroupChat, complete, stopped: Maximum number of turns 2 reached.
        task: 6 * 7?
        agents: coder, runner (executor)
        0 coder: message '```python\nprint(6 * 7)\n```' to runner, 7+5 tokens
        1 runner: tool_call 'execute_code({"code_blocks": [{"language": "python", "code": "print(6 * 7)\\n"}]})' after 0
        2 runner: tool_result '42\n' after 1
        3 runner: message '42\n' to coder after 0 2
        """)
    assert outline(recorder) == literal("""
        invoke_workflow RoundRobinGroupChat
          invoke_agent coder
            chat replay
          invoke_agent runner
            execute_tool execute_code
        """)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.construct("AutoGen", "CodeExecutorAgent with a model of its own")
async def test_code_executor_with_a_model(recorder: SpanRecorder, tmp_path: Path) -> None:
    """An executor that writes its own code is an agent: model calls and executed code are both below its message."""
    executor = LocalCommandLineCodeExecutor(work_dir=tmp_path)
    model = replay("```python\nprint(6 * 7)\n```", "It is 42.")
    await CodeExecutorAgent("runner", executor, model_client=model).run(task="6 * 7?")

    assert drawn(recorder) == literal(r"""
        invoke_workflow runner, complete
        task: 6 * 7?
        agents: runner
        0 runner: tool_call 'execute_code({"code_blocks": [{"language": "python", "code": "print(6 * 7)\\n"}]})'
        1 runner: tool_result '42\n' after 0
        2 runner: message 'It is 42.' after 1, 120+8 tokens
        """)
    assert outline(recorder) == literal("""
        invoke_workflow runner
          invoke_agent runner
            chat replay
            execute_tool execute_code
            chat replay
        """)


@pytest.mark.construct("AutoGen", "UserProxyAgent")
async def test_user_proxy(recorder: SpanRecorder) -> None:
    """A person who takes part is listed as a user and speaks in messages like all others, heard as a user's."""
    person = UserProxyAgent("person", input_func=lambda _: "make it longer")
    await RoundRobinGroupChat([assistant("writer", "a draft"), person, Echo()], max_turns=3).run(task="write")

    assert drawn(recorder) == literal("""
        invoke_workflow RoundRobinGroupChat, complete, stopped: Maximum number of turns 3 reached.
        task: write
        agents: writer, person (user), echo
        0 writer: message 'a draft' to person, echo, 5+2 tokens
        1 person: message 'make it longer' to writer, echo after 0
        2 echo: message 'echo: make it longer' to writer, person after 0 1
        """)
    assert [(role, name) for role, name, _ in read(only(recorder, "invoke_agent echo"))] == [
        ("user", "user"),
        ("assistant", "writer"),
        ("user", "person"),
    ]


def add(one: int, other: int) -> int:
    """Add two numbers."""
    return one + other


async def fail(why: str) -> str:
    """Fail."""
    raise FileNotFoundError(why)


@pytest.mark.construct("AutoGen", "function tool")
async def test_function_tool(recorder: SpanRecorder) -> None:
    """A tool is a call and an answer; an answer that is an error says what was raised."""
    answers = [calls(("add", {"one": 1, "other": 2})), calls(("fail", {"why": "gone"})), "it is 3"]
    await assistant("solver", *answers, tools=[add, fail], max_tool_iterations=3).run(task="1 + 2?")

    assert drawn(recorder) == literal("""
        invoke_workflow solver, complete
        task: 1 + 2?
        agents: solver
        0 solver: tool_call 'add({"one": 1, "other": 2})'
        1 solver: tool_result '3' after 0
        2 solver: tool_call 'fail({"why": "gone"})' after 1, error FileNotFoundError
        3 solver: tool_result 'gone' after 2, error FileNotFoundError
        4 solver: message 'it is 3' after 1 3, 7+17 tokens
        """)
    assert outline(recorder) == literal("""
        invoke_workflow solver
          invoke_agent solver
            chat replay
            execute_tool add
            chat replay
            execute_tool fail
            chat replay
        """)
    assert {span.text(words.TOOL_CALL_ID) for span in named(recorder, "execute_tool")} == {"call-0"}


@pytest.mark.construct("AutoGen", "agent as a tool (AgentTool)")
async def test_agent_tool(recorder: SpanRecorder) -> None:
    """An agent used as a tool speaks inside the tool's span, on the grounds of the call, to its caller."""
    expert = AgentTool(assistant("expert", "42"), return_value_as_last_message=True)
    asker = assistant("asker", calls(("expert", {"task": "what?"})), "it is 42", tools=[expert], max_tool_iterations=2)
    await RoundRobinGroupChat([asker], max_turns=1).run(task="go")

    assert drawn(recorder) == literal("""
        invoke_workflow RoundRobinGroupChat, complete, stopped: Maximum number of turns 1 reached.
        task: go
        agents: asker, expert
        0 asker: tool_call 'expert({"task": "what?"})'
        1 expert: message '42' to asker after 0, 5+1 tokens
        2 asker: tool_result '42' after 0
        3 asker: message 'it is 42' after 2, 5+10 tokens
        """)
    assert outline(recorder) == literal("""
        invoke_workflow RoundRobinGroupChat
          invoke_agent asker
            chat replay
            execute_tool expert
              invoke_agent expert
                chat replay
            chat replay
        """)


@pytest.mark.construct("AutoGen", "team as a tool (TeamTool)")
async def test_team_tool(recorder: SpanRecorder) -> None:
    """A team used as a tool has its run inside the tool's span; its first message builds on the call."""
    experts = RoundRobinGroupChat([Echo("a"), Echo("b")], max_turns=2, name="experts")
    tool = TeamTool(experts, "experts", "ask them", return_value_as_last_message=True)
    asker = assistant("asker", calls(("experts", {"task": "what?"})), "done", tools=[tool], max_tool_iterations=2)
    await RoundRobinGroupChat([asker], max_turns=1).run(task="go")

    assert drawn(recorder) == literal("""
        invoke_workflow RoundRobinGroupChat, complete, stopped: Maximum number of turns 1 reached.
        task: go
        agents: asker, a, b
        0 asker: tool_call 'experts({"task": "what?"})'
        1 a: message 'a: what?' to b after 0
        2 b: message 'b: a: what?' to a after 1
        3 asker: tool_result 'b: a: what?' after 0
        4 asker: message 'done' after 3, 5+8 tokens
        """)
    assert outline(recorder) == literal("""
        invoke_workflow RoundRobinGroupChat
          invoke_agent asker
            chat replay
            execute_tool experts
              invoke_workflow experts
                invoke_agent a
                invoke_agent b
            chat replay
        """)


@pytest.mark.construct("AutoGen", "workbench (StaticWorkbench)")
async def test_workbench(recorder: SpanRecorder) -> None:
    """A call through a workbench is one tool call, whatever layers it goes through."""
    bench = StaticWorkbench([FunctionTool(add, "Add")])
    answers = [calls(("add", {"one": 1, "other": 2})), calls(("subtract", {})), "it is 3"]
    await assistant("solver", *answers, workbench=bench, max_tool_iterations=3).run(task="1 + 2?")

    assert drawn(recorder) == literal("""
        invoke_workflow solver, complete
        task: 1 + 2?
        agents: solver
        0 solver: tool_call 'add({"one": 1, "other": 2})'
        1 solver: tool_result '3' after 0
        2 solver: tool_call 'subtract({})' after 1, error tool_not_found
        3 solver: tool_result "Error: tool 'subtract' not found in any workbench" after 2, error tool_not_found
        4 solver: message 'it is 3' after 1 3, 7+17 tokens
        """)
    assert outline(recorder) == literal("""
        invoke_workflow solver
          invoke_agent solver
            chat replay
            execute_tool add
            chat replay
            execute_tool subtract
            chat replay
        """)


MCP_SERVER = '''
from mcp.server.fastmcp import FastMCP

server = FastMCP("calculator", log_level="ERROR")

@server.tool()
def add(one: int, other: int) -> int:
    """Add two numbers."""
    return one + other

@server.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("no such page")

server.run("stdio")
'''


@pytest.mark.construct("AutoGen", "MCP server (McpWorkbench)")
async def test_mcp_server(recorder: SpanRecorder, tmp_path: Path) -> None:
    """A tool of an MCP server in another process is a tool call like any other, its errors included."""
    program = tmp_path / "server.py"
    program.write_text(MCP_SERVER)
    answers = [calls(("add", {"one": 1, "other": 2})), calls(("fail", {})), "it is 3"]
    async with McpWorkbench(StdioServerParams(command=sys.executable, args=[str(program)])) as bench:
        await assistant("solver", *answers, workbench=bench, max_tool_iterations=3).run(task="1 + 2?")

    assert drawn(recorder) == literal("""
        invoke_workflow solver, complete
        task: 1 + 2?
        agents: solver
        0 solver: tool_call 'add({"one": 1, "other": 2})'
        1 solver: tool_result '3' after 0
        2 solver: tool_call 'fail({})' after 1, error tool_error
        3 solver: tool_result 'Error executing tool fail: no such page' after 2, error tool_error
        4 solver: message 'it is 3' after 1 3, 7+17 tokens
        """)
    assert outline(recorder) == literal("""
        invoke_workflow solver
          invoke_agent solver
            chat replay
            execute_tool add
            chat replay
            execute_tool fail
            chat replay
        """)


class HandWritten(ChatCompletionClient):
    """A model client that a program wrote itself, from AutoGen's interface alone."""

    def _result(self) -> CreateResult:
        usage = RequestUsage(prompt_tokens=11, completion_tokens=3)
        return CreateResult(finish_reason="stop", content="by hand", usage=usage, cached=False)

    async def create(self, messages: Sequence[LLMMessage], **_: Any) -> CreateResult:
        return self._result()

    async def create_stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Sequence[Tool | ToolSchema] = (),
        tool_choice: Tool | Literal["auto", "required", "none"] = "auto",
        json_output: bool | type[BaseModel] | None = None,
        extra_create_args: Mapping[str, Any] = {},
        cancellation_token: CancellationToken | None = None,
    ) -> AsyncGenerator[str | CreateResult, None]:
        yield "by "
        yield "hand"
        yield self._result()

    async def close(self) -> None: ...

    def actual_usage(self) -> RequestUsage:
        return RequestUsage(prompt_tokens=0, completion_tokens=0)

    def total_usage(self) -> RequestUsage:
        return self.actual_usage()

    def count_tokens(self, messages: Sequence[LLMMessage], **_: Any) -> int:
        return 0

    def remaining_tokens(self, messages: Sequence[LLMMessage], **_: Any) -> int:
        return 1

    @property
    def capabilities(self) -> ModelCapabilities:  # type: ignore[override]
        raise NotImplementedError

    @property
    def model_info(self) -> ModelInfo:
        return INFO


@pytest.mark.construct("AutoGen", "model calls: create and create_stream of any client")
async def test_model_calls(recorder: SpanRecorder) -> None:
    """A model call is a span with its tokens below the message it serves, streamed or not, of whatever client."""
    once = AssistantAgent("once", HandWritten())
    streams = AssistantAgent("streams", HandWritten(), model_client_stream=True)
    await RoundRobinGroupChat([once, streams], max_turns=2).run(task="go")

    assert drawn(recorder) == literal("""
        invoke_workflow RoundRobinGroupChat, complete, stopped: Maximum number of turns 2 reached.
        task: go
        agents: once, streams
        0 once: message 'by hand' to streams, 11+3 tokens
        1 streams: message 'by hand' to once after 0, 11+3 tokens
        """)
    assert outline(recorder) == literal("""
        invoke_workflow RoundRobinGroupChat
          invoke_agent once
            chat HandWritten
          invoke_agent streams
            chat HandWritten
        """)
