"""Findings found while a run goes on: each has its sound twin, and a step costs the same however long the run is."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from blamespan.errors import ConfigError
from blamespan.guarding.decisions import ProposedStep
from blamespan.guarding.policy import parse_policy
from blamespan.guarding.watching import RunFinding
from blamespan.trace import MessageActionTrace
from blamespan_tracer import run_watcher
from blamespan_tracer.run_watcher import RunWatcher, checks_of_steps

TASK = "Order 48213 has 37 boxes. How many are in two such orders?"


def watcher(*findings: dict[str, Any], task: str = TASK) -> RunWatcher:
    return RunWatcher(parse_policy({"findings": list(findings)}).findings, task)


def say(watching: RunWatcher, agent: str, text: str, kind: Any = "message", tool: str = "") -> list[RunFinding]:
    step = ProposedStep(kind, agent, text, tool)
    findings = list(watching.examine(step))
    watching.commit(step)
    return findings


def suspicion(watching: RunWatcher, agent: str, text: str) -> float:
    return next(finding.strength for finding in say(watching, agent, text) if finding.kind == "suspicion")


def test_claim_against_its_source_is_suspicious_and_its_twin_is_not() -> None:
    """A copied order number that differs in a digit raises the suspicion, a right one does not."""
    wrong = suspicion(watcher({"suspicion": 0.0}), "a", "I look up order 48273 with its 37 boxes.")
    right = suspicion(watcher({"suspicion": 0.0}), "a", "I look up order 48213 with its 37 boxes.")

    assert right < 0.3
    assert wrong > right + 0.2


def test_suspicion_names_what_contradicts_what() -> None:
    """The agent is told which claim, and what its source says."""
    findings = say(watcher({"suspicion": 0.0}), "a", "I look up order 48273 with its 37 boxes.")

    assert "48273" in findings[0].advice
    assert "48213" in findings[0].advice
    assert "48273" not in findings[0].reason


def test_broken_sum_is_found_at_its_step_and_a_right_one_is_not() -> None:
    """A check of the registry judges the step that is about to be said, by what was said before."""
    watching = watcher({"check": "sum-holds"})

    assert [finding.name for finding in say(watching, "a", "That is 37 * 2 = 75.")] == ["sum-holds"]
    assert say(watching, "b", "No: 37 * 2 = 74.") == []


def test_number_from_far_back_has_its_source() -> None:
    """A check sees the steps that a claim comes from, however far back they are."""
    watching = watcher({"check": "number-has-source"}, task="Count the boxes.")
    say(watching, "a", '{"shelf": "A"}', "tool_call", "count")
    say(watching, "a", "There are 48213 boxes on the shelf.", "tool_result", "count")
    for number in range(12):
        say(watching, "b", f"Let us wait a little{'.' * (number + 1)}")

    assert say(watching, "b", "So there are 48213 boxes on the shelf.") == []
    assert [finding.name for finding in say(watching, "b", "So there are 99187 boxes on the shelf.")] == [
        "number-has-source"
    ]


def spread(findings: list[RunFinding]) -> float:
    return max((finding.strength for finding in findings if finding.kind == "spread"), default=0.0)


def test_claim_without_support_is_counted_by_the_agents_that_state_it() -> None:
    """Each agent counts once; what a tool confirms is supported from then on, and what the task says always was."""
    watching = watcher({"unsupported_reaches": 2})

    assert spread(say(watching, "a", "The code is 7719.")) == 1
    assert spread(say(watching, "a", "As I said, 7719.")) == 1
    assert spread(say(watching, "b", "So we take 7719.")) == 2
    assert spread(say(watching, "c", "7719 it is.")) == 3
    say(watching, "c", "{}", "tool_call", "look")
    say(watching, "c", "code: 7719", "tool_result", "look")
    assert spread(say(watching, "d", "7719 is the code.")) == 0
    assert spread(say(watching, "d", "Order 48213 has 37 boxes.")) == 0


def test_call_that_is_asked_for_is_examined_as_the_call_that_it_would_be() -> None:
    """Broken arguments are found while the model can still be asked again; whole ones are not, in either spelling."""
    watching = watcher({"check": "arguments-well-formed"})

    def names(text: str, arguments: dict[str, Any], kind: Any = "request") -> list[str]:
        return [
            finding.name for finding in watching.examine(ProposedStep(kind, "a", text, "look", arguments=arguments))
        ]

    assert names('{"box": 37', {}) == ["arguments-well-formed"]
    assert names('{"box": 37}', {"box": 37}) == []
    assert names('[{"box": 37}]', {"box": 37}, "tool_call") == []  # as LangGraph passes them


def test_report_of_many_results_has_all_its_sources() -> None:
    """Each number of a long report is looked up where it comes from; one that comes from nowhere is found."""
    watching = watcher({"check": "number-has-source"}, task="Count the boxes.")
    counts = [48_213 + 1_117 * number for number in range(9)]
    for number, count in enumerate(counts):
        say(watching, "a", f'{{"shelf": "{number}"}}', "tool_call", "count")
        say(watching, "a", f"Shelf {number} has {count} boxes.", "tool_result", "count")
    for number in range(6):
        say(watching, "b", f"Let us wait a little{'.' * (number + 1)}")
    report = " ".join(f"I note that shelf {number} has {count} boxes." for number, count in enumerate(counts))

    assert say(watching, "b", report) == []
    assert [finding.name for finding in say(watching, "b", f"{report} Shelf 9 has 99187.")] == ["number-has-source"]


def test_step_that_does_not_take_place_leaves_no_trace() -> None:
    """What is only examined is not taken up: it supports nothing, and does not spread."""
    watching = watcher({"unsupported_reaches": 2})
    watching.examine(ProposedStep("message", "a", "The code is 7719."))

    assert spread(say(watching, "b", "The code is 7719.")) == 1


def test_step_that_is_examined_again_breaks_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is asked again and says the same is told the same, without another reading; what came between is heard."""
    watching = watcher({"check": "number-has-source"})
    step = ProposedStep("message", "a", "There are 98765 boxes.")
    first = watching.examine(step)
    with monkeypatch.context() as patched:
        patched.setattr(watching, "_reader", None)
        again = watching.examine(ProposedStep("message", "a", "There are 98765 boxes."))
    watching.commit(ProposedStep("tool_result", "a", "I count 98765 boxes.", "count"))

    assert again == first
    assert [finding.name for finding in first] == ["number-has-source"]
    assert watching.examine(step) == []


@pytest.mark.parametrize("text", ["", "\ud800", "1" * 5_000, "\u202e7719", "{" * 2_000, "policy: allow *"])
def test_odd_texts_are_watched(text: str) -> None:
    """No text raises."""
    watching = watcher({"suspicion": 0.5}, {"unsupported_reaches": 2}, {"check": "*"})

    for kind in ("message", "tool_call", "tool_result"):
        say(watching, "a", text, kind, "look")


def test_checks_of_steps_are_those_that_need_no_end() -> None:
    """How a run ends is judged at its end: it is no finding while the run goes on."""
    names = checks_of_steps()

    assert "sum-holds" in names
    assert "answer-given" not in names


def test_time_of_a_step_does_not_grow_with_the_run() -> None:
    """The last hundred of 400 steps take no more than thrice what the first hundred take."""
    watching = watcher({"suspicion": 0.5}, {"unsupported_reaches": 2}, {"check": "sum-holds"})
    times: list[float] = []
    for number in range(400):
        began = time.process_time()
        say(watching, "abc"[number % 3], f"Box {number} weighs {number % 90 + 10} kg, so we go on.")
        times.append(time.process_time() - began)

    assert sum(times[-100:]) < 3 * sum(times[20:120]) + 0.05


def test_known_failure_is_a_sign_at_its_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """A schema that the policy names is looked for in the step that is about to be taken; an unknown one is refused."""
    schema = SimpleNamespace(name="late-refund")

    def match(trace: MessageActionTrace, schemata: list[Any], *, first: int) -> list[Any]:
        shows = "refund" in trace.steps[first].content
        return [SimpleNamespace(schema=one, score=0.9, step=first) for one in schemata if shows]

    monkeypatch.setattr(run_watcher, "schemata_in_use", lambda: (schema,))
    monkeypatch.setattr(run_watcher, "match_schemata", match)
    watching = watcher({"schema": "late-*"})

    assert [finding.name for finding in say(watching, "a", "I refund it later.")] == ["late-refund"]
    assert say(watching, "a", "It is done.") == []
    with pytest.raises(ConfigError, match="schema 'early' is no known failure"):
        watcher({"schema": "early"})
