"""Labels by counterfactual replay: a step is decisive if the run fails, and succeeds once it alone is put right.

What was put in is compared with its twin, the same run without it. Mistakes of the agents' own are repaired one after
another, from the first on, until the outcome flips (AgenTracer, arXiv 2509.03312).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan

from blamespan.errors import MalformedTrace, NoAgentSteps
from blamespan.injecting.injection import Injection
from blamespan.intercepting.boundaries import Applied, PlannedFault
from blamespan.lazy import lazy_property
from blamespan.otlp.sdk import span_from_sdk
from blamespan.rebuilding.rebuild import rebuild
from blamespan.trace import MessageActionTrace
from blamespan_lab.make.decision_steps import DecisionSteps, blamed_step, changed_steps
from blamespan_lab.make.recording import Recording
from blamespan_lab.make.run_labels import Decisive, FaultLabel, Purpose, RunLabel
from blamespan_lab.make.simulation.agents.policy import Reply
from blamespan_lab.make.simulation.program import Outcome, Program, Repairs
from blamespan_lab.make.simulation.simulated_run import PolicyDecision

_Key = tuple[str, int]
"""A decision: the agent, and the number of the decision among its own."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A run that is kept.

    Attributes:
        spans: In the order they ended.
        trace: Rebuilt from them.
        label: What is known of it.
    """

    spans: tuple[ReadableSpan, ...]
    trace: MessageActionTrace
    label: RunLabel


@dataclass(frozen=True, slots=True)
class CounterfactualResult:
    """What came of examining a program.

    Attributes:
        runs: The runs to keep: the twin first, where there is one. Empty where nothing is.
        dropped: Why nothing is kept, in a word: `not-written`; `clean-fails`; `harmless`, where that is not wanted;
            `repair-fails` and `no-flip`: putting it right does not help; `own-mistake-first`: putting an earlier
            mistake of an agent's own right helps, too, so that the first cause is not what was put in; `no-step`: what
            was decisive is in no step of the trace; `void`: an endpoint gave no answer; `error`: no trace could be
            rebuilt. Empty where any is.
    """

    runs: tuple[Recorded, ...] = ()
    dropped: str = ""


def examine(
    program: Program,
    faults: Sequence[PlannedFault] = (),
    *,
    seed: int,
    recording: Recording,
    recipe: str = "",
    keeps_harmless: bool = True,
) -> CounterfactualResult:
    """Run *program* with *faults* in it, or as it is, and find out by replay what made it fail.

    The same arguments give the same runs, to the byte, in every process.

    Args:
        program: The team and its task.
        faults: What is put in. Without any, the mistakes of the agents' own are looked into.
        seed: Of the faults.
        recording: Open; it records the runs that are kept.
        recipe: Goes into the labels.
        keeps_harmless: Whether runs that succeed in spite of the faults are of use. Where not, they are dropped as
            `harmless`, which takes a third of the time.
    """
    name = repr((program, tuple(faults), seed, recipe) if faults else (program, recipe))
    case = _Examined(program, faults, seed, recording, recipe, name)
    try:
        if faults and not keeps_harmless:
            case.must_fail()
        return case.with_faults() if faults else case.as_it_is()
    except _Dropped as dropped:
        return CounterfactualResult(dropped=str(dropped))


class _Dropped(Exception):
    """Nothing is kept; the message says why, in a word."""


@dataclass(frozen=True)
class _PlayedRun:
    """A recorded run and what happened in it."""

    outcome: Outcome
    spans: tuple[ReadableSpan, ...]
    applied: tuple[tuple[int, Applied], ...] = ()

    def __post_init__(self) -> None:
        if self.outcome.is_void:
            raise _Dropped("void")

    @lazy_property
    def trace(self) -> MessageActionTrace:
        """Rebuild the run."""
        try:
            return rebuild(self._own_spans)
        except (NoAgentSteps, MalformedTrace, ValueError) as error:
            raise _Dropped("error") from error

    @lazy_property
    def steps(self) -> DecisionSteps:
        """Find the steps of the decisions."""
        return DecisionSteps(self.trace, self._own_spans, self.outcome.decisions)

    @lazy_property
    def decisions(self) -> Mapping[_Key, PolicyDecision]:
        """Return each decision by its key, in order."""
        return {(decision.agent, decision.index): decision for decision in self.outcome.decisions}

    @lazy_property
    def _own_spans(self) -> Any:
        return [span_from_sdk(span) for span in self.spans]


class RecordedFaults(Injection):
    """Faults put in, some of which are spared: they count as written and leave things as they are.

    Attributes:
        written: Which of the planned faults was written, and how.
    """

    def __init__(
        self, faults: Sequence[PlannedFault], seed: int, spared: Callable[[int, Applied], bool] | None = None
    ) -> None:
        super().__init__(faults, seed=seed)
        self._spared = spared
        self.written: list[tuple[int, Applied]] = []

    def is_spared(self, number: int, applied: Applied) -> bool:
        """Return whether a fault leaves things as they are."""
        self.written.append((number, applied))
        return self._spared is not None and self._spared(number, applied)


@dataclass(frozen=True)
class _Cause:
    """Something that went wrong, and what runs when it alone is put right.

    Attributes:
        label: What it is and where.
        flips: Runs the replay; tells whether it succeeds.
    """

    label: FaultLabel
    flips: Callable[[], bool]


@dataclass(frozen=True)
class _Examined:
    program: Program
    faults: Sequence[PlannedFault]
    seed: int
    recording: Recording
    recipe: str
    name: str

    def as_it_is(self) -> CounterfactualResult:
        """Keep the run if it succeeds; else repair what its agents got wrong until it does."""
        run = self._record(self.name)
        if run.outcome.succeeded:
            return CounterfactualResult((self._recorded_run(run, "clean", self._own_mistakes(run)),))
        for key, decision in run.decisions.items():
            if decision.mistakes and self._replay(repairs={key: decision.mistakes}).succeeded:
                break
        else:
            raise _Dropped("no-flip")
        twin = self._record(f"{self.name} but {key!r}", {key: decision.mistakes})
        faults = self._own_mistakes(run)
        step = run.steps.step(decision, twin.decisions[key].reply)
        if step is None:
            raise _Dropped("no-step")
        modes = tuple(dict.fromkeys(mistake.mode for mistake in decision.mistakes))
        decisive = _decisive(run.trace, step, modes)
        recorded_twin = self._recorded_run(twin, "clean", self._own_mistakes(twin))
        return CounterfactualResult(
            (recorded_twin, self._recorded_run(run, "natural", faults, decisive, recorded_twin))
        )

    def must_fail(self) -> None:
        """Make sure that there is a failure to record."""
        if self._replay().succeeded:
            raise _Dropped("harmless")

    def with_faults(self) -> CounterfactualResult:
        """Keep the run with its twin, if the twin succeeds."""
        with RecordedFaults(self.faults, self.seed) as injection:
            outcome, spans = self.recording.record(self.name, self.program.run)
        if not injection.written:
            raise _Dropped("not-written")
        run = _PlayedRun(outcome, spans, tuple(injection.written))
        twin = self._record(repr((self.program, self.recipe)))
        if not twin.outcome.succeeded:
            raise _Dropped("clean-fails")
        causes = [self._cause(run, twin, number) for number in dict.fromkeys(number for number, _ in run.applied)]
        causes.sort(key=lambda cause: cause.label.step if cause.label.step is not None else len(run.trace.steps))
        faults = tuple(cause.label for cause in causes)
        recorded_twin = self._recorded_run(twin, "clean", self._own_mistakes(twin))
        if outcome.succeeded:
            return CounterfactualResult(
                (recorded_twin, self._recorded_run(run, "harmless", faults, None, recorded_twin))
            )
        return CounterfactualResult((recorded_twin, self._label_failure(run, recorded_twin, causes)))

    def _label_failure(self, run: _PlayedRun, twin: Recorded, causes: Sequence[_Cause]) -> Recorded:
        """Label a failure: the first cause whose repair alone flips it is decisive."""
        faults = tuple(cause.label for cause in causes)
        label = next((cause.label for cause in causes if cause.flips()), None)
        if label is None:
            if len(causes) == 1:
                raise _Dropped("repair-fails")
            return self._recorded_run(run, "several", faults, None, twin, verified=False)
        if label.step is None:
            raise _Dropped("no-step")
        if self._own_mistake_decides(run, label.step):
            raise _Dropped("own-mistake-first")
        decisive = _decisive(run.trace, label.step, label.modes)
        return self._recorded_run(run, "several" if len(causes) > 1 else "faulty", faults, decisive, twin)

    def _own_mistake_decides(self, run: _PlayedRun, before: int) -> bool:
        """Return whether an agent's own mistake, at a step before *before*, would also flip the run if put right."""
        return any(
            (step := run.steps.step(decision)) is not None
            and step < before
            and self._replay(repairs={key: decision.mistakes}).succeeded
            for key, decision in run.decisions.items()
            if decision.mistakes
        )

    def _cause(self, run: _PlayedRun, twin: _PlayedRun, number: int) -> _Cause:
        """Say where one of the planned faults shows, and how to put it right; written again and again it is one."""
        first = next(applied for planned, applied in run.applied if planned == number)
        if first.mechanism in ("prompt", "memory"):
            return self._take_first_change(run, twin, number, first)

        def flips() -> bool:
            return self._replay(lambda planned, _: planned == number).succeeded

        return _Cause(_label(run.trace, first, first.step), flips)

    def _take_first_change(self, run: _PlayedRun, twin: _PlayedRun, number: int, first: Applied) -> _Cause:
        """Take what an agent first says otherwise, because of what it was told or has lost, for the fault's step.

        It stays told. Put right is that step alone: the agent says there what it would have said.
        """
        changed = self._find_first_change(run, twin, number)
        if changed is None:
            return _Cause(_label(run.trace, first, first.step), lambda: False)
        key, right = changed
        step = run.steps.step(run.decisions[key], right)
        overrides = {key: right, **self._rest_of(run, twin, key, step)}
        return _Cause(_label(run.trace, first, step), lambda: self._replay(overrides=overrides).succeeded)

    def _find_first_change(self, run: _PlayedRun, twin: _PlayedRun, number: int) -> tuple[_Key, Reply] | None:
        """Find the first decision that is another without this one fault, and what it is then."""
        without = twin.outcome if len(self.faults) == 1 else self._replay(lambda planned, _: planned == number)
        right = {(decision.agent, decision.index): decision.reply for decision in without.decisions}
        for key, decision in run.decisions.items():
            if right.get(key) != decision.reply:
                return (key, right[key]) if key in right else None
        return None

    def _rest_of(self, run: _PlayedRun, twin: _PlayedRun, key: _Key, step: int | None) -> Mapping[_Key, Reply]:
        """Return the decisions after *key* that are the same step, as the twin has them."""
        later = [later_key for later_key in run.decisions if later_key[0] == key[0] and later_key[1] > key[1]]
        return {
            later_key: twin.decisions[later_key].reply
            for later_key in later
            if later_key in twin.decisions and step is not None and run.steps.step(run.decisions[later_key]) == step
        }

    def _record(self, name: str, repairs: Repairs | None = None) -> _PlayedRun:
        outcome, spans = self.recording.record(name, lambda: self.program.run(repairs=repairs))
        return _PlayedRun(outcome, spans)

    def _replay(
        self,
        spared: Callable[[int, Applied], bool] | None = None,
        *,
        overrides: Mapping[_Key, Reply] | None = None,
        repairs: Repairs | None = None,
    ) -> Outcome:
        """Run again without spans, with the faults, if any are planned."""

        def run() -> Outcome:
            if not self.faults:
                return self.program.run(repairs=repairs)
            with RecordedFaults(self.faults, self.seed, spared):
                return self.program.run(overrides=overrides, repairs=repairs)

        outcome = self.recording.unrecorded(run)
        if outcome.is_void:
            raise _Dropped("void")
        return outcome

    def _own_mistakes(self, run: _PlayedRun) -> tuple[FaultLabel, ...]:
        return tuple(sorted(_mistakes(run), key=lambda fault: fault.step or 0))

    def _recorded_run(
        self,
        run: _PlayedRun,
        purpose: Purpose,
        faults: tuple[FaultLabel, ...],
        decisive: Decisive | None = None,
        twin: Recorded | None = None,
        *,
        verified: bool = True,
    ) -> Recorded:
        program, trace = self.program, run.trace
        first = [decisive.step] if decisive is not None else [fault.step for fault in faults if fault.step is not None]
        label = RunLabel(
            trace_id=trace.trace_id,
            outcome="success" if run.outcome.succeeded else "failure",
            purpose=purpose,
            family=program.family,
            topology=program.topology,
            framework=program.framework,
            cast=program.cast,
            seed=program.seed,
            decisive=decisive,
            faults=faults,
            carried_by=changed_steps(trace, twin.trace, min(first, default=0)) if twin is not None else (),
            twin=twin.trace.trace_id if twin is not None else "",
            verified=verified,
            recipe=self.recipe,
        )
        return Recorded(run.spans, trace, label)


def _mistakes(run: _PlayedRun) -> Iterator[FaultLabel]:
    for decision in run.outcome.decisions:
        step = run.steps.step(decision)
        for mistake in decision.mistakes:
            yield FaultLabel(decision.agent, step, _span_id(run.trace, step), (mistake.mode,), "natural", mistake.kind)


def _label(trace: MessageActionTrace, applied: Applied, step: int | None) -> FaultLabel:
    """Label a fault that was put in; where its step has no place in the trace, it is in none."""
    shown = step if step is not None and step < len(trace.steps) else None
    agent = trace.steps[shown].agent if shown is not None else applied.agent
    return FaultLabel(
        agent, shown, _span_id(trace, shown), applied.modes, applied.mechanism, applied.kind, applied.operator
    )


def _span_id(trace: MessageActionTrace, step: int | None) -> str:
    return trace.steps[step].span_id if step is not None else ""


def _decisive(trace: MessageActionTrace, step: int, modes: tuple[str, ...]) -> Decisive:
    blamed = blamed_step(trace, step)
    return Decisive(blamed.agent, blamed.index, blamed.span_id, modes)
