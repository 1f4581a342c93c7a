"""Stating facts and rules in varied prose: what `reading` reads back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from blamespan_lab.make.simulation.statements.facts import DerivationRule, FactValue, TaskFact
from blamespan_lab.make.simulation.statements.values import format_value
from blamespan_lab.make.wordings import choose, pick
from blamespan_lab.make.wordings.banks import STATEMENTS

_SIGNS = {"sum": "+", "product": "×", "difference": "-", "quotient": "/"}  # noqa: RUF001
_OF_MANY = tuple(wording for wording in STATEMENTS.rules["sum"] if "{a} and {b}" in wording)
"""How a sum of more than two is said: their list ends on an "and"."""


def write_fact(fact: TaskFact, value: FactValue, rng: Random, *, working: str = "", is_impersonal: bool = False) -> str:
    """State that *fact* has *value*, in a sentence without its full stop.

    Args:
        fact: What is stated.
        value: Its value.
        rng: Chooses the wording.
        working: The arithmetic that leads to an amount.
        is_impersonal: Nobody in particular says it: no "I get".
    """
    wordings = STATEMENTS.worked if working and fact.kind == "amount" else STATEMENTS.facts[fact.kind]
    if is_impersonal:
        wordings = tuple(wording for wording in wordings if wording.startswith(("{The}", "**{The}")))
    return _fill_wording(pick(wordings, rng), rng, fact.phrase, value=_write_value(fact, value, rng), working=working)


def write_correction(fact: TaskFact, value: FactValue, wrong: FactValue, rng: Random) -> str:
    """State that *fact* has *value* and not *wrong*."""
    if fact.kind == "verdict":
        return write_fact(fact, value, rng)
    return _fill_wording(
        choose(STATEMENTS.corrections, rng),
        rng,
        fact.phrase,
        value=_write_value(fact, value, rng),
        wrong=_write_value(fact, wrong, rng),
    )


def write_rule(rule: DerivationRule, facts: Mapping[str, TaskFact], measure: str, rng: Random) -> str:
    """State how a fact follows from others; *measure* is what a pick of the lowest or highest goes by."""
    first, *rest = [f"the {facts[key].phrase}" for key in rule.inputs] or [""]
    joined = " and ".join([", ".join(rest[:-1]), rest[-1]] if len(rest) > 1 else rest)
    wording = pick(STATEMENTS.rules[rule.operation], rng)
    if len(rest) > 1:  # an n-ary one: "a, b and c"
        first, joined = ", ".join([first, *rest[:-1]]), rest[-1]
        wording = pick(_OF_MANY, rng) if rule.operation == "sum" else wording
    return _fill_wording(wording, rng, facts[rule.out].phrase, a=first, b=joined, measure=measure)


def write_arithmetic(rule: DerivationRule, values: Sequence[FactValue]) -> str:
    """Write the arithmetic of *rule* with its values, or nothing where it has none."""
    amounts = [format_value(value) for value in values if isinstance(value, float)]
    if rule.operation in _SIGNS and len(amounts) == len(rule.inputs):
        return f" {_SIGNS[rule.operation]} ".join(amounts)
    if rule.operation == "percent" and len(amounts) == 2:
        return f"{amounts[0]} / 100 × {amounts[1]}"  # noqa: RUF001
    return ""


def lay_out(sentences: Sequence[str], rng: Random, *, joins: bool = True) -> str:
    """Put statements after one another: as prose, where neighbours may be joined to one sentence, or as a list."""
    if not sentences:
        return ""
    plain = [end_sentence(text) for text in sentences]
    label = rng.choice(STATEMENTS.labels) if len(plain) > 1 else ""
    if label:
        return "\n".join(label.format(n=number) + text for number, text in enumerate(plain, 1))
    return " ".join(_join_neighbours(plain, rng) if joins else plain)


def end_sentence(text: str) -> str:
    """Open with a capital and end with a full stop."""
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?", ":")) else ".")


def _join_neighbours(sentences: Sequence[str], rng: Random) -> list[str]:
    """Join some neighbours to one sentence."""
    out: list[str] = []
    for text in sentences:
        if out and rng.random() < 0.2 and text.startswith(("The ", "I ", "We ")) and out[-1].endswith("."):
            rest = text if text.startswith("I ") else text[0].lower() + text[1:]
            out[-1] = out[-1][:-1] + rng.choice((", and ", "; ", " and ")) + rest
        else:
            out.append(text)
    return out


def _write_value(fact: TaskFact, value: FactValue, rng: Random) -> str:
    unit = fact.unit if fact.unit == "percent" or rng.random() < 0.8 else ""
    return format_value(value, unit, separators=rng.random() < 0.3)


def _fill_wording(wording: str, rng: Random, phrase: str, **slots: str) -> str:
    article = "" if rng.random() < 0.1 and wording.startswith(("{The}: ", "**{The}:")) else "the "
    the = article + phrase
    return wording.format(The=the[:1].upper() + the[1:], the="the " + phrase, **slots)


def fill_phrase(wording: str, phrase: str) -> str:
    """Name *phrase* where *wording* says `{the}` or `{The}`."""
    return wording.replace("{the}", f"the {phrase}").replace("{The}", f"The {phrase}")


def choose_opening(bank: Sequence[str], chance: float, rng: Random) -> str:
    """Take one of *bank* with a *chance*, else nothing."""
    return choose(bank, rng) if rng.random() < chance else ""
