"""Teams under faults in the real frameworks: the same run with no guard, with random retries, and with the guard."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import warnings
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from random import Random

from tests.benchmarks.guard_agents import AskedAgain, BlindRetries, FirstAnswerFaults, RepairableAgent

from blamespan.guarding.guard import Guard
from blamespan.guarding.policy import Policy
from blamespan.intercepting.boundaries import Mechanism, PlannedFault
from blamespan.intercepting.listeners import Listener, listen, stop_listening
from blamespan_lab.make.corpus.recipe import CorpusRecipe
from blamespan_lab.make.simulation.program import Framework, Outcome, Program, StuckError, await_unless_stuck
from blamespan_lab.make.simulation.random_stream import RandomStream, stable_seed
from blamespan_lab.make.simulation.tasks.task import Task
from blamespan_lab.make.wordings.choosing import use_wordings
from blamespan_tracer.ledger.values import Value, find_values

_IDLE_S = 1.0


@dataclass(frozen=True, slots=True)
class TrialPlan:
    """A team on a task, and the fault that it has.

    Attributes:
        number: Of the trial; with the recipe it decides everything.
        family: Of the task.
        topology: Of the team.
        framework: That runs it.
        kind: Of the fault.
        mechanism: By which it is written.
        operator: What writes it.
        rate: At each place with this probability; 0 for once in the run.
    """

    number: int
    family: str
    topology: str
    framework: Framework
    kind: str
    mechanism: Mechanism
    operator: str
    rate: float


@dataclass(frozen=True, slots=True)
class ArmRun:
    """How one run of a trial ended.

    Attributes:
        is_solved: Whether its answer is right.
        is_stuck: Whether it never ended by itself: such a run is not solved.
        n_answers: How many decisions there were.
        n_faults: How many faults were written.
        retries: How often an agent was asked again.
        repaired: How many of these answers were repaired.
        actions: What a guard did, how often each.
        errors: How often the guard failed.
        unsupported: How many claims of the final answer nothing supports.
        rules: Which of the guard's rules did more than observe, how often each.
    """

    is_solved: bool
    is_stuck: bool
    n_answers: int
    n_faults: int
    retries: int = 0
    repaired: int = 0
    actions: Mapping[str, int] = field(default_factory=dict)
    errors: int = 0
    unsupported: int = 0
    rules: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Trial:
    """One program with its fault, side by side: `none`, `random`, `guard`, and `sound`: guarded, without the fault.

    Attributes:
        plan: What was tried.
        arms: By name; empty where the team fails without a fault, or the fault could not be written.
        why_not: Why there is nothing; empty where there is.
    """

    plan: TrialPlan
    arms: Mapping[str, ArmRun]
    why_not: str = ""


def plan_trials(recipe: CorpusRecipe, count: int, rates: Sequence[float]) -> list[TrialPlan]:
    """Plan trials that go round all ways of faults and, in another order, all families, topologies and frameworks.

    Args:
        recipe: Whose.
        count: How many.
        rates: How often a fault is written, one after the other; whatever was done first has all of them.
    """
    ways = [(kind.name, mechanism, operator) for kind, mechanism, operator in recipe.faults.ways()]
    cells = recipe.cells()
    rng = Random(stable_seed("bench-guard", recipe.seed))
    rng.shuffle(ways)
    rng.shuffle(cells)
    return [
        TrialPlan(
            number,
            *cells[number % len(cells)],
            *ways[(number + number // len(ways)) % len(ways)],
            rates[(number + number // len(cells)) % len(rates)],
        )
        for number in range(count)
    ]


def run_trials(
    recipe: CorpusRecipe, plans: Sequence[TrialPlan], policy: Policy, processes: int
) -> Generator[Trial, None, None]:
    """Run every trial, in so many processes at once, and yield each in order."""
    if processes == 1:
        _begin(recipe, policy)
        yield from map(_try, plans)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context, initializer=_begin, initargs=(recipe, policy)) as pool:
        try:
            yield from pool.map(_try, plans)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


_given: list[tuple[CorpusRecipe, Policy]] = []


def _begin(recipe: CorpusRecipe, policy: Policy) -> None:
    for name in ("autogen_core", "langgraph", "asyncio", "blamespan_lab.make.simulation", "blamespan"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    warnings.simplefilter("ignore")
    _given[:] = [(recipe, policy)]


def _try(plan: TrialPlan) -> Trial:
    recipe, policy = _given[0]
    with use_wordings(recipe.teams.wordings):
        return try_plan(recipe, plan, policy)


def try_plan(recipe: CorpusRecipe, plan: TrialPlan, policy: Policy) -> Trial:
    """Run one trial: the team without a fault first, whose length says where the fault goes."""
    seed = stable_seed("bench-guard", recipe.seed, plan.number) % 2**31
    program = _make_program(recipe, plan, seed)
    task = program.task()
    sound = _run(program, [], seed, AskedAgain(), task)
    if not sound[0].succeeded:
        return Trial(plan, {}, "the team fails without a fault")
    known = _known_values(task, sound[0])
    rng = Random(stable_seed("bench-guard-fault", seed))
    at = rng.randrange(max(1, sound[1].n_answers))
    fault = PlannedFault(
        plan.kind,
        step=None if plan.rate else at,
        probability=plan.rate or None,
        mechanism=plan.mechanism,
        operator=plan.operator,
    )
    unguarded = _measure(program, [fault], seed, task, known)
    if not unguarded.n_faults:
        return Trial(plan, {}, "the fault could not be written")
    guarded = _measure(program, [fault], seed, task, known, policy=policy)
    numbers = range(unguarded.n_answers)
    chosen = rng.sample(numbers, k=min(guarded.retries, len(numbers)))
    return Trial(
        plan,
        {
            "none": unguarded,
            "random": _measure(program, [fault], seed, task, known, blind=chosen),
            "guard": guarded,
            "sound": _measure(program, [], seed, task, known, policy=policy),
        },
    )


def _make_program(recipe: CorpusRecipe, plan: TrialPlan, seed: int) -> Program:
    dice, agents = RandomStream("bench-guard", recipe.seed, seed), recipe.agents
    return Program(
        plan.family,
        plan.topology,
        plan.framework,
        cast=dice.rng("cast").choice(recipe.teams.casts),
        seed=seed,
        care=dice.rng("care").choice(agents.care),
        size=dice.rng("size").choice(agents.sizes),
        pace=dice.rng("pace").choice(agents.paces),
    )


def _measure(
    program: Program,
    faults: Sequence[PlannedFault],
    seed: int,
    task: Task,
    known: frozenset[tuple[str, str]],
    *,
    policy: Policy | None = None,
    blind: Sequence[int] | None = None,
) -> ArmRun:
    guard = Guard([policy]) if policy is not None else None
    asked = AskedAgain(forgives=blind is not None)
    outcome, run = _run(program, faults, seed, asked, task, guard=guard, blind=blind or ())
    claims = {(value.form, value.key) for value in find_values(outcome.final_text) if _is_claim(value)}
    counts = dict(guard.counts) if guard is not None else {}
    rules: dict[str, int] = {}
    for step in guard.decisions if guard is not None else ():
        if step.action != "observe":
            rules[step.decision.rule] = rules.get(step.decision.rule, 0) + 1
    return ArmRun(
        outcome.succeeded,
        outcome.is_void,
        run.n_answers,
        run.n_faults,
        run.retries,
        run.repaired,
        {name: count for name, count in counts.items() if name != "error"},
        counts.get("error", 0),
        len(claims - known),
        rules,
    )


_VAGUE = ("opposite", "quotation")


def _is_claim(value: Value) -> bool:
    """Check whether a value claims something: a word in capitals by which one ends a run names nobody."""
    is_shouted = value.form == "name" and any(word.isupper() and len(word) > 2 for word in value.text.split())
    return value.form not in _VAGUE and not is_shouted


def _known_values(task: Task, sound: Outcome) -> frozenset[tuple[str, str]]:
    """List every value that the task, its tools' facts or the run without a fault state."""
    texts = [task.question, *(str(value) for value in task.truth.values()), sound.final_text]
    texts += [decision.reply.text for decision in sound.decisions]
    texts += [call.arguments for decision in sound.decisions for call in decision.reply.calls]
    return frozenset((value.form, value.key) for text in texts for value in find_values(text))


def _run(
    program: Program,
    faults: Sequence[PlannedFault],
    seed: int,
    asked: AskedAgain,
    task: Task,
    *,
    guard: Guard | None = None,
    blind: Sequence[int] = (),
) -> tuple[Outcome, ArmRun]:
    injection = FirstAnswerFaults(faults, asked, seed=seed)
    with ExitStack() as open_ones:
        open_ones.enter_context(injection)
        open_ones.enter_context(_listening(asked))
        if guard is not None:
            open_ones.enter_context(guard)
        if blind:
            open_ones.enter_context(_listening(BlindRetries(blind)))
        outcome = asyncio.run(_perform(program, asked))
    retries = asked.repaired + asked.repeated
    return outcome, ArmRun(
        outcome.succeeded, outcome.is_void, asked.n_answers, len(injection.applied), retries, asked.repaired
    )


async def _perform(program: Program, asked: AskedAgain) -> Outcome:
    work = program.arun(policy_for=lambda profile: RepairableAgent(profile, asked))
    try:
        return await await_unless_stuck(work, idle_s=_IDLE_S)
    except StuckError as error:
        return Outcome("", False, error=str(error), is_void=True)


@contextmanager
def _listening(listener: Listener) -> Iterator[None]:
    listen(listener, everywhere=False)
    try:
        yield
    finally:
        stop_listening(listener, everywhere=False)
