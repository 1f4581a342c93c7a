"""What the guard is asked, and what it answers: a step before it takes place, and a decision on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, TypeAlias, get_args

from blamespan.trace import Usage

Action: TypeAlias = Literal["observe", "warn", "rewrite", "ask", "block"]
"""What is done about a step that a rule finds wrong, from the mildest to the strictest.

- observe: nothing but a record.
- warn: whoever is asked next is told, in one sentence.
- rewrite: the same agent is asked again, told what is wrong.
- ask: a person decides; the run goes on when they have answered.
- block: the tool is not called, the message is not passed on; the agent gets an error that it can work with.
"""

ACTIONS: Final[tuple[Action, ...]] = get_args(Action)

RuleKind: TypeAlias = Literal[
    "tool", "argument", "recipient", "text", "budget", "check", "suspicion", "spread", "schema", "own", "failure"
]
"""What a decision is about; `own` is a rule of the user's in Python, `failure` an error inside a guard that stops."""

RULE_KINDS: Final[tuple[RuleKind, ...]] = get_args(RuleKind)


@dataclass(frozen=True, slots=True)
class ProposedStep:
    """A step that is about to take place.

    Attributes:
        kind: `message` and `tool_call` are decisions of an agent; a `request` is a call that a model asks for and the
            framework has not made yet; a `tool_result` is what a tool answered; a `delivery` is a message on its way.
        agent: Whose.
        text: What it says; of a tool's step its arguments or result, as text.
        tool: Which tool, by the name that the framework knows.
        tool_names: Every name that what the tool does goes by.
        arguments: What the tool is to be called with: a value for each name, as far as names are known.
        recipients: Who is to hear it, or to go on.
        acts_for: The agents whose rules hold for it, by level: first whose step it is, by every name that it goes by or
            all that may be meant; then those within whose tools it takes place, the innermost first.
    """

    kind: Literal["message", "request", "tool_call", "tool_result", "delivery"]
    agent: str
    text: str = ""
    tool: str = ""
    tool_names: frozenset[str] = frozenset()
    arguments: Mapping[str, object] = field(default_factory=dict)
    recipients: tuple[str, ...] = ()
    acts_for: tuple[tuple[str, ...], ...] = ()

    @property
    def levels(self) -> tuple[tuple[str, ...], ...]:
        """The agents whose rules hold for it, by level."""
        return self.acts_for or ((self.agent,),)


@dataclass(frozen=True, slots=True)
class Decision:
    """What a rule says of a step.

    Attributes:
        actions: What is to be done: the first, and where that does no good the next. The last one stands.
        reason: What is wrong, in one sentence and without the step's contents: it is recorded with the step.
        rule: Name of the rule.
        kind: What the rule is about.
        agent: Whose step it is about.
        tool: Which tool it is about.
        advice: What the agent is told, where that is more than the reason; it may quote.
    """

    actions: tuple[Action, ...]
    reason: str
    rule: str
    kind: RuleKind
    agent: str = ""
    tool: str = ""
    advice: str = ""

    @property
    def action(self) -> Action:
        """The first action."""
        return self.actions[0]


class GuardedRun(Protocol):
    """The run so far, as rules see it."""

    @property
    def steps(self) -> Sequence[ProposedStep]:
        """What took place, in order, the latest last; of long runs the latest 1,000."""
        ...

    @property
    def usage(self) -> Usage:
        """Tokens that its models took so far."""
        ...


OwnRule: TypeAlias = Callable[[ProposedStep, GuardedRun], "Decision | str | None"]
"""A rule of the user's in Python: it returns a decision; a sentence that says what is wrong, which blocks; or None.

It must not keep the step waiting, and depends on its arguments only: a replay asks it again.
"""


def strictest(decisions: Sequence[Decision]) -> Decision | None:
    """Return the strictest of several decisions, the first among equals; None if there is none."""
    return max(decisions, key=lambda decision: ACTIONS.index(decision.action), default=None)
