"""The words of a blamed step that carried the decision: what is new in the run."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from blamespan.attribution import Evidence
from blamespan.lazy import lazy_property
from blamespan.trace import MessageActionTrace
from blamespan_tracer.tokens import cut_long_texts, find_words, is_number, sentences_of, split_sentences

MAX_QUOTE_CHARS = 200
"""Longest quote: a sentence or two, well under what backends cut."""

_MAX_STEPS = 3
_MAX_SENTENCES = 64
"""Of a longer step the first and last half of this many are read."""

_LEAST_SHARE = 0.02
"""Steps blamed less are not quoted."""


def quote_steps(trace: MessageActionTrace, shares: Sequence[float]) -> list[Evidence]:
    """Quote the most blamed steps, at most three, the most blamed first; a step without words is not quoted.

    Args:
        trace: The run.
        shares: Of each of its steps.
    """
    ranked = sorted(range(len(shares)), key=lambda step: (-shares[step], step))[:_MAX_STEPS]
    texts = _RunTexts(trace)
    quotes = [
        Evidence(step, texts.choose_sentence(step), shares[step]) for step in ranked if shares[step] >= _LEAST_SHARE
    ]
    return [evidence for evidence in quotes if evidence.quote]


class _RunTexts:
    """The task and the steps' texts, in order; each is read once, and only where something is quoted."""

    def __init__(self, trace: MessageActionTrace) -> None:
        self._agents = ["", *(step.agent for step in trace.steps)]
        self._texts = cut_long_texts([trace.task, *(step.content for step in trace.steps)])

    @lazy_property
    def _sentences(self) -> list[list[list[str]]]:
        """The words of each sentence of each text, without case."""
        return [[find_words(sentence) for sentence in split_sentences(text.lower())] for text in self._texts]

    @lazy_property
    def _words(self) -> list[set[str]]:
        """The distinct words of each text."""
        return [set(chain.from_iterable(sentences)) for sentences in self._sentences]

    @lazy_property
    def _forms(self) -> list[set[tuple[str, ...]]]:
        """The forms of each text's sentences."""
        return [set(map(_form, sentences)) for sentences in self._sentences]

    def choose_sentence(self, step: int) -> str:
        """Return the most telling sentence of a step.

        That is one of a form which nobody used before and its agent does not use again ("The viewport shows 38 %");
        of these the one with most numbers that stand nowhere before it; then with most numbers; then with most words
        that stand again later; then the last.

        Decision 035 has the figures.
        """
        index = step + 1
        sentences = sentences_of(self._texts[index], _MAX_SENTENCES)
        if len(sentences) < 2:
            return "".join(sentences)[:MAX_QUOTE_CHARS].strip()
        agent = self._agents[index]
        others = range(index + 1, len(self._texts))
        its_later = [self._forms[other] for other in others if self._agents[other] == agent]
        forms = set().union(*self._forms[:index], *its_later)
        before = set().union(*self._words[:index])
        after = set().union(*self._words[index + 1 :])

        def rank(position: int) -> tuple[bool, int, int, int, int]:
            words = find_words(sentences[position].lower())
            numbers = set(filter(is_number, words))
            n_repeated = len(after.intersection(words))
            return _form(words) not in forms, len(numbers - before), len(numbers), n_repeated, position

        return sentences[max(range(len(sentences)), key=rank)][:MAX_QUOTE_CHARS].strip()


def _form(words: Sequence[str]) -> tuple[str, ...]:
    """Return the words of a sentence with 0 for each of its numbers."""
    return tuple(["0" if is_number(word) else word for word in words])
