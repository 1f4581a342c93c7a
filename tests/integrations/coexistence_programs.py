"""Real programs under our instrumentation and a peer's, switched on and off in any order; run as a process of its own.

python -m tests.integrations.coexistence_programs PEER ORDER...

PEER is a name in `PEERS`, an ORDER lists what is done: `+ours +peer run -ours run -peer run`. Prints one JSON
document: per order, what each run gave back and its spans as `[scope, name, parent's name, trace]`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import import_module
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

PEERS = {
    "openinference-autogen": (
        "openinference.instrumentation.autogen_agentchat",
        "AutogenAgentChatInstrumentor",
        "autogen",
    ),
    "openinference-langchain": ("openinference.instrumentation.langchain", "LangChainInstrumentor", "langgraph"),
    "genai-langchain": ("opentelemetry.instrumentation.genai.langchain", "LangChainInstrumentor", "langgraph"),
    "genai-openai": ("opentelemetry.instrumentation.genai.openai", "OpenAIInstrumentor", "langgraph_openai"),
    "genai-openai-autogen": ("opentelemetry.instrumentation.genai.openai", "OpenAIInstrumentor", "autogen_openai"),
}
"""Module and class of each peer's instrumentor, and the program it is tried on."""

ANSWER = {
    "id": "c1",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt-4o-2024-08-06",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
}


class _Completions(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = json.dumps(ANSWER).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return None


@contextmanager
def completions() -> Iterator[str]:
    """Serve one answer to every chat completion; gives the base URL."""
    server = HTTPServer(("127.0.0.1", 0), _Completions)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()


def autogen() -> str:
    """Two assistants, the first of which calls a tool."""
    from autogen_agentchat.teams import RoundRobinGroupChat

    from tests.integrations.autogen_runs import assistant, calls

    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    members = [assistant("solver", calls(("add", {"a": 2, "b": 2})), tools=[add]), assistant("checker", "right")]
    done = asyncio.run(RoundRobinGroupChat(list(members), max_turns=2).run(task="add 2 and 2"))
    return str(done.messages[-1].content)


def autogen_openai() -> str:
    """One assistant that asks an OpenAI model."""
    from autogen_agentchat.agents import AssistantAgent
    from autogen_agentchat.teams import RoundRobinGroupChat
    from autogen_ext.models.openai import OpenAIChatCompletionClient

    async def go(url: str) -> str:
        client = OpenAIChatCompletionClient(model="gpt-4o", base_url=url, api_key="none")
        done = await RoundRobinGroupChat([AssistantAgent("solver", client)], max_turns=1).run(task="go")
        await client.close()
        return str(done.messages[-1].content)

    with completions() as url:
        return asyncio.run(go(url))


def agent_framework() -> str:
    """Two agents, the first of which calls a tool."""
    from agent_framework_orchestrations import SequentialBuilder

    from tests.integrations.agent_framework_runs import agent, call

    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    members = [agent("solver", call("add", a=2, b=2), "4", tools=[add]), agent("checker", "right")]
    result = asyncio.run(SequentialBuilder(participants=members).build().run("add 2 and 2"))
    return str(result.get_outputs()[-1].text)


def langgraph() -> str:
    """An agent that calls a tool, a tool node and a checker."""
    from tests.integrations.langgraph_programs import asks_for, calculator

    graph = calculator(asks_for("add", a=2, b=2), "It is 4.")
    return str(graph.invoke({"messages": [("user", "add")]})["messages"][-1].content)


def langgraph_openai() -> str:
    """A node that asks an OpenAI model by OpenAI's own client."""
    from openai import OpenAI

    from tests.integrations.langgraph_programs import chain

    with completions() as url:
        client = OpenAI(base_url=url, api_key="none")

        def ask(_: Any) -> dict[str, list[str]]:
            messages: Any = [{"role": "user", "content": "hi"}]
            found = client.chat.completions.create(model="gpt-4o", messages=messages)
            return {"words": [str(found.choices[0].message.content)]}

        return str(chain(("solver", ask)).invoke({"words": ["go"]})["words"][-1])


def main(peer: str, *orders: str) -> None:
    """Do what each of *orders* says, one after another, and print what came of it."""
    module, name, program = PEERS[peer]
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    ours = import_module(f"blamespan_integrations.{program.partition('_')[0]}")
    instrumentors = {
        "ours": getattr(ours, ours.__all__[0])(),
        "peer": getattr(import_module(module), name)(),
    }
    run: Callable[[], str] = globals()[program]
    found: list[list[dict[str, Any]]] = []
    for order in orders:
        found.append([])
        for word in order.split():
            if word == "run":
                exporter.clear()
                found[-1].append({"answer": run(), "spans": drawn(exporter.get_finished_spans())})
            elif word[0] == "+":
                instrumentors[word[1:]].instrument(tracer_provider=provider, skip_dep_check=True)
            else:
                instrumentors[word[1:]].uninstrument()
    sys.stdout.write(json.dumps(found))


def drawn(spans: tuple[ReadableSpan, ...]) -> list[list[str]]:
    """List scope, name, parent's name and trace of spans in the order they began."""
    names = {span.context.span_id: span.name for span in spans if span.context}
    rows = []
    for span in sorted(spans, key=lambda span: span.start_time or 0):
        scope = span.instrumentation_scope.name if span.instrumentation_scope else ""
        parent = "" if span.parent is None else names.get(span.parent.span_id, "?")
        rows.append([scope, span.name, parent, f"{span.context.trace_id:x}" if span.context else ""])
    return rows


if __name__ == "__main__":
    main(*sys.argv[1:])
