"""What calls of tools ask for, and what is odd about their results."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from blamespan.trace import MessageActionTrace
from blamespan_tracer.alternatives.network.evidence.columns import Evidence
from blamespan_tracer.alternatives.network.representation.analysis import Analysis, sum_by
from blamespan_tracer.alternatives.network.representation.claims import Floats
from blamespan_tracer.alternatives.network.representation.reading import Flag, Mask, Reading
from blamespan_tracer.alternatives.network.representation.steps import Call
from blamespan_tracer.cues import CUES
from blamespan_tracer.ledger.equations import is_common
from blamespan_tracer.tokens import is_number

_ARGUMENT = re.compile(r'"([A-Za-z_]\w{0,39})"\s{0,4}:')
_MAX_CHARS = 2_000
"""Names of arguments are looked for in the beginning of a call."""

_LEAST_RESULT = 2
"""Results of fewer characters are alike by chance."""

_ORDERS = frozenset(
    ("ignore", "disregard", "instead", "instruction", "instructions", "assistant", "reader", "override", "forget")
)
"""Words by which a text gives orders to who reads it; tools have none to give."""


def arguments_have_mentions(run: Analysis) -> Floats:
    """Weigh the claims in a call that nothing before it has."""
    claims, segments, tokens, n_steps = run.claims, run.segments, run.reading.tokens, len(run.steps)
    if not run.calls:
        return np.zeros(n_steps)
    owner = segments.owner[claims.segment]
    names = [tokens[token] for token in claims.token.tolist()]
    is_routine = np.isin(claims.segment * len(tokens) + claims.token[claims.claim], run.routine)
    is_usual = np.array([is_number(name) and is_common(float(name)) for name in names] or [False], np.bool_)
    in_call = (segments.is_said & segments.is_call)[claims.segment] & ~is_routine & ~is_usual[claims.claim]
    is_fresh = run.is_brought_in
    whole = sum_by(owner[in_call], claims.weight[in_call], n_steps)
    fresh = sum_by(owner[in_call & is_fresh], claims.weight[in_call & is_fresh], n_steps)
    shares: Floats = fresh / np.where(whole > 0, whole, 1.0)
    return shares


ARGUMENTS_HAVE_MENTIONS = Evidence(
    lambda run: (arguments_have_mentions(run),), ("unknown arguments",), shares=frozenset(("unknown arguments",))
)


_COLUMNS = {
    "other_result": "same call, other result",
    "stale_result": "other call, same result",
    "fails": "result fails",
    "fails_for_good": "fails for good",
    "foreign": "has another tool's arguments",
    "orders": "result gives orders",
    "odd_result": "result is odd",
}
"""What is odd about calls and their results, next to the other calls of the run; the last in powers of e."""


def compare_results(run: Analysis) -> tuple[Floats, ...]:
    """Compare the calls of a run, and what came of them."""
    columns = {name: np.zeros(len(run.steps)) for name in _COLUMNS}
    reading, calls = run.reading, run.calls
    if not calls:
        return tuple(columns.values())
    is_error = _mark_errors(run.trace, reading)
    sizes = np.log1p(reading.count(reading.has(Flag.WORD | Flag.NUMBER)))
    orders = reading.count(reading.is_any(_ORDERS))
    usual_size = _usual_sizes(calls, sizes)
    last_answer = {call.tool: call.segment for call in calls if call.result >= 0 and not is_error[call.result]}
    of_call = {
        "other_result": _share_other_results(calls, reading),
        "stale_result": _mark_stale_results(calls, reading),
        "foreign": _mark_foreign_arguments(calls),
    }
    for number, call in enumerate(calls):
        row = int(run.segments.owner[call.segment])
        for name, values in of_call.items():
            columns[name][row] = values[number]
        if call.result >= 0:
            fails = bool(is_error[call.result])
            columns["fails"][row] = float(fails)
            columns["fails_for_good"][row] = float(fails and last_answer.get(call.tool, -1) < call.segment)
            columns["orders"][row] = float(orders[call.result] > 0)
            columns["odd_result"][row] = float(sizes[call.result] - usual_size[call.tool[1]])
    return tuple(columns.values())


CALLS_AND_RESULTS = Evidence(compare_results, tuple(_COLUMNS.values()), shares=frozenset(("same call, other result",)))


def _mark_foreign_arguments(calls: Sequence[Call]) -> list[float]:
    """Return which calls have, by name, arguments that another tool is usually called with, and theirs is not.

    Of a tool that has no others, several names tell, if the other tool is called with them more often: one name, as
    `query`, two tools may well share.
    """
    keys = [frozenset(_ARGUMENT.findall(call.text, 0, _MAX_CHARS)) for call in calls]
    times: dict[str, Counter[frozenset[str]]] = defaultdict(Counter)
    for call, own in zip(calls, keys, strict=True):
        times[call.tool[1]][own] += 1
    n_calls = Counter(call.tool[1] for call in calls)
    usual_of: dict[frozenset[str], dict[str, int]] = defaultdict(dict)
    for tool, times_of_tool in times.items():
        own, count = times_of_tool.most_common(1)[0]
        usual_of[own][tool] = count
    ranked = {own: sorted(counts, key=lambda tool: -counts[tool])[:2] for own, counts in usual_of.items()}

    def is_foreign(tool: str, own: frozenset[str]) -> bool:
        other = next((candidate for candidate in ranked.get(own, ()) if candidate != tool), None)
        if not own or other is None:
            return False
        is_seldom = 2 * times[tool][own] <= n_calls[tool]
        return is_seldom or (len(own) > 1 and times[tool][own] < usual_of[own][other])

    return [float(is_foreign(call.tool[1], own)) for call, own in zip(calls, keys, strict=True)]


def _mark_errors(trace: MessageActionTrace, reading: Reading) -> Mask:
    """Return which segments speak of an error, or are one: (G,)."""
    speaks_of_error = reading.cue[:, CUES.index("error")] > 0
    has_raised = np.array([False, *(step.status == "error" or bool(step.error) for step in trace.steps)], np.bool_)
    is_error: Mask = speaks_of_error | has_raised
    return is_error


def _usual_sizes(calls: Sequence[Call], sizes: Floats) -> dict[str, float]:
    by_tool: dict[str, list[float]] = defaultdict(list)
    for call in calls:
        if call.result >= 0:
            by_tool[call.tool[1]].append(float(sizes[call.result]))
    return {tool: float(np.median(sizes_of_tool)) for tool, sizes_of_tool in by_tool.items()}


def _share_other_results(calls: Sequence[Call], reading: Reading) -> list[float]:
    """Return, for each call, which share of the same calls made elsewhere got another result."""
    results: dict[str, list[str]] = defaultdict(list)
    for call in calls:
        if call.result >= 0:
            results[call.text].append(reading.texts[call.result])
    shares = []
    for call in calls:
        same = results[call.text]
        own = reading.texts[call.result] if call.result >= 0 else ""
        n_different = len(same) - same.count(own)
        shares.append(n_different / (len(same) - 1) if call.result >= 0 and len(same) > 1 else 0.0)
    return shares


def _mark_stale_results(calls: Sequence[Call], reading: Reading) -> list[float]:
    """Return which calls got, to the letter, what a different one of the tool got before."""
    first_call: dict[tuple[str, str], str] = {}
    is_stale = []
    for call in calls:
        result = reading.texts[call.result].strip() if call.result >= 0 else ""
        is_long = len(result) >= _LEAST_RESULT
        text = first_call.setdefault((call.tool[1], result), call.text) if is_long else call.text
        is_stale.append(float(text != call.text))
    return is_stale
