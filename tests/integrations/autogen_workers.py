"""A worker of AutoGen's gRPC runtime, whose spans come back on standard output as one document of OTLP JSON.

    python -m tests.integrations.autogen_workers HOST_ADDRESS writer | asker | critic

The writer answers whatever it is asked, for as long as its standard input is open. The asker is a team with a tool
that asks the writer. The critic has the writer write by publishing what it thinks, until it has nothing to say.
"""

from __future__ import annotations

import asyncio
import sys

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import TextMessage
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import (
    AgentId,
    CancellationToken,
    DefaultTopicId,
    MessageContext,
    RoutedAgent,
    TypeSubscription,
    try_get_known_serializers_for_type,
)
from autogen_core import event as on_publication
from autogen_core import rpc as on_question
from autogen_ext.runtimes.grpc import GrpcWorkerAgentRuntime
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import BaseModel

from blamespan.otlp.json import request_to_json
from blamespan_integrations.autogen import AutoGenInstrumentor
from tests.integrations.autogen_runs import assistant, calls


class Question(BaseModel):
    text: str


class Draft(BaseModel):
    message: TextMessage


class Review(BaseModel):
    message: TextMessage


async def answer(agent: AssistantAgent, message: TextMessage) -> TextMessage:
    """Have *agent* answer."""
    response = await agent.on_messages([message], CancellationToken())
    assert isinstance(response.chat_message, TextMessage)
    return response.chat_message


class Writer(RoutedAgent):
    """Answers questions, and publishes a draft for each review."""

    def __init__(self) -> None:
        super().__init__("writes")
        self.agent = assistant("writer", "a draft", "a better draft", "the best draft")

    @on_question
    async def on_question(self, message: Question, ctx: MessageContext) -> Draft:
        return Draft(message=await answer(self.agent, TextMessage(content=message.text, source="user")))

    @on_publication
    async def on_review(self, message: Review, ctx: MessageContext) -> None:
        said = await answer(self.agent, message.message)
        await self.publish_message(Draft(message=said), DefaultTopicId("drafts"))


class Critic(RoutedAgent):
    """Publishes a review of each draft but the last."""

    def __init__(self, done: asyncio.Event) -> None:
        super().__init__("reviews")
        self.agent = assistant("critic", "too short", "fine")
        self.done = done

    @on_publication
    async def on_draft(self, message: Draft, ctx: MessageContext) -> None:
        said = await answer(self.agent, message.message)
        if said.content == "fine":
            self.done.set()
        else:
            await self.publish_message(Review(message=said), DefaultTopicId("reviews"))


async def write(runtime: GrpcWorkerAgentRuntime) -> None:
    """Be the writer."""
    await Writer.register(runtime, "writer", Writer)
    await runtime.add_subscription(TypeSubscription("reviews", "writer"))
    print("ready", flush=True)  # noqa: T201 - the test waits for it
    await asyncio.to_thread(sys.stdin.read)


async def ask(runtime: GrpcWorkerAgentRuntime) -> None:
    """Be the asker."""

    async def writer(text: str) -> str:
        """Ask the writer."""
        draft = await runtime.send_message(Question(text=text), AgentId("writer", "default"))
        return str(draft.message.content)

    answers = [calls(("writer", {"text": "write"})), "it is written"]
    agent = assistant("asker", *answers, tools=[writer], max_tool_iterations=2)
    await RoundRobinGroupChat([agent], max_turns=1).run(task="go")


async def criticise(runtime: GrpcWorkerAgentRuntime) -> None:
    """Be the critic."""
    done = asyncio.Event()
    await Critic.register(runtime, "critic", lambda: Critic(done))
    await runtime.add_subscription(TypeSubscription("drafts", "critic"))
    task = TextMessage(content="write", source="user")
    await runtime.publish_message(Review(message=task), DefaultTopicId("reviews"))
    await done.wait()


ROLES = {"writer": write, "asker": ask, "critic": criticise}


async def work(address: str, role: str) -> None:
    """Be one of the workers, recorded."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    AutoGenInstrumentor().instrument(tracer_provider=provider)
    runtime = GrpcWorkerAgentRuntime(address)
    await runtime.start()
    for kind in (Question, Draft, Review):
        runtime.add_message_serializer(try_get_known_serializers_for_type(kind))
    await ROLES[role](runtime)
    await runtime.stop()
    sys.stdout.write(request_to_json(encode_spans(exporter.get_finished_spans())))


if __name__ == "__main__":
    asyncio.run(asyncio.wait_for(work(sys.argv[1], sys.argv[2]), 60))
