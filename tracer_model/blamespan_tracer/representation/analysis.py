"""All that is found out about a run before it is laid out for a model, or judged by contracts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from blamespan.lazy import lazy_property
from blamespan.trace import MessageActionTrace
from blamespan_tracer.representation.claims import Claims, Dependencies, Floats, Segments, dependencies, find_claims
from blamespan_tracer.representation.equations import Equation, equations
from blamespan_tracer.representation.facts import Facts, find_facts
from blamespan_tracer.representation.inputs import Inputs, read_inputs, with_inputs
from blamespan_tracer.representation.merging import MergedStep, merge
from blamespan_tracer.representation.objections import find_objections, name_tokens
from blamespan_tracer.representation.own_words import own_words
from blamespan_tracer.representation.reading import Ints, Mask, Reading, read_texts
from blamespan_tracer.representation.repetition import Repetition, find_repetition
from blamespan_tracer.representation.sentences import Sentence, read_sentences
from blamespan_tracer.representation.similarity import Similarity, find_similarity
from blamespan_tracer.representation.tool_calls import Call, calls_of, routine_words

__all__ = ["Analysis", "added", "analyse"]


@dataclass(frozen=True)
class Analysis:
    """All that is known of a run when its features are computed.

    Attributes:
        trace: The run.
        steps: The merged steps.
        owner: For each original step which merged one it belongs to.
        reading: The run's tokens, the task's first.
        segments: What each segment is.
        claims: What is claimed, and whose word it was first.
        inputs: What agents were given beside the messages of the run.
        depends: Who builds on whom.
        facts: What is stated, and where that contradicts.
        repetition: What was said before.
        similarity: What is alike.
        objecting: (O,) who objects,
        objected: (O,) to what.
        equations: The sums of each segment in which an agent speaks, but for calls.
        sums: (N,) how many written sums each step has, and
        wrong_sums: (N,) how many of them do not hold.
        agent: (N,) labels.
        decides: (N,) which steps can be blamed.
        labels: (V,) which tokens are names of agents.
        calls: The tool calls, in order.
        routine: What calls say whatever they are about, see `tool_calls.routine_words`.
    """

    trace: MessageActionTrace
    steps: list[MergedStep]
    owner: list[int]
    reading: Reading
    segments: Segments
    claims: Claims
    inputs: Inputs
    depends: Dependencies
    facts: Facts
    repetition: Repetition
    similarity: Similarity
    objecting: Ints
    objected: Ints
    equations: Mapping[int, tuple[Equation, ...]]
    sums: Ints
    wrong_sums: Ints
    agent: Ints
    decides: Mask
    labels: Mask
    calls: list[Call]
    routine: Ints

    @lazy_property
    def sentences(self) -> list[Sentence]:
        """Its sentences, in order."""
        return read_sentences(self.reading, self.claims, self.facts.stated)

    @lazy_property
    def is_brought_in(self) -> Mask:
        """Which occurrences of claims an agent brings into the run in its words: as `Claims.claim`."""
        claims, segments = self.claims, self.segments
        is_first = (claims.segment == claims.source) | (segments.owner[claims.segment] == segments.owner[claims.source])
        is_brought_in: Mask = segments.is_said[claims.segment] & is_first & ~claims.in_code
        return is_brought_in & ~segments.is_result[claims.source]

    def per_step(self, values: Floats | Ints | Mask, of: Mask) -> Floats:
        """Add up (G,) *values* of the segments that *of* marks, per step: (N,)."""
        chosen = of & (self.segments.owner >= 0)
        return added(self.segments.owner[chosen], values[chosen].astype(np.float64), len(self.steps))


def analyse(trace: MessageActionTrace, *, turns: bool = False) -> Analysis:
    """Find all that the features, the edges and the contracts of a run are made of; of *turns*, see `merge`."""
    steps, owner = merge(trace, turns=turns)
    names = list(dict.fromkeys(step.agent for step in steps))
    reading = read_texts([trace.task, *own_words(trace)], names)
    label = {name: number for number, name in enumerate(names)}
    segments = _segments(trace, steps, owner, label)
    named = name_tokens(reading, names)
    agent = np.array([label[step.agent] for step in steps], np.int64)
    decides = np.array([step.can_be_blamed for step in steps], np.bool_)
    inputs = read_inputs(trace)
    claims = with_inputs(find_claims(reading, named >= 0, segments.is_call), reading, inputs)
    facts = find_facts(reading, segments)
    objecting, objected = find_objections(reading, segments, facts, agent, decides, named)
    said = np.flatnonzero(segments.is_said & ~segments.is_call).tolist()
    sums_of = {place: equations(reading.texts[place]) for place in said}
    sums, wrong_sums = _counted(sums_of, segments, len(steps))
    calls = calls_of(trace)
    plans = np.array([any(step.kind == "plan" for step in merged.said) for merged in steps], np.bool_) & decides
    return Analysis(
        trace=trace,
        steps=steps,
        owner=owner,
        reading=reading,
        segments=segments,
        claims=claims,
        inputs=inputs,
        depends=dependencies(claims, segments, len(steps)),
        facts=facts,
        repetition=find_repetition(reading, segments, len(steps)),
        similarity=find_similarity(reading, segments, agent, np.flatnonzero(decides), plans),
        objecting=objecting,
        objected=objected,
        equations=sums_of,
        sums=sums,
        wrong_sums=wrong_sums,
        agent=agent,
        decides=decides,
        labels=named >= 0,
        calls=calls,
        routine=routine_words(calls, reading),
    )


def _segments(
    trace: MessageActionTrace, steps: Sequence[MergedStep], owner: Sequence[int], label: Mapping[str, int]
) -> Segments:
    is_result = np.array([False, *(step.kind == "tool_result" for step in trace.steps)], np.bool_)
    owners = np.array([-1, *owner], np.int64)
    decides = np.array([*(step.can_be_blamed for step in steps), False], np.bool_)[owners]  # the last one: the task
    said_by = np.array([-1, *(label.get(step.agent, -1) for step in trace.steps)], np.int64)
    return Segments(
        owner=owners,
        is_given=~decides & ~is_result,
        is_result=is_result,
        is_call=np.array([False, *(step.kind == "tool_call" for step in trace.steps)], np.bool_),
        speaker=np.where(is_result, -1, said_by),
    )


def _counted(sums_of: Mapping[int, tuple[Equation, ...]], segments: Segments, n_steps: int) -> tuple[Ints, Ints]:
    """Count, per step, the sums an agent writes, and those that do not hold."""
    sums, wrong = np.zeros((2, n_steps), np.int64)
    for place, found in sums_of.items():
        sums[segments.owner[place]] += len(found)
        wrong[segments.owner[place]] += sum(not equation.holds for equation in found)
    return sums, wrong


def added(place: Ints, weight: Floats, size: int) -> Floats:
    """Add up *weight* by *place*: (size,)."""
    return np.bincount(place, weight, minlength=size).astype(np.float64, copy=False)  # numpy's types say integers
