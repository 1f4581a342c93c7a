"""Ways to ask for the decisive step: one question or many, each with the run as it is rendered for all of them.

Source: all-at-once, step-by-step and binary search are those of Who&When (arXiv 2505.00212); error-first asks as
VerifyMAS does: which error occurs, then who made it; hypotheses are proposed, then tested one by one by asking what
would have become of the run. We differ: merged and annotated decisions in JSON, chances instead of bare answers, and
several suspects where a method allows for it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TypeAlias

from blamespan_tracer.alternatives.llm_judge import prompts
from blamespan_tracer.alternatives.llm_judge.answers import (
    Diagnosis,
    Suspect,
    chance,
    fields,
    modes,
    one_mode,
    quote,
    records,
    step,
    step_among,
    suspects,
    truth,
)
from blamespan_tracer.alternatives.llm_judge.client import Ask, JudgeQuestion
from blamespan_tracer.alternatives.llm_judge.completions import Completion, Unreadable
from blamespan_tracer.alternatives.llm_judge.settings import MethodName
from blamespan_tracer.alternatives.rendering import RenderedDecision, RunDocument

Method: TypeAlias = Callable[[RunDocument, Ask, Sequence[str]], Diagnosis]
"""Examines a run by asking; is given the codes of the modes that are offered."""

_MOST_NAMED = 32
"""Steps that the last question about a long run is about: the surest that its parts name."""
_MOST_TESTED = 4
_MOST_ERRORS = 3


def all_at_once(case: RunDocument, ask: Ask, offered: Sequence[str]) -> Diagnosis:
    """Ask one question about the whole run; of a long one, about each part, and then about what they name."""
    parts = case.parts()
    if len(parts) == 1:
        return _ask_verdict(case, parts[0], ask, offered)
    named, chance_failed = _nominate(case, ask, offered)
    if not named:
        return Diagnosis(chance_failed)
    last = [decision for decision in case.decisions if _numbers([decision]) & {*named, *_ends(case)}]
    return _ask_verdict(case, last, ask, offered, about=named)


def step_by_step(case: RunDocument, ask: Ask, offered: Sequence[str]) -> Diagnosis:
    """Ask of each decision, with what came before it, whether it is the decisive one, and which step of it.

    The first yes counts.
    """
    for position, examined in enumerate(case.decisions):
        if not examined.can_be_blamed:
            continue
        question = _about(case, case.decisions[: position + 1], examined.label, prompts.EXAMINE)
        own = _numbers([examined]) & _shown_steps(question.document)
        is_decisive, suspect = ask(question, _reader_of_step(own, offered, "is_decisive"))
        if is_decisive:
            return Diagnosis(suspect.weight, (suspect,))
    return Diagnosis(0.0)


def binary_search(case: RunDocument, ask: Ask, offered: Sequence[str]) -> Diagnosis:
    """Ask in which half of the steps the decisive one is, until one is left; then what is wrong with it.

    Of a run that does not fit into one question, its parts are asked about first, and what they name is halved.
    """
    left = list(case.suspected)
    if not set(left) <= _shown_steps(case.document(case.decisions, left)):
        left, chance_failed = _nominate(case, ask, offered)
        if not left:
            return Diagnosis(chance_failed)
    while len(left) > 1:
        half = len(left) // 2
        first, second = ([part[0], part[-1]] for part in (left[:half], left[half:]))
        document = case.document(case.decisions, left, first_half=first, second_half=second)
        left = left[:half] if ask(JudgeQuestion(prompts.HALVES, document), _is_first) else left[half:]
    _, suspect = ask(_about(case, case.decisions, left[0], prompts.DESCRIBE), _reader_of_step(left, offered))
    return Diagnosis(suspect.weight, (suspect,) if suspect.weight > 0 else ())


def hypotheses(case: RunDocument, ask: Ask, offered: Sequence[str]) -> Diagnosis:
    """Ask for suspects, then put each to the test by itself; those that stand count, as sure as the test is."""
    proposed = all_at_once(case, ask, offered)
    confirmed: list[Suspect] = []
    for hypothesis in proposed.suspects[:_MOST_TESTED]:
        question = _about(case, case.decisions, hypothesis.step, prompts.TESTED)
        is_supported, tested = ask(question, _reader_of_step([hypothesis.step], offered, "is_supported"))
        if is_supported and tested.weight > 0:
            words = tested.quote or hypothesis.quote
            confirmed.append(Suspect(hypothesis.step, tested.weight, tested.modes or hypothesis.modes, words))
    return Diagnosis(proposed.chance_failed, tuple(sorted(confirmed, key=lambda suspect: -suspect.weight)))


def error_first(case: RunDocument, ask: Ask, offered: Sequence[str]) -> Diagnosis:
    """Ask which errors occur, then for each where it was made first and by whom."""
    chances: dict[str, float] = {}
    chance_failed = 0.0
    for part in case.parts():
        question = JudgeQuestion(prompts.MODES, case.document(part, _numbers(part)))
        failed, errors = ask(question, lambda answer: _errors(answer, offered))
        chance_failed = max(chance_failed, failed)
        for code, sure in errors.items():
            chances[code] = max(chances.get(code, 0.0), sure)
    by_step: dict[int, Suspect] = {}
    for code in sorted(chances, key=lambda code: -chances[code])[:_MOST_ERRORS]:
        suspect = _locate(case, ask, code, chances[code], offered)
        if suspect is None:
            continue
        other = by_step.get(suspect.step)
        if other is not None:
            merged_modes = (*other.modes, *suspect.modes)
            suspect = Suspect(suspect.step, max(other.weight, suspect.weight), merged_modes, other.quote)
        by_step[suspect.step] = suspect
    return Diagnosis(chance_failed, tuple(sorted(by_step.values(), key=lambda suspect: -suspect.weight)))


METHOD_OF: Mapping[MethodName, Method] = MappingProxyType(
    {
        "all-at-once": all_at_once,
        "step-by-step": step_by_step,
        "binary-search": binary_search,
        "hypotheses": hypotheses,
        "error-first": error_first,
    }
)
"""Every method by its name."""


def first_documents(case: RunDocument, method: MethodName) -> list[str]:
    """Write the documents that *method* would ask about whatever the answers: what a run costs at least."""
    if method == "step-by-step":
        first = case.suspects[0]
        return [_about(case, case.decisions[: first.place + 1], first.label, prompts.EXAMINE).document]
    if method == "binary-search":
        whole = case.document(case.decisions, case.suspected)
        if set(case.suspected) <= _shown_steps(whole):
            return [whole]
    return [case.document(part, _numbers(part)) for part in case.parts()]


def _nominate(case: RunDocument, ask: Ask, offered: Sequence[str]) -> tuple[list[int], float]:
    """Ask about each part of a long run; return the surest steps that they name, in order, and how likely it failed."""
    diagnoses = [_ask_verdict(case, part, ask, offered, prompts.NOMINATE) for part in case.parts()]
    suspected = (suspect for diagnosis in diagnoses for suspect in diagnosis.suspects)
    ranked = sorted(suspected, key=lambda suspect: -suspect.weight)
    chance_failed = max(diagnosis.chance_failed for diagnosis in diagnoses)
    return sorted(suspect.step for suspect in ranked[:_MOST_NAMED]), chance_failed


def _ask_verdict(
    case: RunDocument,
    shown: Sequence[RenderedDecision],
    ask: Ask,
    offered: Sequence[str],
    form: prompts.Form = prompts.VERDICT,
    about: Collection[int] = (),
) -> Diagnosis:
    def read(answer: Completion) -> Diagnosis:
        record = fields(answer.text)
        named = suspects(record, case, offered, _shown_steps(document))
        return Diagnosis(_failure_probability(record, answer), named)

    document = case.document(shown, about or _numbers(shown))
    return ask(JudgeQuestion(form, document), read)


def _numbers(decisions: Sequence[RenderedDecision]) -> set[int]:
    return {step.index for decision in decisions for step in decision.steps}


def _shown_steps(document: str) -> set[int]:
    """Read which steps a document shows: of many, not all may fit."""
    return {message["step"] for entry in json.loads(document)["steps"] for message in entry.get("messages", [entry])}


def _failure_probability(record: Mapping[str, object], answer: Completion) -> float:
    """Take what the tokens weigh where that is known, else what the model says."""
    failed, sure = truth(record, "failed"), chance(record)
    if answer.chance_failed is not None:
        return answer.chance_failed
    return sure if failed else 1.0 - sure


def _ends(case: RunDocument) -> set[int]:
    """Show how a long run began and ended beside the suspects."""
    return {case.decisions[0].label, case.decisions[-1].label}


def _about(case: RunDocument, shown: Sequence[RenderedDecision], examined: int, form: prompts.Form) -> JudgeQuestion:
    decision = case.by_step[examined]
    own = _numbers([decision]) if examined == decision.label else {examined}
    return JudgeQuestion(form, case.document(shown, own | case.linked_steps(decision), examined=examined))


def _reader_of_step(
    examined: Collection[int], offered: Sequence[str], claim: str | None = None
) -> Callable[[Completion], tuple[bool, Suspect]]:
    """Return what reads an answer about one decision, of which the steps *examined* may be meant."""

    def read(answer: Completion) -> tuple[bool, Suspect]:
        record = fields(answer.text)
        is_claimed = claim is None or truth(record, claim)
        number = step_among(record, examined) if is_claimed else min(examined)
        suspect = Suspect(number, chance(record), modes(record, offered), quote(record))
        if claim is not None and is_claimed and suspect.weight == 0:
            raise Unreadable(f"it says that {claim!r} is true, and is not sure of it at all")
        return is_claimed, suspect

    return read


def _is_first(answer: Completion) -> bool:
    half = fields(answer.text).get("half")
    if not isinstance(half, str) or half.strip().casefold() not in ("first", "second"):
        raise Unreadable("'half' must be first or second")
    return half.strip().casefold() == "first"


def _errors(answer: Completion, offered: Sequence[str]) -> tuple[float, dict[str, float]]:
    record = fields(answer.text)
    chances: dict[str, float] = {}
    for entry in records(record, "errors"):
        error_mode = one_mode(entry.get("mode"), offered)
        if error_mode is None:
            raise Unreadable("it names an error that is not of the list")
        chances[str(error_mode)] = max(chances.get(str(error_mode), 0.0), chance(entry))
    return _failure_probability(record, answer), chances


def _locate(case: RunDocument, ask: Ask, code: str, sure: float, offered: Sequence[str]) -> Suspect | None:
    """Find where an error was made: the surest of what each part gives, the earliest where two are as sure."""

    def read(answer: Completion, shown: Collection[int]) -> Suspect | None:
        record = fields(answer.text)
        if not truth(record, "is_found"):
            return None
        weight = sure * chance(record)
        error_mode = one_mode(code, offered)
        assert error_mode is not None  # it was read by the same list
        return Suspect(step(record, case, shown), weight, (error_mode,), quote(record)) if weight > 0 else None

    documents = [case.document(part, _numbers(part), error=code) for part in case.parts()]
    answers = [
        ask(JudgeQuestion(prompts.WHO, document), partial(read, shown=_shown_steps(document))) for document in documents
    ]
    located = [suspect for suspect in answers if suspect is not None]
    return max(located, key=lambda suspect: (suspect.weight, -suspect.step), default=None)
