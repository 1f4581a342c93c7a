"""Running a program again, told what went wrong: `blamespan.retry()`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from blamespan.attribution import Attribution
from blamespan.plugins import load_part
from blamespan.tracers import DEFAULT_TRACER, Tracer


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run of the program.

    Attributes:
        told: What it was told beside its task; empty at first.
        answer: What it said last; empty where it broke.
        succeeded: Whether that is right; None where nobody can tell.
        error: What the program or the check raised; empty if neither.
        verdict: Who is to blame; None where it succeeded, or nothing an agent did was recorded.
    """

    told: str
    answer: str
    succeeded: bool | None
    error: str = ""
    verdict: Attribution | None = None


@dataclass(frozen=True, slots=True)
class Retried:
    """All attempts, in order; there is at least one."""

    attempts: tuple[Attempt, ...]

    @property
    def answer(self) -> str:
        """Return the last attempt's answer."""
        return self.attempts[-1].answer

    @property
    def succeeded(self) -> bool | None:
        """Return whether that answer is right; None where nobody knows."""
        return self.attempts[-1].succeeded


def retry(
    factory: Callable[[], Any] | str,
    task: str,
    *,
    budget: int = 3,
    check: Callable[[str, str], Any] | None = None,
    tracer: str | Tracer = DEFAULT_TRACER,
) -> Retried:
    """Run a program until it succeeds, each time told what went wrong the last time.

    Each attempt is made anew, recorded and attributed in this process; feedback on it is put behind the task of the
    next one. Without a check, it ends with the first attempt in which the tracer finds no agent more likely at fault
    than not.

    Args:
        factory: Makes what is run, or its name as `module:factory`. It takes no argument and gives an AutoGen team or
            agent, a compiled LangGraph graph, an Agent Framework workflow or agent, or a function of the task.
        task: What the program is asked.
        budget: Most attempts, the first one included.
        check: Tells of (answer, task) whether the answer is right. Without it, the factory's attribute `check` is
            taken, if it has one.
        tracer: Who says what went wrong: the name of an installed one, or one.

    Raises:
        ConfigError: if an argument is wrong, the factory raises, recording is on already, or an event loop is running
            in this thread.
        MissingExtra: if no framework that could be recorded is installed.
    """
    run = load_part("retry")
    return cast(Retried, run(factory, task, budget=budget, check=check, tracer=tracer))
