"""What is stressed: a bundled team on bundled tasks, or a user's own program on the user's tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol, TypeAlias

import blamespan
from blamespan.testing import SpanRecorder
from blamespan_lab.make.simulation.program import Program
from blamespan_lab.make.simulation.random_stream import stable_seed
from blamespan_lab.make.simulation.tasks import FAMILIES
from blamespan_lab.make.simulation.topologies import Framework
from blamespan_lab.rerun.stress.watching import WatchedRun, seen_in
from blamespan_lab.rerun.user_program import UserProgram, load_program

_SIZES, _PACES = (3, 4, 5, 6, 8, 10), (1, 2, 3, 4)
"""How deep bundled tasks are, and how much of them one message settles."""


class Subject(Protocol):
    """A program that can be run on numbered tasks."""

    @property
    def recorder(self) -> SpanRecorder:
        """What was recorded of the last run."""
        ...

    def roles(self, task: int, run: WatchedRun) -> Mapping[str, Sequence[str]]:
        """Name the agents on *task*, by what results are told by; *run* is one without a fault."""
        ...

    def run(self, task: int) -> WatchedRun:
        """Run it once, recorded."""
        ...


@dataclass(frozen=True, slots=True)
class Bundled:
    """A bundled team, told by the roles of its agents.

    Attributes:
        topology: How it is wired.
        framework: What runs it.
        tasks: How many tasks; they go round the families.
        seed: Chooses them.
        care: Probability that who checks looks at a statement again.
    """

    topology: str
    framework: Framework
    tasks: int
    seed: int = 0
    care: float = 0.8

    @property
    def name(self) -> str:
        """What it is called in a report."""
        return f"{self.topology} ({self.framework})"

    def open(self) -> Subject:
        """Get ready to run it in this process."""
        return _BundledSubject(self, _recorder())


@dataclass(frozen=True, slots=True)
class Named:
    """A user's own program, told by the names of its agents.

    Attributes:
        program: `module:factory`.
        check: `module:function`, or None.
        texts: The tasks.
    """

    program: str
    check: str | None
    texts: tuple[str, ...]

    @property
    def name(self) -> str:
        """What it is called in a report."""
        return self.program

    @property
    def tasks(self) -> int:
        """How many tasks there are."""
        return len(self.texts)

    def open(self) -> Subject:
        """Import it in this process; recording is on before that, so that it finds it on.

        Raises:
            ConfigError: if it cannot be imported or run.
        """
        recorder = _recorder()
        return NamedSubject(self.texts, load_program(self.program, self.check), recorder)


SubjectSpec: TypeAlias = Bundled | Named
"""What says which subject to open: it goes to other processes."""


@dataclass(frozen=True, slots=True)
class _BundledSubject:
    spec: Bundled
    recorder: SpanRecorder

    def _program(self, task: int) -> Program:
        """Make the same task for every topology and framework."""
        families = tuple(FAMILIES)
        spec, seed = self.spec, self.spec.seed * 1_000 + task
        rng = Random(stable_seed("stressed", seed))  # noqa: S311
        return Program(
            families[task % len(families)],
            spec.topology,
            spec.framework,
            seed=seed,
            care=spec.care,
            size=rng.choice(_SIZES),
            pace=rng.choice(_PACES),
        )

    def roles(self, task: int, run: WatchedRun) -> Mapping[str, Sequence[str]]:
        names_of: dict[str, list[str]] = {}
        for member in self._program(task).prepare().team:
            names_of.setdefault(member.role, []).append(member.name)
        return {role: names for role, names in names_of.items() if set(names) & set(run.agents)}

    def run(self, task: int) -> WatchedRun:
        self.recorder.clear()
        ended = self._program(task).run()
        if ended.is_void:
            return WatchedRun("", None, ended.error, is_void=True)
        spans = self.recorder.spans()
        return seen_in(spans, ended.final_text, ended.succeeded, ended.error, ran_out=ended.ran_out)


@dataclass(frozen=True, slots=True)
class NamedSubject:
    """A user's own program, imported in this process; its agents are told by their names.

    Attributes:
        texts: The tasks, by number.
        program: Is run.
        recorder: Keeps what is recorded of the last run.
    """

    texts: Sequence[str] | Mapping[int, str]
    program: UserProgram
    recorder: SpanRecorder

    def roles(self, task: int, run: WatchedRun) -> Mapping[str, Sequence[str]]:
        """As `Subject`."""
        return {name: (name,) for name in run.agents}

    def run(self, task: int) -> WatchedRun:
        """As `Subject`."""
        self.recorder.clear()
        ran = self.program.run(self.texts[task])
        return seen_in(self.recorder.spans(), ran.answer, ran.succeeded, ran.error)


def _recorder() -> SpanRecorder:
    recorder = SpanRecorder()
    blamespan.instrument(tracer_provider=recorder.provider, mask_secrets=False)
    return recorder
