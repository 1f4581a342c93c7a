"""Advice written by the judge's endpoint instead of a template; who is to blame stays the tracer's word."""

from __future__ import annotations

from dataclasses import replace

from blamespan.analysis.showing.legible import printable
from blamespan.trace import MessageActionTrace
from blamespan_lab.rerun.feedback.writing import Feedback
from blamespan_tracer.alternatives.llm_judge.answers import fields
from blamespan_tracer.alternatives.llm_judge.client import Deadline, JudgeClient, JudgeQuestion
from blamespan_tracer.alternatives.llm_judge.completions import Unreadable
from blamespan_tracer.alternatives.llm_judge.prompts import ADVICE
from blamespan_tracer.alternatives.llm_judge.settings import JudgeSettings
from blamespan_tracer.alternatives.rendering import RunDocument

_MOST_CHARS = 1_000


class JudgedAdvice:
    """Asks the endpoint of the `BLAMESPAN_JUDGE_*` variables what to do instead."""

    def __init__(self, settings: JudgeSettings, *, pause_s: float = 0.5) -> None:
        self._settings = settings
        self._client = JudgeClient(settings, pause_s=pause_s)

    def improve(self, trace: MessageActionTrace, feedback: Feedback) -> Feedback:
        """Return *feedback* with advice of the judge; where nobody is blamed, as it is.

        Raises:
            Unanswered: if there is none.
        """
        if feedback.step is None:
            return feedback
        case = RunDocument.of(trace, self._settings.context_tokens)
        finding = {"error": str(feedback.mode)} if feedback.mode is not None else {}
        document = case.document(case.decisions, {feedback.step}, examined=feedback.step, **finding)
        advice = self._client.ask(JudgeQuestion(ADVICE, document), _advice, Deadline.after(self._settings.deadline_s))
        return replace(feedback, advice=advice, by="judge")


def _advice(answer: str) -> str:
    text = fields(answer).get("advice")
    plain = printable(text) if isinstance(text, str) else ""
    if not plain or len(plain) > _MOST_CHARS:
        raise Unreadable(f"'advice' must be a text of at most {_MOST_CHARS} characters")
    return plain
