"""AutoGen teams that say a canary wherever a program can say something."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from autogen_agentchat.conditions import TextMentionTermination
from autogen_agentchat.teams import RoundRobinGroupChat, SelectorGroupChat, Swarm

from tests.integrations.autogen_runs import Raises, assistant, calls

CANARY = "canary-7f3a"


def look(page: str) -> str:
    """Find canary-7f3a."""
    raise LookupError(f"no {page} canary-7f3a")


def read(page: str) -> dict[str, str]:
    """Read canary-7f3a."""
    return {"canary-7f3a": page}


class Broken(Raises):
    async def on_messages(self, messages: Sequence[Any], cancellation_token: Any) -> Any:
        raise LookupError("canary-7f3a")


def make_team(kind: str) -> Any:
    tools = calls(("look", {"page": CANARY}), ("read", {"page": CANARY}), thought=CANARY)
    options = {"description": CANARY, "system_message": CANARY}
    writer = assistant("writer", tools, CANARY, tools=[look, read], handoffs=["critic"], **options)
    critic = assistant("critic", CANARY, CANARY, **options)
    if kind == "round robin":
        return RoundRobinGroupChat([writer, critic], termination_condition=TextMentionTermination(CANARY, ["critic"]))
    if kind == "swarm":
        handing = assistant("writer", calls(("transfer_to_critic", {})), handoffs=["critic"], **options)
        return Swarm([handing, critic], max_turns=2)
    if kind == "selector":
        chooser = assistant("chooser", "writer", CANARY, "critic")._model_client
        return SelectorGroupChat([writer, critic], chooser, max_turns=2, selector_prompt=f"{CANARY} {{participants}}")
    return RoundRobinGroupChat([Broken("writer"), critic], max_turns=2)


def run(kind: str) -> None:
    """Run a team of a kind, to its end or its error."""
    with suppress(Exception):
        asyncio.run(make_team(kind).run(task=f"task {CANARY}"))


PROGRAMS: dict[str, Callable[[], None]] = {
    kind: partial(run, kind) for kind in ("round robin", "swarm", "selector", "raises")
}
