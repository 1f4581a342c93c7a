"""Calls of tools: whether they are well formed, what they ask for, and what is made of their results."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from blamespan.trace import MessageActionTrace
from blamespan_tracer.checks.check import ExaminedRun, Finding, check, evidence
from blamespan_tracer.representation.analysis import Analysis, sum_by
from blamespan_tracer.representation.claims import Floats, is_common
from blamespan_tracer.representation.cues import CUES
from blamespan_tracer.representation.reading import Flag, Mask, Reading
from blamespan_tracer.representation.steps import Call
from blamespan_tracer.tokens import is_number

_MEETS_AN_ERROR = ("error", "inability", "hedge", "object", "negation", "redo", "check")
"""What a step hints at that does not pass over the error of its tool."""

_SAYS_SO = ("error", "inability")
"""What a later step hints at that says so after all."""

_REFUSED = re.compile(
    r"(?i)unexpected keyword argument|missing \d{1,3} required|validation error|invalid (?:json|arguments?|tool)|"
    r"unknown (?:tool|function)|(?:tool|function) .{0,60}(?:does not exist|not found|is not available)|"
    r"not a valid tool|no such tool|JSONDecodeError"
)

_ARGUMENT = re.compile(r'"([A-Za-z_]\w{0,39})"\s{0,4}:')
_MAX_CHARS = 2_000
"""Names of arguments are looked for in the beginning of a call."""

_LEAST_RESULT = 2
"""Results of fewer characters are alike by chance."""

_ORDERS = frozenset(
    ("ignore", "disregard", "instead", "instruction", "instructions", "assistant", "reader", "override", "forget")
)
"""Words by which a text gives orders to who reads it; tools have none to give."""


@check(
    "tool-error-met",
    "After its tool failed an agent tries again or says so.",
    mode="blamespan:X3",
    trust=0.6,
    is_mended_later=True,
)
def agents_meet_tool_errors(run: ExaminedRun) -> Iterator[Finding]:
    """Look at what an agent does after its tool failed: call again, say so, or go on as if nothing happened."""
    for index, results in run.results_of.items():
        call = run.trace.steps[index]
        if not run.trace.can_be_blamed(call) or not run.is_error(results[-1]):
            continue
        step = run.next_own_decision(call)
        if step is None:
            continue
        is_met = step.kind in ("tool_call", "handoff") or run.hints(step.index, *_MEETS_AN_ERROR)
        yield Finding(step.index, "pass" if is_met else "fail", step.content, "goes on although its tool failed")
        while not is_met and (step := run.next_own_decision(step)) is not None:
            is_met = run.tool_of(step) == run.tool_of(call) or run.hints(step.index, *_SAYS_SO)
            if is_met:
                yield Finding(step.index, "pass")


@check(
    "arguments-well-formed",
    "A call names a tool that exists, with arguments that it takes.",
    mode="blamespan:X2",
    trust=0.5,
    is_mended_later=True,
)
def arguments_fit_their_tool(run: ExaminedRun) -> Iterator[Finding]:
    """Look for calls that tools refuse for their name or arguments, and for arguments that are broken JSON."""
    for step in run.decisions:
        if step.kind != "tool_call":
            continue
        results = run.results_of.get(step.index, [])
        is_refused = any(_REFUSED.search(result.content[:2_000]) for result in results)
        if is_refused or _has_broken_json(step.content):
            yield Finding(step.index, "fail", step.content, "refused by the tool" if is_refused else "broken arguments")
        else:
            yield Finding(step.index, "pass")


def _has_broken_json(content: str) -> bool:
    """Check whether a call's arguments begin like a JSON object and are none."""
    begin = content.find("{")
    if begin < 0 or len(content) > 100_000:
        return False
    text = content[begin:].rstrip()
    text = text[:-1] if content[:begin].endswith("(") and text.endswith(")") else text
    try:
        json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return not text.startswith("{'")  # Python's own spelling, which some frameworks record
    return False


@check(
    "arguments-known",
    "Identifiers and long numbers in a call come from somewhere.",
    mode="blamespan:X2",
    trust=0.3,
)
def arguments_come_from_somewhere(run: ExaminedRun) -> Iterator[Finding]:
    """Look for identifiers and long numbers in a call that nothing before it mentions."""
    claims, segments = run.analysis.claims, run.analysis.segments
    is_in_call = segments.is_call[claims.segment]
    is_fresh = is_in_call & (claims.source == claims.segment)
    call_segments: set[int] = set(claims.segment[is_in_call].tolist())
    for segment in sorted(call_segments):
        step = run.trace.steps[segment - 1]
        if not run.trace.can_be_blamed(step):
            continue
        fresh = run.spell_claims(claims.claim[is_fresh & (claims.segment == segment)]) if is_fresh.any() else []
        unknown = [token for token in fresh if len(token) > 3 and any(char.isdecimal() for char in token)]
        quote = run.sentence_with(step, unknown[0]) if unknown else ""
        yield Finding(
            step.index, "inconclusive" if unknown else "pass", quote, f"nobody mentioned {unknown[:3]!r} before"
        )


@check(
    "unknown arguments",
    "What a call asks for was mentioned before, but for the words that all calls of the tool have.",
    is_evidence=True,
    is_share=True,
)
def arguments_have_mentions(run: ExaminedRun) -> Iterator[Finding]:
    """Weigh the claims in a call that nothing before it has."""
    if not run.analysis.calls:
        return
    analysis, claims, segments = run.analysis, run.analysis.claims, run.analysis.segments
    tokens, n_steps = analysis.reading.tokens, len(analysis.steps)
    owner = segments.owner[claims.segment]
    names = [tokens[token] for token in claims.token.tolist()]
    is_routine = np.isin(claims.segment * len(tokens) + claims.token[claims.claim], analysis.routine)
    is_usual = np.array([is_number(name) and is_common(float(name)) for name in names] or [False], np.bool_)
    in_call = (segments.is_said & segments.is_call)[claims.segment] & ~is_routine & ~is_usual[claims.claim]
    is_fresh = analysis.is_brought_in
    whole = sum_by(owner[in_call], claims.weight[in_call], n_steps)
    fresh = sum_by(owner[in_call & is_fresh], claims.weight[in_call & is_fresh], n_steps)
    yield from run.findings(fresh / np.where(whole > 0, whole, 1.0))


@dataclass(frozen=True, slots=True)
class CallOddities:
    """What is odd about calls and their results, next to the other calls of the run: (N,) each, 0 without calls.

    Attributes:
        other_result: Share of the same calls made elsewhere that got another result.
        stale_result: Whether an earlier, different call of the tool got the very same result.
        fails: A result is an error,
        fails_for_good: and the tool answers its agent no more after it.
        foreign: Whether it has the arguments that another tool is usually called with, and not its own.
        orders: Whether a result has words that give orders.
        odd_result: How much longer a result is than is usual for its tool, in powers of e.
    """

    other_result: Floats
    stale_result: Floats
    fails: Floats
    fails_for_good: Floats
    foreign: Floats
    orders: Floats
    odd_result: Floats


def compare_results(run: Analysis) -> CallOddities:
    """Compare the calls of a run, and what came of them."""
    columns = {name: np.zeros(len(run.steps)) for name in CallOddities.__slots__}
    reading, calls = run.reading, run.calls
    if not calls:
        return CallOddities(**columns)
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
    return CallOddities(**columns)


CALLS_AND_RESULTS = (
    evidence(
        "same call, other result", "The same call gets the same result.", compare_results, "other_result", is_share=True
    ),
    evidence("other call, same result", "Different calls get different results.", compare_results, "stale_result"),
    evidence("has another tool's arguments", "A call has the arguments of its own tool.", compare_results, "foreign"),
    evidence("result fails", "A tool answers without an error.", compare_results, "fails"),
    evidence("fails for good", "A tool that failed answers its agent later.", compare_results, "fails_for_good"),
    evidence("result gives orders", "A tool's result gives nobody orders.", compare_results, "orders"),
)


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
