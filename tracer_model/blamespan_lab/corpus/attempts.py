"""Runs tried for a block: programs, faults put in at wanted places, and what became of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from blamespan.injecting.boundaries import Mechanism, PlannedFault
from blamespan.injecting.injection import Injection
from blamespan_lab.corpus.balance import Floats, place_of, pull
from blamespan_lab.corpus.plan import Block
from blamespan_lab.corpus.recipe import CorpusRecipe
from blamespan_lab.replay.counterfactual import Case, Recorded, examine
from blamespan_lab.replay.labels import Purpose
from blamespan_lab.replay.recording import Recording
from blamespan_lab.simulation.program import Outcome, Program
from blamespan_lab.simulation.random_stream import RandomStream, stable_seed

__all__ = ["Attempts", "Failure", "program_of"]

_SEEDS = 2**48
_TRIES = 4
"""Faults tried in one program: the first time of the kind whose turn it is, then of any."""

_SELDOM = frozenset(
    {
        *("turn-round", "own-view", "redundant-steps", "repeat-itself", "never-end", "send-back", "send-many"),
        *("blur-role", "trust-blindly"),
    }
)
"""Operators by which, like by all that only tell an agent to err, simulated teams failed in none of 15 to 30 runs: they
are tried for runs that succeed in spite of a fault, and for failures only where a recipe has no others."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed run that may be kept.

    Attributes:
        recorded: The run.
        twin: The same run without the faults, where it succeeds.
        place: Where its decisive step stands among those that could be, in [0, 1).
        pull: (P,) see `balance.pull`.
    """

    recorded: Recorded
    twin: Recorded | None
    place: float
    pull: Floats


class Attempts:
    """Tries runs for one block and keeps what may be of use.

    Args:
        recipe: What is wanted.
        block: Where.
        recording: Records them.

    Attributes:
        failures: By purpose: `faulty`, `several`, `natural`.
        harmless: Runs that succeeded in spite of a fault.
        clean: Runs that succeeded with what their agents got wrong by themselves.
        tally: What was tried, and what became of it.
    """

    def __init__(self, recipe: CorpusRecipe, block: Block, recording: Recording) -> None:
        self._recipe = recipe
        self._block = block
        self._recording = recording
        self._numbers: Counter[str] = Counter()
        self.failures: dict[Purpose, list[Failure]] = {"faulty": [], "several": [], "natural": []}
        self.harmless: list[Recorded] = []
        self.clean: list[Recorded] = []
        self.tally: Counter[str] = Counter()
        self._all_ways = [(kind.name, mechanism, operator) for kind, mechanism, operator in recipe.faults.ways()]
        strong = [way for way in self._all_ways if way[2] not in _SELDOM and not way[2].startswith("told-")]
        self._ways = strong if strong and recipe.faults.writer == "operators" else self._all_ways
        self._kinds = list(dict.fromkeys(kind for kind, _, _ in self._ways))

    def failures_of(self, purpose: Purpose, count: int, first_place: int) -> None:
        """Try until *count* runs failed, with as many decisive steps at each place of a run, or enough was tried.

        Args:
            purpose: `faulty`, `several` or `natural`.
            count: How many, the surplus included.
            first_place: Number of the first place wanted; they go round.
        """
        if purpose == "natural":
            for _ in range(count):
                self._fails_by_itself(count)
            return
        places = self._recipe.balance.places
        missing = Counter((first_place + number) % places for number in range(count))
        budget = Counter({place: wanted * self._recipe.balance.attempts for place, wanted in missing.items()})
        while open_places := [place for place in missing if missing[place] > 0 and budget[place] > 0]:
            place = max(open_places, key=lambda place: (budget[place], -place))
            budget[place] -= _TRIES
            self._fails_at(purpose, place, missing, self._kind(self._numbers[purpose]))

    def more_clean(self, count: int) -> None:
        """Try until *count* runs without a fault in them succeeded."""
        for _ in range(count * self._recipe.balance.attempts):
            if len(self.clean) >= count:
                return
            seed, program = self._program("clean")
            self._examined(program, [], seed)

    def more_harmless(self, count: int) -> None:
        """Try until *count* runs succeeded in spite of a fault."""
        for _ in range(count * self._recipe.balance.attempts):
            if len(self.harmless) >= count:
                return
            seed, program = self._program("harmless")
            decisions = self._decisions_of(program)
            rng = RandomStream("corpus", seed).rng("harmless")
            fault = self._fault(rng, self._all_ways, decisions) if decisions else []
            tried = self._tried(program, fault, seed) if fault else None
            if tried is not None and tried[0].succeeded:
                self._examined(program, fault, seed)

    def _fails_at(self, purpose: Purpose, wanted: int, missing: Counter[int], kind: str) -> None:
        """Try faults at one place of a fresh run: of one kind, then of any. Failures at any missing place count."""
        places = self._recipe.balance.places
        seed, program = self._program(purpose)
        decisions = self._decisions_of(program)
        for tried in range(_TRIES if decisions else 0):
            rng = RandomStream("corpus", seed, tried).rng("faults")
            ways = self._ways if tried else [way for way in self._ways if way[0] == kind]
            at = int((wanted + rng.random()) / places * decisions)
            faults = self._fault(rng, ways, decisions, at)
            for _ in range(rng.choice(self._recipe.faults.several) - 1 if purpose == "several" else 0):
                faults += self._fault(rng, self._ways, decisions, rng.randrange(at, decisions))
            fault_seed = stable_seed(seed, tried) % _SEEDS
            place = self._place_of_failure(program, faults, fault_seed, decisions)
            if place is None or missing[int(place * places)] <= 0:
                continue
            found = self._examined(program, faults, fault_seed)
            if found is not None:
                missing[int(found.place * places)] -= 1

    def _fails_by_itself(self, count: int) -> None:
        """Try for a natural failure, whose place nobody chooses."""
        for _ in range(self._recipe.balance.attempts):
            if len(self.failures["natural"]) >= count:
                return
            seed, program = self._program("natural")
            self.tally["tried: natural"] += 1
            outcome = self._recording.unrecorded(program.run)
            is_useful = len(self.clean) < self._block.clean or not outcome.succeeded
            if is_useful and self._examined(program, [], seed) is not None:
                return

    def _program(self, purpose: Purpose) -> tuple[int, Program]:
        number = self._numbers[purpose]
        self._numbers[purpose] += 1
        seed = stable_seed("corpus", self._recipe.seed, self._block.number, purpose, number) % _SEEDS
        return seed, program_of(self._recipe, self._block, seed, is_natural=purpose == "natural")

    def _decisions_of(self, program: Program) -> int:
        """Count the decisions of a run without faults; 0 where it fails."""
        outcome = self._recording.unrecorded(program.run)
        if not outcome.succeeded:
            self.tally["dropped: clean-fails"] += 1
            return 0
        return len(outcome.decisions)

    def _fault(
        self, rng: Random, ways: Sequence[tuple[str, Mechanism, str]], decisions: int, at: int | None = None
    ) -> list[PlannedFault]:
        """Plan one fault; kinds weigh the same, however many ways they have."""
        kind = rng.choice(list(dict.fromkeys(name for name, _, _ in ways)))
        _, mechanism, operator = rng.choice([way for way in ways if way[0] == kind])
        step = rng.randrange(decisions) if at is None else at
        if self._recipe.faults.writer == "model":
            return [PlannedFault(kind, step=step, mechanism=mechanism, writer="model")]
        return [PlannedFault(kind, step=step, mechanism=mechanism, operator=operator)]

    def _place_of_failure(
        self, program: Program, faults: Sequence[PlannedFault], seed: int, decisions: int
    ) -> float | None:
        """Run once without recording; where it fails, say about where in the run, in [0, 1), the first fault was."""
        tried = self._tried(program, faults, seed)
        if tried is None or tried[0].succeeded:
            return None
        return min(tried[1] / decisions, 0.999)

    def _tried(self, program: Program, faults: Sequence[PlannedFault], seed: int) -> tuple[Outcome, int] | None:
        """Run once without recording; the outcome and the decision of the first fault, None where none was written."""
        with Injection(faults, seed=seed) as injection:
            outcome = self._recording.unrecorded(program.run)
        purpose = "several" if len(faults) > 1 else "faulty"
        self.tally[f"tried: {purpose}"] += 1
        if not injection.applied or outcome.is_void:
            self.tally[f"dropped: {'not-written' if not injection.applied else 'void'}"] += 1
            return None
        return outcome, injection.applied[0].decision

    def _examined(self, program: Program, faults: Sequence[PlannedFault], seed: int) -> Failure | None:
        case = examine(program, faults, seed=seed, recipe=self._recipe.name, recording=self._recording)
        return self._kept(program, case)

    def _kept(self, program: Program, case: Case) -> Failure | None:
        if case.dropped:
            self.tally[f"dropped: {case.dropped}"] += 1
        failure: Failure | None = None
        twins = {run.label.trace_id: run for run in case.runs if run.label.purpose == "clean"}
        for run in case.runs:
            if run.label.purpose == "harmless":
                self.harmless.append(run)
            elif run.label.outcome == "failure":
                failure = self._failure(program, run, twins.get(run.label.twin))
        if len(case.runs) == 1 and case.runs[0].label.purpose == "clean":
            self.clean.append(case.runs[0])
        return failure

    def _failure(self, program: Program, run: Recorded, twin: Recorded | None) -> Failure | None:
        decisive = run.label.decisive
        place = place_of(run.trace, decisive.step) if decisive is not None else None
        if decisive is None or place is None:
            self.tally["dropped: not-a-decision"] += 1
            return None
        duties: dict[str, str] = {member.name: member.role for member in program.prepare().team}
        longer = len(run.trace.steps) / len(twin.trace.steps) - 1 if twin is not None else 0.0
        found = Failure(run, twin, place, pull(run.trace, decisive.step, duties, extra_steps=longer))
        self.failures[run.label.purpose].append(found)
        self.tally[f"flipped: {run.label.purpose}"] += 1
        return found

    def _kind(self, number: int) -> str:
        """Go round the kinds, in another order in each block."""
        rng = RandomStream("corpus", self._recipe.seed, self._block.number).rng("kinds")
        order = rng.sample(self._kinds, k=len(self._kinds))
        return order[number % len(order)]


def program_of(recipe: CorpusRecipe, block: Block, seed: int, *, is_natural: bool) -> Program:
    """Make the program that *seed* stands for in a recipe: with the label, all that is needed to run it again."""
    dice = RandomStream("program", recipe.seed, seed)
    agents = recipe.agents
    return Program(
        block.family,
        block.topology,
        block.framework,
        cast=dice.rng("cast").choice(recipe.teams.casts),
        seed=seed,
        mistakes=dice.rng("mistakes").choice(agents.mistakes if is_natural else agents.background),
        care=dice.rng("care").choice(agents.care),
        size=dice.rng("size").choice(agents.sizes),
        pace=dice.rng("pace").choice(agents.paces),
    )
