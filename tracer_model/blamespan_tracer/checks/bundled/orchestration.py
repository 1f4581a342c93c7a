"""What is built into a workflow: branches, variables, outputs, and nodes that fail for their service or a limit.

These look at what importers of workflow platforms say of nodes (`blamespan.node.*`), and find nothing in other runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from blamespan.conventions import NODE_CASES, NODE_INPUTS, NODE_OUTPUTS, NODE_SOURCES, NODE_TYPE, TRUNCATED
from blamespan.json_text import parse_json
from blamespan.trace import MessageActionTrace, Step
from blamespan_tracer.checks.check import CheckResult, ExaminedRun, Finding, Outcome, Source, apply_checks, check
from blamespan_tracer.tokens import MAX_TEXT_CHARS

_ENDS = frozenset({"end", "answer", "respondToWebhook", "directReplyAgentflow"})
_ELSE = "else"
_UNFILLED = re.compile(r"\{\{#[^{}#\n]{1,200}#\}\}|\[object Object\]")
"""Left of a variable that was never put in, or put in as what it is not."""

_LIMIT = re.compile(
    r"(?i)rate.?limit|too many requests|\b429\b|quota|context.?(?:length|window)|token limit|recursion limit|"
    r"max(?:imum)?[ _](?:iterations?|steps|rounds|loops|tokens|execution time)"
)
_SERVICE = re.compile(
    r"(?i)time[d ]?.?out|ETIMEDOUT|ECONNREFUSED|ECONNRESET|ENOTFOUND|connection (?:refused|reset|error|aborted)|"
    r"(?:service|server) (?:is )?unavailable|bad gateway|internal server error|\b50[0234]\b|out of memory|"
    r"crashed|host not found|name resolution|unauthori[sz]ed|forbidden|\b40[13]\b|"
    r"credentials? .{0,60}(?:not exist|not found|invalid|missing)"
)
_MAX_ERROR_CHARS = 2_000
_MAX_SHOWN = 64
"""Importers show so many outputs of a node: of one that has as many, others may be left out."""


@check("branch-holds", "A branch takes the first of its cases that holds.", mode="blamespan:X8", trust=0.8)
def branches_take_the_case_that_holds(run: ExaminedRun) -> Iterator[Finding]:
    """Work out the conditions of a branch; where a value differs by case, blanks or its type alone, it is left open."""
    for step in run.decisions:
        facts = _read(step, NODE_CASES)
        cases, taken = facts.get("cases"), facts.get("taken")
        if not isinstance(cases, list) or not isinstance(taken, str) or _is_cut(step):
            continue
        expected = _first_that_holds(cases)
        if expected is None:
            yield Finding(
                step.index, "inconclusive", step.content, "a value differs from the condition's by form alone"
            )
        elif expected != taken:
            yield Finding(step.index, "fail", step.content, f"its conditions lead to {expected[:60]!r}")
        else:
            yield Finding(step.index, "pass")


@check(
    "variable-filled",
    "A variable that a node reads is not empty where its source gave something.",
    mode="blamespan:X9",
    trust=0.6,
)
def variables_hold_what_their_sources_gave(run: ExaminedRun) -> Iterator[Finding]:
    """Compare the variables of a node with what they read; and look for placeholders that nothing was put into."""
    for step in run.decisions:
        if NODE_TYPE not in step.attributes or _is_cut(step):
            continue
        unfilled = _UNFILLED.search(step.input_text[:MAX_TEXT_CHARS]) or next(
            (found for value in _read(step, NODE_INPUTS).values() if (found := _UNFILLED.search(str(value)))), None
        )
        if unfilled:
            yield Finding(step.index, "fail", step.content, f"was given {unfilled[0][:60]!r}")
            continue
        if _is_end(step):
            continue
        yield from _judge_variables(run.trace, step)


@check("output-mapped", "An output that is read or returned is there under its name.", mode="blamespan:X10", trust=0.6)
def outputs_are_read_by_their_names(run: ExaminedRun) -> Iterator[Finding]:
    """Look for variables that read an output which their source has not, and for answers that lack what was found."""
    for step in run.decisions:
        sources = _read(step, NODE_SOURCES)
        if NODE_TYPE not in step.attributes or _is_cut(step) or not (sources or _is_end(step)):
            continue
        missing = next((name for name, source in sources.items() if _is_missing(run.trace, source)), None)
        if missing is not None:
            yield Finding(step.index, "fail", step.content, f"{missing[:60]!r} reads an output that is not there")
        elif _is_end(step) and (lost := _find_lost(run.trace, step)) is not None:
            source = run.trace.steps[lost]
            yield Finding(
                step.index, "fail", step.content, "returns nothing", source=Source(lost, source.content[:200].strip())
            )
        else:
            yield Finding(step.index, "pass")


@check("service-answers", "No node fails for its service or its platform.", mode="blamespan:X4", trust=0.6)
def services_answer(run: ExaminedRun) -> Iterator[Finding]:
    """Look for nodes that failed as a service did not answer, or the platform broke down."""
    return _judge_errors(run, lambda text: bool(_SERVICE.search(text)) and not _LIMIT.search(text))


@check("limit-kept", "No node ends for a limit of tokens, rate, rounds or steps.", mode="blamespan:X5", trust=0.6)
def limits_are_kept(run: ExaminedRun) -> Iterator[Finding]:
    """Look for nodes that failed as a limit was reached."""
    return _judge_errors(run, lambda text: bool(_LIMIT.search(text)))


_BUILT_IN = (
    branches_take_the_case_that_holds,
    variables_hold_what_their_sources_gave,
    outputs_are_read_by_their_names,
)
_FAILING = (services_answer, limits_are_kept)


def find_broken_orchestration(trace: MessageActionTrace) -> list[CheckResult]:
    """Return what a workflow's run contradicts by its own record; nothing for runs of other sources.

    Nodes that failed count only where the run did: a workflow may be built to go on without them.
    """
    if not any(NODE_TYPE in step.attributes for step in trace.steps):
        return []
    checks = (*_BUILT_IN, *(_FAILING if trace.outcome == "failed" else ()))
    return [result for result in apply_checks(checks, trace) if result.outcome == "fail"]


def _judge_errors(run: ExaminedRun, is_meant: Callable[[str], bool]) -> Iterator[Finding]:
    for step in run.trace.steps:
        is_node = NODE_TYPE in step.attributes or NODE_OUTPUTS in step.attributes
        call = step.inputs[-1] if step.kind == "tool_result" and step.inputs else step.index
        is_node = is_node or (step.kind == "tool_result" and NODE_TYPE in run.trace.steps[call].attributes)
        if not is_node:
            continue
        text = f"{step.error or ''} {step.content[:_MAX_ERROR_CHARS]}"
        is_broken = step.status == "error" and is_meant(text)
        blamed = run.trace.steps[call]
        if run.trace.can_be_blamed(blamed):
            reason = step.content[:120].strip()
            yield Finding(call, "fail" if is_broken else "pass", blamed.content, reason if is_broken else "")


def _judge_variables(trace: MessageActionTrace, step: Step) -> Iterator[Finding]:
    sources = _read(step, NODE_SOURCES)
    worst: Outcome = "pass"
    reason = ""
    for name, value in _read(step, NODE_INPUTS).items():
        source = sources.get(name)
        if not isinstance(source, Mapping) or not _is_empty(value) or _is_missing(trace, source):
            continue
        outputs = _outputs_of(trace, source.get("step"))
        path = str(source.get("key", "")).split(".")
        if outputs is None:
            outcome: Outcome = "inconclusive" if source.get("step") is None else "pass"
        elif _is_empty(outputs.get(path[0])):
            outcome = "pass"  # it holds what was given: nothing
        else:
            is_whole = len(path) == 1 or not _is_empty(_value_at(outputs, path))
            outcome = "fail" if is_whole else "inconclusive"  # fields within an output may well be optional
        if outcome == "fail" or (outcome == "inconclusive" and worst == "pass"):
            worst, reason = outcome, f"{name[:60]!r} is empty"
    if sources:
        yield Finding(step.index, worst, step.content, reason)


def _find_lost(trace: MessageActionTrace, end: Step) -> int | None:
    """Return a step whose output an end that returns nothing should have returned; None where there is none."""
    returned = {**_read(end, NODE_INPUTS), **_read(end, NODE_OUTPUTS)}
    sources = _read(end, NODE_SOURCES)
    for name, source in sources.items():
        step = source.get("step") if isinstance(source, Mapping) else None
        outputs = _outputs_of(trace, step)
        if outputs is None or not _is_empty(returned.get(name)):
            continue
        if not _is_empty(_value_at(outputs, str(source.get("key", "")).split("."))):
            return step if isinstance(step, int) else None
    if sources or any(not _is_empty(value) for value in returned.values()):
        return None
    return next((step for step in reversed(end.inputs) if _has_value(trace, step)), None)


def _has_value(trace: MessageActionTrace, step: int) -> bool:
    outputs = _outputs_of(trace, step)
    return outputs is not None and any(not _is_empty(value) for value in outputs.values())


def _is_missing(trace: MessageActionTrace, source: object) -> bool:
    """Check whether a variable reads an output that its source, which gave others, does not have."""
    if not isinstance(source, Mapping):
        return False
    outputs = _outputs_of(trace, source.get("step"))
    return bool(outputs) and str(source.get("key", "")).split(".")[0] not in (outputs or {})


def _outputs_of(trace: MessageActionTrace, step: object) -> Mapping[str, Any] | None:
    """Return what a step's node gave; None where that is not known, or was cut."""
    if not isinstance(step, int) or isinstance(step, bool) or not 0 <= step < len(trace.steps):
        return None
    source = trace.steps[step]
    if NODE_OUTPUTS not in source.attributes or _is_cut(source) or source.status == "error":
        return None
    outputs = _read(source, NODE_OUTPUTS)
    is_whole = len(outputs) < _MAX_SHOWN and outputs.keys() != {"items"}
    return outputs if is_whole else None


def _value_at(outputs: Mapping[str, Any], path: list[str]) -> object:
    value: Any = outputs
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _read(step: Step, key: str) -> dict[str, Any]:
    text = step.attributes.get(key)
    return _parse(text) if isinstance(text, str) and text.startswith("{") else {}


@lru_cache(maxsize=1_024)
def _parse(text: str) -> dict[str, Any]:
    """Parse a fact; one that many nodes read is parsed once, and changed by nobody."""
    try:
        value = parse_json(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _is_cut(step: Step) -> bool:
    return bool(step.attributes.get(TRUNCATED))


def _is_end(step: Step) -> bool:
    return str(step.attributes.get(NODE_TYPE, "")).rpartition(".")[2] in _ENDS


def _is_empty(value: object) -> bool:
    return value in (None, [], {}) or (isinstance(value, str) and not value.strip())


def _first_that_holds(cases: list[Any]) -> str | None:
    """Return the name of the first case that holds, `else` where none does, None where that cannot be told."""
    for case in cases:
        conditions = case.get("conditions") if isinstance(case, Mapping) else None
        if not isinstance(conditions, list) or not conditions:
            return None
        results = [_holds(each) if isinstance(each, Mapping) else None for each in conditions]
        decided = str(case.get("logic")).lower() == "or"
        if decided in results:  # one is enough: the others need not be known
            holds: bool | None = decided
        else:
            holds = None if None in results else not decided
        if holds is None:
            return None
        if holds:
            return str(case.get("name"))
    return _ELSE


def _holds(condition: Mapping[str, Any]) -> bool | None:
    """Return whether a condition holds; None where that hangs on how values are written, or it is not known."""
    operator = re.sub(r"[\s_-]", "", str(condition.get("operator", ""))).lower()
    actual, expected = condition.get("actual"), condition.get("expected")
    is_negated = operator in _NEGATED
    operator = _NEGATED.get(operator, operator)
    if operator in ("empty", "null", "exists"):
        is_there = actual is not None if operator in ("null", "exists") else not _is_empty(actual)
        holds: bool | None = is_there if operator == "exists" else not is_there
    elif operator in ("true", "false"):
        holds = (actual is (operator == "true")) if isinstance(actual, bool) else None
    elif operator in _ORDERS:
        numbers = _number(actual), _number(expected)
        holds = None if None in numbers else _ORDERS[operator](*numbers)  # type: ignore[arg-type]
    elif operator in _TEXTS:
        holds = _compare_texts(_TEXTS[operator], actual, expected)
    else:
        holds = None
    return holds if holds is None else holds != is_negated


def _compare_texts(compare: Callable[[str, str], bool], actual: object, expected: object) -> bool | None:
    """Compare two values as they are written, and as they would be without case, blanks and type: both must agree."""
    if isinstance(actual, list):
        return None
    exact = compare(_written(actual), _written(expected))
    loose = compare(_written(actual).strip().casefold(), _written(expected).strip().casefold())
    numbers = _number(actual), _number(expected)
    if None not in numbers and compare is _TEXTS["equals"]:
        loose = loose or numbers[0] == numbers[1]
    return exact if exact == loose else None


def _written(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str) or len(str(value)) > 40:
        return None
    try:
        return float(value)
    except ValueError:
        return None


_NEGATED: Mapping[str, str] = {
    "notcontains": "contains",
    "isnot": "equals",
    "notequals": "equals",
    "notempty": "empty",
    "notnull": "null",
    "notexists": "exists",
    "notstartswith": "startswith",
    "notendswith": "endswith",
}
_TEXTS: Mapping[str, Callable[[str, str], bool]] = {
    "contains": lambda actual, expected: expected in actual,
    "equals": lambda actual, expected: actual == expected,
    "startswith": str.startswith,
    "endswith": str.endswith,
}
_TEXTS = {**_TEXTS, "is": _TEXTS["equals"], "startwith": str.startswith, "endwith": str.endswith}
_ORDERS: Mapping[str, Callable[[float, float], bool]] = {
    ">": lambda actual, expected: actual > expected,
    "<": lambda actual, expected: actual < expected,
    "≥": lambda actual, expected: actual >= expected,
    "≤": lambda actual, expected: actual <= expected,
    "=": lambda actual, expected: actual == expected,
    "≠": lambda actual, expected: actual != expected,
}
_ORDERS = {**_ORDERS, "gt": _ORDERS[">"], "lt": _ORDERS["<"], "gte": _ORDERS["≥"], "lte": _ORDERS["≤"]}
