"""Measure whether feedback helps: simulated teams try tasks again and again, each time told something else.

All arms share their first attempt, and every attempt of an arm has the same draws as in the others: what differs is
what the team was told. What agents make of feedback is an assumption, which stands in `HeedfulPolicy`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from types import MappingProxyType
from typing import Any, TypeAlias

from rich.console import Console
from rich.table import Table

from blamespan.pipeline import AttributedRun
from blamespan.retrying import Attempt
from blamespan.taxonomy import ErrorMode, canonical, mode
from blamespan.tracers import Tracer
from blamespan_lab.console import show_progress
from blamespan_lab.make.simulation.agents.agent import AgentProfile, DecisionContext
from blamespan_lab.make.simulation.agents.endpoint import policy_from_environment
from blamespan_lab.make.simulation.agents.policy import AgentPolicy, AsyncPolicy, InputMessage, Reply, ToolSpec
from blamespan_lab.make.simulation.agents.protocols import decide
from blamespan_lab.make.simulation.program import Outcome, PolicyFor, Program
from blamespan_lab.make.simulation.random_stream import RandomStream, stable_seed
from blamespan_lab.make.simulation.simulated_run import SimulatedPolicy
from blamespan_lab.make.simulation.tasks import FAMILIES, Task
from blamespan_lab.make.simulation.topologies import TOPOLOGIES
from blamespan_lab.rerun.feedback.retrying import SpanCollector, Tell, attempts, by_template, record_spans
from blamespan_lab.rerun.feedback.writing import BEGIN, END, Note, feedback_on, notes_in, quoted, without_feedback
from blamespan_lab.rerun.user_program import Ran
from blamespan_lab.statistics import interval, percent

_CHECKING = "mast:FM-3.2"


@dataclass
class HeedfulPolicy(SimulatedPolicy):
    """A character that reads feedback.

    Attributes:
        heed: How much attention feedback gets, 0..1.
    """

    heed: float = 0.0

    def reply(self, messages: Sequence[InputMessage], tools: Sequence[ToolSpec]) -> Reply:
        """Answer to the messages *messages*, feedback in them being heeded, not taken for statements of the task."""
        notes = tuple(dict.fromkeys(note for message in messages for note in notes_in(message.text)))
        plain = [replace(message, text=without_feedback(message.text)) for message in messages]
        context = _HeedfulMoment(
            self.profile,
            self.index,
            plain,
            tools,
            self.repairs.get(self.index, ()),
            self.draws,
            notes=notes,
            heed=self.heed,
        )
        self.index += 1
        decision = decide(context)
        self.mistakes = tuple(context.mistakes)
        return decision


@dataclass
class _HeedfulMoment(DecisionContext):
    notes: tuple[Note, ...] = ()
    heed: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.care = 1 - (1 - self.care) * self._share_left(_CHECKING) if self.care > 0 else 0.0

    def mistake_probability(self, mode: str) -> float:
        """Return the probability of a mistake of *mode*: lower after feedback on such."""
        return self.profile.mistakes * self._share_left(mode)

    def _share_left(self, code: str) -> float:
        return share_left(self.notes, self.profile.member.name, len(self.profile.team), code, self.heed)


def share_left(notes: Sequence[Note], agent: str, n_agents: int, code: str, heed: float) -> float:
    """Return the share of its mistakes of a kind that an agent still makes after feedback: the assumption, 0..1.

    Args:
        notes: What the feedback says.
        agent: Who erred.
        n_agents: In its team: feedback for all is heeded by each as far as its share goes.
        code: The kind, as `taxonomy:code`; feedback on another kind is heeded half.
        heed: How much attention feedback gets, 0..1.
    """
    left = 1.0
    for note in notes:
        if note.agent is None:
            left *= 1 - heed / n_agents
        elif note.agent == agent:
            left *= 1 - (heed if note.mode is None or _is_same_mode(note.mode, mode(code)) else heed / 2)
    return left


def _is_same_mode(mode: ErrorMode, other_mode: ErrorMode) -> bool:
    return canonical(mode)[0] == canonical(other_mode)[0]


_CARE = 0.3
"""Of checkers: careful ones leave hardly a failure to learn from."""


@dataclass(frozen=True, slots=True)
class Suite:
    """Which tasks are tried, and how.

    Attributes:
        tasks: How many; they go round families, topologies and frameworks.
        rounds: Most attempts at each.
        mistakes: Probability of each natural mistake at each chance.
        heed: How much attention simulated agents pay to feedback, 0..1; see `heeding`.
        stubborn: Chance that an agent draws in a later attempt as in the first, and so errs alike if nothing stops it.
        seed: Chooses the tasks.
    """

    tasks: int = 60
    rounds: int = 4
    mistakes: float = 0.06
    heed: float = 0.7
    stubborn: float = 0.5
    seed: int = 0

    def programs(self) -> list[Program]:
        """List the teams and their tasks."""
        teams = [(name, framework) for name, topology in TOPOLOGIES.items() for framework in topology.frameworks]
        families = list(FAMILIES)
        return [
            Program(
                families[number % len(families)],
                *teams[(number * 7 + number // len(teams)) % len(teams)],
                seed=self.seed * 100_000 + number,
                mistakes=self.mistakes,
                care=_CARE,
            )
            for number in range(self.tasks)
        ]


@dataclass(frozen=True, slots=True)
class _ProgramWithFeedback(Program):
    """A program whose task has feedback behind it."""

    told: str = ""

    def task(self) -> Task:
        """Make the task, with what was told behind its question."""
        task = Program.task(self)
        return replace(task, question=f"{task.question}\n\n{self.told}") if self.told else task


@dataclass
class SuiteTrial:
    """One team at one task, over and over.

    Attributes:
        program: The team and its task.
        heed: As `Suite`.
        stubborn: Likewise.
        policy_for: Makes the agents; None for simulated ones.
        outcomes: Of the attempts so far.
    """

    program: Program
    heed: float
    stubborn: float
    policy_for: PolicyFor | None = None
    outcomes: list[Outcome] = field(default_factory=list)

    def run(self, asked: str) -> Ran:
        """Run the team on its task, with what *asked* has behind it."""
        feedback = asked.removeprefix(self.program.task().question).strip()
        program = _ProgramWithFeedback(
            **{name: getattr(self.program, name) for name in Program.__dataclass_fields__}, told=feedback
        )
        ended = program.run(policy_for=self.policy_for or partial(self._policy, number=len(self.outcomes)))
        self.outcomes.append(ended)
        return Ran(ended.final_text, ended.succeeded, ended.error)

    def _policy(self, character: AgentProfile, number: int) -> AgentPolicy | AsyncPolicy:
        is_alike = RandomStream("attempt", character.seed, character.member.name, number).chance(self.stubborn)
        seed = character.seed if number == 0 or is_alike else stable_seed("attempt", character.seed, number)
        return HeedfulPolicy(replace(character, seed=seed), heed=self.heed)


def _nothing(judged: AttributedRun | None, ran: Ran) -> str:
    return ""


def _self_refine(judged: AttributedRun | None, ran: Ran) -> str:
    """Show the team its own answer, and have it look for what is wrong with it.

    Source: Self-Refine (arXiv 2303.17651), with the outcome as the only outer signal.
    """
    lines = ["It failed.", f"Its answer was: {quoted(ran.answer)}"]
    return "\n".join([BEGIN, *lines, "Look for what is wrong with it, and do better.", END])


def tell_of_anybody(judged: AttributedRun | None, ran: Ran, *, seed: int) -> str:
    """Blame somebody at random, for the same: a control for what merely naming somebody does."""
    if judged is None or judged.attribution.decisive_step is None:
        return by_template(judged, ran)
    trace = judged.trace
    names = sorted({step.agent for step in trace.steps if trace.can_be_blamed(step)})
    chosen = Random(stable_seed("anybody", seed, len(trace.steps))).choice(names)  # noqa: S311
    return replace(feedback_on(trace, judged.attribution), agent=chosen, quote="").text


ARMS: Mapping[str, Callable[[int], Tell]] = MappingProxyType(
    {
        "no feedback": lambda _: _nothing,
        "self-refine": lambda _: _self_refine,
        "anybody": lambda seed: partial(tell_of_anybody, seed=seed),
        "feedback": lambda _: by_template,
    }
)
"""What the next attempt is told, by the name of the arm; made for the seed of a task."""

_Row: TypeAlias = dict[str, Any]


def measure(suite: Suite, tracer: Tracer) -> _Row:
    """Try every task in every arm.

    Returns:
        Per arm and round the share of tasks solved by then, in percent, with a 95 % interval over tasks; how many it
        won and lost against no feedback, task by task; and how often feedback named an agent that had made a
        mistake. Tasks of which a run says nothing of the team are left out of all arms.
    """
    policy_for = policy_from_environment()
    solved: dict[str, list[int | None]] = {name: [] for name in ARMS}
    named: dict[str, list[bool]] = {name: [] for name in ARMS}
    n_void = 0
    with record_spans() as spans:
        for program in show_progress(suite.programs(), "trying"):
            trials, rows = _every_arm(program, suite, policy_for, spans, tracer)
            if any(outcome.is_void for trial in trials.values() for outcome in trial.outcomes):
                n_void += 1
                continue
            for name, row in rows.items():
                solved[name].append(len(row) if row[-1].succeeded else None)
                named[name] += _hits(row, trials[name].outcomes)
    return {
        "tasks": len(solved["feedback"]),
        "void": n_void,
        "agents": "simulated" if policy_for is None else "LLM",
        "tracer": {"name": tracer.identity.name, "version": tracer.identity.version},
        "heed": suite.heed if policy_for is None else None,
        "stubborn": suite.stubborn if policy_for is None else None,
        "mistakes": suite.mistakes if policy_for is None else None,
        "arms": {name: _figures(solved[name], solved["no feedback"], named[name], suite.rounds) for name in ARMS},
    }


def _every_arm(
    program: Program, suite: Suite, policy_for: PolicyFor | None, spans: SpanCollector, tracer: Tracer
) -> tuple[dict[str, SuiteTrial], dict[str, list[Attempt]]]:
    """Try a task in every arm; one that is solved at once is the same in all of them, and is tried once."""
    trials: dict[str, SuiteTrial] = {}
    rows: dict[str, list[Attempt]] = {}
    for name, tell in ARMS.items():
        first = next(iter(ARMS))
        if rows and rows[first][0].succeeded:
            trials[name], rows[name] = trials[first], rows[first]
            continue
        trials[name] = SuiteTrial(program, suite.heed, suite.stubborn, policy_for)
        rows[name] = list(_try(trials[name], tell(program.seed), suite, spans, tracer))
    return trials, rows


def _try(trial: SuiteTrial, tell: Tell, suite: Suite, spans: SpanCollector, tracer: Tracer) -> Iterator[Attempt]:
    question = trial.program.task().question
    return attempts(trial.run, question, budget=suite.rounds, spans=spans, tracer=tracer, tell=tell)


def _hits(row: list[Attempt], outcomes: list[Outcome]) -> list[bool]:
    """Tell of each verdict that was told on whether the agent it names had made a mistake in that attempt."""
    is_hit = []
    for attempt, outcome in zip(row[:-1], outcomes, strict=False):
        erred = {decision.agent for decision in outcome.decisions if decision.mistakes}
        if attempt.verdict is not None and attempt.verdict.agents and erred:
            is_hit.append(attempt.verdict.agents[0].agent in erred)
    return is_hit


def _figures(solved: list[int | None], untold: list[int | None], named: list[bool], rounds: int) -> _Row:
    by_round, base = (
        [[at is not None and at <= number for at in rows] for number in range(1, rounds + 1)]
        for rows in (solved, untold)
    )
    pairs = [list(zip(*rows, strict=True)) for rows in zip(by_round, base, strict=True)]
    return {
        "solved": [percent(hits) for hits in by_round],
        "solved_ci": [interval(hits) for hits in by_round],
        "won": [sum(ours and not theirs for ours, theirs in rows) for rows in pairs],
        "lost": [sum(theirs and not ours for ours, theirs in rows) for rows in pairs],
        "named_who_erred": percent(named) if named else None,
        "verdicts": len(named),
    }


def print_measured(measured: Mapping[str, Any]) -> None:
    """Print the share of tasks solved by each round, with its interval, a line for each arm."""
    rounds = len(measured["arms"]["feedback"]["solved"])
    heed = f", heed {measured['heed']:g}, stubborn {measured['stubborn']:g}" if measured["heed"] is not None else ""
    table = Table(
        title=f"{measured['tasks']} tasks, {measured['agents']} agents{heed}, tracer {measured['tracer']['name']}\n"
        "solved by round, % (95 % interval over tasks)",
        title_justify="left",
        box=None,
        pad_edge=False,
    )
    table.add_column("", no_wrap=True)
    for number in range(1, rounds + 1):
        table.add_column(str(number), justify="right", no_wrap=True)
    for name, figures in measured["arms"].items():
        cells = [
            f"{share:.0f} ({low:.0f}-{high:.0f})"
            for share, (low, high) in zip(figures["solved"], figures["solved_ci"], strict=True)
        ]
        table.add_row(name, *cells)
    console = Console(file=sys.stdout)
    console.print(table)
    with_feedback = measured["arms"]["feedback"]
    if with_feedback["named_who_erred"] is not None:
        console.print(
            f"feedback named an agent that had made a mistake in {with_feedback['named_who_erred']:.0f} % of "
            f"{with_feedback['verdicts']} verdicts"
        )
    won, lost = with_feedback["won"][-1], with_feedback["lost"][-1]
    console.print(f"in the end feedback solved {won} tasks that no feedback did not, and missed {lost} that it did")
    if measured["void"]:
        console.print(f"{measured['void']} tasks left out, as a run of theirs never ended or got no answer")
