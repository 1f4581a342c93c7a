"""Who caught a fault, and how: read off the steps that heard of it, with no knowledge of the team.

A fault puts values into a step that were not there (or takes some away). A later step has *heard* of it if it builds
on that step or on one that carries the wrong values on. The first that has heard of it and does not carry them on,
but objects, asks a tool anew or states the right values, has caught it. What nobody who heard it took up was ignored.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from blamespan_lab.make.faults.text_parts import find_names, find_numbers
from blamespan_lab.rerun.stress.tiers import Tier
from blamespan_lab.rerun.stress.watching import SeenStep, WatchedRun

Catch: TypeAlias = Literal["objection", "tool re-check", "majority", "re-derivation", "self-correction", "ignored"]
"""How a fault was kept from doing harm: somebody objected; asked a tool again; went with the many who said otherwise;
came to the right value in spite of it; whoever erred mended it; or nobody took it up."""

CATCHES: tuple[Catch, ...] = (
    "objection",
    "tool re-check",
    "majority",
    "re-derivation",
    "self-correction",
    "ignored",
)

_OBJECTS = re.compile(
    r"\b(?:wait\b|hold on|one moment|hm\b|something (?:else|has to be corrected)|a difference|an error|"
    r"(?:does not|doesn't|did not) (?:agree|match|add up|hold|pass|meet|survive|do what)|"
    r"please correct|a correction|correction:|needs fixing|object to|i object|disagree|discrepancy|not approve|"
    r"not (?:right|correct|approved|passing|acceptable|what was asked|what i get|written to|"
    r"everything is right|doing what)|cannot (?:confirm|approve)|incorrect|is broken|"
    r"(?:it|is|are) wrong|mistake|fails\b|fail (?:some|its|the|all)|"
    r"should be|must be|rather than|instead of|and not\b|but \d)|"
    r", not (?!done|yet)\S",
    re.IGNORECASE,
)
_NO_OBJECTION = re.compile(
    r"\b(?:no|nothing|not) (?:objections?|remarks?|mistakes?|errors?)\b|nothing to object", re.IGNORECASE
)
_MAJORITY = 2
"""How many must have said otherwise before somebody went with them."""
_SHORTEST_NAME = 3


@dataclass(frozen=True, slots=True)
class InjectedFault:
    """A fault as its label tells it: where, and what stood there before and after.

    Attributes:
        step: Index of its step; None where it is in no step.
        agent: Whose.
        is_in_text: Whether before and after are texts of the run: not instructions, and not where a message goes.
        before: What stood there.
        after: What stands there now.
    """

    step: int | None
    agent: str
    is_in_text: bool
    before: str
    after: str


def is_objection(text: str) -> bool:
    """Return whether *text* says that something is wrong."""
    return bool(_OBJECTS.search(_NO_OBJECTION.sub(" ", text)))


@dataclass(frozen=True, slots=True)
class Caught:
    """Who caught a fault, how, and how many steps after it; nobody and None where it was ignored."""

    by: str
    how: Catch
    steps: int | None


def caught(run: WatchedRun, twin: WatchedRun, fault: InjectedFault) -> Caught:
    """Find who caught *fault* in *run*, which ended well in spite of it; *twin* is the run without it."""
    if fault.step is None or not 0 <= fault.step < len(run.steps):
        return Caught("", "ignored", None)
    listener = _SpanListener(run, twin, fault)
    for step in run.steps[fault.step + 1 :]:
        how = listener.hear(step)
        if how is not None:
            return Caught(step.agent, how, step.index - fault.step)
    return Caught("", "ignored", None)


def tier_of(run: WatchedRun, twin: WatchedRun, catch: Caught) -> Tier:
    """Return by which tier a fault was tolerated in *run*, which ended well in spite of it.

    Args:
        run: With the fault.
        twin: The run without it: what it shows as well has nothing to do with the fault.
        catch: Who caught it.
    """
    here, there = run.defences, twin.defences
    if Counter(here.retries) - Counter(there.retries):
        return "mechanism"
    if Counter(here.rules) - Counter(there.rules):
        return "rule"
    if catch.how == "ignored":
        return "masked"
    is_sent_back = here.sent_back.count(catch.by) > there.sent_back.count(catch.by)
    if catch.by in here.coded or (catch.how == "self-correction" and is_sent_back):
        return "rule"
    return "prompt" if catch.by in here.verifiers else "reasoning"


@dataclass
class _SpanListener:
    """Goes through the steps after a fault, one by one."""

    run: WatchedRun
    twin: WatchedRun
    fault: InjectedFault
    carriers: set[int] = field(default_factory=set)
    asked_anew: set[str] = field(default_factory=set)
    right_from: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert self.fault.step is not None  # else there is nothing to hear of
        index = self.fault.step
        self.carriers.add(index)
        self.twins = _align_steps(self.run, self.twin)
        self.asked = Counter(_call(step) for step in self.twin.steps if step.kind == "tool_call")
        self.asked.subtract(_call(step) for step in self.run.steps[:index] if step.kind == "tool_call")
        own = self.twins.get(index)
        before, after = self.fault.before, self.fault.after
        if not self.fault.is_in_text:
            before, after = own.content if own is not None else "", self.run.steps[index].content
        ours, theirs = _values(before), _values(after)
        self.right, self.wrong = ours - theirs, theirs - ours
        for step in self.run.steps[:index]:
            self._note_right(step)

    def hear(self, step: SeenStep) -> Catch | None:
        """Take in the next step; gives how it catches the fault, if it does."""
        has_heard = bool(self.carriers & set(step.inputs))
        if step.kind == "tool_call" and has_heard and self._is_anew(step):
            self.asked_anew.add(step.agent)
        values = _values(step.content)
        if step.kind in ("tool_call", "tool_result"):
            if has_heard and values & self.wrong:
                self.carriers.add(step.index)
            return None
        how = self._how(step, values) if has_heard else None
        if how is None and has_heard and (values & self.wrong or self._is_changed(step)):
            self.carriers.add(step.index)
        self._note_right(step)
        return how

    def _how(self, step: SeenStep, values: frozenset[str]) -> Catch | None:
        is_own = step.agent == self.fault.agent
        if self._objects(step):
            return "self-correction" if is_own else "objection"
        if values & self.wrong:
            return None
        if step.agent in self.asked_anew:
            return "self-correction" if is_own else "tool re-check"
        if not values & self.right:
            return None
        others = {
            self.right_from[index]
            for index in step.inputs
            if index in self.right_from and self.right_from[index] not in (step.agent, self.fault.agent)
        }
        if len(others) >= _MAJORITY and not is_own:
            return "majority"
        return "self-correction" if is_own else "re-derivation"

    def _objects(self, step: SeenStep) -> bool:
        """Return whether a step objects, and did not do so without the fault."""
        own = self.twins.get(step.index)
        if own is not None and own.content == step.content:
            return False
        return is_objection(step.content)

    def _is_anew(self, step: SeenStep) -> bool:
        """Return whether a tool is asked what it is not asked in the run without the fault."""
        call = _call(step)
        self.asked[call] -= 1
        return self.asked[call] < 0

    def _is_changed(self, step: SeenStep) -> bool:
        own = self.twins.get(step.index)
        return own is not None and own.content != step.content and not self.right and not self.wrong

    def _note_right(self, step: SeenStep) -> None:
        if step.kind not in ("tool_call", "tool_result") and _values(step.content) & self.right:
            self.right_from[step.index] = step.agent


def _align_steps(run: WatchedRun, twin: WatchedRun) -> dict[int, SeenStep]:
    """Return for the n-th step of a kind of each agent the same one of the twin."""
    theirs = defaultdict(list)
    for step in twin.steps:
        theirs[step.agent, step.kind].append(step)
    turns: Counter[tuple[str, str]] = Counter()
    twin_of: dict[int, SeenStep] = {}
    for step in run.steps:
        turn = turns[step.agent, step.kind]
        turns[step.agent, step.kind] += 1
        if turn < len(theirs[step.agent, step.kind]):
            twin_of[step.index] = theirs[step.agent, step.kind][turn]
    return twin_of


def _call(step: SeenStep) -> tuple[str, str]:
    return step.agent, step.content


def _values(text: str) -> frozenset[str]:
    """List the amounts and names in a text, as they are compared."""
    return frozenset(_all_values(text))


def _all_values(text: str) -> Iterator[str]:
    for number in find_numbers(text):
        plain = number.text.replace(",", "")
        yield plain.rstrip("0").rstrip(".") if "." in plain else plain
    for name in find_names(text):
        if len(name.text) >= _SHORTEST_NAME:
            yield name.text.strip('`"').casefold()
