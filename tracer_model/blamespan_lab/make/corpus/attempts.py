"""Runs tried for a block: programs, faults put in at wanted positions, and what became of them.

`make_block` makes all runs of a block that may be kept; which are kept is chosen when every block is made (`balance`).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random

from blamespan.injecting.injection import Injection
from blamespan.intercepting.boundaries import Mechanism, PlannedFault
from blamespan.otlp import spans_to_json
from blamespan.otlp.sdk import span_from_sdk
from blamespan_lab.make.corpus.balance import CandidateRun, Floats, measure_imbalance, relative_position
from blamespan_lab.make.corpus.recipe import Block, CorpusRecipe
from blamespan_lab.make.corpus.storage import MadeBlock
from blamespan_lab.make.corpus.surface import blamable_steps, run_surface
from blamespan_lab.make.counterfactual import CounterfactualResult, Recorded, examine
from blamespan_lab.make.recording import Recording
from blamespan_lab.make.run_labels import Purpose
from blamespan_lab.make.simulation.program import Outcome, Program
from blamespan_lab.make.simulation.random_stream import RandomStream, stable_seed
from blamespan_lab.make.wordings.choosing import use_wordings

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
class FailedRun:
    """A failed run that may be kept.

    Attributes:
        recorded: The run.
        twin: The same run without the faults, where it succeeds.
        position: Where its decisive step stands among those that could be, in [0, 1).
        imbalance: (P,) see `balance.measure_imbalance`.
    """

    recorded: Recorded
    twin: Recorded | None
    position: float
    imbalance: Floats


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
        self.failures: dict[Purpose, list[FailedRun]] = {"faulty": [], "several": [], "natural": []}
        self.harmless: list[Recorded] = []
        self.clean: list[Recorded] = []
        self.tally: Counter[str] = Counter()
        self._all_ways = [(kind.name, mechanism, operator) for kind, mechanism, operator in recipe.faults.ways()]
        strong = [way for way in self._all_ways if way[2] not in _SELDOM and not way[2].startswith("told-")]
        self._ways = strong if strong and recipe.faults.writer == "operators" else self._all_ways
        self._kinds = list(dict.fromkeys(kind for kind, _, _ in self._ways))

    def try_failures(self, purpose: Purpose, count: int, first_part: int) -> None:
        """Try until *count* runs failed, with as many decisive steps at each place of a run, or enough was tried.

        Args:
            purpose: `faulty`, `several` or `natural`.
            count: How many, the surplus included.
            first_part: Number of the first part of a run that is wanted; they go round.
        """
        if purpose == "natural":
            for _ in range(count):
                self._try_natural(count)
            return
        n_parts = self._recipe.balance.places
        missing = Counter((first_part + number) % n_parts for number in range(count))
        budget = Counter({position: wanted * self._recipe.balance.attempts for position, wanted in missing.items()})
        while open_places := [position for position in missing if missing[position] > 0 and budget[position] > 0]:
            position = max(open_places, key=lambda position: (budget[position], -position))
            budget[position] -= _TRIES
            self._try_at(purpose, position, missing, self._choose_kind(self._numbers[purpose]))

    def try_clean(self, count: int) -> None:
        """Try until *count* runs without a fault in them succeeded."""
        for _ in range(count * self._recipe.balance.attempts):
            if len(self.clean) >= count:
                return
            seed, program = self._program("clean")
            self._examine(program, [], seed)

    def try_harmless(self, count: int) -> None:
        """Try until *count* runs succeeded in spite of a fault."""
        for _ in range(count * self._recipe.balance.attempts):
            if len(self.harmless) >= count:
                return
            seed, program = self._program("harmless")
            decisions = self._count_decisions(program)
            rng = RandomStream("corpus", seed).rng("harmless")
            fault = self._plan_fault(rng, self._all_ways, decisions) if decisions else []
            tried = self._run_once(program, fault, seed) if fault else None
            if tried is not None and tried[0].succeeded:
                self._examine(program, fault, seed)

    def _try_at(self, purpose: Purpose, wanted: int, missing: Counter[int], kind: str) -> None:
        """Try faults at one place of a fresh run: of one kind, then of any. Failures at any missing place count."""
        n_parts = self._recipe.balance.places
        seed, program = self._program(purpose)
        decisions = self._count_decisions(program)
        for tried in range(_TRIES if decisions else 0):
            rng = RandomStream("corpus", seed, tried).rng("faults")
            ways = self._ways if tried else [way for way in self._ways if way[0] == kind]
            at = int((wanted + rng.random()) / n_parts * decisions)
            faults = self._plan_fault(rng, ways, decisions, at)
            for _ in range(rng.choice(self._recipe.faults.several) - 1 if purpose == "several" else 0):
                faults += self._plan_fault(rng, self._ways, decisions, rng.randrange(at, decisions))
            fault_seed = stable_seed(seed, tried) % _SEEDS
            position = self._locate_failure(program, faults, fault_seed, decisions)
            if position is None or missing[int(position * n_parts)] <= 0:
                continue
            failure = self._examine(program, faults, fault_seed)
            if failure is not None:
                missing[int(failure.position * n_parts)] -= 1

    def _try_natural(self, count: int) -> None:
        """Try for a natural failure, whose place nobody chooses."""
        for _ in range(self._recipe.balance.attempts):
            if len(self.failures["natural"]) >= count:
                return
            seed, program = self._program("natural")
            self.tally["tried: natural"] += 1
            outcome = self._recording.unrecorded(program.run)
            is_useful = len(self.clean) < self._block.clean or not outcome.succeeded
            if is_useful and self._examine(program, [], seed) is not None:
                return

    def _program(self, purpose: Purpose) -> tuple[int, Program]:
        number = self._numbers[purpose]
        self._numbers[purpose] += 1
        seed = stable_seed("corpus", self._recipe.seed, self._block.number, purpose, number) % _SEEDS
        return seed, make_program(self._recipe, self._block, seed, is_natural=purpose == "natural")

    def _count_decisions(self, program: Program) -> int:
        """Count the decisions of a run without faults; 0 where it fails."""
        outcome = self._recording.unrecorded(program.run)
        if not outcome.succeeded:
            self.tally["dropped: clean-fails"] += 1
            return 0
        return len(outcome.decisions)

    def _plan_fault(
        self, rng: Random, ways: Sequence[tuple[str, Mechanism, str]], decisions: int, at: int | None = None
    ) -> list[PlannedFault]:
        """Plan one fault; kinds weigh the same, however many ways they have."""
        kind = rng.choice(list(dict.fromkeys(name for name, _, _ in ways)))
        _, mechanism, operator = rng.choice([way for way in ways if way[0] == kind])
        step = rng.randrange(decisions) if at is None else at
        if self._recipe.faults.writer == "model":
            return [PlannedFault(kind, step=step, mechanism=mechanism, writer="model")]
        return [PlannedFault(kind, step=step, mechanism=mechanism, operator=operator)]

    def _locate_failure(
        self, program: Program, faults: Sequence[PlannedFault], seed: int, decisions: int
    ) -> float | None:
        """Run once without recording; where it fails, return about where in the run, in [0, 1), the first fault was."""
        tried = self._run_once(program, faults, seed)
        if tried is None or tried[0].succeeded:
            return None
        return min(tried[1] / decisions, 0.999)

    def _run_once(self, program: Program, faults: Sequence[PlannedFault], seed: int) -> tuple[Outcome, int] | None:
        """Run once without recording; the outcome and the decision of the first fault, None where none was written."""
        with Injection(faults, seed=seed) as injection:
            outcome = self._recording.unrecorded(program.run)
        purpose = "several" if len(faults) > 1 else "faulty"
        self.tally[f"tried: {purpose}"] += 1
        if not injection.applied or outcome.is_void:
            self.tally[f"dropped: {'not-written' if not injection.applied else 'void'}"] += 1
            return None
        return outcome, injection.applied[0].decision

    def _examine(self, program: Program, faults: Sequence[PlannedFault], seed: int) -> FailedRun | None:
        case = examine(program, faults, seed=seed, recipe=self._recipe.name, recording=self._recording)
        return self._keep(program, case)

    def _keep(self, program: Program, case: CounterfactualResult) -> FailedRun | None:
        if case.dropped:
            self.tally[f"dropped: {case.dropped}"] += 1
        failure: FailedRun | None = None
        twins = {run.label.trace_id: run for run in case.runs if run.label.purpose == "clean"}
        for run in case.runs:
            if run.label.purpose == "harmless":
                self.harmless.append(run)
            elif run.label.outcome == "failure":
                failure = self._keep_failure(program, run, twins.get(run.label.twin))
        if len(case.runs) == 1 and case.runs[0].label.purpose == "clean":
            self.clean.append(case.runs[0])
        return failure

    def _keep_failure(self, program: Program, run: Recorded, twin: Recorded | None) -> FailedRun | None:
        decisive = run.label.decisive
        position = relative_position(run.trace, decisive.step) if decisive is not None else None
        if decisive is None or position is None:
            self.tally["dropped: not-a-decision"] += 1
            return None
        duties: dict[str, str] = {member.name: member.role for member in program.prepare().team}
        longer = len(run.trace.steps) / len(twin.trace.steps) - 1 if twin is not None else 0.0
        failure = FailedRun(
            run, twin, position, measure_imbalance(run.trace, decisive.step, duties, extra_steps=longer)
        )
        self.failures[run.label.purpose].append(failure)
        self.tally[f"flipped: {run.label.purpose}"] += 1
        return failure

    def _choose_kind(self, number: int) -> str:
        """Go round the kinds, in another order in each block."""
        rng = RandomStream("corpus", self._recipe.seed, self._block.number).rng("kinds")
        order = rng.sample(self._kinds, k=len(self._kinds))
        return order[number % len(order)]


def make_program(recipe: CorpusRecipe, block: Block, seed: int, *, is_natural: bool) -> Program:
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


_SPARE = 4
"""Natural failures tried for beyond the surplus: nobody chooses where they come, so that takes more to choose from."""
_SPARE_HARMLESS = 2
"""Harmless runs beyond those wanted, for where failures are fewer."""


def make_block(recipe: CorpusRecipe, block: Block, recording: Recording) -> MadeBlock:
    """Make the runs of *block*; the same arguments give the same, in any process and order."""
    start_s = time.process_time()
    with use_wordings(recipe.teams.wordings):
        attempts = Attempts(recipe, block, recording)
        _try_failures(recipe, block, attempts)
        failures = [failure for rows in attempts.failures.values() for failure in rows]
        twins = [failure.twin for failure in failures if failure.twin is not None]
        attempts.try_harmless(block.harmless + _SPARE_HARMLESS if block.harmless else 0)
        attempts.try_clean(block.clean - min(len(twins) * recipe.balance.twins_percent // 100, block.clean))
    runs = [*(failure.recorded for failure in failures), *attempts.harmless, *twins, *attempts.clean]
    by_id = {run.label.trace_id: run for run in sorted(runs, key=lambda run: run.label.trace_id)}
    imbalances = {failure.recorded.label.trace_id: failure.imbalance for failure in failures}
    return MadeBlock(
        block.number,
        tuple(_document(run) for run in by_id.values()),
        tuple(_candidate(run, imbalances.get(trace_id, ())) for trace_id, run in by_id.items()),
        dict(attempts.tally),
        time.process_time() - start_s,
    )


def _try_failures(recipe: CorpusRecipe, block: Block, attempts: Attempts) -> None:
    first = block.failures_before
    wanted: list[tuple[Purpose, int]] = [
        ("natural", block.natural),
        ("several", block.several),
        ("faulty", block.faulty),
    ]
    for purpose, count in wanted:
        if count:
            surplus = -(-count * recipe.balance.surplus_percent // 100) + (
                min(count, _SPARE) if purpose == "natural" else 0
            )
            attempts.try_failures(purpose, count + surplus, first)
            first += count


def _candidate(run: Recorded, imbalance: Iterable[float]) -> CandidateRun:
    surface = run_surface(run.trace, blamable_steps(run.trace))
    return CandidateRun(run.label, tuple(round(float(value), 4) for value in imbalance), tuple(map(float, surface)))


def _document(run: Recorded) -> str:
    spans = [span_from_sdk(span) for span in run.spans]
    return spans_to_json(spans)
