"""What the lexical tracer reads off a run: hashed words of each agent, and where it sits.

Words of the task are left out: they tell what a run is about, not what went wrong in it. Agent names
are never read: they are labels of one run. An agent's *seat* is where it stands among the agents
that can be blamed, in order of first speaking, and how many those are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from blamespan.trace import MessageActionTrace
from blamespan_tracer.tokens import Hashes, Places, Tokens, joint_hash, tokens_of

__all__ = ["AgentFeatures", "agent_features", "batch_features", "token_features"]

_WORD, _SEATED_WORD, _OWN_WORD, _OPENING_WORD, _CONSTANT_WORD = 1, 2, 3, 4, 5
"""Namespaces of text features, kept apart under one hash: a word; a word said in this seat; a word nobody else
says; a word of the agent's first step; a word of every step it takes, if it takes several."""

_STEP_SPACES = _WORD, _SEATED_WORD, _OWN_WORD, _CONSTANT_WORD
"""Those a feature of any step can be of, in the order of `token_features`."""

_MAX_SEAT, _MAX_AGENTS, _MAX_STEPS = 7, 8, 20
"""Larger runs share the last class: AEGIS holds too few of them to tell apart."""

Keys: TypeAlias = NDArray[np.uint64]
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
    """Read the features of one run; see `batch_features`."""
    return batch_features([trace])[0]


def batch_features(traces: Sequence[MessageActionTrace]) -> list[list[AgentFeatures]]:
    """Read, per run, the features of every agent that can be blamed for a step, in order of first speaking.

    Agents without any token in these steps are left out: there is nothing to judge them by. The runs do
    not touch each other: they are read together because numpy is fast on long arrays only.
    """
    batch = _Batch()
    for trace in traces:
        batch.add(trace)
    said = tokens_of(batch.texts)
    sizes = said.sizes.tolist()
    text, opening = _text_hashes(batch, said)
    found: list[list[AgentFeatures]] = [[] for _ in traces]
    for agent in batch.agents:
        n_words = [sizes[place] for place in agent.places]
        if any(n_words):
            first = batch.first_step[agent.run]
            found[agent.run].append(
                AgentFeatures(
                    agent.name,
                    tuple(place - first for place in agent.places),
                    tuple(text[place] for place in agent.places),
                    opening[agent.places[0]],
                    agent.place,
                    _seat_hashes(*_facts(traces[agent.run], agent, n_words)),
                )
            )
    return found


def token_features(tokens: Tokens, places: Sequence[tuple[int, int]], known: Sequence[Hashes]) -> tuple[Places, Hashes]:
    """Read which features each of the T tokens of N steps gives rise to.

    Args:
        tokens: Of the contents of these steps.
        places: (N,) `AgentFeatures.place` of who took each step.
        known: (N,) the step's entry in `AgentFeatures.text`.

    Returns:
        (F,) the token, 0..T-1, and (F,) the hash of each feature, one per kind that the step has.
    """
    step = tokens.texts
    seats = np.array([_seat_code(place) for place in places], np.uint32)[step]
    sizes = [len(hashes) for hashes in known]
    every = _keyed(np.repeat(np.arange(len(known)), sizes), np.concatenate(known))  # ascending, as each part is
    found: list[tuple[Places, Hashes]] = []
    for space in _STEP_SPACES if len(every) else ():
        features = _joint(tokens.hashes, seats if space == _SEATED_WORD else np.uint32(0), space)
        asked = _keyed(step, features)
        token = np.flatnonzero(every[np.searchsorted(every, asked).clip(max=len(every) - 1)] == asked)
        found.append((token, features[token]))
    if not found:
        return np.zeros(0, np.int64), np.zeros(0, np.uint32)
    return np.concatenate([token for token, _ in found]), np.concatenate([features for _, features in found])


@dataclass(slots=True)
class _Agent:
    """One agent of one run of a batch, by the places of its steps that can be blamed."""

    run: int
    name: str
    speaker: int
    place: tuple[int, int]
    places: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _Batch:
    """The steps of several runs, one after the other.

    Dims: N steps of all runs, each at its place 0..N-1.

    Attributes:
        texts: (N,) the content of each step.
        run: (N,) which run each step belongs to.
        speaker: (N,) who speaks, numbered over the whole batch: what tools and users say is another's word,
            whoever called them.
        first_step: Per run the place of its first step.
        tasks: Per run what it was asked.
        agents: Everybody who can be blamed for a step.
    """

    texts: list[str] = field(default_factory=list)
    run: list[int] = field(default_factory=list)
    speaker: list[int] = field(default_factory=list)
    first_step: list[int] = field(default_factory=list)
    tasks: list[str] = field(default_factory=list)
    agents: list[_Agent] = field(default_factory=list)
    n_speakers: int = 0

    def add(self, trace: MessageActionTrace) -> None:
        """Append one run."""
        run = len(self.tasks)
        self.first_step.append(len(self.texts))
        self.tasks.append(trace.task)
        blamed: dict[str, _Agent] = {}
        speakers: dict[tuple[bool, str], int] = {}
        for step in trace.steps:
            can_be_blamed = trace.can_be_blamed(step)
            speaker = speakers.setdefault((can_be_blamed, step.agent), self.n_speakers + len(speakers))
            if can_be_blamed:
                agent = blamed.setdefault(step.agent, _Agent(run, step.agent, speaker, (0, 0)))
                agent.places.append(len(self.texts))
            self.texts.append(step.content)
            self.run.append(run)
            self.speaker.append(speaker)
        self.n_speakers += len(speakers)
        for row, agent in enumerate(blamed.values()):
            agent.place = (min(row, _MAX_SEAT), min(len(blamed), _MAX_AGENTS))
        self.agents += blamed.values()


def _text_hashes(batch: _Batch, said: Tokens) -> tuple[dict[int, Hashes], dict[int, Hashes]]:
    """Hash the features of the batch's steps that can be blamed.

    Returns:
        By the step's place its distinct text features, ascending; likewise the opening features of every
        agent's first step.
    """
    at, words = _distinct_words(batch, said)
    own, constant = _own_and_constant(batch, at, words)
    seats = np.zeros(len(batch.texts), np.uint32)
    is_blamed, is_opening = np.zeros((2, len(batch.texts)), bool)
    for agent in batch.agents:
        seats[agent.places] = _seat_code(agent.place)
        is_blamed[agent.places] = True
        is_opening[agent.places[0]] = True
    chosen = is_blamed[at]
    own, constant, opens = own & chosen, constant & chosen, is_opening[at]
    none = np.uint32(0)
    features = [
        _keyed(at[chosen], _joint(words[chosen], none, _WORD)),
        _keyed(at[chosen], _joint(words[chosen], seats[at[chosen]], _SEATED_WORD)),
        _keyed(at[own], _joint(words[own], none, _OWN_WORD)),
        _keyed(at[constant], _joint(words[constant], none, _CONSTANT_WORD)),
    ]
    text = _by_place(np.concatenate(features), np.flatnonzero(is_blamed))
    opening = _by_place(_keyed(at[opens], _joint(words[opens], none, _OPENING_WORD)), np.flatnonzero(is_opening))
    return text, opening


def _distinct_words(batch: _Batch, said: Tokens) -> tuple[Places, Hashes]:
    """List each step's distinct words but the task's: (W,) places, ascending, and (W,) hashes."""
    at, words = _parted(_distinct(_keyed(said.texts, said.hashes)))
    asked = tokens_of(batch.tasks)
    of_tasks = _distinct(_keyed(asked.texts, asked.hashes))
    if len(of_tasks):
        of_steps = _keyed(np.array(batch.run, np.int64)[at], words)
        kept = of_tasks[np.searchsorted(of_tasks, of_steps).clip(max=len(of_tasks) - 1)] != of_steps
        at, words = at[kept], words[kept]
    return at, words


def _own_and_constant(batch: _Batch, at: Places, words: Hashes) -> tuple[Mask, Mask]:
    """Tell of each word of each step whether its speaker alone says it, and whether it says it in every step."""
    speaker = np.array(batch.speaker, np.int64)
    run_of_speaker = np.zeros(batch.n_speakers, np.int64)
    run_of_speaker[speaker] = np.array(batch.run, np.int64)
    n_steps = np.bincount(speaker, minlength=batch.n_speakers)
    said, of_word, times = np.unique(_keyed(speaker[at], words), return_inverse=True, return_counts=True)
    who, what = _parted(said)
    _, of_said, speakers = np.unique(_keyed(run_of_speaker[who], what), return_inverse=True, return_counts=True)
    own = (speakers == 1)[of_said][of_word]
    constant = ((times == n_steps[who]) & (n_steps[who] > 1))[of_word]
    return own, constant


def _by_place(keyed: Keys, places: Places) -> dict[int, Hashes]:
    """Give each of *places* its distinct hashes, ascending."""
    at, hashes = _parted(_distinct(keyed))
    starts = np.searchsorted(at, places, side="left").tolist()
    ends = np.searchsorted(at, places, side="right").tolist()
    return {place: hashes[start:end] for place, start, end in zip(places.tolist(), starts, ends, strict=True)}


def _distinct(keys: Keys) -> Keys:
    """Sort and leave out what is there already; `numpy.unique` without positions hashes, at ten times the cost."""
    ordered = np.sort(keys)
    return ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])] if len(ordered) else ordered


def _keyed(at: Places, hashes: Hashes) -> Keys:
    """Join places and hashes into numbers that sort by place, then by hash."""
    return (at.astype(np.uint64) << np.uint64(32)) | hashes


def _parted(keyed: Keys) -> tuple[Places, Hashes]:
    """Undo `_keyed`."""
    return (keyed >> np.uint64(32)).astype(np.int64), keyed.astype(np.uint32)


def _joint(words: Hashes, beside: Hashes | np.uint32, namespace: int) -> Hashes:
    return joint_hash(words, np.broadcast_to(beside, words.shape), namespace)


def _seat_code(place: tuple[int, int]) -> int:
    return place[0] * 256 + place[1]


def _facts(trace: MessageActionTrace, agent: _Agent, sizes: Sequence[int]) -> tuple[object, ...]:
    return (
        agent.place,
        min(len(sizes), _MAX_AGENTS),
        int(2 * math.log2(sum(sizes) / len(sizes) + 1)),
        trace.steps[-1].agent == agent.name,
        trace.steps[0].agent == agent.name,
        min(len(trace.steps), _MAX_STEPS) // 2,
    )


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
