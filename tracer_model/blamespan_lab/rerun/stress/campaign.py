"""A campaign: every task once without a fault, then a budget of runs with one, spread over kinds and agents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random

from blamespan.errors import BlamespanError, ConfigError
from blamespan_lab.make.simulation.random_stream import stable_seed
from blamespan_lab.rerun.stress.byzantine import ByzantineStudy, ByzantineTrial, plan_byzantine, summarise_byzantine
from blamespan_lab.rerun.stress.recipe import StressRecipe
from blamespan_lab.rerun.stress.subjects import SubjectSpec
from blamespan_lab.rerun.stress.trial import Clean, FaultTrial, Planned
from blamespan_lab.rerun.stress.workers import Order, Result, SubjectWorkers

Tracked = Callable[[Iterator[tuple[Order, Result]], str, int], Iterator[tuple[Order, Result]]]
"""Passes results on, and may show how many there are of how many."""


@dataclass(frozen=True, slots=True)
class StressCampaign:
    """What became of all runs of a subject.

    Attributes:
        subject: Its name.
        recipe: As it was carried out.
        tasks: How many tasks there were.
        failing: Tasks that came to nothing without a fault, and why: no fault was put into these.
        is_verified: Whether anybody could tell right answers from wrong ones.
        trials: Runs with a fault planned, in the order planned.
        left_out: Runs planned beyond the budget.
    """

    subject: str
    recipe: StressRecipe
    tasks: int
    failing: Mapping[int, str]
    is_verified: bool
    trials: tuple[FaultTrial, ...]
    left_out: int


def campaign(spec: SubjectSpec, recipe: StressRecipe, *, count: int, tracked: Tracked) -> StressCampaign:
    """Stress *spec* by *recipe*, in *count* processes.

    Raises:
        ConfigError: if the subject cannot be opened, or has none of the agents that the recipe names.
        BlamespanError: if not one task succeeds without a fault.
    """
    with SubjectWorkers(spec, recipe, count) as workers:
        clean, failing = _clean(workers, spec, tracked)
        if not clean:
            why = "; ".join(dict.fromkeys(failing.values()))
            raise BlamespanError(
                f"expected {spec.name!r} to succeed without a fault on at least one of {spec.tasks} task(s), "
                f"got: {why}. Only what works can be shown to break"
            )
        plan = planned(recipe, clean)
        affordable = plan[: recipe.budget]
        orders: list[Order] = [(planned_run, clean[planned_run.task]) for planned_run in affordable]
        done = tracked(workers.results(orders), f"{spec.name}: with a fault", len(orders))
        trial_of = {
            order[0]: result for order, result in done if isinstance(order, tuple) and isinstance(result, FaultTrial)
        }
    is_verified = all(planned_run.run.succeeded is not None for planned_run in clean.values())
    trials = tuple(trial_of[planned_run] for planned_run in affordable)
    return StressCampaign(spec.name, recipe, spec.tasks, failing, is_verified, trials, len(plan) - len(affordable))


def byzantine_study(
    spec: SubjectSpec, recipe: StressRecipe, most: int, tracer: str, *, count: int, tracked: Tracked
) -> ByzantineStudy:
    """Turn 1 to *most* agents of *spec*, in *count* processes, and say what the team withstands and who is blamed.

    Raises:
        ConfigError: if the subject cannot be opened.
        BlamespanError: if not one task succeeds as it is, or nobody could be turned.
    """
    with SubjectWorkers(spec, recipe, count) as workers:
        clean, failing = _clean(workers, spec, tracked)
        verified = {task: result.run for task, result in clean.items() if result.run.succeeded}
        if not verified:
            reasons = "; ".join(dict.fromkeys(failing.values())) or "nobody can tell, as there is no check"
            raise BlamespanError(
                f"expected {spec.name!r} to succeed as it is on at least one of {spec.tasks} task(s), got: {reasons}. "
                "Give a check, and tasks that it can do"
            )
        plan: list[Order] = list(plan_byzantine(verified, most, recipe.runs, recipe.seed, tracer))
        Random(stable_seed("byzantine order", recipe.seed)).shuffle(plan)  # noqa: S311 - a budget prefers nobody
        orders = plan[: recipe.budget]
        done = tracked(workers.results(orders), f"{spec.name}: with agents turned", len(orders))
        trials = [result for _, result in done if isinstance(result, ByzantineTrial)]
    study = summarise_byzantine(spec.name, len(verified), trials)
    return replace(study, left_out=len(plan) - len(orders))


def planned(recipe: StressRecipe, clean: Mapping[int, Clean]) -> list[Planned]:
    """List the runs that *recipe* asks for: a round of every kind at every agent, then the next.

    Tasks take turns among those in which the agent takes part, and mechanisms among those of the kind; each round
    has an order of its own, so that a budget that ends within one prefers nobody.

    Raises:
        ConfigError: if the recipe names an agent that there is not; the message lists those there are.
    """
    tasks: dict[str, list[int]] = {}
    for task in sorted(clean):
        for role in clean[task].roles:
            tasks.setdefault(role, []).append(task)
    for name in recipe.agents:
        if name not in tasks:
            raise ConfigError(
                f"{recipe.name}: expected agents among {sorted(tasks)!r}, got {name!r}. Correct the recipe"
            )
    roles = [role for role in tasks if not recipe.agents or role in recipe.agents]
    ways = {kind: (mechanisms, stable_seed("task", recipe.seed, kind)) for kind, mechanisms in recipe.ways.items()}
    plan: list[Planned] = []
    for number in range(recipe.runs):
        turn = [
            Planned(
                kind,
                mechanisms[number % len(mechanisms)],
                role,
                tasks[role][(first + number) % len(tasks[role])],
                number,
            )
            for kind, (mechanisms, first) in ways.items()
            for role in roles
        ]
        Random(stable_seed("order", recipe.seed, number)).shuffle(turn)  # noqa: S311
        plan += turn
    return plan


def _clean(workers: SubjectWorkers, spec: SubjectSpec, tracked: Tracked) -> tuple[dict[int, Clean], dict[int, str]]:
    """Run every task without a fault; give those that can be built on, and why the others cannot."""
    clean: dict[int, Clean] = {}
    failing: dict[int, str] = {}
    for task, result in tracked(workers.results(range(spec.tasks)), f"{spec.name}: without a fault", spec.tasks):
        assert isinstance(task, int)  # as they were ordered
        if isinstance(result, Clean) and result.run.succeeded is not False and not result.run.error and result.roles:
            clean[task] = result
        else:
            failing[task] = _why(result)
    return dict(sorted(clean.items())), dict(sorted(failing.items()))


def _why(result: Result) -> str:
    if not isinstance(result, Clean):
        return str(result)
    if result.run.error:
        return result.run.error
    return "its answer is wrong" if result.run.succeeded is False else "no agent was seen to decide anything"
