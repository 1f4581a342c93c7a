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
        spellings = {name.lower(), max(words, key=len)[:40]} if words else set()
        for token in sorted(token_of[spelling] for spelling in spellings if spelling in token_of):
            named[token] = -1 if token in taken else label
            taken.add(token)
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
    is_said = segments.is_said & (segments.owner >= 0)
    objects = np.bincount(segments.owner[is_said], reading.cue[is_said, _OBJECT], minlength=n_steps) > 0
    objects &= decides
    pairs: set[tuple[int, int]] = set()
    for conflict in facts.conflicts:
        later, earlier = int(segments.owner[conflict.later]), int(segments.owner[conflict.earlier])
        if later >= 0 and earlier >= 0 and objects[later] and decides[earlier] and agent[later] != agent[earlier]:
            pairs.add((later, earlier))
    mentions = _list_mentions(reading, segments, named, is_said)
    last_of: dict[int, int] = {}
    before = -1
    for step in np.flatnonzero(decides).tolist():
        if objects[step]:
            pointed = [last_of[label] for label in mentions.get(step, ()) if label in last_of and label != agent[step]]
            pairs.update((step, target) for target in pointed)
            if not pointed and before >= 0 and agent[before] != agent[step]:
                pairs.add((step, before))
        last_of[int(agent[step])] = before = step
    ordered = np.array(sorted(pairs), np.int64).reshape(-1, 2)
    return ordered[:, 0], ordered[:, 1]


def _list_mentions(reading: Reading, segments: Segments, named: Ints, is_said: Mask) -> dict[int, list[int]]:
    """List, by step, the agents it names, in order."""
    if not len(reading.token):
        return {}
    at = np.flatnonzero((named[reading.token] >= 0) & is_said[reading.segment])
    pairs = dict.fromkeys(
        zip(segments.owner[reading.segment[at]].tolist(), named[reading.token[at]].tolist(), strict=True)
    )
    mentions: dict[int, list[int]] = {}
    for step, label in pairs:
        mentions.setdefault(step, []).append(label)
    return mentions
