"""Policies: what is read, what is refused, and what holds where rules contradict each other."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from blamespan.errors import ConfigError
from blamespan.guarding.guard import guard
from blamespan.guarding.policy import Pattern, Policy, read_policy

SOUND = """
fail = "closed"
rewrites = 3
day_file = "days.sqlite"
code_tools = ["my_shell"]

[agents.support]
tools = ["find_order", "refund"]
forbidden = ["delete_*"]
recipients = ["reviewer"]
action = ["rewrite", "ask"]

[[arguments]]
tool = "refund"
argument = "amount"
type = "number"
at_most = 100
action = "ask"
name = "small refunds"

[[texts]]
forbidden_pattern = "(?i)password"

[[findings]]
check = "sum-holds"
action = "rewrite"

[[budgets]]
calls = 40
tokens = 1000
"""


def read(tmp_path: Path, text: str) -> Policy:
    path = tmp_path / "policy.toml"
    path.write_text(text, encoding="utf-8")
    return read_policy(path)


def test_policy_is_read_as_it_is_written(tmp_path: Path) -> None:
    """Each table becomes a record; what may do no good is followed by what does."""
    policy = read(tmp_path, SOUND)

    support, (amount,), (finding,), (budget,) = (
        policy.agents["support"],
        policy.arguments,
        policy.findings,
        policy.budgets,
    )
    assert (support.tools, support.forbidden) == (("find_order", "refund"), ("delete_*",))
    assert support.action == ("rewrite", "ask", "block")
    assert (amount.name, amount.at_most, amount.action) == ("small refunds", 100, ("ask", "block"))
    assert (finding.check, finding.action, finding.name) == ("sum-holds", ("rewrite", "block"), "findings 1")
    assert (budget.limits, budget.action) == ({"calls": 40, "tokens": 1000}, ("block",))
    assert (policy.fail, policy.rewrites, policy.notes) == ("closed", 3, ())
    assert policy.named_agents == ("support", "reviewer")
    assert policy.named_tools == ("find_order", "refund", "my_shell")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[agent.support]\ntools = []", r"unknown key 'agent'. Nearest known: 'agents'"),
        ("[agents.support]\ntool = []", r"\[agents.support\]: unknown key 'tool'. Nearest known: 'tools'"),
        ("[agents.support]\ntools = 'refund'", r"tools: expected a list of texts, got 'refund'"),
        ("[agents.support]\naction = 'stop'", r"expected one of observe, warn, rewrite, ask, block, got 'stop'"),
        ("[[arguments]]\nargument = 'amount'", r"number 1: expected the key 'tool', got \['argument'\]"),
        ("[[arguments]]\ntool = 'refund'\nat_moost = 1", r"unknown key 'at_moost'. Nearest known: 'at_most'"),
        ("[[arguments]]\ntool = 'refund'\nat_most = true", r"at_most: expected a number"),
        ("[[arguments]]\ntool = 'refund'\npattern = '(?=x)'", r"expected a pattern as RE2 reads it, got '\(\?=x\)'"),
        ("[[findings]]\ncheck = 'a'\nsuspicion = 0.5", r"expected one of check, suspicion, .*, got 2 of them"),
        ("[[findings]]\nsuspicion = 2", r"suspicion must be from 0 to 1, got 2"),
        ("[[budgets]]\nper = 'run'", r"expected a limit, got none"),
        ("[[budgets]]\nper = 'week'\ncalls = 3", r"per: expected one of agent, run, day, got 'week'"),
        ("[[budgets]]\nmoney = 3", r"money needs prices, got none"),
        ("[[budgets]]\ncalls = -1", r"calls: expected a whole number from 0, got -1"),
        ("fail = 'shut'", r"fail: expected one of open, closed, got 'shut'"),
        ("agents = 3", r"expected \[agents.NAME\] tables, got agents = 3"),
        ("budgets = 3", r"expected \[\[budgets\]\] tables, got budgets = 3"),
        ("rewrites = 'two'", r"rewrites: expected a whole number, got 'two'"),
        ("rewrites = -1", r"rewrites: expected a whole number from 0, got -1"),
        ("[agents.support]\ncode = 3", r"code: expected a list of texts, got 3"),
        ("[agents]\nsupport = 3", r"\[agents.support\]: expected a table, got 3"),
        ("arguments = [3]", r"\[\[arguments\]\] number 1: expected a table, got 3"),
        ("[[arguments]]\ntool = 'a'\nmax_chars = '9'", r"max_chars: expected a whole number, got '9'"),
        ("[[arguments]]\ntool = 'a'\nrequired = 1", r"required: expected true or false, got 1"),
        ("[[arguments]]\ntool = 'a'\ntype = 'float'", r"type: expected one of text, .*, got 'float'. Nearest: 'list'"),
        ("[prices.x]\ncost = 3", r"\[prices.x\]: unknown key 'cost'. Nearest known: 'sent'"),
        ("code_tools = 3", r"code_tools: expected a table, got 3"),
        ("[code_tools]\nx = 'ruby'", r"code_tools.x: expected one of python, shell, got 'ruby'"),
        (
            "[[texts]]\nforbidden_pattern = '('",
            r"number 1: forbidden_pattern: expected a pattern as RE2 reads it, got '\('",
        ),
        ("nonsense", r"expected a policy in TOML at"),
    ],
)
def test_what_is_no_policy_is_refused_by_name(tmp_path: Path, text: str, message: str) -> None:
    """Whatever is wrong is named, with where it stands and the nearest that is known."""
    with pytest.raises(ConfigError, match=message):
        read(tmp_path, text)


def test_unknown_agents_and_tools_are_named_with_the_nearest(tmp_path: Path) -> None:
    """Where the program's names are known, a policy for others is a mistake; for known ones it is none."""
    policy = read(tmp_path, "[agents.support]\ntools = ['refund']")

    assert not list(policy.find_unknown_names(agents=["support", "reviewer"], tools=["refund"]))
    assert not list(policy.find_unknown_names(agents=[], tools=[]))
    (unknown,) = policy.find_unknown_names(agents=["suport"], tools=["refund"])
    assert unknown == "agent 'support'. Nearest known: 'suport'"
    with pytest.raises(ConfigError, match=r"unknown tool 'refund'. Nearest known: 'refunds'"):
        guard(policy, agents=["support"], tools=["refunds"])


@pytest.mark.parametrize(
    ("text", "note"),
    [
        (
            "[agents.a]\ntools = ['pay']\nforbidden = ['p*']",
            "agent 'a': 'pay' is allowed and forbidden: it is forbidden",
        ),
        (
            "[agents.a]\ntools = ['pay']\n[agents.'*']\nforbidden = ['PAY']",
            "agent 'a': 'pay' is allowed here and forbidden to everybody: it is forbidden",
        ),
        (
            "[agents.a]\ntools = ['pay']\n[agents.'*']\ntools = ['look']",
            "agent 'a': 'pay' is allowed here, but not among everybody's tools: it is forbidden",
        ),
        (
            "[[arguments]]\ntool = 'pay'\nat_most = 9\n[[arguments]]\ntool = 'pay'\nat_most = 3",
            "arguments 1 and arguments 2: at_most 9 and 3: 3 holds",
        ),
        (
            "[[arguments]]\ntool = 'pay'\nat_most = 1\nat_least = 3",
            "arguments 1: at_least 3 is over at_most 1: no value passes",
        ),
        (
            "[[arguments]]\ntool = 'pay'\none_of = ['a']\nnone_of = ['a']",
            "arguments 1: 'a' is in one_of and none_of: it does not pass",
        ),
        ("[[budgets]]\ncalls = 9\n[[budgets]]\ncalls = 3", "budgets 1 and budgets 2: calls 9 and 3: 3 holds"),
        (
            "[[findings]]\ncheck = 'a'\n[[findings]]\ncheck = 'a'\naction = 'block'",
            "findings 1 and findings 2: observe and block for the same: block holds",
        ),
    ],
)
def test_contradictions_are_said_and_the_stricter_holds(tmp_path: Path, text: str, note: str) -> None:
    """A policy that contradicts itself is read, and says what holds."""
    assert note in read(tmp_path, text).notes


def test_no_pattern_explodes() -> None:
    """A pattern that takes other engines for ever takes time in proportion to the text."""
    pattern = Pattern("(a+)+$")
    began = time.perf_counter()

    assert not pattern.is_in("a" * 50_000 + "b")
    assert time.perf_counter() - began < 2.0


def test_pattern_too_large_is_refused() -> None:
    """What RE2 would need too much memory for is a mistake of the policy."""
    with pytest.raises(ConfigError, match="expected a pattern as RE2 reads it"):
        Pattern("((x{100}){100}){100}")
