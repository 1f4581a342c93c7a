"""Failures of simulated teams that can be gone on with: the sound twin says what a step should have been.

A simulated run is the same each time, so that one trial decides. What was put in stays in but at the steps that are put
right: a trial is the recorded run with these steps as the twin has them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from blamespan.errors import BlamespanError, ConfigError, MalformedTrace, NoAgentSteps
from blamespan.intercepting.boundaries import Applied, PlannedFault
from blamespan.otlp.sdk import span_from_sdk
from blamespan.rebuilding.rebuild import rebuild
from blamespan.trace import MessageActionTrace
from blamespan_lab.make.corpus.attempts import make_program
from blamespan_lab.make.corpus.recipe import Block, CorpusRecipe
from blamespan_lab.make.counterfactual import RecordedFaults, examine
from blamespan_lab.make.decision_steps import DecisionSteps, blamed_step
from blamespan_lab.make.recording import Recording
from blamespan_lab.make.run_labels import RunLabel
from blamespan_lab.make.simulation.agents.policy import Mistake, Reply
from blamespan_lab.make.simulation.program import Outcome, PolicyDecision, Program
from blamespan_lab.make.simulation.random_stream import RandomStream, stable_seed
from blamespan_lab.make.simulation.topologies import TOPOLOGIES
from blamespan_lab.make.wordings.choosing import use_wordings
from blamespan_lab.rerun.causes.corrections import NoCorrection
from blamespan_lab.rerun.playback import Correction
from blamespan_lab.rerun.trials import Trial
from blamespan_lab.rerun.user_program import Ran

_SEEDS = 2**48
_TRIES = 40
"""Programs and faults tried for one failure that is wanted, at most."""
_ROUNDS = 8
"""How often an agent's mistakes are looked for: without one of them, it may come to another."""
_TOLD = ("prompt", "memory")
"""Mechanisms by which an agent stays told otherwise: put right is what it says at the step, not what it was told."""


@dataclass(frozen=True)
class SimulatedFailure:
    """A failed run of a simulated team, and all that is needed to go on with it.

    Attributes:
        program: The team and its task.
        faults: What was put in; empty where an agent erred by itself.
        seed: Of the faults.
        wordings: What words its agents take.
        trace: The run.
        label: What is known of it.
        outcome: How it ended.
        twin: How it ends without the faults, and without mistakes of the agents' own where none were put in.
        steps: Where its decisions are in the trace.
        applied: The faults as they were written, with their number among *faults*.
    """

    program: Program
    faults: tuple[PlannedFault, ...]
    seed: int
    wordings: str
    trace: MessageActionTrace
    label: RunLabel
    outcome: Outcome
    twin: Outcome
    steps: DecisionSteps
    applied: tuple[tuple[int, Applied], ...]

    def decisions_at(self, step: int) -> list[PolicyDecision]:
        """List the decisions that *step* shows."""
        return [decision for decision in self.outcome.decisions if self.steps.step(decision) == step]

    def faults_at(self, step: int) -> set[int]:
        """List the numbers of the faults that were written into *step* or the answer of its tool."""
        return {
            number
            for number, applied in self.applied
            if applied.mechanism not in _TOLD
            and applied.step is not None
            and applied.step < len(self.trace.steps)
            and blamed_step(self.trace, applied.step).index == step
        }

    def put_right(self, steps: Collection[int], recording: Recording) -> Outcome:
        """Run again with *steps* as the twin has them."""
        twin = {(decision.agent, decision.index): decision.reply for decision in self.twin.decisions}
        keys = [(decision.agent, decision.index) for step in steps for decision in self.decisions_at(step)]
        spared = set().union(*(self.faults_at(step) for step in steps)) if steps else set()
        return self._run(
            recording,
            lambda number, applied: number in spared,
            overrides={key: twin[key] for key in keys if key in twin},
        )

    def put_agents_right(self, agents: Collection[str], recording: Recording) -> Outcome:
        """Run again without the faults written at *agents*, and without their own mistakes."""
        spared = {number for number, applied in self.applied if self._agent_of(applied) in agents}
        repairs: dict[tuple[str, int], Collection[Mistake]] = {}
        for _ in range(_ROUNDS):
            outcome = self._run(recording, lambda number, applied: number in spared, repairs=repairs)
            made = {
                (decision.agent, decision.index): decision.mistakes
                for decision in outcome.decisions
                if decision.mistakes and decision.agent in agents
            }
            if not made:
                break
            for key, mistakes in made.items():
                repairs[key] = (*repairs.get(key, ()), *mistakes)
        return outcome

    def _agent_of(self, applied: Applied) -> str:
        if applied.step is None or applied.step >= len(self.trace.steps) or applied.mechanism in _TOLD:
            return applied.agent
        return blamed_step(self.trace, applied.step).agent

    def _run(
        self,
        recording: Recording,
        spared: Callable[[int, Applied], bool],
        *,
        overrides: Mapping[tuple[str, int], Reply] | None = None,
        repairs: Mapping[tuple[str, int], Collection[Mistake]] | None = None,
    ) -> Outcome:
        def run() -> Outcome:
            if not self.faults:
                return self.program.run(overrides=overrides, repairs=repairs)
            with RecordedFaults(self.faults, self.seed, spared):
                return self.program.run(overrides=overrides, repairs=repairs)

        with use_wordings(self.wordings):
            return recording.unrecorded(run)


class TwinCorrections:
    """What the sound twin says at a step."""

    source, cost = "twin", 0

    def __init__(self, failure: SimulatedFailure) -> None:
        self._failure = failure

    def write(self, step: int) -> Correction:
        """Return the twin's words; the step's own where the twin says the same and nothing was put in there."""
        twin = {(decision.agent, decision.index): decision.reply for decision in self._failure.twin.decisions}
        decisions = self._failure.decisions_at(step)
        known = [(decision, twin.get((decision.agent, decision.index))) for decision in decisions]
        if not known or any(reply is None for _, reply in known):
            raise NoCorrection("the twin has no such step")
        if all(decision.reply == reply for decision, reply in known) and not self._failure.faults_at(step):
            return Correction(step, self._failure.trace.steps[step].content)
        replies = [reply for _, reply in known if reply is not None]
        return Correction(step, json.dumps([str(reply) for reply in replies], ensure_ascii=False))


class SimulatedTrials:
    """Goes on with a simulated failure, one trial at a time."""

    def __init__(self, failure: SimulatedFailure, recording: Recording) -> None:
        self._failure = failure
        self._recording = recording

    def original(self) -> Trial:
        """Return how the run ended."""
        return Trial(Ran(self._failure.outcome.final_text, self._failure.outcome.succeeded))

    def run(self, corrections: Sequence[Correction], most_asked: int) -> Trial:
        """Go on with the run; a step that says what it said is left as it was."""
        del most_asked
        steps = self._failure.trace.steps
        changed = [item for item in corrections if item.text != steps[item.step].content]
        if not changed:
            return self.original()
        outcome = self._failure.put_right({item.step for item in changed}, self._recording)
        first = min(item.step for item in changed)
        before = sum(
            (at := self._failure.steps.step(decision)) is not None and at <= first
            for decision in self._failure.outcome.decisions
        )
        said = tuple((decision.agent, decision.reply.text) for decision in outcome.decisions[before:])
        trouble = "the run never ended" if outcome.is_void else ""
        asked = max(0, len(outcome.decisions) - before)
        return Trial(
            Ran(outcome.final_text, outcome.succeeded, outcome.error),
            ((changed[0].text, changed[0].text), *said),
            asked,
            trouble,
        )


def simulated_failures(
    recipe: CorpusRecipe, families: Sequence[str], count: int, recording: Recording
) -> Iterator[SimulatedFailure]:
    """Make *count* failures with a decisive step, round the topologies and frameworks that *recipe* names.

    Of six, four fail by one fault, one by several, one by an agent's own mistake.
    """
    ways = [(kind.name, mechanism, operator) for kind, mechanism, operator in recipe.faults.ways()]
    places = [
        (family, topology, framework)
        for family in families
        for topology in recipe.teams.topologies
        for framework in TOPOLOGIES[topology].frameworks
        if framework in recipe.teams.frameworks
    ]
    made = number = 0
    while made < count:
        family, topology, framework = places[number % len(places)]
        block = Block(number, family, topology, framework, 0, 0, 0, 0, 0, 0)
        for tried in range(_TRIES):
            seed = stable_seed("causes", recipe.seed, number, tried) % _SEEDS
            rng = RandomStream("causes", seed).rng("faults")
            n_faults = (1, 1, 2, 1, 0, 1)[number % 6]
            failure = _try_failure(recipe, block, seed, n_faults, ways, rng, recording)
            if failure is not None:
                yield failure
                made += 1
                break
        number += 1


def _try_failure(
    recipe: CorpusRecipe,
    block: Block,
    seed: int,
    n_faults: int,
    ways: Sequence[tuple[str, object, str]],
    rng: Random,
    recording: Recording,
) -> SimulatedFailure | None:
    program = make_program(recipe, block, seed, is_natural=not n_faults)
    with use_wordings(recipe.teams.wordings):
        clean = recording.unrecorded(program.run)
        if clean.succeeded == (not n_faults) or clean.is_void:
            return None
        faults = []
        for _ in range(n_faults):
            kind = rng.choice(list(dict.fromkeys(name for name, _, _ in ways)))
            _, mechanism, operator = rng.choice([way for way in ways if way[0] == kind])
            step = rng.randrange(max(1, len(clean.decisions)))
            faults.append(PlannedFault(kind, step=step, mechanism=mechanism, operator=operator))  # type: ignore[arg-type]
        case = examine(program, faults, seed=seed, recording=recording, keeps_harmless=False)
        label = next((run.label for run in case.runs if run.label.decisive is not None), None)
        if label is None:
            return None
        return _record_again(program, tuple(faults), seed, recipe.teams.wordings, label, recording)


def _record_again(
    program: Program, faults: tuple[PlannedFault, ...], seed: int, wordings: str, label: RunLabel, recording: Recording
) -> SimulatedFailure | None:
    """Record a failure once more, as it was examined, and run its twin."""
    if faults:
        with RecordedFaults(faults, seed) as injection:
            outcome, spans = recording.record(repr((program, faults, seed)), program.run)
        applied = tuple(injection.written)
        twin = recording.unrecorded(program.run)
    else:
        outcome, spans = recording.record(repr(program), program.run)
        applied = ()
        twin = _run_without_mistakes(program, recording)
    own = [span_from_sdk(span) for span in spans]
    try:
        trace = rebuild(own)
    except (NoAgentSteps, MalformedTrace, ValueError):
        return None
    if not twin.succeeded or outcome.succeeded or label.decisive is None:
        return None
    if label.decisive.step >= len(trace.steps) or trace.steps[label.decisive.step].agent != label.decisive.agent:
        raise BlamespanError(
            f"expected the same run again, got another at step {label.decisive.step}: {program!r}. This is a bug"
        )
    steps = DecisionSteps(trace, own, outcome.decisions)
    return SimulatedFailure(program, faults, seed, wordings, trace, label, outcome, twin, steps, applied)


def _run_without_mistakes(program: Program, recording: Recording) -> Outcome:
    repairs: dict[tuple[str, int], Collection[Mistake]] = {}
    outcome = recording.unrecorded(program.run)
    for _ in range(4 * _ROUNDS):
        made = {(item.agent, item.index): item.mistakes for item in outcome.decisions if item.mistakes}
        if not made:
            return outcome
        for key, mistakes in made.items():
            repairs[key] = (*repairs.get(key, ()), *mistakes)
        outcome = recording.unrecorded(lambda: program.run(repairs=repairs))
    raise ConfigError(f"expected agents that can do without mistakes, got ever new ones: {program!r}. This is a bug")
