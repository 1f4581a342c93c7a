"""Byzantine agents: some lie, collude, accuse others or repeat noise. What the team withstands, and who is blamed.

An agent that is turned keeps its tools and its turn; what it says is written anew. The last to speak is never turned: a
team whose reporter lies withstands nothing, which says nothing of the team.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final, Literal, TypeAlias, get_args

from blamespan.analysis.summary.statistics import Share
from blamespan.errors import BlamespanError
from blamespan.injecting.injection import Injection
from blamespan.intercepting.boundaries import ContentT, Opportunity, Said, Where
from blamespan.tracers import Tracer
from blamespan_lab.make.simulation.random_stream import stable_seed
from blamespan_lab.rerun.stress.subjects import Subject
from blamespan_lab.rerun.stress.watching import WatchedRun, longest_trace
from blamespan_tracer.tokens import NUMBER_PATTERN

Conduct: TypeAlias = Literal["lie", "collude", "accuse", "noise"]
"""Each says other figures and names of its own; all say the same wrong ones; they also say that an honest one is wrong;
or they say again what they heard last."""
CONDUCTS: Final[tuple[Conduct, ...]] = get_args(Conduct)
SHAPES: Final[Mapping[str, str]] = {
    "debate": "debate",
    "orchestrator": "star",
    "relay": "chain",
    "round_robin": "loop",
}
"""The bundled topologies that are studied, and their shape."""

_WITHSTANDS = 0.5
"""A team withstands k agents if it still succeeds in so many of the runs in which it does without them."""
_NUMBER = re.compile(NUMBER_PATTERN)
_NAME = re.compile(r"\b[A-Z][a-z]{2,}(?: [A-Z][a-z]{2,})+\b")
"""Names of two words and more: a single capital may begin a sentence."""


class ByzantineAgents(Injection):
    """Has some agents say otherwise than they would, within a `with` block, in the whole process.

    Args:
        agents: Their names.
        conduct: What they do.
        seed: Of what they say instead.

    Attributes:
        changed: How many of their messages were written anew.
    """

    def __init__(self, agents: Sequence[str], conduct: Conduct, seed: int) -> None:
        super().__init__((), everywhere=True)
        self._agents = frozenset(agents)
        self._conduct = conduct
        self._stream = seed
        self.changed = 0

    def change(self, at: Opportunity, content: ContentT, where: Callable[[], Where | None]) -> Any:
        """Write anew what one of them says; what others say, calls, and what is told, stay as they are."""
        del where
        if not isinstance(content, Said) or not content.text.strip() or not self._agents & {at.agent, at.alias}:
            return content
        said = replace(content, text=self._speak(at, content.text))
        self.changed += said != content
        return said

    def _speak(self, at: Opportunity, text: str) -> str:
        if self._conduct == "noise":
            return at.heard[-1] if at.heard else text
        liar = at.agent if self._conduct == "lie" else ""  # colluders tell one lie
        names = sorted({name for heard in at.heard for name in _NAME.findall(heard)} - {*at.others, at.agent})
        lie = _NUMBER.sub(lambda match: self._falsify_number(match[0], liar), text)
        if len(names) > 1:
            lie = _NAME.sub(lambda match: self._falsify_name(match[0], liar, names), lie)
        honest = sorted(set(at.others) - self._agents)
        if self._conduct == "accuse" and honest:
            accused = Random(stable_seed(self._stream, "accused")).choice(honest)  # noqa: S311
            lie += f" What {accused} says is wrong: it cannot be right."
        return lie

    def _falsify_number(self, number: str, liar: str) -> str:
        value = float(number.replace(",", ""))
        by = Random(stable_seed(self._stream, liar, value)).choice((-3, -2, 2, 3, 5, 7))  # noqa: S311
        wrong = value + by * max(1.0, 10 ** (len(str(int(value))) - 2))
        return f"{wrong:.2f}".rstrip("0").rstrip(".") if "." in number else str(int(abs(wrong)))

    def _falsify_name(self, name: str, liar: str, names: Sequence[str]) -> str:
        others = [other for other in names if other != name]
        return Random(stable_seed(self._stream, liar, name)).choice(others) if name in names else name  # noqa: S311


@dataclass(frozen=True, slots=True)
class ByzantineOrder:
    """A run in which some agents are turned.

    Attributes:
        task: On which task.
        agents: Who is turned.
        conduct: What they do.
        seed: Of what they say.
        tracer: Name of who says who is to blame.
        n_agents: How many agents act in the run without.
    """

    task: int
    agents: tuple[str, ...]
    conduct: Conduct
    seed: int
    tracer: str
    n_agents: int


@dataclass(frozen=True, slots=True)
class ByzantineTrial:
    """What became of it.

    Attributes:
        order: What was to be done.
        succeeded: Whether the team answered right all the same.
        blamed: Agents by blame, the most blamed first; empty where there is no verdict.
        missed: Why it says nothing: no turned agent said anything, or the endpoint did not answer; else empty.
    """

    order: ByzantineOrder
    succeeded: bool
    blamed: tuple[str, ...] = ()
    missed: str = ""


def try_byzantine(subject: Subject, order: ByzantineOrder, tracer: Tracer) -> ByzantineTrial:
    """Run *subject* with the agents turned, and have *tracer* say who is to blame where it fails."""
    with ByzantineAgents(order.agents, order.conduct, order.seed) as injection:
        run = subject.run(order.task)
    if run.is_void or not injection.changed:
        return ByzantineTrial(order, bool(run.succeeded), missed=run.error or "none of the turned agents said anything")
    if run.succeeded:
        return ByzantineTrial(order, True)
    trace = longest_trace(subject.recorder.spans())
    if trace is None:
        return ByzantineTrial(order, False)
    [verdict] = tracer.attribute([replace(trace, outcome="failed")])
    return ByzantineTrial(order, False, tuple(blame.agent for blame in verdict.agents))


def plan_byzantine(
    clean: Mapping[int, WatchedRun], most: int, runs: int, seed: int, tracer: str
) -> Iterator[ByzantineOrder]:
    """Plan, for every conduct and 1 to *most* agents, *runs* runs of each task that succeeds without.

    Who is turned is drawn from all but the last to decide something; where there are not so many, nothing is planned.
    """
    for task, run in clean.items():
        last = next(step.agent for step in reversed(run.steps) if step.is_decision)
        candidates = [agent for agent in run.agents if agent != last]
        for k in range(1, most + 1):
            for number in range(runs if len(candidates) >= k else 0):
                chosen = Random(stable_seed("byzantine", seed, task, k, number)).sample(candidates, k)  # noqa: S311
                for conduct in CONDUCTS:
                    own = stable_seed("says", seed, task, number) % 2**31
                    yield ByzantineOrder(task, tuple(chosen), conduct, own, tracer, len(run.agents))


@dataclass(frozen=True, slots=True)
class ByzantineCell:
    """What k agents of one conduct do to a team.

    Attributes:
        conduct: What they do.
        k: How many they are.
        withstood: In how many runs the team answered right all the same.
        blamed: Of the turned agents of the runs that failed, how many are among the k most blamed.
        chance: What that would be if the team were blamed in any order, 0..1.
    """

    conduct: Conduct
    k: int
    withstood: Share
    blamed: Share
    chance: float


@dataclass(frozen=True, slots=True)
class ByzantineStudy:
    """What a team withstands.

    Attributes:
        subject: Its name.
        tasks: How many tasks it succeeds at without.
        cells: By conduct and k.
        missed: Runs that say nothing.
        left_out: Runs planned beyond the budget.
    """

    subject: str
    tasks: int
    cells: tuple[ByzantineCell, ...]
    missed: int
    left_out: int = 0

    def largest_withstood(self, conduct: Conduct) -> int:
        """Return the largest k up to which the team succeeds in half of the runs or more; 0 where not even one."""
        largest = 0
        for cell in sorted(self.cells, key=lambda cell: cell.k):
            if cell.conduct == conduct and cell.k == largest + 1 and cell.withstood.value >= _WITHSTANDS:
                largest = cell.k
        return largest


def summarise_byzantine(subject: str, tasks: int, trials: Sequence[ByzantineTrial]) -> ByzantineStudy:
    """Add up what became of all trials of a team.

    Raises:
        BlamespanError: if there is none that says anything.
    """
    told = [trial for trial in trials if not trial.missed]
    if not told:
        raise BlamespanError(
            f"expected runs of {subject!r} with turned agents, got none: no agent but the last speaks. "
            "Stress a larger team"
        )
    cells = []
    for conduct in CONDUCTS:
        for k in sorted({len(trial.order.agents) for trial in told}):
            own = [trial for trial in told if trial.order.conduct == conduct and len(trial.order.agents) == k]
            failed = [trial for trial in own if not trial.succeeded]
            hits = sum(len({*trial.order.agents} & {*trial.blamed[:k]}) for trial in failed)
            chance = sum(k / trial.order.n_agents for trial in failed) / len(failed) if failed else 0.0
            withstood = Share(sum(trial.succeeded for trial in own), len(own))
            cells.append(ByzantineCell(conduct, k, withstood, Share(hits, k * len(failed)), chance))
    return ByzantineStudy(subject, tasks, tuple(cells), len(trials) - len(told))
