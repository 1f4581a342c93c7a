"""A run as a model sees it: its decisions, what ties them together, and what each agent does in the team."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from blamespan.trace import Agent, MessageActionTrace, Step
from blamespan_tracer.alternatives.network.representation.analysis import Analysis, analyse
from blamespan_tracer.alternatives.network.representation.claims import Floats, Segments
from blamespan_tracer.alternatives.network.representation.reading import Flag, Ints, Reading
from blamespan_tracer.alternatives.network.representation.steps import MergedStep
from blamespan_tracer.cues import CUES
from blamespan_tracer.tokens import text_ends

EDGE_TYPES = ("time", "same agent", "reply", "depends", "objects", "addressed")
"""What an edge can be, by number; each goes from the earlier step to the later one, but for `objects`, which goes from
who objects to what it objects to.

- time: the next decision or word.
- same agent: this agent's next step.
- reply: the later step builds on the earlier one, as links say.
- depends: the later step uses numbers, names or identifiers that the earlier one brought into the run.
- objects: a later step says that something is wrong and points here.
- addressed: the next step of somebody whom the earlier one was addressed to.
"""

ROLES = ("user", "executor", "orchestrator", "planner", "solver", "researcher", "coder", "checker", "reporter")
"""What an agent can be, by number."""

_NAME_WEIGHT = 0.5
"""What a word of a name counts beside behaviour, which comes to about 1 where it is clear."""

_NAME_WORDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "orchestrator": ("orchestr", "manager", "supervis", "coordinat", "lead", "triage", "selector", "moderator"),
        "planner": ("plan", "architect", "strateg"),
        "solver": ("solv", "math", "expert", "calculat", "debater", "worker"),
        "researcher": ("research", "search", "surf", "retriev", "look", "brows", "reader", "file"),
        "coder": ("cod", "engineer", "program", "develop"),
        "checker": ("check", "verif", "critic", "review", "valid", "test", "audit", "proof", "inspect"),
        "reporter": ("report", "writer", "summar", "judge", "aggregat", "answer", "final", "present"),
    }
)


@dataclass(frozen=True, slots=True)
class Representation:
    """A run as its decisions and what ties them together.

    Dims: N merged steps, A agents, E edges.

    Attributes:
        trace_id: The run's trace.
        task: What the run was asked to do, its ends where it is long.
        texts: (N,) what is said in each step, its beginning and end where it is long.
        results: (N,) what tools answered to it, likewise.
        origins: (N,) the original steps it is made of, ascending, tools' answers not among them.
        agents: (A,) names, in order of first speaking; for the answer, never for the model.
        agent: (N,) int64, who: a label of this run, 0..A-1.
        role: (N,) int64, what it does in the team: a number of `ROLES`.
        can_be_blamed: (N,) bool.
        edges: (3, E) int64: type (a number of `EDGE_TYPES`), from, to.
        edge_weights: (E,) float32, 1 but for `depends`: how much is owed, 0..1 of what that step owes to all.
    """

    trace_id: str
    task: str
    texts: tuple[str, ...]
    results: tuple[str, ...]
    origins: tuple[tuple[int, ...], ...]
    agents: tuple[str, ...]
    agent: NDArray[np.int64]
    role: NDArray[np.int64]
    can_be_blamed: NDArray[np.bool_]
    edges: NDArray[np.int64]
    edge_weights: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.texts)


def represent(trace: MessageActionTrace, analysis: Analysis | None = None) -> Representation:
    """Read a run as decisions and edges.

    Args:
        trace: The run.
        analysis: What `analyse` found out about it, where that is known already.

    Agents are told apart, but their names are not read, except as a weak hint at what each does in the team. Time
    grows with the length of the run, not with its square; of long texts only the ends are read.
    """
    run = analysis or analyse(trace)
    labels = list(dict.fromkeys(step.agent for step in run.steps))
    roles = _find_roles(run, labels)
    edges, weights = _find_edges(run)
    texts = _join_texts(run.reading, run.segments, is_result=False)
    return Representation(
        trace_id=trace.trace_id,
        task=run.reading.texts[0],
        texts=texts,
        results=_join_texts(run.reading, run.segments, is_result=True),
        origins=tuple(tuple(step.index for step in merged.origins) for merged in run.steps),
        agents=tuple(labels),
        agent=run.agent,
        role=roles[run.agent] if len(run.agent) else run.agent,
        can_be_blamed=run.decides,
        edges=edges,
        edge_weights=weights,
    )


def _join_texts(reading: Reading, segments: Segments, *, is_result: bool) -> tuple[str, ...]:
    """Join, per step, what was read of what is said, or of what tools answered; not longer than one step may be."""
    parts: list[list[str]] = [[] for _ in range(int(segments.owner.max(initial=-1)) + 1)]
    for text, owner, result in zip(reading.texts, segments.owner.tolist(), segments.is_result.tolist(), strict=True):
        if owner >= 0 and result == is_result and text:
            parts[owner].append(text)
    return tuple(_shorten("\n".join(part)) for part in parts)


def _shorten(text: str) -> str:
    return "\n".join(text_ends(text))


def _find_edges(run: Analysis) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    depends = run.depends
    into = np.bincount(depends.target, depends.weight, minlength=len(run.steps))
    order = np.arange(len(run.steps))
    by_agent = np.argsort(run.agent, kind="stable")
    same = run.agent[by_agent[1:]] == run.agent[by_agent[:-1]]
    reply, addressed = _list_replies(run.trace.steps, run.owner), _list_addressees(run.steps)
    ends = {
        "time": (order[:-1], order[1:]),
        "same agent": (by_agent[:-1][same], by_agent[1:][same]),
        "reply": (reply[:, 0], reply[:, 1]),
        "depends": (depends.source, depends.target),
        "objects": (run.objecting, run.objected),
        "addressed": (addressed[:, 0], addressed[:, 1]),
    }
    rows = [np.stack([np.full(len(ends[kind][0]), n), *ends[kind]]) for n, kind in enumerate(EDGE_TYPES)]
    weights = [np.ones(row.shape[1]) for row in rows]
    weights[EDGE_TYPES.index("depends")] = depends.weight / np.where(into > 0, into, 1.0)[depends.target]
    return np.concatenate(rows, axis=1).astype(np.int64), np.concatenate(weights).astype(np.float32)


_MAX_REPLIES = 8
"""Most links that one step is read to have: the latest. A hub that is linked to all before it grows no square."""


def _list_replies(steps: Sequence[Step], owner: Sequence[int]) -> NDArray[np.int64]:
    pairs = dict.fromkeys(
        (owner[before], owner[step.index])
        for step in steps
        if step.kind != "tool_result"
        for before in step.inputs[-_MAX_REPLIES:]
        if owner[before] < owner[step.index]
    )
    return np.array(list(pairs), np.int64).reshape(-1, 2)


def _list_addressees(steps: Sequence[MergedStep]) -> NDArray[np.int64]:
    """Lead from each step to the next one of every agent it is addressed to, the first eight of them."""
    next_of: dict[str, int] = {}
    pairs: list[tuple[int, int]] = []
    for row in range(len(steps) - 1, -1, -1):
        names = dict.fromkeys(name for step in steps[row].origins for name in step.recipients)
        pairs += [(row, next_of[name]) for name in list(names)[:_MAX_REPLIES] if name in next_of]
        next_of[steps[row].agent] = row
    return np.array(sorted(pairs), np.int64).reshape(-1, 2)


def _find_roles(run: Analysis, names: Sequence[str]) -> Ints:
    """Return each agent's role by how it behaves over all its steps."""
    n_agents = len(names)
    steps = np.bincount(run.agent, minlength=n_agents)
    reading, is_said = run.reading, run.segments.is_said & (run.segments.owner >= 0)
    words = run.per_step(reading.count(reading.has(Flag.WORD)), is_said)
    size = np.bincount(run.agent, words, minlength=n_agents).clip(min=1)

    def rate(*cues: str) -> Floats:
        hits = sum(run.per_step(reading.cue[:, CUES.index(cue)], is_said) for cue in cues)
        per_word: Floats = np.bincount(run.agent, hits, minlength=n_agents) / size
        return per_word

    def share(of: NDArray[np.bool_]) -> Floats:
        shares: Floats = np.bincount(run.agent, of, minlength=n_agents) / steps.clip(min=1)
        return shares

    calls = np.array([any(s.kind == "tool_call" for s in m.origins) for m in run.steps], np.bool_)
    hands = np.array([any(s.kind == "handoff" for s in m.origins) for m in run.steps], np.bool_)
    plans = np.array([any(s.kind == "plan" for s in m.origins) for m in run.steps], np.bool_)
    code = run.per_step(reading.count(reading.has(Flag.FENCE)), is_said) > 0
    checks = np.minimum(1.0, 15 * rate("check", "agree", "object"))
    first, last = np.zeros((2, n_agents))
    decided = run.agent[run.decides]
    first[decided[:1]] = last[decided[-1:]] = 1.0
    asks = np.minimum(1.0, 10 * rate("request", "you"))
    behaviour = {
        "orchestrator": 0.6 * share(hands) + 0.5 * asks * (share(_addresses_one(run.steps)) + (steps > 2)) / 2,
        "planner": 0.7 * share(plans) + np.minimum(0.7, 10 * rate("plan")) * (0.4 + 0.6 * first),
        "solver": np.minimum(1.0, np.bincount(run.agent, run.sums, minlength=n_agents) / steps.clip(min=1)) + 0.2,
        "researcher": share(calls),
        "coder": share(code),
        "checker": checks * (1.0 - 0.5 * first),
        "reporter": 0.6 * last * np.minimum(1.0, 20 * rate("conclusion", "end")),
    }
    roles = {agent.name: agent for agent in run.trace.agents}
    return _choose_roles([roles[name] for name in names], behaviour)


def _addresses_one(steps: Sequence[MergedStep]) -> NDArray[np.bool_]:
    return np.array([any(len(step.recipients) == 1 for step in merged.origins) for merged in steps], np.bool_)


def _choose_roles(agents: Sequence[Agent], behaviour: Mapping[str, Floats]) -> Ints:
    """Return the likeliest role of each agent.

    Args:
        agents: The A who speak, in order of first speaking.
        behaviour: For each role an agent can be told by, (A,) how much it behaves like that, about 0..1.

    Returns:
        (A,) numbers of `ROLES`.
    """
    scores = np.zeros((len(agents), len(ROLES)))
    for role, likeness in behaviour.items():
        scores[:, ROLES.index(role)] = likeness
    for row, agent in enumerate(agents):
        name = agent.name.lower()
        for role, words in _NAME_WORDS.items():
            if any(word in name for word in words):
                scores[row, ROLES.index(role)] += _NAME_WEIGHT
        if agent.role != "agent":
            scores[row] = np.arange(len(ROLES)) == ROLES.index(agent.role)
    best: Ints = scores.argmax(axis=1) if len(agents) else np.zeros(0, np.int64)
    return best
