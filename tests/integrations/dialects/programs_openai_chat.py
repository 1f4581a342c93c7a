"""A program of two agents that call an OpenAI client, with spans of its own around them; the server is scripted.

So the model calls are told by the client's instrumentation in whichever form it writes messages, and the agents by
the program, as many programs do.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

REPLIES = ["The sea is wide.", "Four words. Make it longer."]


def chat() -> None:
    """A writer asks the model for a line, then a critic for a verdict on it."""
    import openai
    from opentelemetry import trace

    tracer = trace.get_tracer("my-app")
    server = HTTPServer(("127.0.0.1", 0), _Scripted)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    client = openai.OpenAI(api_key="none", base_url=f"http://127.0.0.1:{server.server_port}/v1")

    def ask(agent: str, asked: str) -> str:
        attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": agent}
        with tracer.start_as_current_span(f"invoke_agent {agent}", attributes=attributes):
            messages: Any = [{"role": "system", "content": f"You are the {agent}."}, {"role": "user", "content": asked}]
            answer = client.chat.completions.create(model="scripted", messages=messages)
            return answer.choices[0].message.content or ""

    with tracer.start_as_current_span("invoke_workflow desk", attributes={"gen_ai.operation.name": "invoke_workflow"}):
        ask("critic", ask("writer", "Write a line about the sea."))
    server.shutdown()


class _Scripted(BaseHTTPRequestHandler):
    count = 0

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        message = {"role": "assistant", "content": REPLIES[_Scripted.count % 2]}
        _Scripted.count += 1
        body = {
            "id": "chat_1",
            "object": "chat.completion",
            "created": 0,
            "model": "scripted",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25},
        }
        text = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *args: Any) -> None:
        """Stay silent."""


PROGRAMS: dict[str, Callable[[], None]] = {"openai-chat": chat}
