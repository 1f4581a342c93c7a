"""Signs that a run fails, found while it goes on: what a watcher finds in each step, and what a policy makes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal, Protocol, TypeAlias, cast

from blamespan.guarding.decisions import Decision, ProposedStep
from blamespan.guarding.policy import Policy, SignRule
from blamespan.guarding.rules import means_agent
from blamespan.plugins import load_part

SignKind: TypeAlias = Literal["check", "suspicion", "spread", "schema"]


@dataclass(frozen=True, slots=True)
class Sign:
    """Something in a step that speaks for a failure.

    Attributes:
        kind: What found it.
        name: The check or schema.
        strength: A suspicion from 0 to 1; of a claim that spreads, how many agents have stated it.
        reason: What is wrong, in one sentence without the step's contents.
        advice: The same for the agent, which may quote.
    """

    kind: SignKind
    name: str
    strength: float
    reason: str
    advice: str = ""


class Watcher(Protocol):
    """Reads a run step by step; each step costs the same, however long the run is."""

    def examine(self, step: ProposedStep) -> Sequence[Sign]:
        """Return what speaks against a step that is about to take place; the step is not taken up."""
        ...

    def commit(self, step: ProposedStep) -> None:
        """Take up a step that takes place: later ones are held against it."""
        ...


def make_watcher(policies: Sequence[Policy], task: str) -> Watcher:
    """Make the watcher that the signs of *policies* need.

    Args:
        policies: Of one guard.
        task: What the run was asked.

    Raises:
        ConfigError: if a policy names a check that there is not.
        MissingExtra: if it needs what is not installed.
    """
    make = cast(Callable[[Sequence[SignRule], str], Watcher], load_part("run_watcher"))
    return make([sign for policy in policies for sign in policy.signs], task)


def judge_signs(policy: Policy, step: ProposedStep, signs: Sequence[Sign]) -> Iterator[Decision]:
    """Yield what a policy makes of the signs in a step."""
    for rule in policy.signs:
        for sign in signs:
            if _is_meant(rule, sign) and means_agent(rule.agent, step):
                yield Decision(rule.action, sign.reason, rule.name, sign.kind, step.agent, step.tool, sign.advice)


def _is_meant(rule: SignRule, sign: Sign) -> bool:
    match sign.kind:
        case "check":
            return rule.check is not None and fnmatchcase(sign.name, rule.check)
        case "schema":
            return rule.schema is not None and fnmatchcase(sign.name, rule.schema)
        case "suspicion":
            return rule.suspicion is not None and sign.strength >= rule.suspicion
        case "spread":
            return rule.unsupported_reaches is not None and sign.strength >= rule.unsupported_reaches
