"""Judges before a scripted server, and runs for them."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from blamespan.attribution import Attribution, TracerIdentity
from blamespan.trace import Agent, MessageActionTrace, Step
from blamespan_tracer.alternatives.endpoint import Endpoint
from blamespan_tracer.alternatives.llm_judge.settings import Bound, JudgeSettings
from blamespan_tracer.alternatives.llm_judge.tracer import JudgeTracer

WRONG = "12 times 4 is 84"


class Served:
    """A scripted server, and what it was asked."""

    def __init__(self, process: subprocess.Popen[str], told: IO[str]) -> None:
        assert process.stdout is not None
        self._process, self._told = process, told
        self.most_at_once = 0
        self.url = f"http://127.0.0.1:{int(process.stdout.readline())}/v1"

    def asked(self) -> list[Any]:
        """Stop it and list the path, key and body of each question."""
        self._process.terminate()
        self._process.wait(timeout=10)
        self._told.seek(0)
        found = [json.loads(line) for line in self._told if line.startswith("[")]
        self.most_at_once = max((row[3] for row in found), default=0)
        return [row[:3] for row in found]


@contextmanager
def served(*answers: dict[str, Any]) -> Iterator[Served]:
    """Serve *answers* in a process of its own."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as told:
        process = subprocess.Popen(
            [sys.executable, "-S", str(Path(__file__).with_name("server.py")), json.dumps(answers)],
            stdout=subprocess.PIPE,
            stderr=told,
            text=True,
        )
        try:
            yield Served(process, told)
        finally:
            process.kill()
            process.communicate(timeout=10)


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
