"""A recorded run that is to be run again: read, checked, and played back as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from opentelemetry.sdk.trace import TracerProvider

import blamespan
from blamespan import conventions as words
from blamespan.analysis.sources import runs_in
from blamespan.annotate import is_verdict, read_verdict
from blamespan.attribution import Attribution
from blamespan.errors import ConfigError, UnreadableInput
from blamespan.importing.recorded import RecordedRun
from blamespan.importing.selection import list_named
from blamespan.rebuilding.runs import Run, split_runs
from blamespan.testing import SpanRecorder
from blamespan.tracers import DEFAULT_TRACER, ask_tracer, load_tracer
from blamespan_lab.rerun.playback import Playback, PromptWatcher
from blamespan_lab.rerun.script import Script, script_of
from blamespan_lab.rerun.user_program import Ran, UserProgram


@dataclass(frozen=True, slots=True)
class ReplayableRun:
    """A run that was recorded, to be run again.

    Attributes:
        recorded: As its importer gave it.
        script: Its answers.
        spans: Its spans; None where its source holds none.
    """

    recorded: RecordedRun
    script: Script
    spans: Run | None


def read_replayable(source: str | Path, which: str | None = None) -> ReplayableRun:
    """Read the run to replay from a file or this machine's store, as `blamespan analyze` does.

    Args:
        source: The file, or the name of a stored run.
        which: Its number, from 1, or how its trace's id begins, where the file holds several runs.

    Raises:
        UnreadableInput: if there is no run in it.
        ConfigError: if it holds several runs, and not exactly one is named.
    """
    runs: list[RecordedRun] = []
    errors: list[UnreadableInput] = []
    for run in runs_in([source], with_spans=True):
        if isinstance(run, UnreadableInput):
            errors.append(run)
        else:
            runs.append(run)
    if not runs:
        raise errors[0] if errors else UnreadableInput(f"{source}: expected a recorded run, got none. Check the path")
    runs = list_named(runs, which)
    if len(runs) != 1:
        names = ", ".join(run.trace.trace_id for run in runs[:5])
        more = ", ..." if len(runs) > 5 else ""
        raise ConfigError(
            f"{source}: expected one run that can be replayed, got {len(runs)} ({names}{more}). "
            "Name one with --run, by its number or the start of its id"
        )
    [recorded] = runs
    spans = _spans_of(recorded)
    return ReplayableRun(
        recorded, script_of(recorded.trace, list(spans.meanings or spans.spans) if spans is not None else ()), spans
    )


def _spans_of(recorded: RecordedRun) -> Run | None:
    """Return the run's spans; None where its source holds none, or it paused: then they are of several traces."""
    if recorded.parts:
        return None
    ids = {step.span_id for step in recorded.trace.steps}
    runs = [run for run in split_runs(recorded.spans) if ids & {span.span_id for span in run.spans}]
    return runs[0] if len(runs) == 1 else None


def verdict_on(run: ReplayableRun, tracer_name: str | None) -> Attribution:
    """Return the verdict in the file, unless a tracer is asked for; its revision is the latest one's."""
    trace = run.recorded.trace
    recorded = read_verdict(run.spans, trace) if run.spans is not None and tracer_name is None else None
    if recorded is not None and recorded.abstained is None and run.spans is not None:
        revisions = [span.integer(words.REVISION) or 0 for span in run.spans.spans if is_verdict(span)]
        return replace(recorded, revision=max([recorded.revision, *revisions]))
    [verdict] = ask_tracer(load_tracer(tracer_name or DEFAULT_TRACER), [trace])
    return verdict


def start_recording(recorder: SpanRecorder, *, mask_secrets: bool | None = None) -> PromptWatcher:
    """Record for *recorder*, and for what is told to models, which is returned: no span leaves the process.

    Programs that are imported afterwards stay with that, even if they call `blamespan.instrument()`.
    """
    models = PromptWatcher()
    recorder.provider.add_span_processor(models)
    blamespan.instrument(tracer_provider=recorder.provider, capture_content=True, mask_secrets=mask_secrets)
    return models


@contextmanager
def recording_quietly(recorder: SpanRecorder | None = None) -> Iterator[PromptWatcher]:
    """Record as `start_recording` does, for this block alone."""
    models = start_recording(recorder or SpanRecorder(TracerProvider(shutdown_on_exit=False)))
    try:
        yield models
    finally:
        blamespan.uninstrument()


def check_step(script: Script, step: int) -> None:
    """Make sure that *step* is one that can be put right.

    Raises:
        ConfigError: if it is none of the run's, or nobody's who decides.
    """
    steps = script.trace.steps
    if not 0 <= step < len(steps):
        raise ConfigError(
            f"step must be one of the run's, 0 to {len(steps) - 1}, got {step}. `blamespan analyze` lists them"
        )
    wanted = steps[step]
    if not script.trace.can_be_blamed(wanted) and wanted.kind != "tool_result":
        raise ConfigError(
            f"step {step} is what {wanted.agent!r} said, who is no agent: nothing to put right. Give another --task"
        )


def original_run(program: UserProgram, script: Script, task: str, models: PromptWatcher) -> Ran:
    """Play back all of the recording; where that fails behind the step, take what the trace says last."""
    if not script.is_cut:
        with Playback(script, models) as playback:
            ran = program.run(task)
        if not playback.trouble:
            return ran
    trace = script.trace
    texts = [step.content for step in trace.steps if trace.can_be_blamed(step) and step.kind != "tool_call"]
    return program.judged(texts[-1] if texts else "", task)
