"""Trials: a run gone on with from a recording, some steps put right; in processes of their own, several at once."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Protocol

from opentelemetry.sdk.trace import TracerProvider

from blamespan.errors import ConfigError
from blamespan.testing import SpanRecorder
from blamespan_lab.rerun.checkpoints import go_on_from_checkpoint
from blamespan_lab.rerun.fix.findings import FindingCheck
from blamespan_lab.rerun.playback import Correction, Playback, PromptWatcher
from blamespan_lab.rerun.recorded_run import check_step, original_run, start_recording
from blamespan_lab.rerun.recorded_tools import RecordedTools
from blamespan_lab.rerun.script import Script
from blamespan_lab.rerun.stress.watching import longest_trace
from blamespan_lab.rerun.user_program import Ran, UserProgram, load_program
from blamespan_lab.rerun.worker_pool import CarryOut, RunEnded, WorkerPool

NO_MODEL = "no model was asked"
"""How the trouble begins of a program whose agents are its own code: playback answers for models only."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of going on with a run.

    Attributes:
        ran: How it ended.
        said: What agents said from the first corrected step on, that step included, each with its agent.
        asked: How many times a model was asked.
        trouble: Why it says nothing of the steps: the program has changed, timed out, asked too much; else empty.
        is_from_checkpoint: Whether it went on from a checkpoint, so that nothing before was run again.
        answered: How many answers of models came from the recording.
    """

    ran: Ran
    said: tuple[tuple[str, str], ...] = ()
    asked: int = 0
    trouble: str = ""
    is_from_checkpoint: bool = False
    answered: int = 0


class Trials(Protocol):
    """Goes on with one recorded run. May be asked from several threads at once."""

    def original(self) -> Trial:
        """Return how the recorded run ended."""
        ...

    def run(self, corrections: Sequence[Correction], most_asked: int) -> Trial:
        """Go on with the run, the steps of *corrections* put right."""
        ...


def try_corrections(
    program: UserProgram,
    script: Script,
    corrections: Sequence[Correction],
    task: str,
    models: PromptWatcher,
    *,
    most_asked: float = float("inf"),
    from_checkpoints: bool = True,
) -> Trial:
    """Run *program* as it was recorded up to the first of *corrections*, put these steps right, and let the rest live.

    A LangGraph graph whose checkpoints of the run are there goes on from the last one before the step, if it may.

    Raises:
        ConfigError: if a step cannot be put right, or what came before it is not all there.
    """
    first, *later = sorted(corrections, key=lambda correction: correction.step)
    check_step(script, first.step)
    if from_checkpoints and not first.told and first.answer is None:
        gone_on = go_on_from_checkpoint(program, script, first, models, most_asked, later)
        if gone_on is not None:
            ran, said, asked, trouble = gone_on
            return Trial(ran, said, asked, trouble, is_from_checkpoint=True)
    script.check(first.step)
    with Playback(
        script,
        models,
        first.step,
        first.text,
        told=first.told,
        answer=first.answer,
        later=later,
        most_asked=most_asked,
    ) as playback:
        ran = program.run(task)
    trouble = playback.trouble
    has_models = playback.answered or playback.asked or any(answer.heard is not None for answer in script.answers)
    if not trouble and not playback.is_reached and not has_models and not ran.error:
        trouble = f"{NO_MODEL}: nothing can be put in the place of step {first.step}, which the program's own code says"
    elif not trouble and not playback.is_reached:
        trouble = f"it ended without coming to step {first.step}{f' ({ran.error})' if ran.error else ''}"
    return Trial(ran, tuple(playback.said), playback.asked, trouble, answered=playback.answered)


@dataclass
class ProgramTrials:
    """Trials of a user's program, each in one of several processes: one that hangs is killed and says nothing.

    Args:
        program: `module:factory`.
        check: `module:function`, or None.
        script: The recording.
        task: What the program is asked.
        timeout_s: For one trial.
        finding: What must be gone for a run to succeed, where there is no check.
        runs_tools: Whether tools run from the corrected step on; else they answer as recorded, unless the factory says
            `sandbox = True`, and a call that was not recorded is trouble.
    """

    program: str
    check: str | None
    script: Script
    task: str
    timeout_s: float
    finding: FindingCheck | None = None
    runs_tools: bool = True
    _pool: WorkerPool = field(init=False)

    def __post_init__(self) -> None:
        arguments = self.program, self.check, self.finding, self.runs_tools
        self._pool = WorkerPool(open_trials, *arguments, name=self.program, timeout_s=self.timeout_s)

    def __enter__(self) -> ProgramTrials:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.close()

    def original(self) -> Trial:
        """Play the recording back, which asks no model, and return how it ended.

        Raises:
            ConfigError: if the program cannot be made, or hangs.
        """
        trial = self.run((), 0)
        if trial.trouble:
            raise ConfigError(
                f"expected {self.program!r} to play the recorded run back, got trouble: {trial.trouble}. "
                "Give the program as it was when the run was recorded, or a higher --timeout"
            )
        return trial

    def run(self, corrections: Sequence[Correction], most_asked: int) -> Trial:
        """Go on with the run; what hangs, breaks or has changed is told in `Trial.trouble`.

        Raises:
            ConfigError: if a step cannot be put right.
        """
        try:
            trial: Trial = self._pool.ask((self.script, self.task, tuple(corrections), most_asked))
        except RunEnded as ended:
            late = str(ended) == "timed out"
            return Trial(
                Ran("", None), trouble=f"it did not end within {self.timeout_s:g} s" if late else "its process ended"
            )
        return trial


def open_trials(program: str, check: str | None, finding: FindingCheck | None, runs_tools: bool) -> CarryOut:
    """Begin to record, import the program, and return what goes on with a recording: its script, task, corrections."""
    recorder = SpanRecorder(TracerProvider(shutdown_on_exit=False))
    models = start_recording(recorder)
    made = load_program(program, check)

    def carry_out(order: tuple[Script, str, Sequence[Correction], int]) -> Trial:
        script, task, corrections, most_asked = order
        recorder.clear()
        if not corrections:
            return Trial(original_run(made, script, task, models))
        with ExitStack() as stack:
            tools = None
            if not runs_tools and not made.is_sandbox:
                tools = stack.enter_context(RecordedTools(script.results))
            has_check = made.check is not None
            trial = try_corrections(
                made, script, corrections, task, models, most_asked=most_asked, from_checkpoints=has_check
            )
        if tools is not None and tools.lacks and not trial.trouble:
            trial = replace(trial, trouble=f"it calls {tools.lacks[:120]}, which was not recorded and not run")
        if not has_check and finding is not None and not trial.trouble:
            is_gone = not trial.ran.error and finding.is_gone_from(longest_trace(recorder.spans()))
            trial = replace(trial, ran=replace(trial.ran, succeeded=is_gone))
        return trial

    return carry_out
