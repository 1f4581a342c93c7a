"""`blamespan guard`: what a policy says, what is unknown in it, and what it would have done on recorded runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from blamespan.analysis.guard_command import guard_command
from blamespan.errors import ConfigError
from blamespan.guarding.decisions import ProposedStep
from blamespan.guarding.policy import parse_policy
from blamespan.guarding.rules import judge_step
from blamespan.guarding.trying import try_run
from blamespan.trace import Agent, MessageActionTrace, Step, Usage

POLICY = """
[agents.clerk]
tools = ["look", "pay"]

[[arguments]]
tool = "pay"
argument = "amount"
at_most = 10
action = "ask"

[[texts]]
forbidden_pattern = "maybe"
action = "observe"
"""


def steps_file(path: Path, *runs: tuple[str, list[dict[str, str]]]) -> Path:
    """Write runs as `blamespan analyze` reads them."""
    lines = [
        json.dumps({"task": "Pay.", "outcome": outcome, "steps": steps, "id": str(number)})
        for number, (outcome, steps) in enumerate(runs)
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def paying(amount: int) -> list[dict[str, str]]:
    return [
        {"agent": "boss", "kind": "message", "content": "Pay it, maybe."},
        {"agent": "clerk", "kind": "tool_call", "content": f'pay({{"amount": {amount}}})'},
        {"agent": "clerk", "kind": "message", "content": "Paid."},
    ]


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.toml"
    path.write_text(POLICY, encoding="utf-8")
    return path


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(guard_command, list(arguments))


def test_policy_is_said_in_sentences(policy: Path) -> None:
    """Each rule is a sentence, with what is done otherwise."""
    result = invoke("check", str(policy))

    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "'clerk' may call 'look', 'pay', and no other tool. Else: block.",
        "arguments 1: 'amount' of 'pay' is at most 10. Else: ask, then block.",
        "texts 1: a message has no part as 'maybe' says, wherever it stands. Else: observe.",
        "Where the guard itself fails, the step passes.",
    ]


def test_patterns_are_said_with_what_they_hold_for(policy: Path) -> None:
    """A pattern holds for a whole argument, a forbidden one for any part of it: `check` says so, and so it is."""
    rules = [{"pattern": "[a-z]{3}"}, {"forbidden_pattern": "[a-z]{3}"}]
    lines = "".join(
        f"[[arguments]]\ntool = 'pay'\nargument = 'to'\n{key} = '{text}'\n" for r in rules for key, text in r.items()
    )
    policy.write_text(lines, encoding="utf-8")

    assert invoke("check", str(policy)).stdout.splitlines()[:2] == [
        "arguments 1: 'to' of 'pay' is as a whole as '[a-z]{3}' says. Else: block.",
        "arguments 2: 'to' of 'pay' has no part as '[a-z]{3}' says, wherever it stands. Else: block.",
    ]
    (whole, part) = (parse_policy({"arguments": [{"tool": "pay", "argument": "to", **rule}]}) for rule in rules)
    steps = {
        text: ProposedStep("tool_call", "clerk", "", "pay", arguments={"to": text}) for text in ("abc", "1abc1", "1")
    }
    assert [bool(judge_step(whole, step)) for step in steps.values()] == [False, True, True]
    assert [bool(judge_step(part, step)) for step in steps.values()] == [True, True, False]


def test_contradictions_are_printed(policy: Path) -> None:
    """What contradicts itself is said, with what holds."""
    policy.write_text(POLICY + "[agents.'*']\nforbidden = ['pay']\n", encoding="utf-8")

    assert (
        "contradiction: agent 'clerk': 'pay' is allowed here and forbidden to everybody"
        in invoke("check", str(policy)).stdout
    )


def test_unknown_names_fail_with_the_nearest(policy: Path, tmp_path: Path) -> None:
    """Held against recorded runs, a tool that never occurs is unknown; one that the user names is not."""
    traces = steps_file(tmp_path / "runs.jsonl", ("succeeded", paying(1)))
    unknown = invoke("check", str(policy), "--traces", str(traces))
    known = invoke("check", str(policy), "--traces", str(traces), "--tool", "look", "--json")

    assert unknown.exit_code == 1
    assert "unknown: tool 'look'. Nearest known: 'pay'" in unknown.stdout
    assert (known.exit_code, json.loads(known.stdout)["unknown"]) == (0, [])


def test_policy_is_tried_on_recorded_runs(policy: Path, tmp_path: Path) -> None:
    """Each step on which the guard would have decided is a line; the last lines hold decisions against outcomes."""
    runs = [("failed", paying(50)), ("failed", paying(5)), ("succeeded", paying(5)), ("succeeded", paying(70))]
    traces = steps_file(tmp_path / "runs.jsonl", *runs)
    result = invoke("try", str(policy), str(traces))

    lines = result.stdout.splitlines()
    assert result.exit_code == 0
    assert [line.split()[:3] for line in lines if line.startswith("   1  ")] == [["1", "ask", "clerk"]] * 2
    assert lines[-4].startswith("4 runs, 2 disturbed; decisions: 2 ask, 4 observe")
    assert lines[-3].split()[-4:] == ["%", "1", "of", "2"]
    assert lines[-1].startswith("sound runs disturbed    50.0 %   1 of 2")


def test_json_holds_every_decision(policy: Path, tmp_path: Path) -> None:
    """One object for each run and one for all."""
    traces = steps_file(tmp_path / "runs.jsonl", ("failed", paying(50)))
    run, figures = map(json.loads, invoke("try", str(policy), str(traces), "--json").stdout.splitlines())

    assert [(step["step"], step["action"]) for step in run["steps"]] == [(0, "observe"), (1, "ask")]
    assert run["steps"][1]["decisions"][0]["reason"] == "the argument 'amount' of 'pay' is over 10"
    assert (figures["precision"], figures["recall"], figures["disturbed"]) == (1.0, 1.0, 1)


def test_unreadable_runs_fail(policy: Path, tmp_path: Path) -> None:
    """A file that is no run is named, and the exit code says so."""
    path = tmp_path / "odd.jsonl"
    path.write_text("nothing\n", encoding="utf-8")

    assert invoke("try", str(policy), str(path)).exit_code == 1


def trace(*steps: tuple[str, str, str], seconds: float = 1.0, tokens: int = 0) -> MessageActionTrace:
    agents = tuple(Agent(name) for name in dict.fromkeys(agent for agent, _, _ in steps))
    return MessageActionTrace(
        "1" * 32,
        "Pay.",
        tuple(
            Step(
                number,
                f"{number + 1:016x}",
                agent,
                kind,  # type: ignore[arg-type]  # kinds are written out
                text,
                start_ns=int(number * seconds * 1e9),
                end_ns=int(number * seconds * 1e9),
                usage=Usage(tokens, 0) if tokens else None,
            )
            for number, (agent, kind, text) in enumerate(steps)
        ),
        agents,
    )


TALK = tuple(("a", "message", f"word {number}") for number in range(6))


@pytest.mark.parametrize(
    ("budget", "over"),
    [({"calls": 4}, [4, 5]), ({"tokens": 250}, [3, 4, 5]), ({"seconds": 3.0}, [3, 4, 5]), ({"tool_calls": 1}, [])],
)
def test_budgets_are_tried_by_recorded_times_and_tokens(budget: dict[str, Any], over: list[int]) -> None:
    """The recording's own clock and usage decide, and a second try decides the same."""
    policy = parse_policy({"budgets": [budget]})
    tried = [try_run([policy], trace(*TALK, tokens=100)) for _ in range(2)]

    assert [step.step for step in tried[0].steps] == over
    assert tried[0].steps == tried[1].steps


def test_days_are_not_spent_by_trying(tmp_path: Path) -> None:
    """Trying leaves the file of the days alone."""
    file = tmp_path / "days.sqlite"
    policy = parse_policy({"budgets": [{"per": "day", "calls": 2}], "day_file": str(file)})

    assert [step.step for step in try_run([policy], trace(*TALK)).steps] == [2, 3, 4, 5]
    assert not file.exists()


def test_check_that_there_is_not_is_refused() -> None:
    """A finding names a check that one step can break; the nearest is named, and why another one is none."""
    wrong = {"sum-hold": "is no check. Nearest known: 'sum-holds'", "answer-given": "is about how a run ends"}
    for name, why in wrong.items():
        with pytest.raises(ConfigError, match=why):
            try_run([parse_policy({"findings": [{"check": name}]})], trace(*TALK))
