"""A team that buys chairs, whose auditor always errs: what labels teach about it."""

from __future__ import annotations

from random import Random

from blamespan.labels.people import DecisiveStep, PersonLabel
from blamespan.trace import Agent, MessageActionTrace, Step

AGENTS = ("Planner", "Buyer", "Clerk", "Auditor")
WRONG = 3
"""The step that decides the failures of this team: the first of its auditor."""
SAID = (
    "We need {0} of them by noon, so ask for offers first.",
    "I asked three shops, and one of them answers on the same day.",
    "The order is written, and it waits for somebody to look at it.",
    "I looked at the order, and it can go out like this.",
    "Then it goes out with the next post.",
    "It went out, and the shop has confirmed it.",
)


def trace_of(number: int, *, agents: tuple[str, ...] = AGENTS, outcome: str = "failed") -> MessageActionTrace:
    """Make a run of the team, or of one with other agents, about a task of its own."""
    draws = Random(number)
    names = [*agents, *draws.choices(agents[:3], k=2)]
    steps = tuple(
        Step(i, f"{i + 1:016x}", name, "message", text.format(draws.randrange(20, 90)))
        for i, (name, text) in enumerate(zip(names, SAID, strict=True))
    )
    task = f"Buy chairs for hall {number}."
    return MessageActionTrace(f"{number + 1:032x}", task, steps, tuple(map(Agent, agents)), outcome=outcome)  # type: ignore[arg-type]


def label_of(trace: MessageActionTrace, mode: str = "mast:FM-3.2") -> PersonLabel:
    """Label a run as replays do."""
    named = DecisiveStep(trace.steps[WRONG].agent, WRONG, trace.steps[WRONG].span_id, (mode,))
    return PersonLabel(trace.trace_id, "corrects", "learn", decisive=named, source="replayed")
