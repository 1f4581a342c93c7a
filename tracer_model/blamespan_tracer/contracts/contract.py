"""What a contract is, and what it says of a run.

A contract is a rule that a step, or a run, keeps or breaks, and that can be checked by machine: step and trace
contracts in the sense of arXiv 2603.18096 (Message-Action Traces).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal, TypeAlias

from blamespan.taxonomy import ErrorMode
from blamespan.trace import MessageActionTrace
from blamespan_tracer.contracts.run import Run
from blamespan_tracer.representation import Analysis

__all__ = ["MAX_QUOTE_CHARS", "Check", "Contract", "Finding", "Outcome", "Verdict", "judge"]

_log = logging.getLogger(__name__)

Outcome: TypeAlias = Literal["pass", "fail", "inconclusive"]
"""Kept; broken; or there was nothing to judge by, or not enough."""

MAX_QUOTE_CHARS = 200
"""Longer quotes are cut: a sentence or two, well under what backends cut."""

_MAX_FINDINGS = 1_000
"""Most that one contract may find in one run."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check says of one step.

    Attributes:
        step: Index of the original step that keeps or breaks the contract.
        outcome: Which of these.
        quote: Words of that step that show it, as they stand in its content; cut to 200 characters.
        reason: In a few words what is wrong with them.
    """

    step: int
    outcome: Outcome
    quote: str = ""
    reason: str = ""


Check: TypeAlias = Callable[[Run], Iterable[Finding]]
"""Examines a run: a finding for each step it can judge, none where there is nothing to judge."""


@dataclass(frozen=True, slots=True)
class Contract:
    """A rule and how to check it.

    Attributes:
        name: Unique among the contracts in use: `sum-holds`.
        title: The rule in one sentence.
        check: Examines a run. Must be deterministic, and must not raise.
        mode: What breaking it is called, or None where no taxonomy has a word.
        trust: How likely a run that breaks it failed for that, 0..1: a prior, not measured on the user's runs.
        is_symptom: Whether what breaks it is more often what came of an error than the error: it is blamed only where
            no other contract is broken.
    """

    name: str
    title: str
    check: Check
    mode: ErrorMode | None = None
    trust: float = 0.5
    is_symptom: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a contract says of a run, or of one step of it.

    Attributes:
        contract: Which.
        outcome: `pass` stands for the whole run: something was examined, nothing is broken, nothing is open.
        step: Index of the step, or None where the run as a whole is meant.
        quote: Words of the step that show it.
        reason: What is wrong, or why nothing can be said.
    """

    contract: Contract
    outcome: Outcome
    step: int | None = None
    quote: str = ""
    reason: str = ""


def judge(contracts: Sequence[Contract], trace: MessageActionTrace, analysis: Analysis | None = None) -> list[Verdict]:
    """Check every contract on a run.

    Args:
        contracts: Which.
        trace: The run.
        analysis: What the representation found out about it, where that is known already.

    Returns:
        For each contract, in order, every step that breaks it or leaves it open, by step; or else one verdict on the
        run. A contract that raises is inconclusive and the failure is logged: a rule must not break what it watches.
    """
    run = Run(trace, analysis)
    return [verdict for contract in contracts for verdict in _judged(contract, run)]


def _judged(contract: Contract, run: Run) -> list[Verdict]:
    try:
        found = list(islice(contract.check(run), _MAX_FINDINGS))
    except Exception as error:
        _log.warning("contract %r raised on run %s", contract.name, run.trace.trace_id, exc_info=True)
        return [Verdict(contract, "inconclusive", reason=f"the check raised {type(error).__name__}")]
    n_steps = len(run.trace.steps)
    bad = [finding for finding in found if finding.outcome != "pass" and 0 <= finding.step < n_steps]
    if bad:
        return [_verdict(contract, finding, run) for finding in sorted(bad, key=lambda each: each.step)]
    if found:
        return [Verdict(contract, "pass")]
    return [Verdict(contract, "inconclusive", reason="nothing in the run to judge")]


def _verdict(contract: Contract, finding: Finding, run: Run) -> Verdict:
    quote = finding.quote.strip()[:MAX_QUOTE_CHARS].strip()
    is_there = quote in run.trace.steps[finding.step].content
    return Verdict(contract, finding.outcome, finding.step, quote if is_there else "", finding.reason)
