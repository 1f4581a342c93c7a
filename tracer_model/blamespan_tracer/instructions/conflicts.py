"""Instructions that disagree: which rule stood, who asked otherwise, and which of the two an agent obeyed.

Who says something has a rank: an agent's own system prompt, the user, an orchestrator, another agent, and last what
tools answer and documents say. Where two of different ranks ask an agent for what it cannot both do, the higher one is
the rule. Of one rank, who spoke last counts, so that a user may change their mind.

What is read is bounded: time grows with the run. Sources: "Diagnose, Localize, Align" (instruction conflicts in systems
of agents); "The Instruction Hierarchy" (arXiv 2404.13208) for the order of ranks.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from blamespan.conventions import STEP_INSTRUCTIONS, SYSTEM_INSTRUCTIONS, TOOL_NAME
from blamespan.genai_messages import text_of
from blamespan.trace import MessageActionTrace, Step
from blamespan_tracer.instructions.acts import FORM_KINDS, Act, ObeyedSide, judge_act
from blamespan_tracer.instructions.demands import KINDS, Demand, DemandKind, are_opposed, can_be_rule, read_demands

Speaker: TypeAlias = Literal["system", "user", "orchestrator", "agent", "tool"]
"""Who demands something, from the highest rank down; what documents say counts as a tool's."""

_RANKS: Final[Mapping[Speaker, int]] = {"system": 4, "user": 3, "orchestrator": 2, "agent": 1, "tool": 0}
_ORCHESTRATES = re.compile(
    r"(?i)orchestrat|supervis|coordinat|manager|lead(?:er)?(?![a-z])|director|chief|captain|boss"
)
_LEADS = re.compile(r"(?i)\byou (?:coordinate|supervise|manage|lead|orchestrate|direct)\b")
_RULING: Final = 2
"""Lowest rank of who states rules: what agents ask of each other binds nobody."""
_MAX_RECENT = 16
"""Most demands of one kind that others said of late and that are held against an agent's rules."""
_MAX_PAIRS = 64
"""Most conflicts of one agent that are looked at in each of its steps: the latest."""
_LEAST_ANSWER = 4
"""Words of a message, from which on it may be the run's answer: "Approved." is none."""
_BEFORE = -1
"""Stands for what was there before all steps."""


@dataclass(frozen=True, slots=True)
class StatedDemand:
    """Where a demand stands.

    Attributes:
        step: Index of the step that says it, or that was given it; None for the task.
        quote: Its words.
        by: Who demands it.
        name: Of the agent or the tool that says it; of a system prompt, whose it is.
    """

    step: int | None
    quote: str
    by: Speaker
    name: str = ""


@dataclass(frozen=True, slots=True)
class InstructionConflict:
    """Two instructions that an agent could not both follow, and what it did.

    Attributes:
        step: Index of the step at which it did it.
        agent: Who.
        kind: What both are about.
        obeyed: The `higher` instruction, which is sound, or the `lower`.
        rule: The higher one.
        request: The lower one.
        quote: What the agent did, in its words.
    """

    step: int
    agent: str
    kind: DemandKind
    obeyed: ObeyedSide
    rule: StatedDemand
    request: StatedDemand
    quote: str


@dataclass(frozen=True, slots=True)
class _Heard:
    """A demand as an agent hears it.

    Attributes:
        demand: What is demanded.
        source: Where it stands.
        index: Step from which on it is heard, -1 from the start.
        to: Who hears it; None for everybody.
    """

    demand: Demand
    source: StatedDemand
    index: int
    to: frozenset[str] | None = None

    @property
    def rank(self) -> int:
        return _RANKS[self.source.by]

    def reaches(self, agent: str) -> bool:
        """Check whether *agent* hears it, which nobody does of itself."""
        return self.source.name != agent if self.to is None else agent in self.to


_OpenConflict: TypeAlias = tuple[_Heard, _Heard]
"""A rule and what is asked against it, until it shows which is obeyed."""


def _key(pair: _OpenConflict) -> tuple[object, ...]:
    """Return what two pairs share that are one conflict: the rule, and what is asked otherwise, or else its words."""
    rule, request = pair
    demand = request.demand
    has_gist = demand.kind != "choice" and (demand.value or demand.number)
    gist = demand.value if has_gist else demand.quote
    return rule.source.step, rule.source.quote, request.rank, demand.kind, demand.is_wanted, gist, demand.number


@dataclass
class _AgentState:
    """What is known of an agent while its steps are gone through.

    Attributes:
        rules: What its system prompts, and documents that it was given, demand, by kind.
        pairs: Conflicts that it has not decided yet.
        seen: Up to which step others were heard.
        has_asked: Whether it asked anything.
    """

    rules: dict[DemandKind, list[_Heard]]
    pairs: dict[tuple[object, ...], _OpenConflict] = field(default_factory=dict)
    seen: int = _BEFORE
    has_asked: bool = False


def find_conflicts(trace: MessageActionTrace) -> list[InstructionConflict]:
    """Find where instructions disagree and which an agent obeyed, each conflict once, in the order of the steps."""
    return list(_ConflictReader(trace).read())


class _ConflictReader:
    """Goes through a run once, step by step."""

    def __init__(self, trace: MessageActionTrace) -> None:
        self._trace = trace
        self._roles = {agent.name: agent.role for agent in trace.agents}
        systems = read_systems(trace)
        self._leads = {
            name
            for name, role in self._roles.items()
            if role == "agent"
            and (_ORCHESTRATES.search(name) or any(_LEADS.search(text) for _, text, is_own in systems[name] if is_own))
        }
        self._agents = {name: _AgentState(_read_rules(name, texts)) for name, texts in systems.items()}
        self._said: dict[DemandKind, list[_Heard]] = defaultdict(list)
        self._ruled: set[DemandKind] = set()
        for demand in read_demands(trace.task):
            self._add(_Heard(demand, StatedDemand(None, demand.quote, "user"), _BEFORE))
        for state in self._agents.values():
            self._ruled.update(kind for kind, rules in state.rules.items() if any(map(_is_rule, rules)))
        self._answer = _find_answer(trace)
        self._is_team = sum(role == "agent" for role in self._roles.values()) > 1

    def read(self) -> Iterator[InstructionConflict]:
        """Yield the conflicts."""
        if not self._may_conflict():
            return
        own_tools: dict[str, list[str]] = defaultdict(list)
        for step in self._trace.steps:
            if self._trace.can_be_blamed(step):
                yield from self._judge(step, own_tools)
            if step.kind in ("tool_call", "tool_result"):
                own_tools[step.agent].append(step.content)
            self._hear(step)

    def _may_conflict(self) -> bool:
        """Check whether anybody of a rank above agents states a rule, or may yet."""
        return bool(self._ruled) or bool(self._leads) or "user" in self._roles.values()

    def _add(self, heard: _Heard) -> None:
        self._said[heard.demand.kind].append(heard)
        if _is_rule(heard):
            self._ruled.add(heard.demand.kind)

    def _hear(self, step: Step) -> None:
        speaker: Speaker = "tool" if step.kind == "tool_result" else "agent"
        if speaker == "agent":
            role = self._roles[step.agent]
            speaker = "user" if role == "user" else "tool" if role == "executor" else "agent"
            if step.agent in self._leads:
                speaker = "orchestrator"
        if step.kind == "tool_call" or not step.content:
            return
        to: frozenset[str] | None = frozenset(step.recipients) or None
        name = step.agent
        if step.kind == "tool_result" and self._roles[step.agent] == "agent":
            to, name = frozenset({step.agent}), ""
        kinds = KINDS if _RANKS[speaker] >= _RULING else frozenset(self._ruled)
        for demand in read_demands(step.content, kinds):
            self._add(_Heard(demand, StatedDemand(step.index, demand.quote, speaker, name), step.index, to))

    def _judge(self, step: Step, own_tools: Mapping[str, list[str]]) -> Iterator[InstructionConflict]:
        state = self._agents[step.agent]
        self._find_pairs(step, state)
        if not state.pairs:
            state.has_asked = state.has_asked or "?" in step.content
            return
        act = _read_act(step, own_tools.get(step.agent, ()), self._trace, has_asked=state.has_asked)
        for key, pair in list(state.pairs.items())[-_MAX_PAIRS:]:
            rule, request = pair
            side = judge_act(rule.demand, request.demand, act) if self._is_meant(rule, step) else None
            if side is None:
                continue
            del state.pairs[key]
            sources = rule.source, request.source
            yield InstructionConflict(step.index, step.agent, rule.demand.kind, side, *sources, act.text.strip())
        state.has_asked = state.has_asked or act.is_question

    def _is_meant(self, rule: _Heard, step: Step) -> bool:
        """Check whether a step is of those that a rule is about: a user's rule on form is on the run's answer."""
        is_of_form = rule.source.by == "user" and rule.demand.kind in FORM_KINDS
        return not is_of_form or not self._is_team or step.index == self._answer

    def _find_pairs(self, step: Step, state: _AgentState) -> None:
        """Add the conflicts between what an agent knew and what it heard since its last step."""
        for kind in sorted(self._ruled):
            said = [heard for heard in self._said[kind][-_MAX_RECENT:] if heard.reaches(step.agent)]
            fresh = [heard for heard in said if heard.index > state.seen or state.seen == _BEFORE]
            own = state.rules.get(kind, [])
            fresh += own if state.seen == _BEFORE else ()
            if fresh:
                for pair in _pair_up([*own, *said], fresh):
                    state.pairs[_key(pair)] = pair
        state.seen = step.index


def _pair_up(known: Sequence[_Heard], fresh: Sequence[_Heard]) -> Iterator[_OpenConflict]:
    """Yield the conflicts between what an agent knows, one of each two being new to it."""
    new = {id(heard) for heard in fresh}
    for rule in filter(_is_rule, known):
        requests = known if id(rule) in new else fresh
        opposed = [
            request for request in requests if request.rank < rule.rank and are_opposed(rule.demand, request.demand)
        ]
        if opposed and not _is_overruled(rule, known):
            yield from ((rule, request) for request in opposed)


def _is_rule(heard: _Heard) -> bool:
    """Check whether a demand can be the rule of a conflict."""
    return heard.rank >= _RULING and can_be_rule(heard.demand)


def _is_overruled(rule: _Heard, known: Iterable[_Heard]) -> bool:
    """Check whether somebody of the same rank, later, or of a higher one says otherwise than *rule*."""
    return any(
        (other.rank > rule.rank or (other.rank == rule.rank and other.index > rule.index))
        and are_opposed(other.demand, rule.demand)
        for other in known
    )


def read_systems(trace: MessageActionTrace) -> dict[str, list[tuple[int, str, bool]]]:
    """Return for each agent what it was given: the step's index, a text, and whether that is an instruction of its own.

    A framework may show them at any of the agent's steps: they hold from the start.
    """
    systems: dict[str, list[tuple[int, str, bool]]] = {agent.name: [] for agent in trace.agents}
    for step in trace.steps:
        if not step.input_text and SYSTEM_INSTRUCTIONS not in step.attributes:
            continue
        own = systems[step.agent]
        stretches = step.attributes.get(STEP_INSTRUCTIONS)
        ends = [end for end in stretches if isinstance(end, int)] if isinstance(stretches, Sequence) else []
        if not ends and SYSTEM_INSTRUCTIONS in step.attributes:
            text = text_of(step.attributes[SYSTEM_INSTRUCTIONS])
            own.append((step.index, text, True))
        place = 0
        for first, end in zip(ends[::2], ends[1::2], strict=False):
            if first > place:
                own.append((step.index, step.input_text[place:first], False))
            own.append((step.index, step.input_text[first:end], True))
            place = end
        if step.input_text[place:].strip():
            own.append((step.index, step.input_text[place:], False))
    return systems


def _read_rules(agent: str, texts: Sequence[tuple[int, str, bool]]) -> dict[DemandKind, list[_Heard]]:
    rules: dict[DemandKind, list[_Heard]] = defaultdict(list)
    for index, text, is_own in texts:
        for demand in read_demands(text):
            source = StatedDemand(index, demand.quote, "system" if is_own else "tool", agent)
            rules[demand.kind].append(_Heard(demand, source, _BEFORE))
    return rules


def _find_answer(trace: MessageActionTrace) -> int:
    """Return the index of the message that is the run's answer; -1 where there is none."""
    messages = [step for step in trace.steps if step.kind == "message" and trace.can_be_blamed(step)]
    long = [step for step in messages if len(step.content.split()) >= _LEAST_ANSWER]
    return (long or messages)[-1].index if messages else _BEFORE


def _read_act(step: Step, own_tools: Sequence[str], trace: MessageActionTrace, *, has_asked: bool) -> Act:
    if step.kind == "tool_call":
        named = step.attributes.get(TOOL_NAME)
        tool = named if isinstance(named, str) else step.content.partition("(")[0]
        return Act(step.content, tool.strip(), has_asked)
    text = step.content
    following = trace.steps[step.index + 1 : step.index + 2]
    for other in (*own_tools[-8:], *(next_.content for next_ in following if next_.kind == "tool_call")):
        if other and other in text:
            text = text.replace(other, "", 1)
    return Act(text.strip(), "", has_asked)
