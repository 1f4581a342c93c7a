"""A recorded run and the same run with one step put right: whether the outcome changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from opentelemetry.sdk.trace import TracerProvider

import blamespan
from blamespan.analysis.sources import runs_in
from blamespan.errors import ConfigError, UnreadableInput
from blamespan.importing.recorded import RecordedRun
from blamespan.importing.selection import is_named
from blamespan.rebuilding.runs import Run, split_runs
from blamespan_lab.rerun.replay.playback import Playback, PromptWatcher
from blamespan_lab.rerun.replay.script import Script, script_of
from blamespan_lab.rerun.replay.user_program import Ran, UserProgram

__all__ = [
    "ReplayableRun",
    "Rerun",
    "check_step",
    "original_run",
    "read_replayable",
    "read_script",
    "recording_quietly",
    "rerun",
]


@dataclass(frozen=True, slots=True)
class Rerun:
    """What came of a replay.

    Attributes:
        original: How the recorded run ended.
        replay: How it ended with the step put right.
        answered: How many answers of models came from the recording.
        asked: How many times a model was asked after it.
    """

    original: Ran
    replay: Ran
    answered: int
    asked: int

    @property
    def has_flipped(self) -> bool | None:
        """Return whether the outcome changed; None where nobody can tell."""
        if self.original.succeeded is None or self.replay.succeeded is None:
            return None
        return self.original.succeeded != self.replay.succeeded

    @property
    def answers_differ(self) -> bool:
        """Return whether the answer is another."""
        return self.original.answer.strip() != self.replay.answer.strip()


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


def read_replayable(source: str | Path, which: str | None = None, *, format_name: str | None = None) -> ReplayableRun:
    """Read the run to replay from a file or this machine's store, as `blamespan analyze` does.

    Args:
        source: The file, or the name of a stored run.
        which: Its number, from 1, or how its trace's id begins, where the file holds several runs.
        format_name: Read it in this format instead of telling by its content.

    Raises:
        UnreadableInput: if there is no run in it.
        ConfigError: if it holds several runs, and not exactly one is named.
    """
    runs: list[RecordedRun] = []
    errors: list[UnreadableInput] = []
    number = 0
    for run in runs_in([source], format_name=format_name, with_spans=True):
        if isinstance(run, UnreadableInput):
            errors.append(run)
            continue
        number += 1
        if which is None or is_named(which, number, run.trace):
            runs.append(run)
    if not runs and errors:
        raise errors[0]
    if len(runs) != 1:
        names = ", ".join(run.trace.trace_id for run in runs[:5]) or "none"
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


def read_script(source: str | Path, which: str | None = None, *, format_name: str | None = None) -> Script:
    """Read what `read_replayable` reads, and return its answers."""
    return read_replayable(source, which, format_name=format_name).script


def _spans_of(recorded: RecordedRun) -> Run | None:
    """Return the run's spans; None where its source holds none, or it paused: then they are of several traces."""
    if recorded.parts:
        return None
    ids = {step.span_id for step in recorded.trace.steps}
    runs = [run for run in split_runs(recorded.spans) if ids & {span.span_id for span in run.spans}]
    return runs[0] if len(runs) == 1 else None


@contextmanager
def recording_quietly() -> Iterator[PromptWatcher]:
    """Record for what is told to models alone: no span leaves the process.

    Programs that are imported within the block stay with that, even if they call `blamespan.instrument()`.
    """
    provider, models = TracerProvider(shutdown_on_exit=False), PromptWatcher()
    provider.add_span_processor(models)
    done = blamespan.instrument(tracer_provider=provider)
    try:
        yield models
    finally:
        if done:
            blamespan.uninstrument()


def rerun(program: UserProgram, script: Script, step: int, text: str, task: str, models: PromptWatcher) -> Rerun:
    """Run *program* as it was recorded up to *step*, say *text* there, and let the rest run live.

    What was recorded is played back first, without asking any model: that gives the original outcome.

    Args:
        program: Made anew for each run.
        script: The recording.
        step: Index of the step that is put right.
        text: What it says instead.
        task: What the program is asked.
        models: Of `recording_quietly`.

    Raises:
        ConfigError: if the step cannot be replaced, what came before it is not all there, or the program has changed
            since it was recorded.
    """
    check_step(script, step)
    script.check(step)
    original = original_run(program, script, task, models)
    with Playback(script, models, step, text) as playback:
        ran = program.run(task)
    if playback.trouble:
        raise ConfigError(
            f"the program {program.name!r} has changed since it was recorded: {playback.trouble}. "
            "Replay with the program as it was, or record it again"
        )
    if not playback.is_reached:
        raise ConfigError(
            f"the program {program.name!r} has changed since it was recorded: it ended without coming to step {step}"
            f"{f' ({ran.error})' if ran.error else ''}. Replay with the program as it was, or record it again"
        )
    return Rerun(original, ran, playback.answered, playback.asked)


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
