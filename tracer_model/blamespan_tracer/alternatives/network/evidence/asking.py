"""What tool calls ask for: whether it was to be asked for, and whether their results are told as what they are.

A call that looks up the stock of Porto where Graz's was wanted fits no sentence before it, and its result, a number, is
told later as Graz's. Which words of a call are ever told with its result, the run's other calls of the tool show: names
of columns hardly are.

Dims: N merged steps, G segments, T tokens of all segments, V distinct tokens of the run.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from blamespan_tracer.alternatives.network.evidence.columns import Evidence
from blamespan_tracer.alternatives.network.representation.analysis import Analysis
from blamespan_tracer.alternatives.network.representation.claims import Floats
from blamespan_tracer.alternatives.network.representation.reading import Flag, Ints, Mask, Reading, is_long
from blamespan_tracer.alternatives.network.representation.sentences import Sentence
from blamespan_tracer.alternatives.network.representation.steps import Call

Words = frozenset[int]

_MAX_WORDS, _MAX_SENTENCES = 60, 200
"""Words of a call that are looked up, and sentences each is looked for in: what is in more of them tells nothing."""

_USUAL_FIT = 0.75
"""Share of a tool's calls with a word whose best sentence has it too, if the word is one that sentences ask with."""

_USUALLY_TOLD = 0.5
"""Likewise, share of the calls with a word whose results are told with it."""

_LEAST_PLURAL = 4
"""Letters from which on an s at the end may be a plural's."""


def compare_calls(run: Analysis) -> tuple[Floats, ...]:
    """Hold what each call asks for against what was said before it, and what is told of its result after."""
    misfit, told_as_other, tells_as_other = np.zeros((3, len(run.steps)))
    if run.calls:
        named = _can_name(run.reading)
        about = _list_words(run, named)
        owner = run.segments.owner
        for call, share in zip(run.calls, _misfits(run, about, _SentenceIndex(run, named)), strict=True):
            misfit[owner[call.segment]] = share
        for call, step in _list_told_otherwise(run, about):
            told_as_other[owner[call.segment]] = tells_as_other[step] = 1.0
    return misfit, told_as_other, tells_as_other


CALLS_AND_QUESTIONS = Evidence(
    compare_calls,
    ("call misfits", "its result is told of another", "tells a result of another"),
    shares=frozenset(("call misfits",)),
)


def _list_words(run: Analysis, named: Mask) -> list[Ints]:
    """List the distinct tokens of each call that are *named*, but for its routine words."""
    reading = run.reading
    is_about = named & ~np.isin(reading.segment * len(reading.tokens) + reading.token, run.routine)
    ends = np.searchsorted(reading.segment, np.array([call.segment for call in run.calls])[:, None] + [0, 1]).tolist()
    return [np.unique(reading.token[begin:end][is_about[begin:end]])[:_MAX_WORDS] for begin, end in ends]


def _can_name(reading: Reading) -> Mask:
    """Return which tokens can name what is asked for: words, but for stop words, and numbers: (T,)."""
    named: Mask = (reading.has(Flag.WORD) & ~reading.has(Flag.STOP)) | reading.has(Flag.NUMBER)
    return named


def _misfits(run: Analysis, about: Sequence[Ints], index: _SentenceIndex) -> list[float]:
    """Return, for each call, how much of what it names no one sentence before it has, of what sentences ask with."""
    has: Counter[tuple[str, int]] = Counter()
    fits: Counter[tuple[str, int]] = Counter()
    before = [index.list_sentences(own, end) for own, end in zip(about, index.first_sentences(run.calls), strict=True)]
    for call, own, sentences in zip(run.calls, about, before, strict=True):
        best, _ = _most_common(sentences)
        for token, numbers in zip(own.tolist(), sentences, strict=True):
            has[call.tool[1], token] += bool(len(best))
            fits[call.tool[1], token] += bool(np.isin(numbers, best).any())
    shares = []
    for call, own, sentences in zip(run.calls, about, before, strict=True):
        asked = [
            numbers
            for token, numbers in zip(own.tolist(), sentences, strict=True)
            if len(numbers) and fits[call.tool[1], token] >= _USUAL_FIT * has[call.tool[1], token]
        ]
        _, most = _most_common(asked)
        shares.append(1.0 - most / len(asked) if len(asked) > 1 else 0.0)
    return shares


def _most_common(sentences: Sequence[Ints]) -> tuple[Ints, int]:
    """List which numbers of sentences are in most of *sentences*, and in how many."""
    numbers, times = np.unique(np.concatenate([*sentences, np.zeros(0, np.int64)]), return_counts=True)
    most = int(times.max(initial=0))
    return numbers[times == most], most


class _SentenceIndex:
    """Where the sentences of the task and the agents have each token that is *named*."""

    def __init__(self, run: Analysis, named: Mask) -> None:
        reading, segments = run.reading, run.segments
        at = np.flatnonzero(named & ~(segments.is_result | segments.is_call)[reading.segment])
        n_sentences = int(reading.sentence[-1]) + 1 if len(reading.sentence) else 1
        pairs = np.unique(reading.token[at] * n_sentences + reading.sentence[at])
        self._reading = reading
        self._sentence = pairs % n_sentences
        self._begins = np.searchsorted(pairs // n_sentences, np.arange(len(reading.tokens) + 1))

    def list_sentences(self, tokens: Ints, end: int) -> list[Ints]:
        """List, for each of *tokens*, the sentences below *end* that have it, the first."""
        rows = (self._sentence[self._begins[token] : self._begins[token + 1]] for token in tokens.tolist())
        return [sentences[: np.searchsorted(sentences, end)][:_MAX_SENTENCES] for sentences in rows]

    def first_sentences(self, calls: Sequence[Call]) -> list[int]:
        """Number the first sentence of each call, or of what follows where it has none."""
        first = np.searchsorted(self._reading.segment, [call.segment for call in calls])
        sentence = self._reading.sentence
        numbers: list[int] = np.append(sentence, sentence[-1] + 1 if len(sentence) else 0)[first].tolist()
        return numbers


def _list_told_otherwise(run: Analysis, about: Sequence[Ints]) -> list[tuple[Call, int]]:
    """List the calls whose result is a number that is first told of something else, and the steps that do."""
    fold = _fold_plurals(run.reading)
    asked = [frozenset(fold[token] for token in own.tolist()) for own in about]
    first_told = _find_first_statements(run, asked)
    has: dict[str, Counter[int]] = defaultdict(Counter)
    told_with: dict[str, Counter[int]] = defaultdict(Counter)
    words = {}
    for number, (_, sentence) in first_told.items():
        tool = run.calls[number].tool[1]
        words[number] = frozenset(fold[token] for token in sentence.words | sentence.names)
        has[tool].update(asked[number])
        told_with[tool].update(asked[number] & words[number])
    usual = {
        tool: {token for token, times in counts.items() if times >= _USUALLY_TOLD * has[tool][token]}
        for tool, counts in told_with.items()
    }
    otherwise = []
    for number, (step, sentence) in first_told.items():
        call, own = run.calls[number], asked[number]
        names = frozenset(fold[token] for token in sentence.names)
        lacks = any(told_with[call.tool[1]][token] for token in own - words[number])
        if lacks and ((words[number] & usual[call.tool[1]]) | names) - own:
            otherwise.append((call, step))
    return otherwise


def _find_first_statements(run: Analysis, asked: Sequence[Words]) -> dict[int, tuple[int, Sentence]]:
    """Find, for each call that got a number of its own, the step and the sentence that first tells it."""
    results = _read_results(run)
    asked_for: dict[int, set[Words]] = defaultdict(set)
    for call, number in results.items():
        asked_for[number].add(asked[call])
    first: dict[int, tuple[int, Sentence]] = {}
    steps = run.segments.speaking_steps
    for sentence in run.sentences:
        if steps[sentence.segment] >= 0 and len(set(sentence.numbers)) == 1 and sentence.numbers[0] in asked_for:
            first.setdefault(sentence.numbers[0], (steps[sentence.segment], sentence))
    return {
        call: first[number]
        for call, number in results.items()
        if number in first and first[number][1].segment > run.calls[call].segment and len(asked_for[number]) == 1
    }


def _read_results(run: Analysis) -> dict[int, int]:
    """Return for each call whose result is one number of two digits or more that number."""
    numbers: dict[int, list[int]] = {call.result: [] for call in run.calls if call.result >= 0}
    for sentence in run.sentences:
        if sentence.segment in numbers:
            numbers[sentence.segment] += sentence.numbers
    return {
        index: numbers[call.result][0]
        for index, call in enumerate(run.calls)
        if len(numbers.get(call.result, ())) == 1 and is_long(run.reading.tokens[numbers[call.result][0]])
    }


def _fold_plurals(reading: Reading) -> list[int]:
    """Return for each token the one it is a plural of, where the run has it, else itself: (V,)."""
    return [
        reading.places.get(token[:-1], index) if token[-1:] == "s" and len(token) >= _LEAST_PLURAL else index
        for index, token in enumerate(reading.tokens)
    ]
