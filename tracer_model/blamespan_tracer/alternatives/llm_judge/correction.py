"""What a suspected step should have said instead, from the judge's endpoint."""

from __future__ import annotations

from typing import Final

from blamespan.analysis.showing.legible import printable
from blamespan.trace import MessageActionTrace
from blamespan_tracer.alternatives.llm_judge.answers import fields
from blamespan_tracer.alternatives.llm_judge.budget import RunSpending
from blamespan_tracer.alternatives.llm_judge.client import Deadline, JudgeClient, JudgeQuestion
from blamespan_tracer.alternatives.llm_judge.completions import Unreadable
from blamespan_tracer.alternatives.llm_judge.prompts import CORRECTION
from blamespan_tracer.alternatives.llm_judge.settings import JudgeSettings
from blamespan_tracer.alternatives.rendering import RunDocument

_MOST_CHARS: Final = 20_000
_MOST_FINDING_CHARS: Final = 400


def ask_correction(
    client: JudgeClient, settings: JudgeSettings, trace: MessageActionTrace, step: int, finding: str = ""
) -> str:
    """Ask for the whole message that a step should have said; where it is right as it is, its own words come back.

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
    beside = {"finding": printable(finding)[:_MOST_FINDING_CHARS]} if finding else {}
    document = case.document(case.decisions, {step}, examined=step, **beside)

    def read(text: str) -> str:
        message = fields(text).get("message")
        if not isinstance(message, str) or not printable(message).strip() or len(message) > _MOST_CHARS:
            raise Unreadable(f"'message' must be a text of at most {_MOST_CHARS} characters")
        return printable(message)

    deadline = Deadline.after(settings.deadline_s)
    return client.ask(JudgeQuestion(CORRECTION, document), read, deadline, RunSpending())
