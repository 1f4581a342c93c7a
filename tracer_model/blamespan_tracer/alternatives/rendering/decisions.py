"""The turns of a run: consecutive steps merged, numbered, and tied to those they build on and object to.

What a tool or executor answers belongs to the decision that asked: it is no decision, and after it a new one begins.
What an agent says before it hears anything new is one decision, as is what people and executors say in a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from blamespan.trace import MessageActionTrace, Step
from blamespan_tracer.checks.reading import read_steps
from blamespan_tracer.ledger import Claim, Ledger, read_ledger
from blamespan_tracer.own_words import OwnWords
from blamespan_tracer.tokens import text_ends

MOST_LINKS = 4
"""Decisions named as what one builds on, or objects to."""

_MOST_INPUTS = 8
"""Latest links of a step that are read: a hub that is linked to all before it grows no square."""


@dataclass(frozen=True, slots=True)
class RenderedDecision:
    """One merged step: what one agent said and did at a stretch.

    Attributes:
        place: Its place among the decisions of the run, from 0.
        label: Index of its first step, as the trace counts.
        agent: Who took it.
        can_be_blamed: Whether it is an agent's decision.
        steps: The steps it is made of.
        lands_on: Index of the step that blame for it lands on, where nothing says otherwise.
        results: What tools answered.
        builds_on: Places of the decisions it uses or answers, the most used first.
        objects_to: Places of those that it says are wrong.
        read: What is said in it, the ends where it is long.
        answered: What tools answered, likewise.
    """

    place: int
    label: int
    agent: str
    can_be_blamed: bool
    steps: tuple[Step, ...]
    lands_on: int
    results: tuple[Step, ...]
    builds_on: tuple[int, ...]
    objects_to: tuple[int, ...]
    read: str
    answered: str

    @property
    def has_error(self) -> bool:
        """Whether it, or what a tool answered to it, ended with an error."""
        return any(step.status == "error" for step in (*self.steps, *self.results))


@dataclass(slots=True)
class _Turn:
    """Steps that are shown as one decision, and what tools answered to them."""

    agent: str
    can_be_blamed: bool
    steps: list[Step]
    results: list[Step] = field(default_factory=list)


def decisions_of(trace: MessageActionTrace, ledger: Ledger | None = None) -> tuple[RenderedDecision, ...]:
    """Merge the steps of *trace* and find what ties them together; none for a run without steps.

    Args:
        trace: The run.
        ledger: Its claims, where they are read already.
    """
    turns, owner = _merge(trace)
    ledger = ledger or read_ledger(trace)
    own_words = OwnWords.of_run(trace.steps)
    objected = _find_objections(trace, ledger, turns, owner)
    decisions = []
    for place, turn in enumerate(turns):
        decisions.append(
            RenderedDecision(
                place,
                turn.steps[0].index,
                turn.agent,
                turn.can_be_blamed,
                tuple(turn.steps),
                max(turn.steps, key=lambda step: (_news(ledger.claims[step.index]), -step.index)).index,
                tuple(turn.results),
                _list_built_on(turn, place, owner, ledger.claims),
                tuple(sorted(objected.get(place, ())))[:MOST_LINKS],
                _join(own_words[step.index] for step in turn.steps),
                _join(step.content for step in turn.results),
            )
        )
    return tuple(decisions)


def _merge(trace: MessageActionTrace) -> tuple[list[_Turn], list[int]]:
    """Merge the steps of a run; where one agent alone decides, each of its messages stays a decision of its own.

    Returns:
        The turns in order, and for each step which of them it belongs to.
    """
    is_alone = len({step.agent for step in trace.steps if trace.can_be_blamed(step)}) == 1
    turns: list[_Turn] = []
    owner: list[int] = []
    for step in trace.steps:
        if step.kind == "tool_result" and turns:
            owner.append(owner[step.inputs[-1]] if step.inputs else len(turns) - 1)
            turns[owner[-1]].results.append(step)
            continue
        can_be_blamed = trace.can_be_blamed(step)
        if turns and not (can_be_blamed and is_alone) and _goes_on(step, turns[-1], can_be_blamed=can_be_blamed):
            turns[-1].steps.append(step)
        else:
            turns.append(_Turn(step.agent, can_be_blamed, [step]))
        owner.append(len(turns) - 1)
    return turns, owner


def _goes_on(step: Step, last: _Turn, *, can_be_blamed: bool) -> bool:
    return (
        step.agent == last.agent
        and can_be_blamed == last.can_be_blamed
        and step.kind not in ("tool_result", "tool_call")
        and last.steps[-1].kind != "tool_call"
        and last.steps[-1].index == step.index - 1
    )


def _news(claims: Iterable[Claim]) -> float:
    """Weigh what a step states that no source has: blame for a decision lands where that is most."""
    return sum(claim.information for claim in claims if claim.support is None)


def _list_built_on(turn: _Turn, place: int, owner: Sequence[int], claims: Sequence[Sequence[Claim]]) -> tuple[int, ...]:
    """List the earlier turns that a turn is linked to or takes values from, those that it owes most first."""
    owed: dict[int, float] = {}
    for step in turn.steps:
        for before in step.inputs[-_MOST_INPUTS:]:
            owed.setdefault(owner[before], 0.0)
        for claim in claims[step.index]:
            source = claim.support
            if source is not None and source.step >= 0 and not source.is_input:
                owed[owner[source.step]] = owed.get(owner[source.step], 0.0) + claim.information
    earlier = sorted((-weight, other) for other, weight in owed.items() if other < place)
    return tuple(other for _, other in earlier[:MOST_LINKS])


def _find_objections(
    trace: MessageActionTrace, ledger: Ledger, turns: Sequence[_Turn], owner: Sequence[int]
) -> Mapping[int, set[int]]:
    """Return who objects to what.

    A turn that objects points at the last turn of each agent that it names, or, where it names none, at the decision
    before it if another agent took it.
    """
    objected: dict[int, set[int]] = {}
    last_of: dict[str, int] = {}
    before = -1
    for read in read_steps(trace, ledger):
        if not trace.can_be_blamed(read.step):
            continue
        place = owner[read.step.index]
        if "object" in read.hints:
            named = {last_of[name] for name in read.named}
            if named or (before >= 0 and turns[before].agent != read.step.agent):
                objected.setdefault(place, set()).update(named or {before})
        last_of[read.step.agent] = before = place
    return objected


def _join(texts: Iterable[str]) -> str:
    return "\n".join(text_ends("\n".join(filter(None, texts))))
