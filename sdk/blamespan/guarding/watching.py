"""Findings while a run goes on: what a watcher finds in each step, and what a policy makes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal, Protocol, TypeAlias, cast

from blamespan.guarding.decisions import Decision, ProposedStep
from blamespan.guarding.policy import FindingRule, Policy
from blamespan.guarding.rules import means_agent
from blamespan.plugins import load_part

FindingKind: TypeAlias = Literal["check", "suspicion", "spread", "schema"]


@dataclass(frozen=True, slots=True)
class RunFinding:
    """Something in a step that speaks for a failure.

    Attributes:
        kind: What found it.
        name: The check or schema.
        strength: A suspicion from 0 to 1; of a claim that spreads, how many agents have stated it.
        reason: What is wrong, in one sentence without the step's contents.
        advice: The same for the agent, which may quote.
    """

    kind: FindingKind
    name: str
    strength: float
    reason: str
    advice: str = ""


class Watcher(Protocol):
    """Reads a run step by step; each step costs the same, however long the run is."""

    def examine(self, step: ProposedStep) -> Sequence[RunFinding]:
        """Return what speaks against a step that is about to take place; the step is not taken up."""
        ...

    def commit(self, step: ProposedStep) -> None:
        """Take up a step that takes place: later ones are held against it."""
        ...


def make_watcher(policies: Sequence[Policy], task: str) -> Watcher:
    """Make the watcher that the findings of *policies* need.

    Args:
        policies: Of one guard.
        task: What the run was asked.

    Raises:
        ConfigError: if a policy names a check that there is not.
        MissingExtra: if it needs what is not installed.
    """
    make = cast(Callable[[Sequence[FindingRule], str], Watcher], load_part("run_watcher"))
    return make([finding for policy in policies for finding in policy.findings], task)


def judge_findings(policy: Policy, step: ProposedStep, findings: Sequence[RunFinding]) -> Iterator[Decision]:
    """Yield what a policy makes of the findings in a step."""
    for rule in policy.findings:
        for finding in findings:
            if _is_meant(rule, finding) and means_agent(rule.agent, step):
                yield Decision(
                    rule.action, finding.reason, rule.name, finding.kind, step.agent, step.tool, finding.advice
                )


def _is_meant(rule: FindingRule, finding: RunFinding) -> bool:
    match finding.kind:
        case "check":
            return rule.check is not None and fnmatchcase(finding.name, rule.check)
        case "schema":
            return rule.schema is not None and fnmatchcase(finding.name, rule.schema)
        case "suspicion":
            return rule.suspicion is not None and finding.strength >= rule.suspicion
        case "spread":
            return rule.unsupported_reaches is not None and finding.strength >= rule.unsupported_reaches
