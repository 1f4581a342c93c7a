"""What the lexical tracer reads off a run: hashed words of each agent, and where it sits.

Words of the task are left out: they tell what a run is about, not what went wrong in it. Agent names
are never read: they are labels of one run. An agent's *seat* is where it stands among the agents
that can be blamed, in order of first speaking, and how many those are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from blamespan.trace import MessageActionTrace
from blamespan_tracer.tokens import Hashes, joint_hash, token_hashes

_WORD, _SEATED_WORD, _OWN_WORD, _OPENING_WORD, _CONSTANT_WORD = 1, 2, 3, 4, 5
"""Namespaces of text features, kept apart under one hash: a word; a word said in this seat; a word nobody else
says; a word of the agent's first step; a word of every step it takes, if it takes several."""

_MAX_SEAT, _MAX_AGENTS, _MAX_STEPS = 7, 8, 20
"""Larger runs share the last class: AEGIS holds too few of them to tell apart."""

Mask: TypeAlias = NDArray[np.bool_]


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
    """Return the features of every agent that can be blamed for a step, in order of first speaking.

    Agents without any token in these steps are left out: there is nothing to judge them by.
    """
    tokens = [token_hashes(step.content) for step in trace.steps]
    task = token_hashes(trace.task)
    words = [np.setdiff1d(of_step, task) for of_step in tokens]
    speakers: dict[tuple[bool, str], list[int]] = {}  # what tools and users say is another's word, whoever called them
    for step in trace.steps:
        speakers.setdefault((trace.can_be_blamed(step), step.agent), []).append(step.index)
    said = {
        speaker: np.unique(np.concatenate([words[index] for index in steps]), return_counts=True)
        for speaker, steps in speakers.items()
    }
    every = [vocabulary for vocabulary, _ in said.values()]
    known, n_speakers = np.unique(np.concatenate(every) if every else task[:0], return_counts=True)
    blamed = [speaker for speaker in speakers if speaker[0]]
    features = []
    for row, speaker in enumerate(blamed):
        agent, steps = speaker[1], speakers[speaker]
        n_tokens = sum(len(tokens[index]) for index in steps)
        if not n_tokens:
            continue
        place = min(row, _MAX_SEAT), min(len(blamed), _MAX_AGENTS)
        vocabulary, times = said[speaker]
        is_own = n_speakers[np.searchsorted(known, vocabulary)] == 1
        is_constant = (times == len(steps)) & (len(steps) > 1)
        text = []
        for index in steps:
            at = np.searchsorted(vocabulary, words[index])
            text.append(_text_hashes(words[index], place, is_own[at], is_constant[at]))
        features.append(
            AgentFeatures(
                agent,
                tuple(steps),
                tuple(text),
                np.unique(_joint(words[steps[0]], _OPENING_WORD)),
                place,
                _seat_hashes(
                    place,
                    min(len(steps), _MAX_AGENTS),
                    int(2 * math.log2(n_tokens / len(steps) + 1)),
                    trace.steps[-1].agent == agent,
                    trace.steps[0].agent == agent,
                    min(len(trace.steps), _MAX_STEPS) // 2,
                ),
            )
        )
    return features


def _text_hashes(words: Hashes, place: tuple[int, int], is_own: Mask, is_constant: Mask) -> Hashes:
    """Hash the features that the distinct words of a step give rise to.

    Args:
        words: (W,) of the step.
        place: Seat of its agent.
        is_own: (W,) whether the agent alone says it in the run.
        is_constant: (W,) whether the agent says it in each of its steps, if there are several.
    """
    features = [
        _joint(words, _WORD),
        _joint(words, _SEATED_WORD, place[0] * 256 + place[1]),
        _joint(words[is_own], _OWN_WORD),
        _joint(words[is_constant], _CONSTANT_WORD),
    ]
    return np.unique(np.concatenate(features))


def _joint(words: Hashes, namespace: int, beside: int = 0) -> Hashes:
    return joint_hash(words, np.full_like(words, beside), namespace)


@lru_cache(maxsize=1 << 12)
def _seat_hashes(place: tuple[int, int], steps: int, words: int, is_last: bool, is_first: bool, run: int) -> Hashes:
    facts: Iterable[tuple[str, object]] = (
        ("seat", place[0]),
        ("agents", place[1]),
        ("seat of agents", place),
        ("steps", steps),
        ("words per step", words),
        ("speaks last", is_last),
        ("speaks first", is_first),
        ("steps of the run", run),
    )
    return np.array([crc32(repr(fact).encode()) for fact in facts], dtype=np.uint32)
