"""Runs that do not fit: every question fits into the context, and nothing that was not shown is answered."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from blamespan.trace import Agent, MessageActionTrace, Step
from blamespan_tracer.alternatives.llm_judge import prompts
from blamespan_tracer.alternatives.llm_judge.shown_run import ShownRun, shown_steps
from blamespan_tracer.alternatives.rendering import RunDocument, estimated_tokens
from blamespan_tracer.ledger import LedgerReader
from tests.tracer_model.alternatives.llm_judge.serving import WRONG, judge, run, served, verdict

MANY = [("user", "Count."), *((f"agent{n % 3}", f"number {n}") for n in range(1, 450))]


def fits(document: str, tokens: int) -> bool:
    return estimated_tokens(prompts.instructions(prompts.VERDICT, "mast") + document) <= tokens


def test_what_many_decisions_are_about_is_thinned_out_evenly() -> None:
    """Where not all can be shown, some of everywhere are, and the others are counted."""
    case = RunDocument.of(run(MANY), 4_000)
    shown = json.loads(case.document(case.decisions, {one.label for one in case.decisions}))
    labels = [step["step"] for step in shown["steps"]]
    gaps = [after - before for before, after in pairwise(labels)]

    assert (labels[0], labels[-1]) == (0, 449)
    assert max(gaps) <= 4 * min(gaps)
    assert shown["steps_not_shown"] == 450 - len(labels)


def test_claims_of_a_run_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is shown of a run, and what disagrees in it, come of one reading: it takes most of the time."""
    read, start = [], LedgerReader.__init__

    def count(reader: LedgerReader, *arguments: Any, **more: Any) -> None:
        read.append(reader)
        start(reader, *arguments, **more)

    monkeypatch.setattr(LedgerReader, "__init__", count)
    ShownRun.of(run([("user", "Add 1 and 2."), ("adder", "1 + 2 = 4.")]), None, 8_000)

    assert len(read) == 1


def test_huge_names_fit_and_are_known() -> None:
    """A name of a million characters is cut in its middle, and an answer that gives it so means its agent."""
    name = "N" * 1_000_000
    trace = run([("user", "Add."), (name, f"So {WRONG}."), ("checker", "Fine.")])
    with served({"find": WRONG}) as server:
        [found] = judge(server.url, context_tokens=4_000).attribute([trace])
        asked = [body["messages"][1]["content"] for _, _, body in server.asked()]

    assert found.agents[0].agent == name
    assert all(fits(each, 4_000) for each in asked)


def test_everything_huge_fits() -> None:
    """A long task in digits, hundreds of agents that say much of themselves, and a thousand answers of tools."""
    name = "clerk"
    steps = [Step(0, f"{1:016x}", name, "tool_call", "call" + "\x01" * 20_000)]
    steps += [Step(n, f"{n + 1:016x}", name, "tool_result", f"{n}" * 50, inputs=(0,)) for n in range(1, 1_001)]
    agents = (Agent(name), *(Agent(f"agent{n}", description="1234 " * 100) for n in range(300)))
    case = RunDocument.of(MessageActionTrace("1" * 32, "7" * 100_000, tuple(steps), agents), 4_000)
    [decision] = case.decisions
    document = case.document(case.decisions)
    [entry] = json.loads(document)["steps"]

    assert fits(document, 4_000)
    assert (len(decision.results), len(entry["tool_answers"]), entry["tool_answers_not_shown"]) == (1_000, 16, 984)


def test_step_that_was_not_shown_is_no_answer() -> None:
    """An answer that names a step of the run for which there was no room does not count."""
    trace = run(MANY)
    shown = shown_steps(ShownRun.of(trace, None, 8_000).question().document)
    hidden = next(step for step in range(1, 450) if step not in shown)
    with served({"say": verdict(hidden, None)}) as server:
        [found] = judge(server.url, context_tokens=8_000).attribute([trace])

    assert found.abstained == f"the judge's answer does not count: it names step {hidden}, which it was not shown"
