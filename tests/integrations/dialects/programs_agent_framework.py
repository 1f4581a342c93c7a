"""Microsoft Agent Framework programs, one per construct; the chat client is scripted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

TASK = "Write a line about the sea."


def client(*replies: Any) -> Any:
    """Make a chat client that gives *replies* one after the other; a tuple is a tool call (id, name, arguments)."""
    from agent_framework import (
        BaseChatClient,
        ChatResponse,
        ChatResponseUpdate,
        Content,
        FunctionInvocationLayer,
        Message,
        ResponseStream,
        UsageDetails,
    )
    from agent_framework._middleware import ChatMiddlewareLayer
    from agent_framework.observability import ChatTelemetryLayer

    script = iter(replies)

    def next_contents() -> list[Any]:
        reply = next(script)
        if isinstance(reply, str):
            return [Content.from_text(reply)]
        id_, name, arguments = reply
        return [Content.from_function_call(call_id=id_, name=name, arguments=arguments)]

    class ScriptedClient(FunctionInvocationLayer, ChatMiddlewareLayer, ChatTelemetryLayer, BaseChatClient):
        OTEL_PROVIDER_NAME = "scripted"

        def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **kwargs: Any) -> Any:
            usage = UsageDetails(input_token_count=20, output_token_count=5)
            if stream:

                async def updates() -> Any:
                    contents = [*next_contents(), Content.from_usage(usage)]
                    yield ChatResponseUpdate(role="assistant", contents=contents)

                return ResponseStream(updates(), finalizer=ChatResponse.from_updates)

            async def response() -> Any:
                message = Message(role="assistant", contents=next_contents())
                return ChatResponse(messages=[message], usage_details=usage, model="scripted")

            return response()

    return ScriptedClient()


def count_words(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())


def agent(name: str, *replies: Any, tools: Any = None) -> Any:
    """Make an agent that says *replies*."""
    from agent_framework import Agent

    return Agent(
        client(*replies),
        f"You are the {name}.",
        name=name,
        tools=tools,
        require_per_service_call_history_persistence=True,
    )


CALL = ("call_1", "count_words", '{"text": "The sea is wide."}')


async def one_agent() -> None:
    """One agent, asked once."""
    await agent("writer", "The sea is wide.").run(TASK)


async def one_agent_with_a_tool() -> None:
    """One agent that calls a tool before it answers."""
    from agent_framework import tool

    await agent("critic", CALL, "Four words.", tools=[tool(count_words, approval_mode="never_require")]).run(TASK)


async def sequential() -> None:
    """A writer, then a critic with a tool, then an editor."""
    from agent_framework import tool
    from agent_framework_orchestrations import SequentialBuilder

    critic = agent(
        "critic", CALL, "Four words. Make it longer.", tools=[tool(count_words, approval_mode="never_require")]
    )
    members = [agent("writer", "The sea is wide."), critic, agent("editor", "The sea is wide and grey.")]
    await SequentialBuilder(participants=members).build().run(TASK)


async def concurrent() -> None:
    """Two agents asked at once, and what collects their answers."""
    from agent_framework_orchestrations import ConcurrentBuilder

    members = [agent("poet", "Grey waves."), agent("sailor", "Rough today.")]
    await ConcurrentBuilder(participants=members).build().run(TASK)


async def fan_out_and_in() -> None:
    """One agent, whose message two agents take up, whose messages a last agent takes up."""
    from agent_framework import (
        AgentExecutor,
        AgentExecutorRequest,
        AgentExecutorResponse,
        Message,
        WorkflowBuilder,
        WorkflowContext,
        executor,
    )

    start = AgentExecutor(agent("planner", "One of you writes, one of you counts."), id="planner")
    left = AgentExecutor(agent("poet", "Grey waves."), id="poet")
    right = AgentExecutor(agent("sailor", "Rough today."), id="sailor")
    end = AgentExecutor(agent("editor", "Grey waves, rough today."), id="editor")

    join = executor(id="join")(_typed_join(AgentExecutorResponse, AgentExecutorRequest, Message, WorkflowContext))
    builder = WorkflowBuilder(start_executor=start, name="desk")
    builder.add_fan_out_edges(start, [left, right])
    builder.add_fan_in_edges([left, right], join)
    builder.add_edge(join, end)
    await builder.build().run(TASK)


def _typed_join(answer_type: Any, request_type: Any, message_type: Any, context_type: Any) -> Any:
    async def join(answers: Any, context: Any) -> None:
        text = " ".join(answer.agent_response.text for answer in answers)
        message = message_type(role="user", contents=[text])
        await context.send_message(request_type(messages=[message], should_respond=True))

    join.__annotations__ = {"answers": list[answer_type], "context": context_type[request_type], "return": None}
    return join


async def handoff() -> None:
    """A front desk that hands over to an expert, who answers."""
    from agent_framework_orchestrations import HandoffBuilder

    desk = agent("desk", ("call_1", "handoff_to_expert", "{}"), "unused")
    expert = agent("expert", "The tide is at nine.", "unused")
    builder = HandoffBuilder(name="harbour", participants=[desk, expert]).with_start_agent(desk)
    builder = builder.add_handoff(desk, [expert]).with_termination_condition(lambda messages: len(messages) > 3)
    await builder.build().run("When is the tide?")


async def group_chat() -> None:
    """A writer and a critic who speak in turn, chosen by a function."""
    from agent_framework_orchestrations import GroupChatBuilder, GroupChatState

    def select(state: GroupChatState) -> str:
        return ("writer", "critic")[state.current_round % 2]

    members = [agent("writer", "The sea is wide.", "The sea is grey."), agent("critic", "Longer.")]
    builder = GroupChatBuilder(participants=members, selection_func=select, max_rounds=3)
    await builder.build().run(TASK)


def _sync(program: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    return lambda: asyncio.run(program())  # type: ignore[arg-type]


PROGRAMS: dict[str, Callable[[], None]] = {
    "agent": _sync(one_agent),
    "tool": _sync(one_agent_with_a_tool),
    "sequential": _sync(sequential),
    "concurrent": _sync(concurrent),
    "fan-out-and-in": _sync(fan_out_and_in),
    "handoff": _sync(handoff),
    "group-chat": _sync(group_chat),
}
