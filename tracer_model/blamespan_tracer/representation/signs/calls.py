"""What is odd about tool calls and their results, next to the other calls of the run.

Dims: N merged steps, G segments.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blamespan.trace import MessageActionTrace
from blamespan_tracer.representation.analysis import Analysis
from blamespan_tracer.representation.cues import CUES
from blamespan_tracer.representation.reading import Flag, Mask, Reading
from blamespan_tracer.representation.tool_calls import Call

__all__ = ["Calls", "find_calls"]

Floats = NDArray[np.float64]

_ARGUMENT = re.compile(r'"([A-Za-z_]\w{0,39})"\s{0,4}:')
_MAX_CHARS = 2_000
"""Names of arguments are looked for in the beginning of a call."""

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
        other_result: Share of the same calls made elsewhere that got another result.
        stale_result: Whether an earlier, different call of the tool got the very same result.
        fails: A result is an error,
        fails_for_good: and the tool answers its agent no more after it.
        foreign: Whether it has the arguments that another tool is usually called with, and not its own.
        orders: Words in results that give orders.
        odd_result: How much longer a result is than is usual for its tool, in powers of e.
    """

    other_result: Floats
    stale_result: Floats
    fails: Floats
    fails_for_good: Floats
    foreign: Floats
    orders: Floats
    odd_result: Floats


def find_calls(run: Analysis) -> Calls:
    """Compare the calls of a run, and what came of them."""
    found = {name: np.zeros(len(run.steps)) for name in Calls.__slots__}
    reading, calls = run.reading, run.calls
    if not calls:
        return Calls(**found)
    is_error = _errors(run.trace, reading)
    sizes = np.log1p(reading.count(reading.has(Flag.WORD | Flag.NUMBER)))
    orders = reading.count(reading.is_any(_ORDERS))
    usual = _usual_sizes(calls, sizes)
    others = _other_results(calls, reading)
    last_answer = {call.tool: call.segment for call in calls if call.result >= 0 and not is_error[call.result]}
    stale = _stale_results(calls, reading)
    foreign = _foreign_arguments(calls)
    for place, call in enumerate(calls):
        step = int(run.segments.owner[call.segment])
        told = {"other_result": others[place], "stale_result": stale[place], "foreign": foreign[place]}
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


def _foreign_arguments(calls: Sequence[Call]) -> list[float]:
    """Return which calls have, by name, arguments that another tool is usually called with, and theirs is not.

    Of a tool that has no others, several names tell, if the other tool is called with them more often: one name, as
    `query`, two tools may well share.
    """
    keys = [frozenset(_ARGUMENT.findall(call.text, 0, _MAX_CHARS)) for call in calls]
    times: dict[str, Counter[frozenset[str]]] = defaultdict(Counter)
    for call, own in zip(calls, keys, strict=True):
        times[call.tool[1]][own] += 1
    made = Counter(call.tool[1] for call in calls)
    usual_of: dict[frozenset[str], dict[str, int]] = defaultdict(dict)
    for tool, found in times.items():
        own, count = found.most_common(1)[0]
        usual_of[own][tool] = count
    ranked = {own: sorted(counts, key=lambda tool: -counts[tool])[:2] for own, counts in usual_of.items()}

    def is_foreign(tool: str, own: frozenset[str]) -> bool:
        other = next((each for each in ranked.get(own, ()) if each != tool), None)
        if not own or other is None:
            return False
        is_seldom = 2 * times[tool][own] <= made[tool]
        return is_seldom or (len(own) > 1 and times[tool][own] < usual_of[own][other])

    return [float(is_foreign(call.tool[1], own)) for call, own in zip(calls, keys, strict=True)]


def _errors(trace: MessageActionTrace, reading: Reading) -> Mask:
    """Return which segments speak of an error, or are one: (G,)."""
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
    """Return, for each call, which share of the same calls made elsewhere got another result."""
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
    """Return which calls got, to the letter, what a different one of the tool got before."""
    asked: dict[tuple[str, str], str] = {}
    found = []
    for call in calls:
        result = reading.texts[call.result].strip() if call.result >= 0 else ""
        is_telling = len(result) >= _LEAST_RESULT
        first = asked.setdefault((call.tool[1], result), call.text) if is_telling else call.text
        found.append(float(first != call.text))
    return found
