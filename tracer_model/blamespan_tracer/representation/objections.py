"""Who objects to whom: a later step that says "wrong" and points at an earlier one."""

from __future__ import annotations

import numpy as np

from blamespan_tracer.representation.claims import Segments
from blamespan_tracer.representation.cues import CUES
from blamespan_tracer.representation.facts import Facts
from blamespan_tracer.representation.reading import Ints, Mask, Reading

__all__ = ["find_objections", "name_tokens"]

_OBJECT, _YOU = CUES.index("object"), CUES.index("you")


def name_tokens(reading: Reading, names: list[str]) -> Ints:
    """Return which agent each token names: (V,), an agent's label or -1.

    A name of several words is told by its longest, too; one that two agents share names nobody.
    """
    token_of = reading.places
    named = np.full(len(reading.tokens), -1)
    taken: set[int] = set()
    for label, name in enumerate(names):
        words = name.replace("-", " ").lower().split()
        told_by = {name.lower(), max(words, key=len)[:40]} if words else set()
        for place in sorted(token_of[each] for each in told_by if each in token_of):
            named[place] = -1 if place in taken else label
            taken.add(place)
    return named


def find_objections(
    reading: Reading, segments: Segments, facts: Facts, agent: Ints, decides: Mask, named: Ints
) -> tuple[Ints, Ints]:
    """Find who objects to what.

    A step that objects points at the steps whose values it contradicts, at the last step of each agent it names, or,
    where it does neither, at the decision before it if another agent took it.

    Returns:
        (O,) the objecting steps, ascending, and (O,) what each objects to; a pair at most once.
    """
    n_steps = len(agent)
    said = segments.is_said & (segments.owner >= 0)
    objects = np.bincount(segments.owner[said], reading.cue[said, _OBJECT], minlength=n_steps) > 0
    objects &= decides
    found: set[tuple[int, int]] = set()
    for conflict in facts.conflicts:
        later, earlier = int(segments.owner[conflict.later]), int(segments.owner[conflict.earlier])
        if later >= 0 and earlier >= 0 and objects[later] and decides[earlier] and agent[later] != agent[earlier]:
            found.add((later, earlier))
    mentions = _mentions(reading, segments, named, said)
    last_of: dict[int, int] = {}
    before = -1
    for step in np.flatnonzero(decides).tolist():
        if objects[step]:
            pointed = [last_of[label] for label in mentions.get(step, ()) if label in last_of and label != agent[step]]
            found.update((step, target) for target in pointed)
            if not pointed and before >= 0 and agent[before] != agent[step]:
                found.add((step, before))
        last_of[int(agent[step])] = before = step
    ordered = np.array(sorted(found), np.int64).reshape(-1, 2)
    return ordered[:, 0], ordered[:, 1]


def _mentions(reading: Reading, segments: Segments, named: Ints, said: Mask) -> dict[int, list[int]]:
    """List, by step, the agents it names, in order."""
    if not len(reading.token):
        return {}
    at = np.flatnonzero((named[reading.token] >= 0) & said[reading.segment])
    pairs = dict.fromkeys(
        zip(segments.owner[reading.segment[at]].tolist(), named[reading.token[at]].tolist(), strict=True)
    )
    found: dict[int, list[int]] = {}
    for step, label in pairs:
        found.setdefault(step, []).append(label)
    return found
