"""What the lexical tracer reads off a run: hashed words of each agent, and where it sits.

Words of the task are left out: they tell what a run is about, not what went wrong in it. Agent names
are never read: they are labels of one run. An agent's *seat* is where it stands among the agents
that can be blamed, in order of first speaking, and how many those are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from blamespan.trace import MessageActionTrace
from blamespan_tracer.tokens import MAX_TEXT_CHARS, Hashes, Places, Tokens, joint_hash, tokens_of

_WORD, _SEATED_WORD, _OWN_WORD, _OPENING_WORD, _CONSTANT_WORD = 1, 2, 3, 4, 5
"""Namespaces of text features, kept apart under one hash: a word; a word said in this seat; a word nobody else
says; a word of the agent's first step; a word of every step it takes, if it takes several."""

_MAX_SEAT, _MAX_AGENTS, _MAX_STEPS = 7, 8, 20
"""Larger runs share the last class: AEGIS holds too few of them to tell apart."""

_BATCH_CHARS = 500_000
"""Texts read together: past it nothing is gained, and a million characters take some 100 MB."""

Keys: TypeAlias = NDArray[np.uint64]
Mask: TypeAlias = NDArray[np.bool_]
Weights: TypeAlias = NDArray[np.float64]


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
    """Read the features of one run."""
    return read_batch([trace])[0]


def read_batch(traces: Sequence[MessageActionTrace]) -> list[list[AgentFeatures]]:
    """Return, for each run, the features of every agent that can be blamed for a step, in order of first speaking.

    Agents without any token in these steps are left out: there is nothing to judge them by. Runs do not touch each
    other: they are read together because numpy is fast on long arrays only.
    """
    batch = _Batch()
    for trace in traces:
        batch.add(trace)
    said = tokens_of(batch.texts)
    sizes = said.sizes.tolist()
    words = _words(batch, said)
    text, opening = _text_hashes(batch, words)
    found: list[list[AgentFeatures]] = [[] for _ in traces]
    for agent in batch.agents:
        n_words = [sizes[place] for place in agent.places]
        if any(n_words):
            first = batch.first_step[agent.run]
            found[agent.run].append(
                AgentFeatures(
                    agent.name,
                    tuple([place - first for place in agent.places]),
                    tuple([text[place] for place in agent.places]),
                    opening[agent.places[0]],
                    agent.place,
                    _seat_hashes(*_facts(traces[agent.run], agent, n_words)),
                )
            )
    return found


def in_batches(traces: Sequence[MessageActionTrace]) -> Iterator[Sequence[MessageActionTrace]]:
    """Part *traces* so that numpy has long arrays to work on and memory stays bounded."""
    start = n_chars = 0
    for end, trace in enumerate(traces, 1):
        n_chars += sum(min(len(step.content), MAX_TEXT_CHARS) for step in trace.steps)
        if n_chars >= _BATCH_CHARS or end == len(traces):
            yield traces[start:end]
            start, n_chars = end, 0


@dataclass(frozen=True, slots=True)
class _StepWords:
    """The distinct words of each step, but for those of its run's task.

    Attributes:
        at: (W,) the place of the step, ascending.
        words: (W,) their hashes, ascending in each step.
        own: (W,) whether the speaker alone says it.
        constant: (W,) whether the speaker says it in every step, if there are several.
        seats: (N,) code of the seat that the step's agent has, 0 where nobody can be blamed for it.
    """

    at: Places
    words: Hashes
    own: Mask
    constant: Mask
    seats: Hashes

    def features(self, chosen: Places) -> tuple[Places, Hashes]:
        """Hash the features that some of the words, given by number, give rise to as words of any step.

        Returns:
            (F,) which of *chosen*, and (F,) the feature.
        """
        words, none = self.words[chosen], np.uint32(0)
        every, own, constant = np.arange(len(chosen)), *map(np.flatnonzero, (self.own[chosen], self.constant[chosen]))
        hashes = [
            _joint(words, none, _WORD),
            _joint(words, self.seats[self.at[chosen]], _SEATED_WORD),
            _joint(words[own], none, _OWN_WORD),
            _joint(words[constant], none, _CONSTANT_WORD),
        ]
        return np.concatenate([every, every, own, constant]), np.concatenate(hashes)


@dataclass(slots=True)
class _BatchAgent:
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
    agents: list[_BatchAgent] = field(default_factory=list)
    n_speakers: int = 0

    def add(self, trace: MessageActionTrace) -> None:
        """Append one run."""
        run = len(self.tasks)
        self.first_step.append(len(self.texts))
        self.tasks.append(trace.task)
        blamed: dict[str, _BatchAgent] = {}
        speakers: dict[tuple[bool, str], int] = {}
        for step in trace.steps:
            can_be_blamed = trace.can_be_blamed(step)
            speaker = speakers.setdefault((can_be_blamed, step.agent), self.n_speakers + len(speakers))
            if can_be_blamed:
                agent = blamed.setdefault(step.agent, _BatchAgent(run, step.agent, speaker, (0, 0)))
                agent.places.append(len(self.texts))
            self.texts.append(step.content)
            self.run.append(run)
            self.speaker.append(speaker)
        self.n_speakers += len(speakers)
        for row, agent in enumerate(blamed.values()):
            agent.place = (min(row, _MAX_SEAT), min(len(blamed), _MAX_AGENTS))
        self.agents += blamed.values()


def _text_hashes(batch: _Batch, words: _StepWords) -> tuple[dict[int, Hashes], dict[int, Hashes]]:
    """Hash the features of the batch's steps that can be blamed.

    Returns:
        By the step's place its distinct text features, ascending; likewise the opening features of every
        agent's first step.
    """
    is_blamed, is_opening = np.zeros((2, len(batch.texts)), bool)
    for agent in batch.agents:
        is_blamed[agent.places] = True
        is_opening[agent.places[0]] = True
    chosen = np.flatnonzero(is_blamed[words.at])
    of, features = words.features(chosen)
    text = _by_place(_keyed(words.at[chosen][of], features), np.flatnonzero(is_blamed))
    opens = np.flatnonzero(is_opening[words.at])
    openings = _joint(words.words[opens], np.uint32(0), _OPENING_WORD)
    return text, _by_place(_keyed(words.at[opens], openings), np.flatnonzero(is_opening))


def _words(batch: _Batch, said: Tokens) -> _StepWords:
    """List each step's distinct words but the task's, and what they are to their speaker."""
    at, words = _parted(_distinct(_keyed(said.texts, said.hashes)))
    asked = tokens_of(batch.tasks)
    of_tasks = _distinct(_keyed(asked.texts, asked.hashes))
    if len(of_tasks):
        of_steps = _keyed(np.array(batch.run, np.int64)[at], words)
        kept = of_tasks[np.searchsorted(of_tasks, of_steps).clip(max=len(of_tasks) - 1)] != of_steps
        at, words = at[kept], words[kept]
    seats = np.zeros(len(batch.texts), np.uint32)
    for agent in batch.agents:
        seats[agent.places] = agent.place[0] * 256 + agent.place[1]
    return _StepWords(at, words, *_own_and_constant(batch, at, words), seats)


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
    """Return each of *places* its distinct hashes, ascending."""
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


def _facts(trace: MessageActionTrace, agent: _BatchAgent, sizes: Sequence[int]) -> tuple[object, ...]:
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
