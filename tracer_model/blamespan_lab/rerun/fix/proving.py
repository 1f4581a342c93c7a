"""A fix proved: a step is put right and the run gone on with from there, as often as with the step as it was."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from blamespan import conventions as words
from blamespan.attribution import Attribution
from blamespan.trace import MessageActionTrace
from blamespan_lab.rerun.causes.corrections import CorrectionWriter
from blamespan_lab.rerun.causes.verify import CallBudget, StepToVerify, VerifiedSuspect, verify
from blamespan_lab.rerun.feedback.writing import Feedback, feedback_at, quoted
from blamespan_lab.rerun.playback import Correction
from blamespan_lab.rerun.script import Script
from blamespan_lab.rerun.trials import Trial, Trials

_MOST_PROMPT = 80


@dataclass
class WatchedTrials:
    """Trials that are kept.

    Attributes:
        trials: Who goes on with the run.
        done: What came of each.
    """

    trials: Trials
    done: list[tuple[Correction, Trial]] = field(default_factory=list)

    def original(self) -> Trial:
        """Return how the recorded run ended."""
        return self.trials.original()

    def run(self, corrections: Sequence[Correction], most_asked: int) -> Trial:
        """Go on with the run, and keep what came of it."""
        trial = self.trials.run(corrections, most_asked)
        self.done.append((corrections[0], trial))
        return trial


@dataclass(frozen=True, slots=True)
class TriedFix:
    """What came of putting one step right.

    Attributes:
        result: How often that solved it, and how often the run was solved without.
        is_repeatable: Whether all runs with it said the same, and all without.
        answered: How many answers of models came from the recording, in each run.
    """

    result: VerifiedSuspect
    is_repeatable: bool
    answered: int

    @property
    def is_proved(self) -> bool:
        """Return whether the run succeeds with the step put right, and not without."""
        return self.result.outcome == "confirmed"


def try_fixes(
    suspects: Sequence[StepToVerify],
    script: Script,
    sources: Sequence[CorrectionWriter],
    trials: Trials,
    *,
    repeats: int,
    budget: CallBudget,
) -> list[TriedFix]:
    """Put suspects right one after the other, until one solves the run; that one comes last.

    Args:
        suspects: The most blamed first.
        script: The recording.
        sources: Who says what a step should be, the first that can.
        trials: Goes on with the run.
        repeats: How often, with each step put right and as it was.
        budget: Of calls of models.

    Raises:
        ConfigError: if the program cannot be run at all.
    """
    tried: list[TriedFix] = []
    for suspect in suspects:
        watched = WatchedTrials(trials)
        [result] = verify([suspect], script, sources, watched, repeats=repeats, budget=budget)
        said: dict[str, set[object]] = {}
        for correction, trial in watched.done:
            said.setdefault(repr(correction), set()).add((trial.said, trial.ran.answer))
        answered = max((trial.answered for _, trial in watched.done), default=0)
        tried.append(TriedFix(result, all(len(ways) == 1 for ways in said.values()), answered))
        if tried[-1].is_proved:
            break
    return tried


@dataclass(frozen=True, slots=True)
class ProgramChange:
    """What to change in the program.

    Attributes:
        where: Whose prompt, tool or code.
        feedback: What is wrong there, and what to do instead.
    """

    where: str
    feedback: Feedback


def change_at(script: Script, verdict: Attribution, step: int) -> ProgramChange:
    """Say what to change so that a step comes out right."""
    feedback = feedback_at(script.trace, verdict, step)
    return ProgramChange(_where(script, script.trace, step), feedback)


def _where(script: Script, trace: MessageActionTrace, step: int) -> str:
    agent = trace.steps[step].agent
    name = quoted(agent, _MOST_PROMPT)
    answers = [answer for answer in script.answers if answer.agent == agent]
    if not answers:
        return f"the code of {name}, which asks no model"
    prompt = next((text for answer in answers if (text := _system_prompt(answer.heard))), "")
    begins = f", which begins {quoted(prompt, _MOST_PROMPT)}" if prompt else ""
    if trace.steps[step].kind != "tool_call":
        return f"the prompt of {name}{begins}"
    tool = str(trace.steps[step].attributes.get(words.TOOL_NAME) or trace.steps[step].content.partition("(")[0])
    return f"the description of the tool {quoted(tool, _MOST_PROMPT)}, or the prompt of {name}{begins}"


def _system_prompt(heard: object) -> str:
    for message in heard if isinstance(heard, tuple) else ():
        role, _, parts = message
        if role == "system":
            return " ".join(str(content) for part in parts if (content := json.loads(part).get("content")))
    return ""


def describe_success(check: str | None, *, is_checked: bool, tracer: str) -> str:
    """Say what "solved" means."""
    if is_checked:
        return f"Solved: {check or 'the check of the factory'} calls the answer right."
    return (
        f"Solved: the finding is gone, and {tracer} calls the run failed no more. Whether the answer is right nobody "
        "says: name a check with --check."
    )
