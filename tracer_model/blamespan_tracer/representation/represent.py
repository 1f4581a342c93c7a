"""From a run to what a model sees of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from blamespan.trace import MessageActionTrace, Step
from blamespan_tracer.representation.analysis import Analysis, analyse
from blamespan_tracer.representation.claims import Floats, Segments
from blamespan_tracer.representation.cues import CUES
from blamespan_tracer.representation.features import step_features
from blamespan_tracer.representation.merging import MergedStep
from blamespan_tracer.representation.reading import MAX_STEP_CHARS, Flag, Ints, Reading
from blamespan_tracer.representation.record import EDGE_TYPES, Representation
from blamespan_tracer.representation.roles import find_roles

__all__ = ["represent"]


def represent(trace: MessageActionTrace, analysis: Analysis | None = None) -> Representation:
    """Read a run as decisions, edges and features.

    Args:
        trace: The run.
        analysis: What `analyse` found out about it, where that is known already.

    Agents are told apart, but their names are not read, except as a weak hint at what each does in the team. Time
    grows with the length of the run, not with its square; of long texts only the ends are read.
    """
    run = analysis or analyse(trace)
    labels = list(dict.fromkeys(step.agent for step in run.steps))
    roles = _roles(run, labels)
    edges, weights = _edges(run)
    texts = _by_step(run.reading, run.segments, is_result=False)
    return Representation(
        trace_id=trace.trace_id,
        task=run.reading.texts[0],
        texts=texts,
        results=_by_step(run.reading, run.segments, is_result=True),
        origins=tuple(tuple(step.index for step in merged.said) for merged in run.steps),
        agents=tuple(labels),
        agent=run.agent,
        role=roles[run.agent] if len(run.agent) else run.agent,
        can_be_blamed=run.decides,
        edges=edges,
        edge_weights=weights,
        features=step_features(run),
    )


def _by_step(reading: Reading, segments: Segments, *, is_result: bool) -> tuple[str, ...]:
    """Join, per step, what was read of what is said, or of what tools answered; not longer than one step may be."""
    parts: list[list[str]] = [[] for _ in range(int(segments.owner.max(initial=-1)) + 1)]
    for text, owner, result in zip(reading.texts, segments.owner.tolist(), segments.is_result.tolist(), strict=True):
        if owner >= 0 and result == is_result and text:
            parts[owner].append(text)
    return tuple(_shortened("\n".join(part)) for part in parts)


def _shortened(text: str) -> str:
    half = MAX_STEP_CHARS // 2
    return text if len(text) <= MAX_STEP_CHARS else f"{text[:half]}\n{text[-half:]}"


def _edges(run: Analysis) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    depends = run.depends
    into = np.bincount(depends.target, depends.weight, minlength=len(run.steps))
    order = np.arange(len(run.steps))
    by_agent = np.argsort(run.agent, kind="stable")
    same = run.agent[by_agent[1:]] == run.agent[by_agent[:-1]]
    reply, addressed = _reply(run.trace.steps, run.owner), _addressed(run.steps)
    found = {
        "time": (order[:-1], order[1:]),
        "same agent": (by_agent[:-1][same], by_agent[1:][same]),
        "reply": (reply[:, 0], reply[:, 1]),
        "depends": (depends.source, depends.target),
        "objects": (run.objecting, run.objected),
        "addressed": (addressed[:, 0], addressed[:, 1]),
    }
    rows = [np.stack([np.full(len(found[kind][0]), n), *found[kind]]) for n, kind in enumerate(EDGE_TYPES)]
    weights = [np.ones(row.shape[1]) for row in rows]
    weights[EDGE_TYPES.index("depends")] = depends.weight / np.where(into > 0, into, 1.0)[depends.target]
    return np.concatenate(rows, axis=1).astype(np.int64), np.concatenate(weights).astype(np.float32)


_MAX_REPLIES = 8
"""Most links that one step is read to have: the latest. A hub that is linked to all before it grows no square."""


def _reply(steps: Sequence[Step], owner: Sequence[int]) -> NDArray[np.int64]:
    pairs = dict.fromkeys(
        (owner[before], owner[step.index])
        for step in steps
        if step.kind != "tool_result"
        for before in step.inputs[-_MAX_REPLIES:]
        if owner[before] < owner[step.index]
    )
    return np.array(list(pairs), np.int64).reshape(-1, 2)


def _addressed(steps: Sequence[MergedStep]) -> NDArray[np.int64]:
    """Lead from each step to the next one of every agent it is addressed to, the first eight of them."""
    next_of: dict[str, int] = {}
    pairs: list[tuple[int, int]] = []
    for place in range(len(steps) - 1, -1, -1):
        names = dict.fromkeys(name for step in steps[place].said for name in step.recipients)
        known = [next_of[name] for name in list(names)[:_MAX_REPLIES] if name in next_of]
        pairs += [(place, after) for after in known]
        next_of[steps[place].agent] = place
    return np.array(sorted(pairs), np.int64).reshape(-1, 2)


def _roles(run: Analysis, names: Sequence[str]) -> Ints:
    """Return each agent's role by how it behaves over all its steps."""
    n_agents = len(names)
    steps = np.bincount(run.agent, minlength=n_agents)
    reading, said = run.reading, run.segments.is_said & (run.segments.owner >= 0)
    words = run.per_step(reading.count(reading.has(Flag.WORD)), said)
    size = np.bincount(run.agent, words, minlength=n_agents).clip(min=1)

    def rate(*cues: str) -> Floats:
        hits = sum(run.per_step(reading.cue[:, CUES.index(cue)], said) for cue in cues)
        per_word: Floats = np.bincount(run.agent, hits, minlength=n_agents) / size
        return per_word

    def share(of: NDArray[np.bool_]) -> Floats:
        taken: Floats = np.bincount(run.agent, of, minlength=n_agents) / steps.clip(min=1)
        return taken

    calls = np.array([any(s.kind == "tool_call" for s in m.said) for m in run.steps], np.bool_)
    hands = np.array([any(s.kind == "handoff" for s in m.said) for m in run.steps], np.bool_)
    plans = np.array([any(s.kind == "plan" for s in m.said) for m in run.steps], np.bool_)
    code = run.per_step(reading.count(reading.has(Flag.FENCE)), said) > 0
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
    return find_roles([roles[name] for name in names], behaviour, steps)


def _addresses_one(steps: Sequence[MergedStep]) -> NDArray[np.bool_]:
    return np.array([any(len(step.recipients) == 1 for step in merged.said) for merged in steps], np.bool_)
