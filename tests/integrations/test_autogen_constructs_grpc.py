"""Over AutoGen's gRPC runtime: the whole traces that come of runs in several processes."""

from __future__ import annotations

import asyncio
import pickle
import re
import sys
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_agentchat.teams._group_chat import _events
from autogen_ext.runtimes.grpc import GrpcWorkerAgentRuntime, GrpcWorkerAgentRuntimeHost
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from blamespan.otlp.json import request_from_json
from blamespan.otlp.proto import spans_from_proto
from blamespan.spans import Span
from blamespan.testing import SpanRecorder
from blamespan_integrations.autogen import AutoGenInstrumentor
from tests.integrations.autogen_runs import Echo, assistant, drawn, outline
from tests.integrations.drawing import literal

_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}")


@pytest.fixture
async def host() -> AsyncIterator[str]:
    """The address of a host of AutoGen's gRPC runtime."""
    host = _Host("127.0.0.1:0")
    host.start()
    yield f"127.0.0.1:{host.port}"
    await host.stop()


class _Host(GrpcWorkerAgentRuntimeHost):
    """A host that says which port it was given."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.port = self._server.add_insecure_port("127.0.0.1:0")


async def worker(address: str, role: str) -> asyncio.subprocess.Process:
    """Start a worker in a process of its own."""
    pipe = asyncio.subprocess.PIPE
    command = [sys.executable, "-m", "tests.integrations.autogen_workers", address, role]
    return await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)


async def spans_of_workers(address: str, role: str) -> list[Span]:
    """Run the writer and another worker; give the spans of both."""
    writer = await worker(address, "writer")
    assert writer.stdout is not None
    assert await asyncio.wait_for(writer.stdout.readline(), 60) == b"ready\n"
    other = await worker(address, role)
    written = [(await asyncio.wait_for(one.communicate(b""), 60))[0] for one in (other, writer)]
    return [span for text in written for span in spans_from_proto(request_from_json(text).resource_spans)]


class _Pickled:
    """Sends and reads messages of one type whole."""

    data_content_type = "application/json"

    def __init__(self, kind: type[Any]) -> None:
        self.type_name = kind.__name__

    def serialize(self, message: Any) -> bytes:
        return pickle.dumps(message)

    def deserialize(self, payload: bytes) -> Any:
        return pickle.loads(payload) if payload else None


class TeamWorker(GrpcWorkerAgentRuntime):
    """A worker that can host a team: AutoGen 0.7.5 cannot read a team's messages back, nor answer with nothing."""

    def __init__(self, address: str, **options: Any) -> None:
        super().__init__(address, **options)
        kinds = [value for value in vars(_events).values() if isinstance(value, type)]
        self._own = {serializer.type_name: serializer for serializer in map(_Pickled, [*kinds, type(None)])}
        super().add_message_serializer(list(self._own.values()))

    def add_message_serializer(self, serializer: Any) -> None:
        for one in serializer if isinstance(serializer, list) else [serializer]:
            super().add_message_serializer(self._own.get(one.type_name, one))


@pytest.mark.construct("AutoGen", "gRPC worker runtime: a team")
async def test_team_on_the_grpc_runtime(host: str, recorder: SpanRecorder) -> None:
    """A team whose messages all go through the host's process is one trace per run, as anywhere else."""
    runtime = TeamWorker(host)
    await runtime.start()
    team = RoundRobinGroupChat(
        [assistant("writer", "a draft", "a better one"), Echo("b")], max_turns=2, runtime=runtime
    )
    team._team_id = "default"  # AutoGen 0.7.5 forgets which team a publication is for, but for this one
    await asyncio.wait_for(team.run(task="go"), 30)
    await asyncio.wait_for(team.run(task="again"), 30)
    await runtime.stop()

    assert drawn(recorder) == literal("""
        invoke_workflow RoundRobinGroupChat, complete, stopped: Maximum number of turns 2 reached.
        task: go
        agents: writer, b
        0 writer: message 'a draft' to b, 5+2 tokens
        1 b: message 'b: a draft' to writer after 0
        invoke_workflow RoundRobinGroupChat, complete, stopped: Maximum number of turns 2 reached.
        task: again
        agents: writer, b
        0 writer: message 'a better one' to b, 11+3 tokens
        1 b: message 'b: a better one' to writer after 0
        """)
    assert outline(recorder) == literal("""
        invoke_workflow RoundRobinGroupChat
          invoke_agent writer
            chat replay
          invoke_agent b
        invoke_workflow RoundRobinGroupChat
          invoke_agent writer
            chat replay
          invoke_agent b
        """)


@pytest.mark.parametrize("is_made_first", [False, True])
async def test_provider_that_the_program_gave_a_worker_is_left_alone(host: str, is_made_first: bool) -> None:
    """A worker with a provider of its own makes the spans that it makes without us, and ours are one trace.

    Parents and links may differ: AutoGen takes whatever span is current, and there ours is.
    """

    async def traced(runtime: TeamWorker) -> Counter[str]:
        exporter.clear()
        await runtime.start()
        team = RoundRobinGroupChat([Echo("one"), Echo("two")], max_turns=2, runtime=runtime)
        team._team_id = "default"  # as above
        await asyncio.wait_for(team.run(task="go"), 30)
        await runtime.stop()
        spans = exporter.get_finished_spans()
        return Counter(f"{_ID.sub('ID', span.name)} {sorted(span.attributes or ())}" for span in spans)

    exporter, own = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    own.add_span_processor(SimpleSpanProcessor(exporter))
    bare = await traced(TeamWorker(host, tracer_provider=own))
    early, recorder = TeamWorker(host, tracer_provider=own), SpanRecorder()
    AutoGenInstrumentor().instrument(tracer_provider=recorder.provider)
    watched = await traced(early if is_made_first else TeamWorker(host, tracer_provider=own))
    AutoGenInstrumentor().uninstrument()

    assert watched == bare
    assert bare.total() > 10
    assert outline(recorder) == literal("""
        invoke_workflow RoundRobinGroupChat
          invoke_agent one
          invoke_agent two
        """)


@pytest.mark.construct("AutoGen", "gRPC worker runtime: an answer from another process")
async def test_answer_from_another_process(host: str) -> None:
    """An agent in another process answers in the same trace, below the tool that asked it and on the call's grounds."""
    spans = await spans_of_workers(host, "asker")

    assert drawn(spans) == literal("""
        invoke_workflow RoundRobinGroupChat, complete, stopped: Maximum number of turns 1 reached.
        task: go
        agents: asker, writer
        0 asker: tool_call 'writer({"text": "write"})'
        1 writer: message 'a draft' after 0, 5+2 tokens
        2 asker: tool_result 'a draft' after 0
        3 asker: message 'it is written' after 2, 5+10 tokens
        """)
    assert outline(spans) == literal("""
        invoke_workflow RoundRobinGroupChat
          invoke_agent asker
            chat replay
            execute_tool writer
              invoke_agent writer
                chat replay
            chat replay
        """)


@pytest.mark.construct("AutoGen", "gRPC worker runtime: publications between processes")
async def test_publications_between_processes(host: str) -> None:
    """What one publication sets off in two processes is one trace; each message builds on the one it answers."""
    spans = await spans_of_workers(host, "critic")

    assert drawn(spans) == literal("""
        invoke_agent writer
        task: ''
        agents: writer, critic
        0 writer: message 'a draft', 5+2 tokens
        1 critic: message 'too short' after 0, 6+2 tokens
        2 writer: message 'a better draft' after 1, 9+3 tokens
        3 critic: message 'fine' after 2, 11+1 tokens
        """)
    assert outline(spans) == literal("""
        invoke_agent writer
          chat replay
          invoke_agent critic
            chat replay
          invoke_agent writer
            chat replay
          invoke_agent critic
            chat replay
        """)
