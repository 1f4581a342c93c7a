"""Judges before a scripted server, and runs for them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from blamespan.attribution import Attribution, TracerIdentity
from blamespan.trace import Agent, MessageActionTrace, Step
from blamespan_tracer.alternatives.endpoint import Endpoint
from blamespan_tracer.alternatives.llm_judge.budget import ACCOUNT
from blamespan_tracer.alternatives.llm_judge.settings import Bound, JudgeSettings
from blamespan_tracer.alternatives.llm_judge.tracer import JudgeTracer

WRONG = "12 times 4 is 84"


class Served(ThreadingHTTPServer):
    """A server of the OpenAI protocol that answers by script, and what it was asked.

    The last answer is given again and again. An answer is an object:

    - `say`: the message's content; an object becomes JSON; `find` instead: answer whatever is asked as somebody would
      who takes the decision for decisive in which this text stands;
    - `status`, `headers`, `body`: an HTTP answer as it is; `drop`: hang up; `wait_s`: wait first; `pad`: blanks behind;
    - `drip_s`: wait so long before each byte; `together`: wait until so many were asked at once;
    - `finish`, `usage`: of the answer; `refuses`: refuse questions that carry one of these fields, as 400;
    - `key`: refuse every other key, as 401.
    """

    def __init__(self, answers: Sequence[dict[str, Any]]) -> None:
        super().__init__(("127.0.0.1", 0), _Scripted)
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"
        self.most_at_once = 0
        self.lock, self.ended = threading.Condition(), threading.Event()
        self._answers, self._asked, self._at_once = [*answers], list[Any](), 0

    def take(self, question: Sequence[Any]) -> dict[str, Any]:
        """Note a question that comes in, and return its answer."""
        with self.lock:
            self._asked.append(question)
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
            self.lock.notify_all()
            self.lock.wait_for(lambda: self.most_at_once >= answer.get("together", 1), 30)
        self.ended.wait(answer.get("wait_s", 0))
        with self.lock:
            self._at_once -= 1
        return answer

    def asked(self) -> list[Any]:
        """Stop it and list the path, key and body of each question."""
        if not self.ended.is_set():
            self.ended.set()
            self.shutdown()
            self.server_close()
        return self._asked

    def handle_error(self, *_: object) -> None:
        """Say nothing of those who hang up."""


class _Scripted(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Served

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        answer = self.server.take([self.path, self.headers.get("authorization"), asked])
        refused = [name for name in answer.get("refuses", ()) if name in asked]
        if answer.get("drop"):
            self.close_connection = True
        elif "key" in answer and self.headers.get("authorization") != f"Bearer {answer['key']}":
            self._send(401, b'{"error": {"message": "Incorrect API key"}}', {})
        elif refused:
            said = {"error": {"message": f"Unsupported parameter: {refused[0]}"}} if answer.get("names", True) else {}
            self._send(400, json.dumps(said).encode(), {})
        elif "status" in answer:
            self._send(answer["status"], answer.get("body", "").encode(), answer.get("headers", {}))
        else:
            self._send(200, _write_body(asked, answer), {}, answer.get("drip_s"))

    def _send(self, status: int, body: bytes, headers: dict[str, str], drip_s: float | None = None) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if drip_s is None:
            self.wfile.write(body)
            return
        for byte in body:
            self.wfile.write(bytes([byte]))
            if self.server.ended.wait(drip_s):
                return

    def log_message(self, *_: object) -> None:
        return


def _write_body(asked: dict[str, Any], answer: dict[str, Any]) -> bytes:
    said = _find(asked, answer["find"]) if "find" in answer else answer["say"]
    text = said if isinstance(said, str) else json.dumps(said)
    text += " " * answer.get("pad", 0)
    usage = {"prompt_tokens": 1_000, "completion_tokens": 10}
    end = {"usage": answer["usage"]} if answer.get("usage") else {} if "usage" in answer else {"usage": usage}
    choice: dict[str, Any] = {
        "message": {"role": "assistant", "content": text},
        "finish_reason": answer.get("finish", "stop"),
    }
    return json.dumps({"choices": [choice], **end}).encode()


def _find(asked: dict[str, Any], needle: str) -> dict[str, Any]:
    """Answer a question as the schema wants it: the first decision with these words is to blame."""
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


@contextmanager
def served(*answers: dict[str, Any]) -> Iterator[Served]:
    """Serve *answers*."""
    server = Served(answers)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield server
    finally:
        server.asked()


@contextmanager
def served_as_judge(patch: pytest.MonkeyPatch, *answers: dict[str, Any]) -> Iterator[Served]:
    """Serve *answers* as the judge that the environment names, which keeps nothing and was asked nothing before."""
    patch.delenv(ACCOUNT, raising=False)
    with served(*answers) as server:
        for name, value in {"URL": server.url, "MODEL": "small", "CACHE": "off"}.items():
            patch.setenv(f"BLAMESPAN_JUDGE_{name}", value)
        yield server


def judge(url: str, *, key: str = "secret", timeout_s: float = 60.0, **more: Any) -> JudgeTracer:
    """Make a judge that hardly waits between its attempts."""
    embedded = more.pop("tracer", None)
    combinations = more.pop("combinations", ())
    more["total"] = Bound(more.pop("budget_tokens", None), more.pop("budget_money", None))
    settings = JudgeSettings(Endpoint(url, "small", key, timeout_s), **more)
    return JudgeTracer(settings, embedded, combinations, pause_s=0.01)


def run(texts: Sequence[tuple[str, str]], *, number: int = 1, task: str = "What is 12 times 4?") -> MessageActionTrace:
    """Make a run of messages, each an agent and what it says; `user` asks."""
    names = dict.fromkeys(agent for agent, _ in texts)
    agents = tuple(Agent(name, "user" if name == "user" else "agent") for name in names)
    steps = tuple(
        Step(index, f"{index + 1:016x}", agent, content=text, inputs=(index - 1,) if index else ())
        for index, (agent, text) in enumerate(texts)
    )
    return MessageActionTrace(f"{number:032x}", task, steps, agents)


SUM = run(
    [
        ("user", "What is 12 times 4?"),
        ("planner", "Let the solver multiply."),
        ("solver", f"Done: {WRONG}."),
        ("checker", "That looks right."),
        ("writer", "The answer is 84."),
    ]
)
"""A run in which step 2 is wrong."""


def runs(count: int) -> list[MessageActionTrace]:
    """Make so many that differ in their last words."""
    texts = [(step.agent, step.content) for step in SUM.steps]
    return [run([*texts[:-1], ("writer", f"Number {n}.")], number=n) for n in range(1, count + 1)]


def write_file(path: Path, trace: MessageActionTrace = SUM, step: int = 2) -> Path:
    """Write a failed run as Who&When has it, with a label; its first message is the user's."""
    history = [
        {"name": one.agent, "role": "assistant" if one.index else "user", "content": one.content} for one in trace.steps
    ]
    label = {"mistake_agent": trace.steps[step].agent, "mistake_step": str(step), "mistake_reason": ""}
    path.write_text(json.dumps({"question": trace.task, "history": history, "ground_truth": "48", **label}))
    return path


def verdict(step: object = 2, agent: object = "solver", **more: object) -> dict[str, Any]:
    """Write an answer to the one question about a run."""
    suspect = {"step": step, "agent": agent, "confidence": 0.9, "modes": ["mast:FM-2.6"], "quote": WRONG, **more}
    return {"reasoning": "It says so.", "failed": True, "confidence": 0.8, "suspects": [suspect]}


class Fixed:
    """A tracer that gives the shares it was told."""

    identity = TracerIdentity("fixed", "1")

    def __init__(self, shares: Mapping[str, Sequence[float]]) -> None:
        self._shares = shares

    def attribute(self, traces: Sequence[MessageActionTrace]) -> list[Attribution]:
        """Attribute each run."""
        return [
            Attribution.of(trace, self._shares[trace.trace_id], failure_score=0.7, tracer=self.identity)
            for trace in traces
        ]
