"""Writing a fault into a text without a model: each operator is one way in which an agent goes wrong.

An operator keeps the style of what it changes: it alters, drops, repeats or swaps what is there, and where
it must add words it takes one of many wordings, in the voice of an agent at work. It gives None where the
text offers it nothing to hold on to, so that no fault is ever claimed that was not written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import TypeAlias

from blamespan_lab.make.data_files import read_data_file
from blamespan_lab.make.faults.operators.edits import (
    drop_sentence,
    insert_sentence,
    keep_termination_word,
    replace_middle,
    replace_one,
    slip,
)
from blamespan_lab.make.faults.text_parts import TextPart, find_names, find_numbers, replace_parts, split_sentences
from blamespan_lab.make.wordings import choose, choose_alternatives
from blamespan_lab.make.wordings.banks import FAULTS
from blamespan_lab.make.wordings.choosing import select_half


@dataclass(frozen=True, slots=True)
class Utterance:
    """What an agent is about to say, and what it knows.

    Attributes:
        text: What it says.
        task: What the run was asked to do.
        received: What others told it, the latest last.
        sent: What it said before in this run, the latest last.
        others: Names of the other agents.
    """

    text: str
    task: str = ""
    received: Sequence[str] = ()
    sent: Sequence[str] = ()
    others: Sequence[str] = ()


TextOperator: TypeAlias = Callable[[Utterance, Random], str | None]
"""Gives the faulty text, or None where it cannot be written."""


def change_number(utterance: Utterance, rng: Random) -> str | None:
    """Get the last amount wrong, everywhere it is said from there on: a slip of a digit, a factor, a sign."""
    amounts = find_numbers(utterance.text)
    if not amounts:
        return None
    wrong = rng.choice(amounts[-3:])
    slipped = slip(wrong.text, rng)
    if slipped is None:
        return None
    same = [number for number in amounts if number.text == wrong.text and number.start >= wrong.start]
    return replace_parts(utterance.text, [(number, slipped) for number in same])


def change_unit(utterance: Utterance, rng: Random) -> str | None:
    """Put another unit than the one meant, the amount as it was."""
    hits = [TextPart(m.start(), m.end(), m.group()) for m in _UNIT.finditer(utterance.text)]
    if not hits:
        return None
    unit = rng.choice(hits)
    others = [other for family in _REPLACEMENTS.units if unit.text in family for other in family if other != unit.text]
    return replace_parts(utterance.text, [(unit, rng.choice(others))])


def swap_name(utterance: Utterance, rng: Random) -> str | None:
    """Take one person, place or thing for another of the run: one that is spoken of in the same way, if any is."""
    here = find_names(utterance.text)
    texts = (utterance.task, *utterance.received, utterance.text)
    spoken = [(name.text, _word_before(text, name)) for text in texts for name in find_names(text)]
    if not here or len({name for name, _ in spoken}) < 2:
        return None
    old = rng.choice(here)
    before = _word_before(utterance.text, old)
    others = [(name, word) for name, word in spoken if name != old.text]
    alike = [(name, word) for name, word in others if (name[0] in _QUOTES) == (old.text[0] in _QUOTES)] or others
    fitting = {name for name, word in alike if word == before} or {name for name, _ in alike}
    new = rng.choice(sorted(fitting))
    return replace_parts(utterance.text, [(name, new) for name in here if name.text == old.text])


def _word_before(text: str, name: TextPart) -> str:
    return text[: name.start].rstrip().rpartition(" ")[2].casefold()


def flip_negation(utterance: Utterance, rng: Random) -> str | None:
    """Turn a statement into its opposite."""
    return replace_one(utterance.text, _REPLACEMENTS.negations, rng)


def flip_comparison(utterance: Utterance, rng: Random) -> str | None:
    """Turn a comparison or an order round: more for less, before for after."""
    return replace_one(utterance.text, _REPLACEMENTS.comparisons, rng)


def drop_constraint(utterance: Utterance, rng: Random) -> str | None:
    """Leave out a sentence that says what must, may not or only can be."""
    return drop_sentence(utterance.text, lambda sentence: bool(_CONSTRAINT.search(sentence)), rng)


def invent_constraint(utterance: Utterance, rng: Random) -> str | None:
    """Add a requirement that nobody stated."""
    return insert_sentence(utterance.text, choose(FAULTS.invented_constraints, rng), rng)


def drop_fact(utterance: Utterance, rng: Random) -> str | None:
    """Leave out a sentence that holds an amount or a name."""
    return drop_sentence(utterance.text, lambda sentence: bool(find_numbers(sentence) or find_names(sentence)), rng)


def truncate(utterance: Utterance, rng: Random) -> str | None:
    """Stop in the middle, as if out of room."""
    words = utterance.text.split(" ")
    if len(words) < 12:
        return None
    return " ".join(words[: int(len(words) * rng.uniform(0.3, 0.6))]).rstrip(" ,;:")


def repeat_itself(utterance: Utterance, rng: Random) -> str | None:
    """Repeat what it said before, instead of going on."""
    earlier = [text for text in utterance.sent if len(text.split()) >= 4 and text != utterance.text]
    if not earlier:
        return None
    return choose(FAULTS.again, rng) + " " + earlier[-1]


def redundant_steps(utterance: Utterance, rng: Random) -> str | None:
    """Put work between that the task does not need."""
    extra = " ".join(
        choose_alternatives(step, rng) for step in rng.sample(select_half(FAULTS.redundant_steps), k=rng.randint(2, 3))
    )
    return f"{extra} {utterance.text}" if rng.random() < 0.5 else insert_sentence(utterance.text, extra, rng)


def stale_context(utterance: Utterance, rng: Random) -> str | None:
    """Go on from an earlier state: amounts are as they were said before they changed."""
    now = find_numbers(utterance.text)
    before = [number.text for text in (*utterance.received[:-1], *utterance.sent) for number in find_numbers(text)]
    current = {number.text for number in now}
    stale = [number for number in before if number not in current]
    if not now or not stale:
        return None
    return replace_parts(utterance.text, [(now[-1], rng.choice(stale))])


def lose_history(utterance: Utterance, rng: Random) -> str | None:
    """Ask for what was said long ago, or begin anew."""
    return choose(FAULTS.lost_history, rng)


def vague(utterance: Utterance, rng: Random) -> str | None:
    """Write the amounts and names so that nobody can know which are meant."""
    amounts, called = find_numbers(utterance.text), find_names(utterance.text)
    if not amounts and not called:
        return None
    vaguely = {text: choose(FAULTS.vague_amounts, rng) for text in dict.fromkeys(number.text for number in amounts)}
    changes = [(number, vaguely[number.text]) for number in amounts]
    taken = {index for number in amounts for index in range(number.start, number.end)}
    free = [name for name in called if not taken & set(range(name.start, name.end))]
    return replace_parts(utterance.text, changes + [(name, choose(FAULTS.vague_names, rng)) for name in free])


def unsupported_claim(utterance: Utterance, rng: Random) -> str | None:
    """State an amount as known that nothing in the run supports."""
    amounts = find_numbers(utterance.text)
    if not amounts:
        return None
    wrong = amounts[-1]
    invented = str(rng.randint(2, 999))
    changed = replace_parts(utterance.text, [(wrong, invented)]) if invented != wrong.text else utterance.text
    return insert_sentence(changed, choose(FAULTS.unsupported, rng), rng)


def derail(utterance: Utterance, rng: Random) -> str | None:
    """Pursue something beside the goal."""
    return replace_middle(utterance.text, choose(FAULTS.derailed, rng))


def other_role(utterance: Utterance, rng: Random) -> str | None:
    """Do another agent's work instead of its own."""
    if not utterance.others:
        return None
    wording = choose(FAULTS.other_role, rng).format(other=rng.choice(list(utterance.others)))
    return replace_middle(utterance.text, wording)


def ignore_others(utterance: Utterance, rng: Random) -> str | None:
    """Set aside what the others found and use amounts of its own."""
    theirs = {number.text for text in utterance.received for number in find_numbers(text)}
    shared = [number for number in find_numbers(utterance.text) if number.text in theirs]
    slipped = {text: slip(text, rng) for text in dict.fromkeys(number.text for number in shared)}
    changes = [(number, text) for number in shared if (text := slipped[number.text]) is not None]
    if not changes:
        return None
    return choose(FAULTS.ignored, rng) + " " + replace_parts(utterance.text, changes)


def contradict_itself(utterance: Utterance, rng: Random) -> str | None:
    """End on another amount than its own reasoning leads to."""
    amounts = find_numbers(utterance.text)
    slipped = slip(amounts[-1].text, rng) if amounts else None
    if slipped is None:
        return None
    earlier = [number for number in amounts[:-1] if number.text == amounts[-1].text]
    if earlier:
        return replace_parts(utterance.text, [(amounts[-1], slipped)])
    return utterance.text.rstrip() + " " + choose(FAULTS.conclusions, rng).format(value=slipped)


def end_early(utterance: Utterance, rng: Random) -> str | None:
    """Call it done before it is."""
    return replace_middle(utterance.text, choose(FAULTS.ends, rng), is_last=True)


def never_end(utterance: Utterance, rng: Random) -> str | None:
    """Leave out that it is done, and ask for another round."""
    remaining = [sentence.text for sentence in split_sentences(utterance.text) if not _DONE.search(sentence.text)]
    return ("".join(remaining).rstrip() + " " + choose(FAULTS.another_round, rng)).strip()


def skip_verification(utterance: Utterance, rng: Random) -> str | None:
    """Approve without a look."""
    return keep_termination_word(utterance.text, replace_middle(utterance.text, choose(FAULTS.unchecked, rng)))


def verify_wrongly(utterance: Utterance, rng: Random) -> str | None:
    """Claim a check that was made, and get it wrong."""
    theirs = [number.text for text in utterance.received[-1:] for number in find_numbers(text)]
    value = theirs[-1] if theirs else None
    if value is None:
        return None
    wording = choose(FAULTS.wrongly_checked, rng).format(value=value)
    return keep_termination_word(utterance.text, replace_middle(utterance.text, wording))


def withhold(utterance: Utterance, rng: Random) -> str | None:
    """Report that it is done, and keep what it is."""
    wording = replace_middle(utterance.text, choose(FAULTS.withheld, rng))
    return keep_termination_word(utterance.text, wording) if find_numbers(utterance.text) else None


def own_view(utterance: Utterance, rng: Random) -> str | None:
    """Go on as if nobody had said anything."""
    return choose(FAULTS.own_view, rng) + " " + utterance.text if utterance.received else None


def impossible_step(utterance: Utterance, rng: Random) -> str | None:
    """Plan on something that is not there."""
    return insert_sentence(utterance.text, choose(FAULTS.impossible_steps, rng), rng)


def approve_wrongly(utterance: Utterance, rng: Random) -> str | None:
    """Claim a check of something else than what was asked."""
    return keep_termination_word(utterance.text, replace_middle(utterance.text, choose(FAULTS.checked_beside, rng)))


def invent_source(utterance: Utterance, rng: Random) -> str | None:
    """Add a claim that nothing in the run supports."""
    return insert_sentence(utterance.text, choose(FAULTS.invented_claims, rng), rng)


def turn_round(utterance: Utterance, rng: Random) -> str | None:
    """State the reasons, then act against them."""
    return utterance.text.rstrip() + " " + choose(FAULTS.turned_round, rng) if utterance.text.strip() else None


def out_of_room(utterance: Utterance, rng: Random) -> str | None:
    """Break off at once."""
    words = utterance.text.split(" ")
    return " ".join(words[: max(1, len(words) // 3)]) if 2 <= len(words) < 12 else None


def misread_result(utterance: Utterance, rng: Random) -> str | None:
    """Report another amount than the one that was read."""
    read = {number.text for text in utterance.received[-3:] for number in find_numbers(text)}
    shared = [number for number in find_numbers(utterance.text) if number.text in read]
    if not shared:
        return None
    wrong = rng.choice(shared)
    other = sorted(read - {wrong.text}) or [slip(wrong.text, rng) or ""]
    new = rng.choice(other)
    return replace_parts(utterance.text, [(wrong, new)]) if new else None


_QUOTES = '`"'


@dataclass(frozen=True, slots=True)
class _Replacements:
    units: tuple[tuple[str, ...], ...]
    negations: Mapping[str, str]
    comparisons: Mapping[str, str]


_REPLACEMENTS = read_data_file(_Replacements, Path(__file__).with_suffix(".toml"))
_UNIT = re.compile(
    r"(?<=\d )(?:" + "|".join(sorted({u for f in _REPLACEMENTS.units for u in f}, key=len, reverse=True)) + r")\b"
)
_CONSTRAINT = re.compile(
    r"\b(?:must|only|at most|at least|no more than|no less than|exactly|never|"
    r"not allowed|without|require[sd]?|should|before|unless)\b",
    re.IGNORECASE,
)
_DONE = re.compile(r"\b(?:APPROVED|TERMINATE|DONE|FINAL|final answer|all done|complete[d]?)\b")

TEXT_OPERATORS: Mapping[str, TextOperator] = MappingProxyType(
    {
        operator.__name__.replace("_", "-"): operator
        for operator in (
            change_number,
            change_unit,
            swap_name,
            flip_negation,
            flip_comparison,
            drop_constraint,
            invent_constraint,
            drop_fact,
            truncate,
            repeat_itself,
            redundant_steps,
            stale_context,
            lose_history,
            vague,
            unsupported_claim,
            derail,
            other_role,
            ignore_others,
            contradict_itself,
            end_early,
            never_end,
            skip_verification,
            verify_wrongly,
            withhold,
            own_view,
            impossible_step,
            approve_wrongly,
            invent_source,
            turn_round,
            out_of_room,
            misread_result,
        )
    }
)
"""Every operator on a text by its name; `apply_operator` applies one."""


def apply_operator(operator: TextOperator, utterance: Utterance, rng: Random) -> str | None:
    """Apply *operator*; None where the text stays as it was or nothing is left of it."""
    text = operator(utterance, rng)
    return text if text is not None and text != utterance.text and text.strip() else None
