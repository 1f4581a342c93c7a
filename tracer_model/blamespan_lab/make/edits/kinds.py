"""Kinds of edit: each looks for the places in a run where it can put one mistake into one step."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from blamespan.taxonomy import ErrorMode, mode
from blamespan.trace import MessageActionTrace, Step
from blamespan_lab.make.edits.pairs import Edit, with_repeat, without_steps
from blamespan_lab.make.edits.values import EditableForm, EditableValue, Substitution, find_editable_values, vary
from blamespan_tracer.ledger.equations import value_of
from blamespan_tracer.ledger.values import find_values

_MISREAD, _CALL, _MISCALCULATED = mode("blamespan:X3"), mode("blamespan:X2"), mode("mast:FM-2.6")
_NUMBER = r"(\d[\d,]*(?:\.\d+)?)"
_EQUATION = re.compile(rf"(?<![\w.,]){_NUMBER} ?([-+*\u00d7/]) ?{_NUMBER} ?= ?{_NUMBER}(?![\w]|[.,]\d)")
_CONDITION = re.compile(
    r"\b(?:must|only|at most|at least|no more|not|never|without|under|between|exactly|unless)\b", re.IGNORECASE
)
_PASSED = re.compile(r"(?<![\w.])(\d+) passed")


@dataclass(frozen=True)
class EditableRun:
    """A run, with the values that its steps state and the texts that they can be held against.

    Attributes:
        trace: The run.
        values: Of each step's content.
        names: Names of people and things from other runs, for names that are changed.
        quotations: From anywhere in the run.
    """

    trace: MessageActionTrace
    names: Sequence[str] = ()
    values: list[list[EditableValue]] = field(init=False)
    quotations: list[str] = field(init=False)

    def __post_init__(self) -> None:
        values = [list(find_editable_values(step.content)) for step in self.trace.steps]
        object.__setattr__(self, "values", values)
        texts = [value.text for row in values for value in row if value.form == "quotation"]
        object.__setattr__(self, "quotations", [*texts, self.trace.task])

    def sources(self, index: int) -> str:
        """Join what the step at *index* can be held against: the task, what agents were given, the steps before."""
        steps = self.trace.steps
        return "\n".join(
            [
                self.trace.task,
                *(s.input_text for s in steps[: index + 1] if s.input_text),
                *(s.content for s in steps[:index]),
            ]
        )

    def everything(self) -> str:
        """Join all texts of the run."""
        return "\n".join([self.trace.task, *(f"{step.input_text}\n{step.content}" for step in self.trace.steps)])

    def decisions(self) -> list[Step]:
        """List the steps that an agent can be blamed for."""
        return [step for step in self.trace.steps if self.trace.can_be_blamed(step) and step.content.strip()]


_MOVABLE: Sequence[EditableForm] = ("number", "date", "time", "identifier", "name", "unit", "sign", "direction")

Finder = Callable[[str, EditableRun, random.Random], Iterator[Edit]]


def find_edits(run: EditableRun, kind: str, draws: random.Random) -> Iterator[Edit]:
    """Yield the edits of one kind that *run* allows, in random order.

    Raises:
        KeyError: if there is no such kind.
    """
    yield from KINDS[kind](kind, run, draws)


def find_moves(run: EditableRun, draws: random.Random) -> Iterator[tuple[Edit, Edit]]:
    """Yield the same mistake at two steps of two agents, in random order: each changes a value that both copied.

    In the first run of a pair the earlier agent changes it and the later one follows; in the second the later one does.
    """
    text = run.everything()
    decisions = [step for step in run.decisions() if step.index > 0]
    for step, value in _candidates(run, draws, _MOVABLE, is_call=False):
        others = [
            other
            for other in decisions
            if other.index > step.index and other.agent != step.agent and _stands_in(value.text, other.content)
        ]
        if not others or not _stands_in(value.text, run.sources(step.index)):
            continue
        wrong = vary(value, draws, run.names)
        if wrong is None or _stands_in(wrong, text) or _is_computed_with(value.text, run, step.index):
            continue
        change = (Substitution(value.text, wrong),)
        first, second = (Edit("moved", _MISREAD, place.index, after=change) for place in (step, draws.choice(others)))
        yield first, second


def _edit_copies(
    kind: str,
    run: EditableRun,
    draws: random.Random,
    *,
    forms: Sequence[EditableForm],
    is_call: bool = False,
    fault: ErrorMode,
) -> Iterator[Edit]:
    """Change a value that a step took over from before it: in the step and all after it, or in all before it."""
    text = run.everything()
    for step, value in _candidates(run, draws, forms, is_call=is_call):
        if not _stands_in(value.text, run.sources(step.index)) or _is_computed_with(value.text, run, step.index):
            continue
        others = run.quotations if value.form == "quotation" else run.names
        other = vary(value, draws, others)
        if other is None or _stands_in(other, text):
            continue
        change = (Substitution(value.text, other),)
        is_in_claim = draws.random() < 0.5
        yield Edit(
            kind,
            fault,
            step.index,
            before=() if is_in_claim else change,
            after=change if is_in_claim else (),
            decoy_before=change,
            decoy_after=change,
        )


def _neighbour(kind: str, run: EditableRun, draws: random.Random) -> Iterator[Edit]:
    """Take over the value that stands beside the right one in a tool's answer."""
    for step, value in _candidates(run, draws, ("number", "date", "time", "identifier", "name")):
        if _is_computed_with(value.text, run, step.index):
            continue
        for result in reversed(run.trace.steps[: step.index]):
            if result.kind != "tool_result" or not _stands_in(value.text, result.content):
                continue
            beside = [
                other.text
                for other in run.values[result.index]
                if other.form == value.form
                and len(other.text) == len(value.text)
                and other.text != value.text
                and not _stands_in(other.text, step.content)
                and not _is_computed_with(other.text, run, step.index)
            ]
            if beside:
                other = draws.choice(beside)
                swap = (Substitution(value.text, other), Substitution(other, value.text))
                yield Edit(kind, _MISREAD, step.index, after=swap[:1], decoy_before=swap, decoy_after=swap)
            break


def _arithmetic(kind: str, run: EditableRun, draws: random.Random) -> Iterator[Edit]:
    """Change the result of a calculation; in the decoy an operand changes with it."""
    text = run.everything()
    for step in _shuffle(run.decisions(), draws):
        sources = run.sources(step.index)
        for match in _shuffle(list(_EQUATION.finditer(step.content)), draws):
            left, sign, right, result = match.groups()
            if _stands_in(result, sources) or not _holds(left, sign, right, result):
                continue
            other = vary(EditableValue(result, "number", 0), draws)
            if other is None or _stands_in(other, text):
                continue
            change = Substitution(result, other)
            operand = None
            if sign in "+-" and left != right and left.isdigit() and result.isdigit() and other.isdigit():
                shifted = str(int(left) + int(other) - int(result))
                is_once = len(re.findall(rf"(?<!\d){left}(?!\d)[^\n]{{0,3}}[-+*\u00d7/=]", text)) == 1
                if int(shifted) > 0 and is_once and _stands_in(left, sources) and not _stands_in(shifted, text):
                    operand = Substitution(left, shifted)
            decoy = None if operand is None else (operand,)
            yield Edit(
                kind,
                _MISCALCULATED,
                step.index,
                after=(change,),
                decoy_before=decoy,
                decoy_after=() if operand is None else (operand, change),
            )


def _test_result(kind: str, run: EditableRun, draws: random.Random) -> Iterator[Edit]:
    """Let one test fail whose report the next agent takes for a pass; in the decoy one test more passes."""
    for step in _shuffle(run.decisions(), draws):
        if step.kind == "tool_call" or not re.search(r"\bpass(?:es|ed)?\b", step.content, re.IGNORECASE):
            continue
        result = next((s for s in reversed(run.trace.steps[: step.index]) if s.kind == "tool_result"), None)
        match = _PASSED.search(result.content) if result else None
        if match is None or result is None or re.search(r"fail|error", result.content, re.IGNORECASE):
            continue
        count = int(match.group(1))
        phrase = match.group()
        if count < 2 or _stands_in(phrase, step.content):
            continue
        yield Edit(
            kind,
            mode("mast:FM-3.3"),
            step.index,
            before=(Substitution(phrase, f"1 failed, {count - 1} passed"),),
            decoy_before=(Substitution(phrase, f"{count + 1} passed"),),
        )


def _dropped_condition(kind: str, run: EditableRun, draws: random.Random) -> Iterator[Edit]:
    """Leave a condition of the task out where a step passes it on; in the decoy the task does not name it either."""
    conditions = [sentence for sentence in _sentences(run.trace.task) if _CONDITION.search(sentence)]
    for step in _shuffle(run.decisions(), draws):
        for condition in _shuffle(conditions, draws):
            passed_on = [
                sentence
                for later in run.trace.steps[step.index :]
                for sentence in _sentences(later.content)
                if _overlap(condition, sentence) >= 0.6
            ]
            is_first = not any(
                _overlap(condition, sentence) >= 0.6
                for earlier in run.trace.steps[: step.index]
                for sentence in _sentences(earlier.content)
            )
            own = [sentence for sentence in _sentences(step.content) if sentence in passed_on]
            if not own or not is_first or len(own[0]) > 0.6 * len(step.content):
                continue
            drops = tuple(Substitution(sentence, "") for sentence in dict.fromkeys(passed_on))
            yield Edit(
                kind,
                mode("mast:FM-1.1"),
                step.index,
                after=drops,
                decoy_before=(Substitution(condition, ""),),
                decoy_after=drops,
            )


def _repeat_steps(kind: str, run: EditableRun, draws: random.Random) -> Iterator[Edit]:
    """Let an agent do once more what it has just done."""
    steps = run.trace.steps
    for step in _shuffle(run.decisions(), draws):
        last = step.index
        if step.kind == "tool_call":
            if last + 1 >= len(steps) or steps[last + 1].inputs != (last,) or steps[last + 1].kind != "tool_result":
                continue
            last += 1
        if last < len(steps) - 1:
            repeat = partial(with_repeat, first=step.index, last=last)
            yield Edit(kind, mode("mast:FM-1.3"), last + 1, restructure=repeat)
            return


def _early_finish(kind: str, run: EditableRun, draws: random.Random) -> Iterator[Edit]:
    """Let the last step say its result before the work that it rests on was done."""
    steps = run.trace.steps
    final = steps[-1]
    if not run.trace.can_be_blamed(final) or final.kind == "tool_call":
        return
    claims = [value.text for value in run.values[-1] if value.form != "direction"]
    for first in _shuffle(range(max(1, len(steps) // 3), len(steps) - 1), draws):
        if steps[first].kind == "tool_result" or not any(
            run.trace.can_be_blamed(step) and step.kind != "termination" for step in steps[first:-1]
        ):
            continue
        rest = run.sources(first)
        if any(not _stands_in(claim, rest) and _stands_in(claim, run.sources(final.index)) for claim in claims):
            cut = partial(without_steps, first=first, last=final.index - 1)
            yield Edit(kind, mode("mast:FM-3.1"), first, restructure=cut)
            return


KINDS: Mapping[str, Finder] = {
    "number": partial(_edit_copies, forms=("number",), fault=_MISREAD),
    "date": partial(_edit_copies, forms=("date", "time"), fault=_MISREAD),
    "name": partial(_edit_copies, forms=("name",), fault=_MISREAD),
    "identifier": partial(_edit_copies, forms=("identifier",), fault=_MISREAD),
    "unit": partial(_edit_copies, forms=("unit",), fault=_MISREAD),
    "sign": partial(_edit_copies, forms=("sign",), fault=_MISREAD),
    "direction": partial(_edit_copies, forms=("direction",), fault=_MISREAD),
    "quotation": partial(_edit_copies, forms=("quotation",), fault=_MISREAD),
    "argument": partial(
        _edit_copies, forms=("number", "date", "time", "identifier", "name"), is_call=True, fault=_CALL
    ),
    "neighbour": _neighbour,
    "arithmetic": _arithmetic,
    "test-result": _test_result,
    "condition": _dropped_condition,
    "repeat": _repeat_steps,
    "early-finish": _early_finish,
}
"""What finds the places for each kind of edit, by its name."""


def _candidates(
    run: EditableRun, draws: random.Random, forms: Sequence[EditableForm], *, is_call: bool = False
) -> Iterator[tuple[Step, EditableValue]]:
    """Yield the values of *forms* in the decisions, in random order; of each step the first of one text."""
    rows = [
        (step, value)
        for step in run.decisions()
        if (step.kind == "tool_call") == is_call and step.index > 0
        for value in {value.text: value for value in reversed(run.values[step.index])}.values()
        if value.form in forms
    ]
    yield from _shuffle(rows, draws)


def _is_computed_with(text: str, run: EditableRun, index: int) -> bool:
    """Check whether a number stands in a calculation, or another number of the run follows from it."""
    if not re.fullmatch(r"[-+]?\d[\d,]*(?:\.\d+)?%?", text):
        return False
    escaped = re.escape(text)
    if re.search(rf"(?<!\d){escaped} ?[*\u00d7/=^+]|[*\u00d7/=^+] ?[$€£]?{escaped}(?!\d)", run.everything()):
        return True
    number = _parse(text)
    before = {_parse(v.text) for row in run.values[: index + 1] for v in row if v.form == "number"} - {number}
    derived = {_parse(v.text) for row in run.values[index:] for v in row if v.form == "number"} - before - {number}
    results = (
        round(r, 2)
        for other in before
        if other
        for r in (number + other, number - other, other - number, number * other, number / other)
    )
    return any(result in derived for result in results)


def _parse(text: str) -> float:
    return next((float(value.key) for value in find_values(text) if value.form == "number"), math.nan)


def _holds(left: str, sign: str, right: str, result: str) -> bool:
    worked_out = value_of(f"{left} {sign} {right}".replace("\u00d7", "*"))
    return worked_out is not None and abs(worked_out - _parse(result)) < 0.006


def _stands_in(text: str, whole: str) -> bool:
    """Check whether *text* stands alone somewhere in *whole*."""
    return text in whole and bool(re.search(rf"(?<![\w#@])(?<!\d[.,]){re.escape(text)}(?![\w@]|[.,]\d)", whole))


def _sentences(text: str) -> list[str]:
    return [part.strip() for part in re.split(r"(?<=[.!?])\s+|\n+", text) if 4 <= len(part.split()) <= 40]


def _overlap(condition: str, sentence: str) -> float:
    """Compute which part of the condition's longer words a sentence repeats."""
    words = set(re.findall(r"\w{4,}|\d+", condition.lower()))
    return len(words & set(re.findall(r"\w{4,}|\d+", sentence.lower()))) / len(words) if len(words) > 2 else 0.0


def _shuffle(items: Sequence[object] | range, draws: random.Random) -> list:  # type: ignore[type-arg]
    rows = list(items)
    draws.shuffle(rows)
    return rows
