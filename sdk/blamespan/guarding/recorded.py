"""What a guard decided, read off a recorded run: the strictest decision on each step."""

from __future__ import annotations

from dataclasses import dataclass

from blamespan import conventions as words
from blamespan.guarding.decisions import ACTIONS, Action
from blamespan.trace import MessageActionTrace, Step


@dataclass(frozen=True, slots=True)
class GuardMark:
    """The strictest decision on a step.

    Attributes:
        step: Index of the step.
        agent: Whose.
        action: What the guard did.
        rule: By which rule.
        kind: What the rule is about.
        reason: What is wrong, in the words of the policy.
    """

    step: int
    agent: str
    action: Action
    rule: str
    kind: str
    reason: str


def read_guard_mark(step: Step) -> GuardMark | None:
    """Read what the guard decided on a step; None where it decided nothing, or something unknown."""
    action = step.attributes.get(words.GUARD_ACTION)
    if action not in ACTIONS:
        return None
    rule, kind, reason = (step.attributes.get(key) for key in (words.GUARD_RULE, words.GUARD_KIND, words.GUARD_REASON))
    texts = [value if isinstance(value, str) else "" for value in (rule, kind, reason)]
    return GuardMark(step.index, step.agent, action, *texts)


def read_guard_marks(trace: MessageActionTrace) -> list[GuardMark]:
    """Read what the guard decided on the steps of a run, in order."""
    return [mark for step in trace.steps if (mark := read_guard_mark(step)) is not None]
