"""What is odd about tool calls and their results, next to the other calls of the run.

Dims: N merged steps, G segments.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blamespan.trace import MessageActionTrace
from blamespan_tracer.representation.analysis import Analysis
from blamespan_tracer.representation.cues import CUES
from blamespan_tracer.representation.reading import Flag, Ints, Mask, Reading
from blamespan_tracer.representation.tool_calls import Call, calls_of

__all__ = ["Calls", "find_calls"]

Floats = NDArray[np.float64]

_MAX_WORDS, _MAX_SENTENCES = 60, 200
"""Words of a call that are looked up, and sentences each is looked for in: what is in more of them tells nothing."""

_LEAST_RESULT = 2
"""Results of fewer characters are alike by chance."""

_ORDERS = frozenset(
    ("ignore", "disregard", "instead", "instruction", "instructions", "assistant", "reader", "override", "forget")
)
"""Words by which a text gives orders to who reads it; tools have none to give."""


@dataclass(frozen=True, slots=True)
class Calls:
    """Per merged step: (N,) each, 0 for steps without calls.

    Attributes:
        misfit: How much of what a call names is not asked for in any one sentence said before, at its worst call.
        other_result: Share of the same calls made elsewhere that got another result.
        stale_result: Whether an earlier, different call of the tool got the very same result.
        fails: A result is an error,
        fails_for_good: and the tool answers its agent no more after it.
        orders: Words in results that give orders.
        odd_result: How much longer a result is than is usual for its tool, in powers of e.
    """

    misfit: Floats
    other_result: Floats
    stale_result: Floats
    fails: Floats
    fails_for_good: Floats
    orders: Floats
    odd_result: Floats


def find_calls(run: Analysis) -> Calls:
    """Compare the calls of a run, but for their routine words."""
    found = {name: np.zeros(len(run.steps)) for name in Calls.__slots__}
    reading, calls = run.reading, calls_of(run.trace)
    if not calls:
        return Calls(**found)
    is_error = _errors(run.trace, reading)
    sizes = np.log1p(reading.count(reading.has(Flag.WORD | Flag.NUMBER)))
    orders = reading.count(reading.is_any(_ORDERS))
    usual = _usual_sizes(calls, sizes)
    others = _other_results(calls, reading)
    last_answer = {call.tool: call.segment for call in calls if call.result >= 0 and not is_error[call.result]}
    stale = _stale_results(calls, reading)
    misfit = _misfits(calls, run)
    for place, call in enumerate(calls):
        step = int(run.segments.owner[call.segment])
        told = {"misfit": misfit[place], "other_result": others[place], "stale_result": stale[place]}
        if call.result >= 0:
            failed = bool(is_error[call.result])
            told |= {
                "fails": float(failed),
                "fails_for_good": float(failed and last_answer.get(call.tool, -1) < call.segment),
                "orders": float(orders[call.result]),
                "odd_result": float(sizes[call.result] - usual[call.tool[1]]),
            }
        for name, value in told.items():
            found[name][step] = value
    return Calls(**found)


def _errors(trace: MessageActionTrace, reading: Reading) -> Mask:
    """Tell which segments speak of an error, or are one: (G,)."""
    spoken = reading.cue[:, CUES.index("error")] > 0
    raised = np.array([False, *(step.status == "error" or bool(step.error) for step in trace.steps)], np.bool_)
    errors: Mask = spoken | raised
    return errors


def _usual_sizes(calls: Sequence[Call], sizes: Floats) -> dict[str, float]:
    by_tool: dict[str, list[float]] = defaultdict(list)
    for call in calls:
        if call.result >= 0:
            by_tool[call.tool[1]].append(float(sizes[call.result]))
    return {tool: float(np.median(found)) for tool, found in by_tool.items()}


def _other_results(calls: Sequence[Call], reading: Reading) -> list[float]:
    """Tell, for each call, which share of the same calls made elsewhere got another result."""
    results: dict[str, list[str]] = defaultdict(list)
    for call in calls:
        if call.result >= 0:
            results[call.text].append(reading.texts[call.result])
    shares = []
    for call in calls:
        same = results[call.text]
        own = reading.texts[call.result] if call.result >= 0 else ""
        differ = len(same) - same.count(own)
        shares.append(differ / (len(same) - 1) if call.result >= 0 and len(same) > 1 else 0.0)
    return shares


def _stale_results(calls: Sequence[Call], reading: Reading) -> list[float]:
    """Tell which calls got, to the letter, what a different one of the tool got before."""
    asked: dict[tuple[str, str], str] = {}
    found = []
    for call in calls:
        result = reading.texts[call.result].strip() if call.result >= 0 else ""
        is_telling = len(result) >= _LEAST_RESULT
        first = asked.setdefault((call.tool[1], result), call.text) if is_telling else call.text
        found.append(float(first != call.text))
    return found


def _misfits(calls: Sequence[Call], run: Analysis) -> list[float]:
    """Tell, for each call, how much of what it names no one sentence before it has, of what is named at all."""
    reading, segments = run.reading, run.segments
    named = (reading.has(Flag.WORD) & ~reading.has(Flag.STOP)) | reading.has(Flag.NUMBER)
    asks = ~segments.is_result & ~segments.is_call
    at = np.flatnonzero(named & asks[reading.segment])
    n_sentences = int(reading.sentence[-1]) + 1 if len(reading.sentence) else 1
    pairs = np.unique(reading.token[at] * n_sentences + reading.sentence[at])
    token, sentence = pairs // n_sentences, pairs % n_sentences
    begins = np.searchsorted(token, np.arange(len(reading.tokens) + 1))
    first_sentence = _first_sentences(reading)
    named &= ~np.isin(reading.segment * len(reading.tokens) + reading.token, run.routine)
    found = []
    for call in calls:
        begin, end = np.searchsorted(reading.segment, [call.segment, call.segment + 1])
        own = np.unique(reading.token[begin:end][named[begin:end]])[:_MAX_WORDS]
        found.append(_misfit(own, begins, sentence, int(first_sentence[call.segment])))
    return found


def _misfit(own: Ints, begins: Ints, sentence: Ints, before: int) -> float:
    """Compare the *own* tokens of a call with every sentence whose number is below *before*."""
    places, n_known = [], 0
    for token in own.tolist():
        has = sentence[begins[token] : begins[token + 1]]
        has = has[: np.searchsorted(has, before)]
        if len(has):
            n_known += 1
            places.append(has[:_MAX_SENTENCES])
    if n_known < 2:
        return 0.0
    _, times = np.unique(np.concatenate(places), return_counts=True)
    return 1.0 - float(times.max()) / n_known


def _first_sentences(reading: Reading) -> Ints:
    """Number of the first sentence of each segment, or of what follows where it has none: (G,)."""
    first = np.searchsorted(reading.segment, np.arange(len(reading.texts)))
    numbers = np.append(reading.sentence, reading.sentence[-1] + 1 if len(reading.sentence) else 0)
    return numbers[first]
