"""A retry mends a fault only where the feedback names the agent that erred, and that heeds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

pytest.importorskip("autogen_agentchat")
pytest.importorskip("langgraph")

from tests.benchmarks.learn_worth import HEED, retry

from blamespan.attribution import Attribution, TracerIdentity
from blamespan.importing.recorded import RecordedRun
from blamespan.trace import Agent, MessageActionTrace, Step
from blamespan_lab.learn.folder import Done
from blamespan_lab.learn.worker import WrittenFault

AGENTS = ("planner", "buyer", "auditor")
N = 200


@dataclass(frozen=True)
class Naming:
    """Blames one step of each run."""

    step: int
    identity = TracerIdentity("naming", "1")

    def attribute(self, traces: Sequence[MessageActionTrace]) -> list[Attribution]:
        """Blame it."""
        shares = [float(step == self.step) for step in range(len(AGENTS))]
        return [Attribution.of(trace, shares, failure_score=1.0, tracer=self.identity) for trace in traces]


def _runs() -> dict[str, RecordedRun]:
    steps = tuple(Step(i, f"{i + 1:016x}", name, "message", f"I did part {i}.") for i, name in enumerate(AGENTS))
    runs = {}
    for number in range(N):
        key = f"{number + 1:032x}"
        trace = MessageActionTrace(key, "Buy chairs.", steps, tuple(map(Agent, AGENTS)), outcome="failed")
        runs[key] = RecordedRun(key, trace, None)
    return runs


def _failed(runs: dict[str, RecordedRun]) -> list[Done]:
    fault = WrittenFault("buyer", "fact_dropped", "response", "drop", ("mast:FM-2.4",), 1)
    return [Done(f"fault x response buyer 0 {key}", "flipped", trace_id=key, fault=fault, decisive=1) for key in runs]


def test_naming_who_erred_mends_as_many_as_heed_it_and_naming_another_none() -> None:
    """Nothing else differs: the draws are the same."""
    runs = _runs()
    failed = _failed(runs)

    right, wrong = (sum(retry(Naming(step), failed, runs)) / N for step in (1, 0))

    assert right == pytest.approx(HEED, abs=0.1)
    assert wrong == 0


def test_naming_anybody_mends_a_third_of_that() -> None:
    """There are three agents, and each is named alike."""
    runs = _runs()

    solved = sum(retry(Naming(1), _failed(runs), runs, names_anybody=True)) / N

    assert solved == pytest.approx(HEED / len(AGENTS), abs=0.1)
