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

from blamespan_tracer.llm_judge import prompts
from blamespan_tracer.llm_judge.answers import (
    Finding,
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
from blamespan_tracer.llm_judge.asking import Ask, Question
from blamespan_tracer.llm_judge.protocol import Answer, Unreadable
from blamespan_tracer.llm_judge.settings import MethodName
from blamespan_tracer.rendering import Case, Decision

__all__ = ["METHOD_OF", "Method", "first_documents"]

Method: TypeAlias = Callable[[Case, Ask, Sequence[str]], Finding]
"""Examines a run by asking; is given the codes of the modes that are offered."""

_MOST_NAMED = 32
"""Steps that the last question about a long run is about: the surest that its parts name."""
_MOST_TESTED = 4
_MOST_ERRORS = 3


def all_at_once(case: Case, ask: Ask, offered: Sequence[str]) -> Finding:
    """Ask one question about the whole run; of a long one, about each part, and then about what they name."""
    parts = case.parts()
    if len(parts) == 1:
        return _verdict(case, parts[0], ask, offered)
    named, chance_failed = _nominated(case, ask, offered)
    if not named:
        return Finding(chance_failed)
    last = [one for one in case.decisions if _numbers([one]) & {*named, *_ends(case)}]
    return _verdict(case, last, ask, offered, about=named)


def step_by_step(case: Case, ask: Ask, offered: Sequence[str]) -> Finding:
    """Ask of each decision, with what came before it, whether it is the decisive one, and which step of it.

    The first yes counts.
    """
    for place, examined in enumerate(case.decisions):
        if not examined.can_be_blamed:
            continue
        question = _about(case, case.decisions[: place + 1], examined.label, prompts.EXAMINE)
        own = _numbers([examined]) & _shown(question.document)
        is_decisive, suspect = ask(question, _examined(own, offered, "is_decisive"))
        if is_decisive:
            return Finding(suspect.weight, (suspect,))
    return Finding(0.0)


def binary_search(case: Case, ask: Ask, offered: Sequence[str]) -> Finding:
    """Ask in which half of the steps the decisive one is, until one is left; then what is wrong with it.

    Of a run that does not fit into one question, its parts are asked about first, and what they name is halved.
    """
    left = list(case.suspected)
    if not set(left) <= _shown(case.document(case.decisions, left)):
        left, chance_failed = _nominated(case, ask, offered)
        if not left:
            return Finding(chance_failed)
    while len(left) > 1:
        half = len(left) // 2
        first, second = ([part[0], part[-1]] for part in (left[:half], left[half:]))
        document = case.document(case.decisions, left, first_half=first, second_half=second)
        left = left[:half] if ask(Question(prompts.HALVES, document), _is_first) else left[half:]
    _, suspect = ask(_about(case, case.decisions, left[0], prompts.DESCRIBE), _examined(left, offered))
    return Finding(suspect.weight, (suspect,) if suspect.weight > 0 else ())


def hypotheses(case: Case, ask: Ask, offered: Sequence[str]) -> Finding:
    """Ask for suspects, then put each to the test by itself; those that stand count, as sure as the test is."""
    proposed = all_at_once(case, ask, offered)
    stood: list[Suspect] = []
    for each in proposed.suspects[:_MOST_TESTED]:
        question = _about(case, case.decisions, each.step, prompts.TESTED)
        is_supported, tested = ask(question, _examined([each.step], offered, "is_supported"))
        if is_supported and tested.weight > 0:
            words = tested.quote or each.quote
            stood.append(Suspect(each.step, tested.weight, tested.modes or each.modes, words))
    return Finding(proposed.chance_failed, tuple(sorted(stood, key=lambda one: -one.weight)))


def error_first(case: Case, ask: Ask, offered: Sequence[str]) -> Finding:
    """Ask which errors occur, then for each where it was made first and by whom."""
    chances: dict[str, float] = {}
    chance_failed = 0.0
    for part in case.parts():
        question = Question(prompts.MODES, case.document(part, _numbers(part)))
        failed, errors = ask(question, lambda answer: _errors(answer, offered))
        chance_failed = max(chance_failed, failed)
        for code, sure in errors.items():
            chances[code] = max(chances.get(code, 0.0), sure)
    found: dict[int, Suspect] = {}
    for code in sorted(chances, key=lambda one: -chances[one])[:_MOST_ERRORS]:
        made = _who(case, ask, code, chances[code], offered)
        if made is None:
            continue
        other = found.get(made.step)
        if other is not None:
            made = Suspect(made.step, max(other.weight, made.weight), (*other.modes, *made.modes), other.quote)
        found[made.step] = made
    return Finding(chance_failed, tuple(sorted(found.values(), key=lambda one: -one.weight)))


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


def first_documents(case: Case, method: MethodName) -> list[str]:
    """Write the documents that *method* would ask about whatever the answers: what a run costs at least."""
    if method == "step-by-step":
        first = case.suspects[0]
        return [_about(case, case.decisions[: first.place + 1], first.label, prompts.EXAMINE).document]
    if method == "binary-search":
        whole = case.document(case.decisions, case.suspected)
        if set(case.suspected) <= _shown(whole):
            return [whole]
    return [case.document(part, _numbers(part)) for part in case.parts()]


def _nominated(case: Case, ask: Ask, offered: Sequence[str]) -> tuple[list[int], float]:
    """Ask about each part of a long run; gives the surest steps that they name, in order, and how likely it failed."""
    found = [_verdict(case, part, ask, offered, prompts.NOMINATE) for part in case.parts()]
    named = sorted((each for one in found for each in one.suspects), key=lambda one: -one.weight)
    return sorted(each.step for each in named[:_MOST_NAMED]), max(one.chance_failed for one in found)


def _verdict(
    case: Case,
    shown: Sequence[Decision],
    ask: Ask,
    offered: Sequence[str],
    form: prompts.Form = prompts.VERDICT,
    about: Collection[int] = (),
) -> Finding:
    def read(answer: Answer) -> Finding:
        found = fields(answer.text)
        named = suspects(found, case, offered, _shown(document))
        return Finding(_chance_failed(found, answer), named)

    document = case.document(shown, about or _numbers(shown))
    return ask(Question(form, document), read)


def _numbers(decisions: Sequence[Decision]) -> set[int]:
    return {each.index for one in decisions for each in one.steps}


def _shown(document: str) -> set[int]:
    """Read which steps a document shows: of many, not all may fit."""
    return {each["step"] for entry in json.loads(document)["steps"] for each in entry.get("messages", [entry])}


def _chance_failed(found: Mapping[str, object], answer: Answer) -> float:
    """Take what the tokens weigh where that is known, else what the model says."""
    failed, sure = truth(found, "failed"), chance(found)
    if answer.chance_failed is not None:
        return answer.chance_failed
    return sure if failed else 1.0 - sure


def _ends(case: Case) -> set[int]:
    """Show how a long run began and ended beside the suspects."""
    return {case.decisions[0].label, case.decisions[-1].label}


def _about(case: Case, shown: Sequence[Decision], examined: int, form: prompts.Form) -> Question:
    decision = case.by_step[examined]
    own = _numbers([decision]) if examined == decision.label else {examined}
    return Question(form, case.document(shown, own | case.linked(decision), examined=examined))


def _examined(
    examined: Collection[int], offered: Sequence[str], claim: str | None = None
) -> Callable[[Answer], tuple[bool, Suspect]]:
    """Read what is said of one decision, of which the steps *examined* may be meant."""

    def read(answer: Answer) -> tuple[bool, Suspect]:
        found = fields(answer.text)
        is_claimed = claim is None or truth(found, claim)
        meant = step_among(found, examined) if is_claimed else min(examined)
        suspect = Suspect(meant, chance(found), modes(found, offered), quote(found))
        if claim is not None and is_claimed and suspect.weight == 0:
            raise Unreadable(f"it says that {claim!r} is true, and is not sure of it at all")
        return is_claimed, suspect

    return read


def _is_first(answer: Answer) -> bool:
    said = fields(answer.text).get("half")
    if not isinstance(said, str) or said.strip().casefold() not in ("first", "second"):
        raise Unreadable("'half' must be first or second")
    return said.strip().casefold() == "first"


def _errors(answer: Answer, offered: Sequence[str]) -> tuple[float, dict[str, float]]:
    found = fields(answer.text)
    chances: dict[str, float] = {}
    for each in records(found, "errors"):
        named = one_mode(each.get("mode"), offered)
        if named is None:
            raise Unreadable("it names an error that is not of the list")
        chances[str(named)] = max(chances.get(str(named), 0.0), chance(each))
    return _chance_failed(found, answer), chances


def _who(case: Case, ask: Ask, code: str, sure: float, offered: Sequence[str]) -> Suspect | None:
    """Find where an error was made: the surest of what each part gives, the earliest where two are as sure."""

    def read(answer: Answer, shown: Collection[int]) -> Suspect | None:
        found = fields(answer.text)
        if not truth(found, "is_found"):
            return None
        weight = sure * chance(found)
        made = one_mode(code, offered)
        assert made is not None  # it was read by the same list
        return Suspect(step(found, case, shown), weight, (made,), quote(found)) if weight > 0 else None

    documents = [case.document(part, _numbers(part), error=code) for part in case.parts()]
    asked = [ask(Question(prompts.WHO, each), partial(read, shown=_shown(each))) for each in documents]
    found = [each for each in asked if each is not None]
    return max(found, key=lambda one: (one.weight, -one.step), default=None)
