"""What runs in each process of `blamespan learn`: the user's program, clean, with a fault, or gone on with."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from opentelemetry.sdk.trace import TracerProvider

from blamespan import conventions as words
from blamespan.spans import Span
from blamespan.testing import SpanRecorder
from blamespan_lab.rerun.playback import Correction, PromptWatcher
from blamespan_lab.rerun.recorded_run import start_recording
from blamespan_lab.rerun.recorded_tools import RecordedTools
from blamespan_lab.rerun.script import RecordedResult, Script
from blamespan_lab.rerun.stress.recipe import StressRecipe
from blamespan_lab.rerun.stress.subjects import NamedSubject
from blamespan_lab.rerun.stress.trial import Clean, Planned, run_with_fault
from blamespan_lab.rerun.stress.watching import WatchedRun
from blamespan_lab.rerun.trials import try_corrections
from blamespan_lab.rerun.user_program import UserProgram, load_program
from blamespan_lab.rerun.worker_pool import CarryOut


@dataclass(frozen=True, slots=True)
class CleanRun:
    """A run without a fault is asked for.

    Attributes:
        task: Its text.
    """

    task: str


@dataclass(frozen=True, slots=True)
class FaultRun:
    """A run with a fault is asked for.

    Attributes:
        task: Its text.
        planned: The fault.
        clean: The same run without.
        results: What tools answered there: they are not called again unless the factory says `sandbox = True`.
    """

    task: str
    planned: Planned
    clean: Clean
    results: tuple[RecordedResult, ...]


@dataclass(frozen=True, slots=True)
class ReplayRun:
    """A run is to be gone on with from a recording, one decision put right.

    Attributes:
        task: Its text.
        script: The recording.
        corrections: What is put right.
        most_asked: Most times that models may be asked.
        results: As for `FaultRun`.
    """

    task: str
    script: Script
    corrections: tuple[Correction, ...]
    most_asked: int
    results: tuple[RecordedResult, ...]


Order = CleanRun | FaultRun | ReplayRun


@dataclass(frozen=True, slots=True)
class WrittenFault:
    """A fault that was put into a run.

    Attributes:
        agent: Whose.
        kind: In the catalogue.
        mechanism: How.
        operator: By what.
        modes: What it shows, `taxonomy:code` each.
        step: Index of its step in the rebuilt trace; None where it has none.
    """

    agent: str
    kind: str
    mechanism: str
    operator: str
    modes: tuple[str, ...]
    step: int | None


@dataclass(frozen=True, slots=True)
class RecordedTrial:
    """A run that was recorded, clean or with a fault.

    Attributes:
        run: How it went.
        spans: Of its trace; empty where no agent was seen.
        fault: What was put in; None where nothing was.
        missed: Why a planned fault was not written; empty if it was.
        lacks: Which call of a tool nobody had recorded, so that the run says nothing; empty if there was none.
        is_sandbox: Whether the factory says that its tools may run whenever they are called.
    """

    run: WatchedRun
    spans: tuple[Span, ...]
    fault: WrittenFault | None = None
    missed: str = ""
    lacks: str = ""
    is_sandbox: bool = False


@dataclass(frozen=True, slots=True)
class Worker:
    """A user's program that is run and recorded in this process.

    Attributes:
        program: It.
        recipe: How faults are written.
        recorder: Keeps the spans of the last run.
        models: Hears what models are told.
    """

    program: UserProgram
    recipe: StressRecipe
    recorder: SpanRecorder
    models: PromptWatcher

    @classmethod
    def open(cls, program: str, check: str | None, recipe: StressRecipe) -> Worker:
        """Begin to record, and import the program.

        Raises:
            ConfigError: if it cannot be imported or run.
        """
        recorder = SpanRecorder(TracerProvider(shutdown_on_exit=False))
        models = start_recording(recorder, mask_secrets=False)
        return cls(load_program(program, check), recipe, recorder, models)

    def carry_out(self, order: Order) -> Any:  # a trial of one of two kinds, which the parent knows
        """Run the program as *order* says: clean or with a fault, a `RecordedTrial`; gone on with, a `Trial`."""
        if isinstance(order, CleanRun):
            return self._record(NamedSubject((order.task,), self.program, self.recorder).run(0))
        with ExitStack() as stack:
            tools = None if self.program.is_sandbox else stack.enter_context(RecordedTools(order.results))
            if isinstance(order, ReplayRun):
                trial = try_corrections(
                    self.program, order.script, order.corrections, order.task, self.models, most_asked=order.most_asked
                )
                if tools is not None and tools.lacks:
                    trial = replace(trial, trouble=f"it calls {tools.lacks[:120]}, which was not recorded")
                return trial
            subject = NamedSubject({order.planned.task: order.task}, self.program, self.recorder)
            run, injection = run_with_fault(subject, order.planned, order.clean, self.recipe)
        lacks = tools.lacks if tools is not None else ""
        if not injection.applied:
            reasons = [missed.reason for missed in injection.missed]
            missed = (reasons or ["its probability did not come up"])[0]
            return RecordedTrial(run, (), missed=missed, lacks=lacks, is_sandbox=self.program.is_sandbox)
        first = injection.applied[0]
        is_here = first.where is not None and f"{first.where.span.trace_id:032x}" == run.trace_id
        step = first.step if is_here and first.step is not None and first.step < len(run.steps) else None
        fault = WrittenFault(first.agent, first.kind, first.mechanism, first.operator, first.modes, step)
        return replace(self._record(run), fault=fault, lacks=lacks)

    def _record(self, run: WatchedRun) -> RecordedTrial:
        return RecordedTrial(run, _spans_of(run, self.recorder), is_sandbox=self.program.is_sandbox)


def _spans_of(run: WatchedRun, recorder: SpanRecorder) -> tuple[Span, ...]:
    """Return the spans of the run's trace, its outcome on the root, as a file of traces has them."""
    spans = [replace(span, origin=None) for span in recorder.spans() if span.trace_id == run.trace_id]
    known = {span.span_id for span in spans}
    if run.succeeded is None:
        return tuple(spans)
    outcome = {words.RUN_OUTCOME: "succeeded" if run.succeeded else "failed"}
    return tuple(
        span if span.parent_id in known else replace(span, attributes={**span.attributes, **outcome}) for span in spans
    )


def open_worker(program: str, check: str | None, recipe: StressRecipe) -> CarryOut:
    """Open a worker, and return what carries out orders."""
    return Worker.open(program, check, recipe).carry_out
