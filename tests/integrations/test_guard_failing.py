"""A guard that fails inside: wherever that is, it is counted, and the step passes or not as `fail` says."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_ext.models.replay import ReplayChatCompletionClient

import blamespan
from blamespan.guarding.policy import parse_policy
from tests.integrations.autogen_runs import INFO, calls
from tests.integrations.guarded import pay
from tests.integrations.hosts import INSTALLED

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
POLICY = parse_policy(
    {
        "agents": {"clerk": {"forbidden": ["send_money"], "recipients": ["boss"]}},
        "texts": [{"forbidden_pattern": "nothing like this"}],
        "budgets": [{"calls": 100}],
    }
)
PLACES = (
    "blamespan.guarding.guard.names_behind",
    "blamespan.guarding.guard.read_arguments",
    "blamespan.guarding.guard.judge_step",
    "blamespan.guarding.guard.means_agent",
    "blamespan.guarding.guard.Guard.book",
    "blamespan.guarding.guard.Guard.take_note",
    "blamespan.guarding.guard._Guards._judge",
    "blamespan.guarding.guard._Guards._settle_verdicts",
    "blamespan.guarding.budgets.Books.reserve",
)


@pytest.mark.parametrize("framework", INSTALLED)
@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.rpartition(".")[2])
def test_failure_inside_is_counted_and_heeds_fail(framework: str, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Closed, no tool is called whose call could not be judged; open, it is; counted both times, and raised never."""

    def broken(*_: Any, **__: Any) -> Any:
        raise LookupError("in the guard")

    with blamespan.guard(POLICY, fail="closed") as sound:
        paid = {"sound": pay(framework, 5)}
    monkeypatch.setattr(place, broken)
    counts = {}
    for fail in ("open", "closed"):
        with blamespan.guard(POLICY, fail=fail) as guard:
            paid[fail] = pay(framework, 5)
        counts[fail] = guard.counts["error"]

    assert paid == {"open": [5], "closed": [], "sound": [5]}
    assert min(counts.values()) > 0
    assert not sound.counts


@pytest.mark.parametrize(("fail", "heard"), [("open", True), ("closed", False)])
def test_message_whose_way_cannot_be_judged_is_not_delivered(
    fail: str, heard: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who hears a message is decided, too: where that fails closed, nobody does."""

    def broken(*_: Any, **__: Any) -> Any:
        raise LookupError("in the guard")

    monkeypatch.setattr("blamespan.guarding.guard._Guards._judge_delivery", broken)
    clients = [ReplayChatCompletionClient([text, text], model_info=INFO) for text in ("for the boss", "thanks")]
    agents: list[Any] = [AssistantAgent(name, one) for name, one in zip(("clerk", "boss"), clients, strict=True)]
    with blamespan.guard(POLICY, fail=fail) as guard:
        asyncio.run(RoundRobinGroupChat(agents, max_turns=2).run(task="Go."))

    sent = str(clients[1].create_calls[0]["messages"])
    assert ("for the boss" in sent) is heard
    assert guard.counts["error"] > 0


def test_tool_that_uses_more_than_can_be_looked_at_is_not_called_where_that_is_closed() -> None:
    """What a tool does must be known: one with more objects than the guard looks at is a failure of the guard."""
    paid: list[int] = []
    many = [object() for _ in range(30_000)]

    def look(amount: int) -> str:
        """Look."""
        paid.append(amount + 0 * len(many))
        return "paid"

    client = ReplayChatCompletionClient([calls(("look", {"amount": 5})), *["done"] * 3], model_info=INFO)
    with blamespan.guard(POLICY, fail="closed") as guard:
        asyncio.run(RoundRobinGroupChat([AssistantAgent("clerk", client, tools=[look])], max_turns=1).run(task="Pay."))

    assert paid == []
    assert guard.counts["error"] == 1
