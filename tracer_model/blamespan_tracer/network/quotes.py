"""The words of a blamed step that carried the decision: what breaks a contract, or what it brings into the run."""

from __future__ import annotations

import re
from collections.abc import Sequence

from blamespan.attribution import Evidence
from blamespan.lazy import lazy_property
from blamespan.trace import MessageActionTrace
from blamespan_tracer.contracts import Verdict
from blamespan_tracer.evidence import MAX_QUOTE_CHARS, sentences_of
from blamespan_tracer.representation.reading import bounded

__all__ = ["quotes_of"]

_MAX_STEPS = 3
_MAX_SENTENCES = 64
"""Of a longer step the first and last half of this many are looked at."""

_LEAST_SHARE = 0.02
"""Steps blamed less are not quoted."""

_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*+")
_TOKEN = re.compile(rf"{_NUMBER.pattern}|\w+")


def quotes_of(trace: MessageActionTrace, shares: Sequence[float], verdicts: Sequence[Verdict]) -> list[Evidence]:
    """Quote the most blamed steps, at most three, the most blamed first; a step without words is not quoted.

    Args:
        trace: The run.
        shares: Of each of its steps.
        verdicts: Of the contracts: words that break one are quoted first.
    """
    broken = {
        verdict.step: verdict.quote for verdict in reversed(verdicts) if verdict.outcome == "fail" and verdict.quote
    }
    ranked = sorted(range(len(shares)), key=lambda step: (-shares[step], step))[:_MAX_STEPS]
    said = _Said(trace)
    quoted = [
        Evidence(step, broken.get(step) or said.telling_sentence(step), shares[step])
        for step in ranked
        if shares[step] >= _LEAST_SHARE
    ]
    return [evidence for evidence in quoted if evidence.quote]


class _Said:
    """What was said, in order, and the task before it; each text is read once, and only where something is quoted."""

    def __init__(self, trace: MessageActionTrace) -> None:
        self._agents = ["", *(step.agent for step in trace.steps)]
        self._texts = bounded([trace.task, *(step.content for step in trace.steps)])

    @lazy_property
    def _numbers(self) -> list[set[str]]:
        return [set(_NUMBER.findall(text)) for text in self._texts]

    @lazy_property
    def _tokens(self) -> list[set[str]]:
        return [set(_TOKEN.findall(text.lower())) for text in self._texts]

    @lazy_property
    def _forms(self) -> list[set[str]]:
        return [set(sentences_of(_form(text), _MAX_SENTENCES)) for text in self._texts]

    def telling_sentence(self, step: int) -> str:
        """Choose a sentence of a step: of a form that nobody used before and its agent does not use again ("The
        viewport shows 38 %"); of these the one that says most numbers which stand nowhere before it; then most
        numbers at all; then most words that are said again later; then the last.

        Decision 035 has the figures.
        """
        place = step + 1
        sentences = sentences_of(self._texts[place], _MAX_SENTENCES)
        if len(sentences) < 2:
            return "".join(sentences)[:MAX_QUOTE_CHARS].strip()
        agent = self._agents[place]
        others = range(place + 1, len(self._texts))
        its_later = [self._forms[other] for other in others if self._agents[other] == agent]
        forms = set().union(*self._forms[:place], *its_later)
        before = set().union(*self._numbers[:place])
        after = set().union(*self._tokens[place + 1 :])

        def tells(number: int) -> tuple[bool, int, int, int, int]:
            sentence = sentences[number]
            said = set(_NUMBER.findall(sentence))
            taken_up = after.intersection(_TOKEN.findall(sentence.lower()))
            return _form(sentence) not in forms, len(said - before), len(said), len(taken_up), number

        return sentences[max(range(len(sentences)), key=tells)][:MAX_QUOTE_CHARS].strip()


def _form(text: str) -> str:
    """Give a text but for its numbers."""
    return _NUMBER.sub("0", text)
