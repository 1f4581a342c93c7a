"""Runs of AutoGen teams and agents that end in every way there is."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from autogen_agentchat.base import Response
from autogen_agentchat.messages import BaseChatMessage, TextMessage
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import (
    AgentId,
    CancellationToken,
    MessageContext,
    RoutedAgent,
    SingleThreadedAgentRuntime,
    message_handler,
)

from tests.integrations.autogen_runs import Echo, assistant, calls
from tests.integrations.ends import (
    Watch,
    by_name,
    close_loop_within,
    in_a_thread,
    leave_stream_with_its_loop,
    outlive_loop,
)

SOON_S = 0.01
"""By then a team's first agent has spoken, and its second one is at work."""


class Speaker(Echo):
    """Speaks, fails, or takes its time."""

    def __init__(self, watch: Watch, name: str = "speaker", *, error: BaseException | None = None, wait_s: float = 0):
        super().__init__(name)
        self.watch, self.error, self.wait_s = watch, error, wait_s
        self.body = bytearray(10_000)
        watch(self)

    async def on_messages(self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken) -> Response:
        await asyncio.sleep(self.wait_s)
        if self.error is not None:
            raise self.error
        return Response(chat_message=self.watch(TextMessage(content="hello", source=self.name)))


def team(watch: Watch, *members: Any, **options: Any) -> Any:
    return watch(RoundRobinGroupChat(list(members), **{"max_turns": 2, **options}))


def slow_team(watch: Watch, **options: Any) -> Any:
    return team(watch, Speaker(watch, "quick"), Speaker(watch, "slow", wait_s=0.2), **options)


def failing_team(watch: Watch, **options: Any) -> Any:
    return team(watch, Speaker(watch, "good"), Speaker(watch, "bad", error=ValueError("it broke")), **options)


async def settled(run: Coroutine[Any, Any, Any]) -> None:
    with suppress(Exception, asyncio.CancelledError):
        await run


def succeeds(watch: Watch) -> None:
    asyncio.run(team(watch, Speaker(watch, "one"), Speaker(watch, "two")).run(task="go"))


def fails(watch: Watch) -> None:
    asyncio.run(settled(failing_team(watch).run(task="go")))


def fails_in_a_thread(watch: Watch) -> None:
    in_a_thread(fails, watch)


def is_interrupted_by_the_keyboard(watch: Watch) -> None:
    with suppress(BaseException):
        asyncio.run(team(watch, Speaker(watch, error=KeyboardInterrupt())).run(task="go"))


def times_out(watch: Watch) -> None:
    asyncio.run(settled(asyncio.wait_for(slow_team(watch).run(task="go"), SOON_S)))


def is_cancelled_by_its_token(watch: Watch) -> None:
    async def go() -> None:
        token = CancellationToken()
        task = asyncio.create_task(slow_team(watch).run(task="go", cancellation_token=token))
        await asyncio.sleep(SOON_S)
        token.cancel()
        await settled(task)  # type: ignore[arg-type]  # a task is awaited alike

    asyncio.run(go())


def is_left_after_one_item(watch: Watch) -> None:
    async def go() -> None:
        async for _ in team(watch, Speaker(watch)).run_stream(task="go"):
            break

    asyncio.run(go())


def is_closed_after_one_item(watch: Watch) -> None:
    async def go() -> None:
        stream = team(watch, Speaker(watch)).run_stream(task="go")
        await anext(stream)
        await stream.aclose()

    asyncio.run(go())


def is_never_begun(watch: Watch) -> None:
    team(watch, Speaker(watch)).run_stream(task="go")


def is_never_awaited(watch: Watch) -> None:
    team(watch, Speaker(watch)).run(task="go")


def is_left_with_its_loop(watch: Watch) -> None:
    leave_stream_with_its_loop(lambda: team(watch, Speaker(watch)).run_stream(task="go"))


def is_dropped_with_its_loop(watch: Watch) -> None:
    close_loop_within(watch, lambda: slow_team(watch).run(task="go"), SOON_S)


def outlives_its_loop(watch: Watch) -> None:
    outlive_loop(watch, lambda: slow_team(watch).run(task="go"), SOON_S)


def fails_and_is_reset(watch: Watch) -> None:
    async def go() -> None:
        failing = failing_team(watch)
        await settled(failing.run(task="go"))
        await failing.reset()
        await settled(failing.run(task="go"))

    asyncio.run(go())


def is_paused_for_good(watch: Watch) -> None:
    async def go() -> None:
        paused = slow_team(watch)
        task = asyncio.create_task(paused.run(task="go"))
        await asyncio.sleep(SOON_S)
        await paused.pause()
        task.cancel()
        await settled(task)  # type: ignore[arg-type]  # as above

    asyncio.run(go())


def fails_within_a_team(watch: Watch) -> None:
    outer = team(watch, Speaker(watch, "first"), failing_team(watch, name="inner"), max_turns=3)
    asyncio.run(settled(outer.run(task="go")))


def is_left_by_its_runtime(watch: Watch) -> None:
    async def go() -> None:
        runtime = watch(SingleThreadedAgentRuntime())
        runtime.start()
        task = asyncio.create_task(slow_team(watch, runtime=runtime).run(task="go"))
        await asyncio.sleep(SOON_S)
        with suppress(Exception):
            await runtime.stop()
        task.cancel()
        await settled(task)  # type: ignore[arg-type]  # as above

    asyncio.run(go())


def fails_in_a_tool(watch: Watch) -> None:
    def boom(a: int) -> int:
        """Break."""
        raise ValueError(a)

    agent = watch(assistant("solver", calls(("boom", {"a": 1})), "done", tools=[boom]))
    asyncio.run(team(watch, agent, max_turns=1).run(task="go"))


def fails_in_a_model(watch: Watch) -> None:
    asyncio.run(settled(team(watch, watch(assistant("solver"))).run(task="go")))


def fails_alone(watch: Watch) -> None:
    asyncio.run(settled(Speaker(watch, error=ValueError()).run(task="go")))


def is_left_alone_with_its_loop(watch: Watch) -> None:
    leave_stream_with_its_loop(lambda: Speaker(watch).run_stream(task="go"))


@dataclass
class Question:
    text: str


class Desk(RoutedAgent):
    """An agent of AutoGen's core that asks one of AgentChat."""

    def __init__(self, speaker: Speaker) -> None:
        super().__init__("desk")
        self.speaker = speaker

    @message_handler
    async def on_question(self, message: Question, ctx: MessageContext) -> Question:
        await self.speaker.on_messages([TextMessage(content=message.text, source="user")], ctx.cancellation_token)
        return message


async def ask(watch: Watch, speaker: Speaker, patience_s: float) -> None:
    runtime = watch(SingleThreadedAgentRuntime())
    await Desk.register(runtime, "desk", lambda: watch(Desk(speaker)))
    runtime.start()
    await settled(asyncio.wait_for(runtime.send_message(Question("well?"), AgentId("desk", "a")), patience_s))
    with suppress(Exception):
        await runtime.stop()


def answers_a_message(watch: Watch) -> None:
    asyncio.run(ask(watch, Speaker(watch), 1))


def fails_at_a_message(watch: Watch) -> None:
    asyncio.run(ask(watch, Speaker(watch, error=ValueError()), 1))


def is_stopped_at_a_message(watch: Watch) -> None:
    asyncio.run(ask(watch, Speaker(watch, wait_s=0.2), SOON_S))


ENDS = by_name(
    *(succeeds, fails, fails_in_a_thread, is_interrupted_by_the_keyboard, times_out, is_cancelled_by_its_token),
    *(is_left_after_one_item, is_closed_after_one_item, is_never_begun, is_never_awaited, is_left_with_its_loop),
    *(is_dropped_with_its_loop, outlives_its_loop, fails_and_is_reset, is_paused_for_good, fails_within_a_team),
    *(is_left_by_its_runtime, fails_in_a_tool, fails_in_a_model, fails_alone, is_left_alone_with_its_loop),
    *(answers_a_message, fails_at_a_message, is_stopped_at_a_message),
)
