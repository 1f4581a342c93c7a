"""What the lexical tracer reads off a run: hashed words of each agent, and where it sits.

Words of the task are left out: they tell what a run is about, not what went wrong in it. Agent names
are never read: they are labels of one run. An agent's *seat* is where it stands among the agents
that can be blamed, in order of first speaking, and how many those are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from zlib import crc32

import numpy as np

from blamespan.trace import MessageActionTrace, Step
from blamespan_tracer.tokens import Hashes, joint_hash, token_hashes, token_spans

__all__ = ["AgentFeatures", "agent_features", "token_features"]

_WORD, _SEATED_WORD, _OWN_WORD, _OPENING_WORD, _CONSTANT_WORD = 1, 2, 3, 4, 5
"""Namespaces of text features, kept apart under one hash: a word; a word said in this seat; a word nobody else
says; a word of the agent's first step; a word of every step it takes, if it takes several."""

_MAX_SEAT, _MAX_AGENTS, _MAX_STEPS = 7, 8, 20
"""Larger runs share the last class: AEGIS holds too few of them to tell apart."""


@dataclass(frozen=True, slots=True)
class AgentFeatures:
    """One agent of one run, as the model sees it.

    Attributes:
        agent: Its name, for the answer only.
        steps: Indices of its steps that can be blamed, ascending.
        text: Distinct feature hashes of each of these steps, ascending.
        opening: Feature hashes of the first step's words once more, as an opening. They speak about the
            agent only: no other step could have them, so they must not tell steps apart.
        place: Its seat: how many agents spoke before it did, and how many there are, both capped.
        seat: Feature hashes of where it sits and how much it says.
    """

    agent: str
    steps: tuple[int, ...]
    text: tuple[Hashes, ...]
    opening: Hashes
    place: tuple[int, int]
    seat: Hashes


def agent_features(trace: MessageActionTrace) -> list[AgentFeatures]:
    """Read the features of every agent that can be blamed for a step, in order of first speaking.

    Agents without any token in these steps are left out: there is nothing to judge them by.
    """
    by_agent: dict[str, list[Step]] = {}
    for step in trace.steps:
        if trace.can_be_blamed(step):
            by_agent.setdefault(step.agent, []).append(step)
    read = [token_hashes(step.content) for step in trace.steps]
    task = np.unique(token_hashes(trace.task))
    words = [np.setdiff1d(tokens, task) for tokens in read]
    own = _own_words(trace, words)
    found = []
    for row, (agent, steps) in enumerate(by_agent.items()):
        sizes = [len(read[step.index]) for step in steps]
        place = (min(row, _MAX_SEAT), min(len(by_agent), _MAX_AGENTS))
        if any(sizes):
            found.append(
                AgentFeatures(
                    agent,
                    tuple(step.index for step in steps),
                    _text_hashes([words[step.index] for step in steps], own, place),
                    np.unique(_hashes(words[steps[0].index], 0, _OPENING_WORD)),
                    place,
                    _seat_hashes(trace, agent, sizes, place),
                )
            )
    return found


def token_features(text: str, agent: AgentFeatures, known: Hashes) -> tuple[list[tuple[int, int]], Hashes]:
    """Read where the T tokens of a step's *text* stand and which features each gives rise to.

    Args:
        text: Content of one of the agent's steps.
        agent: Features of who said it.
        known: The step's entry in `agent.text`.

    Returns:
        T spans (start, end), and (T, 4) hashes, one per namespace that every step has; 0 where a
        token has no such feature in *known*.
    """
    read = list(token_spans(text))
    words = np.array([token for _, _, token in read], dtype=np.uint32)
    each = np.stack([_hashes(words, beside, space) for beside, space in _spaces(agent.place)], axis=1)
    return [(start, end) for start, end, _ in read], np.where(np.isin(each, known), each, np.uint32(0))


def _own_words(trace: MessageActionTrace, words: Sequence[Hashes]) -> Hashes:
    """Find the words that one speaker alone uses; what tools and users say is another's word, whoever called them."""
    spoken: dict[tuple[bool, str], list[Hashes]] = {}
    for step in trace.steps:
        spoken.setdefault((trace.can_be_blamed(step), step.agent), []).append(words[step.index])
    if not spoken:
        return np.zeros(0, dtype=np.uint32)
    vocabularies = [np.unique(np.concatenate(said)) for said in spoken.values()]
    kept, speakers = np.unique(np.concatenate(vocabularies), return_counts=True)
    own: Hashes = kept[speakers == 1]
    return own


def _text_hashes(words: Sequence[Hashes], own: Hashes, place: tuple[int, int]) -> tuple[Hashes, ...]:
    """Hash the features of each step of one agent, given the distinct *words* of each."""
    constant = reduce(np.intersect1d, words) if len(words) > 1 else words[0][:0]
    found = []
    for said in words:
        parts = (said, said, said[np.isin(said, own)], constant)
        spaces = zip(parts, _spaces(place), strict=True)
        found.append(np.unique(np.concatenate([_hashes(part, beside, space) for part, (beside, space) in spaces])))
    return tuple(found)


def _spaces(place: tuple[int, int]) -> tuple[tuple[int, int], ...]:
    """List, per kind of text feature, what is hashed beside the word and in which namespace."""
    seat = place[0] * 256 + place[1]
    return (0, _WORD), (seat, _SEATED_WORD), (0, _OWN_WORD), (0, _CONSTANT_WORD)


def _hashes(words: Hashes, beside: int, namespace: int) -> Hashes:
    return joint_hash(words, np.full_like(words, beside), namespace)


def _seat_hashes(trace: MessageActionTrace, agent: str, sizes: Sequence[int], place: tuple[int, int]) -> Hashes:
    facts: Iterable[tuple[str, object]] = (
        ("seat", place[0]),
        ("agents", place[1]),
        ("seat of agents", place),
        ("steps", min(len(sizes), _MAX_AGENTS)),
        ("words per step", int(2 * math.log2(sum(sizes) / len(sizes) + 1))),
        ("speaks last", trace.steps[-1].agent == agent),
        ("speaks first", trace.steps[0].agent == agent),
        ("steps of the run", min(len(trace.steps), _MAX_STEPS) // 2),
    )
    return np.array([crc32(repr(fact).encode()) for fact in facts], dtype=np.uint32)
