"""A server of the OpenAI protocol in a process of its own that answers by script: `python server.py PLAN`.

PLAN is a JSON list of answers; the last one is given again and again. An answer is an object:

- `say`: the message's content; an object becomes JSON; `find` instead: answer whatever is asked as somebody would who
  takes the decision for decisive in which this text stands;
- `status`, `headers`, `body`: an HTTP answer as it is; `drop`: hang up; `wait_s`: wait first; `pad`: so many blanks;
- `stream`: send it as server-sent events in so many pieces; `end`: false to leave out how it ends;
- `finish`, `usage`: of the answer; `refuses`: refuse questions that carry one of these fields, as 400;
- `key`: refuse every other key, as 401.

The port is printed; what was asked goes to stderr, one line each, with how many were asked at once.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

answers: list[dict[str, Any]] = json.loads(sys.argv[1])
lock = threading.Lock()
busy: list[object] = []


def found(asked: dict[str, Any], needle: str) -> dict[str, Any]:
    """Answer a question as the schema wants it."""
    document = json.loads(asked["messages"][1]["content"])
    steps = [
        {"agent": entry["agent"], **each}
        for entry in document["steps"]
        if entry.get("is_decision", True)
        for each in entry.get("messages", [entry])
    ]
    hits = [step for step in steps if needle in step["text"]]
    suspects = [
        {"step": each["step"], "agent": each["agent"], "confidence": 0.9, "modes": ["mast:FM-2.6"], "quote": needle}
        for each in hits[:1]
    ]
    return {"reasoning": "", "failed": bool(hits), "confidence": 0.9, "suspects": suspects, "see": []}


class Scripted(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with lock:
            busy.append(self)
            sys.stderr.write(json.dumps([self.path, self.headers.get("authorization"), asked, len(busy)]) + "\n")
            sys.stderr.flush()
            answer = answers.pop(0) if len(answers) > 1 else answers[0]
        time.sleep(answer.get("wait_s", 0))
        with lock:
            busy.remove(self)
        refused = [name for name in answer.get("refuses", ()) if name in asked]
        if answer.get("drop"):
            self.close_connection = True
            return
        if "key" in answer and self.headers.get("authorization") != f"Bearer {answer['key']}":
            self._send(401, b'{"error": {"message": "Incorrect API key"}}', {})
        elif refused:
            said = {"error": {"message": f"Unsupported parameter: {refused[0]}"}} if answer.get("names", True) else {}
            self._send(400, json.dumps(said).encode(), {})
        elif "status" in answer:
            self._send(answer["status"], answer.get("body", "").encode(), answer.get("headers", {}))
        else:
            self._send(200, self._body(asked, answer), {})

    def _body(self, asked: dict[str, Any], answer: dict[str, Any]) -> bytes:
        said = found(asked, answer["find"]) if "find" in answer else answer["say"]
        text = said if isinstance(said, str) else json.dumps(said)
        text += " " * answer.get("pad", 0)
        usage = {"prompt_tokens": 1_000, "completion_tokens": 10}
        end = {"usage": answer["usage"]} if answer.get("usage") else {} if "usage" in answer else {"usage": usage}
        finish = answer.get("finish", "stop")
        if "stream" in answer:
            size = -(-len(text) // answer["stream"])
            parts = [text[at : at + size] for at in range(0, len(text), size)]
            events = [{"choices": [{"delta": {"content": part}, "finish_reason": None}]} for part in parts]
            events += [{"choices": [{"delta": {}, "finish_reason": finish}]}] if answer.get("end", True) else []
            lines = [f"data: {json.dumps(event)}\n\n" for event in events]
            return "".join([*lines, "data: [DONE]\n\n" if answer.get("end", True) else ""]).encode()
        choice: dict[str, Any] = {"message": {"role": "assistant", "content": text}, "finish_reason": finish}
        return json.dumps({"choices": [choice], **end}).encode()

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
    sys.stdout.write(f"{server.server_address[1]}\n")
    sys.stdout.flush()
    server.serve_forever()
