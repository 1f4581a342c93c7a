"""How steps end: within a sentence, or on an answer that is not theirs."""

from __future__ import annotations

from collections.abc import Sequence, Set
from itertools import groupby

import numpy as np

from blamespan_tracer.alternatives.network.evidence.columns import Evidence
from blamespan_tracer.alternatives.network.representation.analysis import Analysis
from blamespan_tracer.alternatives.network.representation.claims import Floats
from blamespan_tracer.alternatives.network.representation.reading import Flag, Mask, Reading
from blamespan_tracer.alternatives.network.representation.sentences import Sentence
from blamespan_tracer.tokens import is_number

_LEAST_CHARS, _MOST_NAME = 60, 80
"""What is shorter may be no sentence; and of a name, the characters that are looked at."""


def steps_end_in_sentences(run: Analysis) -> Mask:
    """Look for steps that end within a sentence, or within code."""
    names = tuple({merged.agent.lower() for merged in run.steps} - {""})
    is_cut = _mark_cut_segments(run.reading, names)
    return run.per_step(is_cut, run.segments.is_said & ~run.segments.is_call) > 0


STEPS_END_IN_SENTENCES = Evidence(lambda run: (steps_end_in_sentences(run),), ("breaks off",))


def _mark_cut_segments(reading: Reading, names: tuple[str, ...]) -> Mask:
    """Return which segments end within a sentence, or within code: (G,).

    That is after a word that goes on ("of", "the"), or, if they are more than a few words, after any small letter; but
    not after the name of an agent, whose turn it is.
    """
    last_flags = np.zeros(len(reading.texts), np.int64)
    last_flags[reading.segment] = reading.flags
    is_broken = []
    for text, flags, is_cut in zip(reading.texts, last_flags.tolist(), reading.is_cut.tolist(), strict=True):
        written = text.rstrip()
        end = written[-1:]
        goes_on = end.isalpha() and bool(flags & Flag.STOP)
        goes_on = goes_on or (end.islower() and len(text) >= _LEAST_CHARS)
        is_named = written[-_MOST_NAME:].lower().endswith(names)
        is_broken.append((goes_on and not is_named) or (text.count("```") % 2 and not is_cut))
    return np.array(is_broken, np.bool_)


def steps_keep_their_answer(run: Analysis) -> Floats:
    """Look for steps that state, last and of nothing in particular, what neither they nor anybody said before.

    Like "it is 89.4, so we get 98.4".
    """
    ends_on_another = np.zeros(len(run.steps))
    known: set[int] = set()
    steps = run.segments.speaking_steps
    for segment, group in groupby(run.sentences, lambda sentence: sentence.segment):
        own = list(group)
        row = steps[segment]
        if row >= 0:
            is_second = _is_second_answer(run.reading, own, run.facts.subject_tokens, known)
            ends_on_another[row] = max(ends_on_another[row], is_second)
        known.update(number for sentence in own for number in sentence.numbers)
    return ends_on_another


STEPS_KEEP_THEIR_ANSWER = Evidence(lambda run: (steps_keep_their_answer(run),), ("ends on another answer",))


def _is_second_answer(reading: Reading, own: Sequence[Sentence], subjects: Set[int], known: Set[int]) -> bool:
    stating = [sentence for sentence in own if sentence.value >= 0]
    if not stating:
        return False
    last = stating[-1]
    others = [sentence for sentence in own if sentence is not last]
    if is_number(reading.tokens[last.value]):
        is_bare = len(last.numbers) == 1 and not (last.words | last.names) & subjects
        return is_bare and last.value not in known and all(last.value not in other.numbers for other in others)
    before = stating[-2].value if len(stating) > 1 else last.value
    is_name = before != last.value and not is_number(reading.tokens[before])
    return is_name and not last.words & subjects and not any(last.value in other.names for other in others)
