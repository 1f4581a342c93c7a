"""An Agent Framework team that says a canary wherever a program can say something."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from agent_framework_orchestrations import SequentialBuilder

from tests.integrations.agent_framework_runs import agent, call, look_up

CANARY = "canary-7f3a"


def run() -> None:
    """Run a clerk with a tool and its reviewer."""
    clerk = agent("clerk", call("look_up", city=CANARY), f"{CANARY} again", tools=[look_up])
    asyncio.run(SequentialBuilder(participants=[clerk, agent("b", CANARY)]).build().run(CANARY))


PROGRAMS: dict[str, Callable[[], None]] = {"sequential": run}
