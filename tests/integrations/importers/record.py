"""Record what the released packages export of the programs in `tests/integrations/dialects`: run by
`scripts/record-importers`, each in an environment of its own.

    python record.py mlflow recorded/
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

DIALECTS = Path(__file__).parent.parent / "dialects"
sys.path.insert(0, str(DIALECTS))


def atif(out: Path) -> None:
    """One conversation as agentpile writes it, and one of two agents in the models of NVIDIA's NeMo Agent Toolkit."""
    import agentpile
    from nat.atif import (
        ATIFAgentConfig,
        AtifAncestry,
        ATIFObservation,
        ATIFObservationResult,
        ATIFStep,
        AtifStepExtra,
        ATIFStepMetrics,
        ATIFToolCall,
        ATIFTrajectory,
    )

    task, count, answer = (
        "How many chairs does room 12 need? It seats 30.",
        '{"present": 12}',
        "Room 12 needs 18 chairs.",
    )
    call = {"id": "c1", "type": "function", "function": {"name": "count", "arguments": '{"room": 12}'}}
    [run] = agentpile.load(
        [
            {"role": "system", "content": "You are a planner."},
            {"role": "user", "content": task},
            {"role": "assistant", "content": "I count.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": count},
            {"role": "assistant", "content": answer},
        ]
    )
    run.to_json(out / "atif.agentpile.json", indent=1)

    def step(number: int, source: str, message: str, name: str, parent: str, **fields: Any) -> Any:
        ancestry = AtifAncestry(function_id=name, function_name=name, parent_id=parent, parent_name=parent)
        extra = AtifStepExtra(ancestry=ancestry).model_dump(exclude_none=True)
        timestamp = f"2026-01-01T00:00:0{number}+00:00"
        return ATIFStep(step_id=number, source=source, message=message, timestamp=timestamp, extra=extra, **fields)

    calls = [ATIFToolCall(tool_call_id="call_1", function_name="count", arguments={"room": 12})]
    seen = ATIFObservation(results=[ATIFObservationResult(source_call_id="call_1", content=count)])
    used = ATIFStepMetrics(prompt_tokens=41, completion_tokens=7)
    nemo = ATIFTrajectory(
        session_id="nemo-1",
        agent=ATIFAgentConfig(name="nat-agent", version="1.9.0", model_name="meta/llama-3.3-70b"),
        steps=[
            step(1, "user", task, "<workflow>", "root"),
            step(2, "agent", "", "counter", "<workflow>", metrics=used, tool_calls=calls, observation=seen),
            step(3, "agent", "There are 12 chairs present.", "counter", "<workflow>"),
            step(4, "agent", answer, "<workflow>", "root"),
        ],
    )
    (out / "atif.nemo.json").write_text(json.dumps(nemo.model_dump(exclude_none=True, mode="json"), indent=1))


def autogen(out: Path) -> None:
    """A team's event log, its result and its messages, as AutoGen itself writes them."""
    from autogen_agentchat.agents import AssistantAgent
    from autogen_agentchat.conditions import TextMentionTermination
    from autogen_agentchat.teams import RoundRobinGroupChat, Swarm
    from autogen_core import EVENT_LOGGER_NAME, FunctionCall
    from autogen_core.tools import FunctionTool
    from programs import DRAFT, FINAL, TASK, VERDICT, count_words, replay

    def round_robin() -> Any:
        call = FunctionCall("call_1", '{"text": "The sea is wide."}', "count_words")
        tools = [FunctionTool(count_words, "Count the words of a text.")]
        writer = AssistantAgent("writer", replay(DRAFT, FINAL))
        critic = AssistantAgent("critic", replay([call], VERDICT), tools=tools, max_tool_iterations=3)
        return RoundRobinGroupChat([writer, critic], name="desk", max_turns=3)

    def swarm() -> Any:
        desk = AssistantAgent("desk", replay([FunctionCall("call_1", "{}", "transfer_to_expert")]), handoffs=["expert"])
        expert = AssistantAgent("expert", replay("The tide is at nine."), handoffs=["desk"])
        return Swarm([desk, expert], name="harbour", termination_condition=TextMentionTermination("nine"))

    logger = logging.getLogger(EVENT_LOGGER_NAME)
    logger.setLevel(logging.INFO)
    for name, team, task in (("round-robin", round_robin(), TASK), ("swarm", swarm(), "When is the tide?")):
        handler = logging.FileHandler(out / f"autogen-events.{name}.jsonl", mode="w")
        handler.setFormatter(logging.Formatter("%(message)s"))
        logger.addHandler(handler)
        result = asyncio.run(team.run(task=task))
        logger.removeHandler(handler)
        handler.close()
        (out / f"autogen-result.{name}.json").write_text(result.model_dump_json(indent=1))
        messages = "".join(f"{message.model_dump_json()}\n" for message in result.messages)
        (out / f"autogen-messages.{name}.jsonl").write_text(messages)


def langgraph(out: Path) -> None:
    """A graph's `debug` and `tasks` streams, and its checkpoints in SQLite."""
    import sqlite3

    from langchain_core.load import dumpd
    from langchain_core.messages import HumanMessage
    from langgraph.checkpoint.sqlite import SqliteSaver
    from programs import TASK, nodes_graph

    def default(value: Any) -> Any:
        return dumpd(value)

    for mode in ("debug", "tasks"):
        lines = nodes_graph().compile(name="desk").stream({"messages": [HumanMessage(TASK)]}, stream_mode=mode)
        written = "".join(json.dumps(line, default=default) + "\n" for line in lines)
        (out / f"langgraph-{mode}.nodes.jsonl").write_text(written)
    path = out / "langgraph-checkpoints.nodes.sqlite"
    path.unlink(missing_ok=True)
    with sqlite3.connect(path, check_same_thread=False) as connection:
        graph = nodes_graph().compile(name="desk", checkpointer=SqliteSaver(connection))
        graph.invoke({"messages": [HumanMessage(TASK)]}, {"configurable": {"thread_id": "first"}})
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.execute("VACUUM")
    connection.close()


def langsmith(out: Path) -> None:
    """The runs that LangSmith's tracer holds, as its client lists them: one flat object for each."""
    from contextvars import ContextVar

    from langchain_core.tracers.context import register_configure_hook
    from langchain_core.tracers.run_collector import RunCollectorCallbackHandler
    from programs import PROGRAMS

    for program in ("langgraph-nodes", "langgraph-branches"):
        collector = RunCollectorCallbackHandler()
        variable: ContextVar[Any] = ContextVar(program, default=None)
        register_configure_hook(variable, inheritable=True)
        variable.set(collector)
        PROGRAMS[program]()
        variable.set(None)
        lines = [json.dumps(run, default=_plain) for run in _flat(collector.traced_runs)]
        (out / f"langsmith.{program}.jsonl").write_text("".join(f"{line}\n" for line in lines))


def _flat(runs: Any) -> Iterator[dict[str, Any]]:
    kept = ("id", "name", "run_type", "start_time", "end_time", "error", "inputs", "outputs", "extra", "tags", "events",
            "trace_id", "dotted_order", "parent_run_id", "session_name")  # fmt: skip
    for run in runs:
        found = {key: getattr(run, key, None) for key in kept}
        metadata = dict(found["extra"].get("metadata", {}))
        yield {**found, "parent_run_id": run.parent_run_id or (run.parent_run.id if run.parent_run else None),
               "extra": {"metadata": metadata}}  # fmt: skip
        yield from _flat(run.child_runs)


def _plain(value: Any) -> Any:
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if hasattr(value, "model_dump"):
        return value.model_dump()
    return str(value)


def mlflow(out: Path) -> None:
    """Traces of MLflow's spans, as its `Trace.to_json()` writes them; without a server, so the info is its id alone."""
    os.environ |= {"MLFLOW_USE_DEFAULT_TRACER_PROVIDER": "false", "MLFLOW_ALLOW_FILE_STORE": "true"}
    os.environ["MLFLOW_TRACKING_URI"] = Path(tempfile.mkdtemp()).as_uri()
    import mlflow as package
    from mlflow.entities import TraceData
    from mlflow.entities.span import Span
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from programs import PROGRAMS

    memory = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    trace.set_tracer_provider(provider)
    package.langchain.autolog()
    for program in ("langgraph-nodes", "langgraph-branches"):
        PROGRAMS[program]()
        spans = [Span(span) for span in memory.get_finished_spans()]
        memory.clear()
        document = {"info": {"trace_id": spans[0].trace_id}, "data": TraceData(spans).to_dict()}
        (out / f"mlflow.{program}.json").write_text(json.dumps(document, indent=1))


def phoenix(out: Path) -> None:
    """Spans of OpenInference, sent to a Phoenix server and fetched as its client's dataframe."""
    from google.protobuf import json_format
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    from phoenix.client import Client

    with _phoenix_server() as url:
        request = ExportTraceServiceRequest()
        for name in ("openinference.langgraph-nodes", "openinference.autogen-served"):
            for line in (DIALECTS / "recorded" / f"{name}.jsonl").read_text().splitlines():
                document = json.loads(line)
                _as_base64(document)
                request.MergeFrom(json_format.ParseDict(document, ExportTraceServiceRequest()))
        headers = {"content-type": "application/x-protobuf"}
        urllib.request.urlopen(urllib.request.Request(f"{url}/v1/traces", request.SerializeToString(), headers))
        held = -1
        while held != (held := len(frame := Client(base_url=url).spans.get_spans_dataframe(limit=1_000))) or not held:
            time.sleep(5)
    frame.to_parquet(out / "phoenix.parquet")
    frame.to_json(out / "phoenix.jsonl", orient="records", lines=True, date_format="iso", date_unit="us")


@contextmanager
def _phoenix_server() -> Iterator[str]:
    ports = []
    for _ in range(2):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            ports.append(str(free.getsockname()[1]))
    work = tempfile.mkdtemp()
    settings = {"PHOENIX_WORKING_DIR": work, "PHOENIX_PORT": ports[0], "PHOENIX_GRPC_PORT": ports[1],
                "PHOENIX_HOST": "127.0.0.1", "PHOENIX_TELEMETRY_ENABLED": "false"}  # fmt: skip
    server = subprocess.Popen([sys.executable, "-m", "phoenix.server.main", "serve"], env=os.environ | settings)
    try:
        url = f"http://127.0.0.1:{ports[0]}"
        for _ in range(120):
            time.sleep(1)
            try:
                urllib.request.urlopen(f"{url}/healthz", timeout=2)
                break
            except OSError:
                continue
        yield url
    finally:
        server.terminate()
        server.wait(30)


def _as_base64(document: Any) -> None:
    for group in document["resourceSpans"]:
        for scoped in group["scopeSpans"]:
            for span in scoped["spans"]:
                for owner in (span, *span.get("links", ())):
                    for key in ("traceId", "spanId", "parentSpanId"):
                        if key in owner:
                            owner[key] = base64.b64encode(bytes.fromhex(owner[key])).decode()


def agent_framework(out: Path) -> None:
    """An agent's response, and the messages of three agents that hear each other."""
    from agent_framework import Message, tool
    from programs_agent_framework import CALL, TASK, agent, count_words

    def critic() -> Any:
        tools = [tool(count_words, approval_mode="never_require")]
        return agent("critic", CALL, "Four words. Make it longer.", tools=tools)

    response = asyncio.run(critic().run(TASK))
    (out / "agent-framework.response.json").write_text(json.dumps(response.to_dict(), indent=1))
    said = [Message(role="user", contents=[TASK])]
    for member in (agent("writer", "The sea is wide."), critic(), agent("editor", "The sea is wide and grey.")):
        said += asyncio.run(member.run(said)).messages
    messages = [message.to_dict() for message in said]
    (out / "agent-framework.conversation.json").write_text(json.dumps(messages, indent=1))


SOURCES: dict[str, Callable[[Path], None]] = {
    "agent-framework": agent_framework,
    "atif": atif,
    "autogen": autogen,
    "langgraph": langgraph,
    "langsmith": langsmith,
    "mlflow": mlflow,
    "phoenix": phoenix,
}

if __name__ == "__main__":
    SOURCES[sys.argv[1]](Path(sys.argv[2]).resolve())
