"""The words of a blamed step that carried the decision: what breaks a contract, or what it brings into the run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

from blamespan.attribution import Evidence
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
    texts = _Texts([trace.task, *(step.content for step in trace.steps)])
    quoted = [
        Evidence(step, broken.get(step) or texts.telling_sentence(step + 1), shares[step])
        for step in ranked
        if shares[step] >= _LEAST_SHARE
    ]
    return [evidence for evidence in quoted if evidence.quote]


class _Texts:
    """The task and all that was said, in order."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = bounded(texts)

    @cached_property
    def _numbers(self) -> list[set[str]]:
        return [set(_NUMBER.findall(text)) for text in self._texts]

    @cached_property
    def _tokens(self) -> list[set[str]]:
        return [set(_TOKEN.findall(text.lower())) for text in self._texts]

    def telling_sentence(self, place: int) -> str:
        """Choose the sentence of a text that says most numbers which stand in no text before it; of several, most
        numbers at all; then most words that are said again later; then the last.

        Decision 035 has the figures.
        """
        sentences = sentences_of(self._texts[place], _MAX_SENTENCES)
        if len(sentences) < 2:
            return "".join(sentences)[:MAX_QUOTE_CHARS].strip()
        before = set().union(*self._numbers[:place])
        after = set().union(*self._tokens[place + 1 :])

        def tells(number: int) -> tuple[int, int, int, int]:
            said = set(_NUMBER.findall(sentences[number]))
            taken_up = after.intersection(_TOKEN.findall(sentences[number].lower()))
            return len(said - before), len(said), len(taken_up), number

        return sentences[max(range(len(sentences)), key=tells)][:MAX_QUOTE_CHARS].strip()
