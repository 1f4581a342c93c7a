"""Small labelled runs that the tests of the tracer build on; every word in them is made up here."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from blamespan.importing.recorded import Fault, RecordedRun
from blamespan.taxonomy import AEGIS
from blamespan.trace import Agent, AgentRole, MessageActionTrace, Step, StepKind
from blamespan_lab.train.lexical.labelled_agents import LabelledRun, labelled_runs

SAYS_OF_MODE = {
    "FM-1.3": "let us add another extra redundant paragraph",
    "FM-2.4": "details are withheld and kept silent",
    "FM-3.1": "we stop here early and finish now",
}
"""What an agent says that makes one of three errors."""

FILLER = ["apple", "river", "stone", "paper", "window", "garden", "cloud", "table", "music", "bread"]


def trace(
    *said: tuple[str, str], task: str = "count the birds", number: int = 1, roles: dict[str, AgentRole] | None = None
) -> MessageActionTrace:
    """A run in which agents say what is given, in order; an executor's words are tool results."""
    found = roles or {}
    names = dict.fromkeys(agent for agent, _ in said)

    def kind(agent: str) -> StepKind:
        return "tool_result" if found.get(agent) == "executor" else "message"

    return MessageActionTrace(
        trace_id=f"{number:032x}",
        task=task,
        steps=tuple(
            Step(index, f"{index + 1:016x}", agent, kind(agent), text) for index, (agent, text) in enumerate(said)
        ),
        agents=tuple(Agent(name, found.get(name, "agent")) for name in names),
        outcome="failed",
    )


def recorded(n_runs: int, *, seed: int = 0) -> list[RecordedRun]:
    """Failed runs of three agents, one of which makes one of three errors, in its own words."""
    generator = np.random.default_rng(seed)
    codes = list(SAYS_OF_MODE)
    runs = []
    for number in range(1, n_runs + 1):
        guilty, code = int(generator.integers(3)), codes[int(generator.integers(3))]
        said = []
        for place in range(6):
            words = " ".join(str(word) for word in generator.choice(FILLER, size=8))
            extra = SAYS_OF_MODE[code] if place % 3 == guilty else "all is well"
            said.append((f"agent{place % 3}", f"{words} {extra}."))
        run = trace(*said, task=f"question {chr(97 + number % 26)} {'x' * number}", number=number)
        runs.append(RecordedRun(f"made up:{number}", run, (Fault(f"Agent{guilty}", AEGIS[code]),)))
    return runs


def labelled(n_runs: int, *, seed: int = 0) -> Sequence[LabelledRun]:
    """The same, as training sees them."""
    return list(labelled_runs(recorded(n_runs, seed=seed)))
