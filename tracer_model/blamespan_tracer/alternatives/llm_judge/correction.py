"""What a suspected step should have said instead, from the judge's endpoint."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from blamespan.analysis.showing.legible import printable
from blamespan.trace import MessageActionTrace
from blamespan_tracer.alternatives.llm_judge.answers import fields
from blamespan_tracer.alternatives.llm_judge.budget import RunSpending, Unanswered
from blamespan_tracer.alternatives.llm_judge.client import Deadline, JudgeClient, JudgeQuestion
from blamespan_tracer.alternatives.llm_judge.completions import Unreadable
from blamespan_tracer.alternatives.llm_judge.prompts import CORRECTION
from blamespan_tracer.alternatives.llm_judge.settings import JudgeSettings
from blamespan_tracer.alternatives.rendering import RunDocument

_log = logging.getLogger(__name__)

_MOST_CHARS: Final = 20_000
_MOST_SENTENCE_CHARS: Final = 400


@dataclass(frozen=True, slots=True)
class StepCorrection:
    """What a step should have said.

    Attributes:
        step: Its index.
        message: The whole message, in the form that the step has: what a replay says in its place.
        sentence: In one sentence, what is put right; empty where the model does not say.
    """

    step: int
    message: str
    sentence: str = ""


def suggest_correction(trace: MessageActionTrace, step: int, finding: str = "") -> StepCorrection | None:
    """Ask the endpoint of the `BLAMESPAN_JUDGE_*` variables what a step should have said.

    Args:
        trace: The run.
        step: Index of the step.
        finding: What was found wrong with it, in words; it is shown to the model as data.

    Returns:
        The correction; None where the model says that the step is right as it is, or gives no answer that counts, which
        the log says.

    Raises:
        ConfigError: if a variable is missing or wrong.
    """
    settings = JudgeSettings.from_environment()
    try:
        correction = ask_correction(JudgeClient(settings), settings, trace, step, finding)
    except Unanswered as error:
        _log.warning("no correction of step %d: %s", step, error)
        return None
    return None if correction.message.split() == trace.steps[step].content.split() else correction


def ask_correction(
    client: JudgeClient, settings: JudgeSettings, trace: MessageActionTrace, step: int, finding: str = ""
) -> StepCorrection:
    """Ask what a step should have said; where it is right as it is, its own words come back.

    Args:
        client: Asks.
        settings: Of the client.
        trace: The run.
        step: Index of the step.
        finding: What was found wrong with it; empty where nobody says.

    Raises:
        Unanswered: if there is no answer that counts.
    """
    case = RunDocument.of(trace, settings.context_tokens)
    beside = {"finding": printable(finding)[:_MOST_SENTENCE_CHARS]} if finding else {}
    document = case.document(case.decisions, {step}, examined=step, **beside)

    def read(text: str) -> StepCorrection:
        record = fields(text)
        message, sentence = record.get("message"), record.get("sentence")
        if not isinstance(message, str) or not printable(message).strip() or len(message) > _MOST_CHARS:
            raise Unreadable(f"'message' must be a text of at most {_MOST_CHARS} characters")
        told = printable(sentence)[:_MOST_SENTENCE_CHARS] if isinstance(sentence, str) else ""
        return StepCorrection(step, printable(message), told)

    deadline = Deadline.after(settings.deadline_s)
    return client.ask(JudgeQuestion(CORRECTION, document), read, deadline, RunSpending())
