"""All that is found out about a run before checks examine it and features are computed of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from blamespan.lazy import lazy_property
from blamespan.trace import MessageActionTrace
from blamespan_tracer.alternatives.network.representation.claims import (
    Claims,
    Dependencies,
    Floats,
    Inputs,
    Segments,
    dependencies,
    find_claims,
    read_run_inputs,
    with_inputs,
)
from blamespan_tracer.alternatives.network.representation.facts import Facts, find_facts, find_objections, name_tokens
from blamespan_tracer.alternatives.network.representation.likeness import (
    Repetition,
    Similarity,
    find_repetition,
    find_similarity,
)
from blamespan_tracer.alternatives.network.representation.reading import Ints, Mask, Reading, read_texts
from blamespan_tracer.alternatives.network.representation.sentences import Sentence, read_sentences
from blamespan_tracer.alternatives.network.representation.steps import (
    Call,
    MergedStep,
    list_calls,
    list_routine_words,
    merge,
)
from blamespan_tracer.ledger.equations import Equation, equations
from blamespan_tracer.own_words import OwnWords


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
        objecting: (O,) who objects,
        objected: (O,) to what.
        equations: The sums of each segment in which an agent speaks, but for calls.
        sums: (N,) how many written sums each step has, and
        wrong_sums: (N,) how many of them do not hold.
        agent: (N,) labels.
        decides: (N,) which steps can be blamed.
        labels: (V,) which tokens are names of agents.
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
    objecting: Ints
    objected: Ints
    equations: Mapping[int, tuple[Equation, ...]]
    sums: Ints
    wrong_sums: Ints
    agent: Ints
    decides: Mask
    labels: Mask

    @lazy_property
    def calls(self) -> list[Call]:
        """The tool calls, in order."""
        return list_calls(self.trace)

    @lazy_property
    def routine(self) -> Ints:
        """What calls say whatever they are about, see `list_routine_words`."""
        return list_routine_words(self.calls, self.reading)

    @lazy_property
    def sentences(self) -> list[Sentence]:
        """Its sentences, in order."""
        return read_sentences(self.reading, self.claims, self.facts.stated)

    @lazy_property
    def similarity(self) -> Similarity:
        """What is alike."""
        is_plan = np.array([any(step.kind == "plan" for step in merged.origins) for merged in self.steps], np.bool_)
        decisions = np.flatnonzero(self.decides)
        return find_similarity(self.reading, self.segments, self.agent, decisions, is_plan & self.decides)

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
        return sum_by(self.segments.owner[chosen], values[chosen].astype(np.float64), len(self.steps))


def analyse(trace: MessageActionTrace, *, turns: bool = False) -> Analysis:
    """Find all that the features, the edges and the checks of a run are made of; of *turns*, see `merge`."""
    steps, owner = merge(trace, turns=turns)
    names = list(dict.fromkeys(step.agent for step in steps))
    reading = read_texts([trace.task, *OwnWords.of_run(trace.steps)], names)
    label = {name: number for number, name in enumerate(names)}
    segments = _describe_segments(trace, steps, owner, label)
    agent_named = name_tokens(reading, names)
    agent = np.array([label[step.agent] for step in steps], np.int64)
    decides = np.array([step.can_be_blamed for step in steps], np.bool_)
    inputs = read_run_inputs(trace)
    claims = with_inputs(find_claims(reading, agent_named >= 0, segments.is_call), reading, inputs)
    facts = find_facts(reading, segments)
    objecting, objected = find_objections(reading, segments, facts, agent, decides, agent_named)
    spoken = np.flatnonzero(segments.is_said & ~segments.is_call).tolist()
    sums_of = {segment: equations(reading.texts[segment]) for segment in spoken}
    sums, wrong_sums = _count_sums(sums_of, segments, len(steps))
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
        objecting=objecting,
        objected=objected,
        equations=sums_of,
        sums=sums,
        wrong_sums=wrong_sums,
        agent=agent,
        decides=decides,
        labels=agent_named >= 0,
    )


def _describe_segments(
    trace: MessageActionTrace, steps: Sequence[MergedStep], owner: Sequence[int], label: Mapping[str, int]
) -> Segments:
    is_result = np.array([False, *(step.kind == "tool_result" for step in trace.steps)], np.bool_)
    owners = np.array([-1, *owner], np.int64)
    decides = np.array([*(step.can_be_blamed for step in steps), False], np.bool_)[owners]  # the last one: the task
    speaker = np.array([-1, *(label.get(step.agent, -1) for step in trace.steps)], np.int64)
    return Segments(
        owner=owners,
        is_given=~decides & ~is_result,
        is_result=is_result,
        is_call=np.array([False, *(step.kind == "tool_call" for step in trace.steps)], np.bool_),
        speaker=np.where(is_result, -1, speaker),
    )


def _count_sums(sums_of: Mapping[int, tuple[Equation, ...]], segments: Segments, n_steps: int) -> tuple[Ints, Ints]:
    """Count, per step, the sums an agent writes, and those that do not hold."""
    sums, wrong = np.zeros((2, n_steps), np.int64)
    for segment, own in sums_of.items():
        sums[segments.owner[segment]] += len(own)
        wrong[segments.owner[segment]] += sum(not equation.holds for equation in own)
    return sums, wrong


def sum_by(index: Ints, weight: Floats, size: int) -> Floats:
    """Add up *weight* by *index*: (size,)."""
    return np.bincount(index, weight, minlength=size).astype(np.float64, copy=False)  # numpy's types say integers
