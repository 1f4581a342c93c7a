"""A team on a task, run in a real framework, with an outcome that is checked: what is injected into and replayed."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from random import Random
from typing import Any, TypeAlias, TypeVar

from blamespan.errors import ConfigError, MissingExtra
from blamespan_lab.make.simulation.agents.agent import AgentProfile
from blamespan_lab.make.simulation.agents.policy import Mistake, Reply
from blamespan_lab.make.simulation.agents.team import CASTS, TeamMember, draw_style, name_team, write_instructions
from blamespan_lab.make.simulation.random_stream import stable_seed
from blamespan_lab.make.simulation.simulated_run import OnReply, PolicyDecision, SimulatedPolicy, SimulatedRun
from blamespan_lab.make.simulation.tasks import FAMILIES, Task, make_task
from blamespan_lab.make.simulation.topologies import TOPOLOGIES, Framework, TeamNeeds

_log = logging.getLogger(__name__)

Repairs: TypeAlias = Mapping[tuple[str, int], Collection[Mistake]]
"""For (agent, number of its decision): mistakes of its own that it does not make there. All else stays as it is."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended.

    Attributes:
        final_text: The answer the team gives: its last message that states one, else its last message.
        succeeded: Whether that answer is right.
        decisions: Every answer of every model, in the order given.
        error: What the framework raised, where the run broke; such a run has failed.
        ran_out: Whether the team was stopped by a limit on its rounds.
        is_void: Whether it says nothing of the team: it never ended.
    """

    final_text: str
    succeeded: bool
    decisions: tuple[PolicyDecision, ...] = ()
    error: str = ""
    ran_out: bool = False
    is_void: bool = False


@dataclass(frozen=True, slots=True)
class Program:
    """A seeded run: the same arguments give the same run, but for ids and times.

    Attributes:
        family: Name in `tasks.FAMILIES`.
        topology: Name in `topologies.TOPOLOGIES`.
        framework: Which one runs it; not every topology exists in both.
        cast: Name in `casts.CASTS`: what the agents are called.
        seed: Chooses the task and every draw of every agent.
        mistakes: Probability of each natural mistake at each chance for one; 0 gives a flawless run.
        care: Probability that who checks looks at a given statement again.
        size: How many facts deep the task is, 3 to 12; drawn from the seed where None.
        pace: Most facts one message settles; drawn from the seed where None. Less gives longer runs.
    """

    family: str
    topology: str
    framework: Framework
    cast: str = "roles"
    seed: int = 0
    mistakes: float = 0.0
    care: float = 0.8
    size: int | None = None
    pace: int | None = None

    def run(
        self,
        *,
        overrides: Mapping[tuple[str, int], Reply] | None = None,
        on_reply: OnReply | None = None,
        repairs: Repairs | None = None,
    ) -> Outcome:
        """Run the team once.

        Spans go where `blamespan.instrument()` was told, if it was called.

        Args:
            overrides: For (agent, number of its decision): what it answers instead of what it would have.
            on_reply: Called at each decision, after *overrides*; what it gives back is answered.
            repairs: Mistakes not made: the repaired run of a counterfactual replay.

        Raises:
            ConfigError: if there is no such family, topology or cast, or the framework has no such topology.
            MissingExtra: if the framework is not installed.
        """
        return asyncio.run(self.arun(overrides=overrides, on_reply=on_reply, repairs=repairs))

    async def arun(
        self,
        *,
        overrides: Mapping[tuple[str, int], Reply] | None = None,
        on_reply: OnReply | None = None,
        repairs: Repairs | None = None,
    ) -> Outcome:
        """Run the team once, as `run`, in the running event loop; runs of one loop may overlap."""
        run = self.prepare(overrides=overrides or {}, on_reply=on_reply, repairs=repairs)
        perform = _import_performer(self.framework)
        try:
            messages = await await_unless_stuck(perform(self.topology, run))
        except StuckError as error:
            _log.warning("%s: %r", error, self)
            return Outcome("", False, tuple(run.decisions), str(error), run.ran_out, is_void=True)
        except Exception as error:  # whatever a framework raises: the run broke, and that is its outcome
            return Outcome("", False, tuple(run.decisions), f"{type(error).__name__}: {error}", run.ran_out)
        text = _find_final_text(run, messages)
        return Outcome(text, run.task.check(text), tuple(run.decisions), ran_out=run.ran_out)

    def task(self) -> Task:
        """Make the task that the seed stands for."""
        return make_task(
            self.family, self.seed, self.size or self._rng("size").choice((3, 3, 4, 5, 6, 7, 8, 9, 10, 12))
        )

    def prepare(
        self,
        *,
        overrides: Mapping[tuple[str, int], Reply] | None = None,
        on_reply: OnReply | None = None,
        repairs: Repairs | None = None,
    ) -> SimulatedRun:
        """Set up the task, the team and its policies for one run, before any framework is asked."""
        self._check()
        task, topology = self.task(), TOPOLOGIES[self.topology]
        pace = self.pace or self._rng("pace").choice((1, 1, 2, 2, 3, 4, 6))
        solvers = -(-len(task.rules) // pace)
        looks_up = any(fact.lookup is not None for fact in task.lexicon.facts.values())
        team = name_team(
            topology.roles(TeamNeeds(looks_up, min(solvers, 12), self._rng("team"))), self.cast, self._rng("cast")
        )
        if (self.topology, self.framework) == ("orchestrator", "autogen"):  # MagenticOne names its own
            team = tuple(TeamMember("MagenticOneOrchestrator", m.role) if m.role == "orchestrator" else m for m in team)
        briefs = topology.is_relay
        rng = self._rng("system")
        profiles = {
            member.name: AgentProfile(
                member,
                task,
                team,
                self.seed,
                self.mistakes,
                self.care,
                pace if topology.is_paced else len(task.lexicon.facts),
                closes=member.role in topology.closers,
                briefs=briefs,
                style=draw_style(self.seed, member.name),
            )
            for member in team
        }
        return SimulatedRun(
            task,
            team,
            {
                name: SimulatedPolicy(profile, repairs=_select_repairs(repairs or {}, name))
                for name, profile in profiles.items()
            },
            {m.name: write_instructions(m, team, m.role in topology.closers, rng) for m in team},
            self._tools(task, team),
            overrides or {},
            on_reply,
        )

    def _tools(self, task: Task, team: Sequence[TeamMember]) -> dict[str, frozenset[str]]:
        """Hand out the tools: sources to who looks up, and perhaps to who checks; the calculator to who works out."""
        names = frozenset(tool.name for tool in task.tools)
        looks = names - {"calculate"}
        checks_sources = self._rng("checks").random() < 0.6
        tools_by_role = {
            "researcher": looks,
            "solver": names & {"calculate"},
            "debater": looks,
            "verifier": looks if checks_sources else frozenset(),
        }
        return {member.name: tools_by_role.get(member.role, frozenset()) for member in team}

    def _rng(self, purpose: str) -> Random:
        return Random(stable_seed("program", self.family, self.topology, self.seed, purpose))  # noqa: S311

    def _check(self) -> None:
        for value, names, what in (
            (self.family, FAMILIES, "family"),
            (self.topology, TOPOLOGIES, "topology"),
            (self.cast, CASTS, "cast"),
            (self.framework, ("autogen", "langgraph"), "framework"),
        ):
            if value not in names:
                near = get_close_matches(value, names, n=1, cutoff=0.0)[0]
                raise ConfigError(f"expected the name of a {what}, got {value!r}. Nearest known: {near!r}")
        if self.framework not in TOPOLOGIES[self.topology].frameworks:
            raise ConfigError(
                f"expected a topology that {self.framework} can build, got {self.topology!r}. "
                f"Ask for it in {TOPOLOGIES[self.topology].frameworks[0]}"
            )


def _import_performer(framework: Framework) -> Any:  # an async function of the module that imports the framework
    try:
        return import_module(f"blamespan_lab.make.simulation.topologies.{framework}").perform
    except ImportError as error:
        raise MissingExtra(str(error)) from error


def _select_repairs(repairs: Repairs, name: str) -> dict[int, Collection[Mistake]]:
    return {number: mistakes for (agent, number), mistakes in repairs.items() if agent == name}


def _find_final_text(run: SimulatedRun, messages: Sequence[tuple[str, str]]) -> str:
    """Return the answer of who has to give it, or else the last message that states one, or else the last."""
    answerers = run.names_of("reporter", "judge")
    answers = [text for sender, text in messages if sender in answerers]
    answers = answers or [text for _, text in messages if run.task.read_answer(text) is not None]
    return (answers or [text for _, text in messages] or [""])[-1]


_LOOK_S = 0.5
"""How often it is looked at."""

_IDLE_S = 3.0
"""How long a process must do nothing to be waiting for nothing."""

_LEAST_CPU_S = 0.005
"""Processor time that looking itself may cost between two looks."""

_ResultT = TypeVar("_ResultT")


class StuckError(Exception):
    """A run waits for something that will never come."""


async def await_unless_stuck(work: Awaitable[_ResultT], *, idle_s: float = _IDLE_S) -> _ResultT:
    """Await *work*, unless the process does nothing for *idle_s* seconds.

    Simulated agents wait for no network: a process that uses no processor time has nothing left to wake it, however
    busy the machine is.

    Raises:
        StuckError: then; *work* is cancelled.
    """
    task = asyncio.ensure_future(work)
    used_s, busy_at_s = time.process_time(), time.monotonic()
    while not task.done():
        await asyncio.wait({task}, timeout=_LOOK_S)
        now_s, now_used_s = time.monotonic(), time.process_time()
        if now_used_s - used_s > _LEAST_CPU_S:
            busy_at_s = now_s
        used_s = now_used_s
        if now_s - busy_at_s > idle_s and not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=_LOOK_S)
            raise StuckError(f"expected the run to end, got nothing for {idle_s:g} s. A lost message may be the cause")
    return task.result()
