"""One run with a fault in it, against the same run without."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from blamespan.injecting.injection import Injection
from blamespan.intercepting.boundaries import Applied, Mechanism, PlannedFault
from blamespan_lab.make.simulation.random_stream import stable_seed
from blamespan_lab.rerun.stress.containment import Catch, Caught, InjectedFault, caught, tier_of
from blamespan_lab.rerun.stress.recipe import StressRecipe
from blamespan_lab.rerun.stress.subjects import Subject
from blamespan_lab.rerun.stress.tiers import Tier
from blamespan_lab.rerun.stress.watching import End, WatchedRun


@dataclass(frozen=True, slots=True)
class Planned:
    """A run that is to have a fault in it.

    Attributes:
        kind: Of the fault.
        mechanism: How it is written.
        role: At which agent: its name, or its role in a bundled team.
        task: On which task.
        round: Which of the runs of this kind at this agent it is.
    """

    kind: str
    mechanism: Mechanism
    role: str
    task: int
    round: int


@dataclass(frozen=True, slots=True)
class Clean:
    """A run without a fault.

    Attributes:
        run: What was seen of it.
        roles: Names of agents, by what results are told by.
    """

    run: WatchedRun
    roles: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class FaultTrial:
    """What became of a run with a fault in it.

    Attributes:
        planned: What was to be done.
        operator: What wrote the fault; empty if nothing could.
        missed: Why it was not written; empty if it was.
        succeeded: Whether the answer was right; None where nobody can tell.
        is_changed: Whether the answer is another than without the fault.
        end: How the run ended.
        caught: Who caught the fault, where the run ended well, and
        tier: by which tier of the team it was tolerated.
        error: What broke the run.
    """

    planned: Planned
    operator: str = ""
    missed: str = ""
    succeeded: bool | None = None
    is_changed: bool = False
    end: End = "by itself"
    caught: Caught | None = None
    tier: Tier | None = None
    error: str = ""

    @property
    def is_written(self) -> bool:
        """Whether there was a fault in the run, or it was stopped before anybody could say."""
        return not self.missed

    @property
    def is_flipped(self) -> bool:
        """Whether it came out wrong, and not without the fault."""
        return self.is_written and self.succeeded is False

    @property
    def how(self) -> Catch | None:
        """How the fault was kept from doing harm; None where it was not, or nobody can tell."""
        return self.caught.how if self.caught is not None and self.succeeded else None


def try_fault(subject: Subject, planned: Planned, clean: Clean, recipe: StressRecipe) -> FaultTrial:
    """Run *subject* with the planned fault, and say what became of it; *clean* is the same run without."""
    run, injection = run_with_fault(subject, planned, clean, recipe)
    if not injection.applied:
        missed = injection.missed
        return FaultTrial(planned, missed=missed[0].reason if missed else "its probability did not come up")
    if run.is_void:
        return FaultTrial(planned, missed=run.error)
    first = injection.applied[0]
    catch = caught(run, clean.run, _fault(first, run)) if run.succeeded else None
    return FaultTrial(
        planned,
        first.operator,
        succeeded=run.succeeded,
        is_changed=run.answer != clean.run.answer,
        end=run.ended(clean.run),
        caught=catch,
        tier=tier_of(run, clean.run, catch) if catch is not None else None,
        error=run.error,
    )


def run_with_fault(
    subject: Subject, planned: Planned, clean: Clean, recipe: StressRecipe
) -> tuple[WatchedRun, Injection]:
    """Run *subject* with the planned fault, at one of the agent's decisions; at any if it cannot be written there."""
    rng = Random(stable_seed("stress", recipe.seed, planned.kind, planned.role, planned.task, planned.round))  # noqa: S311
    agent = rng.choice(clean.roles[planned.role])
    run, injection = _run_at(subject, planned, recipe, agent, _a_decision(clean.run, agent, rng))
    return (run, injection) if injection.applied else _run_at(subject, planned, recipe, agent, None)


def _run_at(
    subject: Subject, planned: Planned, recipe: StressRecipe, agent: str, step: int | None
) -> tuple[WatchedRun, Injection]:
    fault = PlannedFault(
        planned.kind,
        agent,
        step,
        probability=recipe.probability or None,
        mechanism=planned.mechanism,
        writer=recipe.written_by,
    )
    seed = stable_seed("faults", recipe.seed, planned.task, planned.round) % 2**31
    with Injection([fault], seed=seed, everywhere=True) as injection:  # a program may start threads of its own
        run = subject.run(planned.task)
    return run, injection


def _a_decision(run: WatchedRun, agent: str, rng: Random) -> int | None:
    """Choose one of the agent's decisions, by about how many came before it: calls made at once are one."""
    numbers, decided, before = [], 0, None
    for step in run.steps:
        this = (step.agent, step.inputs) if step.kind == "tool_call" else None
        if not step.is_decision or (this is not None and this == before):
            continue
        before = this
        if step.agent == agent:
            numbers.append(decided)
        decided += 1
    return rng.choice(numbers) if numbers else None


def _fault(applied: Applied, run: WatchedRun) -> InjectedFault:
    where = applied.where
    is_here = where is not None and f"{where.span.trace_id:032x}" == run.trace_id
    return InjectedFault(
        applied.step if is_here else None,
        applied.agent,
        applied.mechanism in ("response", "tool"),
        applied.before,
        applied.after,
    )
