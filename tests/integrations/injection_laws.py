"""A team of each framework into which faults are injected, what it says, and how it is run."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from blamespan import rebuild
from blamespan.injecting.injection import Injection, inject
from blamespan.intercepting.boundaries import Mechanism
from blamespan.testing import SpanRecorder
from blamespan.trace import MessageActionTrace
from blamespan_lab.make.faults.catalogue import KINDS
from tests.integrations.drawing import draw
from tests.integrations.hosts import recording

TASK = "Book 48 rooms in Paris"
TOLD = "You must check each number. Only 2 nights in Paris."
PLAN = (
    "We need 48 rooms in Paris for 2 nights. The budget must be at least 300 euros. The hotel is not far, before June.",
    "So it is 48 rooms and not 50, as the clerk in Paris told us. DONE",
    *("We stay with 48 rooms.",) * 4,
)
WORK = ("Paris has 120 rooms, we take 48.", "Rome has 90 rooms, so 48 is valid and correct.", *("Still 48.",) * 4)
REVIEW = ("I checked it: 48 is right. APPROVED", "I checked it again: 48 is right. APPROVED", *("48. APPROVED",) * 4)
"""What a planner, a worker with tools and a reviewer say in turn; the worker looks twice."""


def look(city: str, nights: int) -> str:
    """Look up a city's rooms."""
    return f"{city} has {120 if city == 'Paris' else 90} rooms\nfor {nights} nights\nin all hotels"


def count(city: str, nights: int) -> str:
    """Count a city's rooms."""
    return f"{city}: {nights}"


HIDDEN = ("blamespan.message.id", "blamespan.agent.id", "gen_ai.conversation.id")
"""What is random."""

Run = Callable[[], MessageActionTrace]


def every_fault() -> list[tuple[str, Mechanism]]:
    """List every kind with each of its mechanisms."""
    return [(kind.name, mechanism) for kind in KINDS.values() for mechanism in kind.mechanisms]


def faulty(run: Run, kind: str, mechanism: Mechanism, *, seed: int = 1) -> tuple[MessageActionTrace, Injection]:
    """Run once with a fault."""
    with inject(kind, mechanism=mechanism, seed=seed) as injection:
        trace = run()
    return trace, injection


def drawn(trace: MessageActionTrace) -> str:
    """Draw a trace without what is random."""
    return draw(trace, hide=HIDDEN)


def record(framework: str, *, quoting: bool = False) -> SpanRecorder:
    """Run the team of *framework* recorded; a quoting one says all that it was sent, too, so that it shows."""
    with recording(framework) as recorder:
        run(framework, quoting=quoting)
    return recorder


def run(framework: str, *, quoting: bool = False) -> None:
    """Run the team of *framework*."""
    import_module(f"tests.integrations.injected_{framework}").run(quoting)


def run_team(framework: str, *, quoting: bool = False) -> MessageActionTrace:
    """Run the team of *framework* recorded, and rebuild the run."""
    return rebuild(record(framework, quoting=quoting).spans())
