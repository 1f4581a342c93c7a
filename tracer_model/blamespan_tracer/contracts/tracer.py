"""Contracts as a tracer: blames the first step that breaks one."""

from __future__ import annotations

from collections.abc import Sequence

from blamespan._version import __version__
from blamespan.attribution import Attribution, Evidence, ModeBlame, TracerIdentity
from blamespan.trace import MessageActionTrace
from blamespan_tracer.contracts.contract import Contract, Verdict, judge
from blamespan_tracer.contracts.loading import contracts_in_use, digest_of_files

__all__ = ["ContractsTracer", "attribution_of"]

_MAX_EVIDENCE = 3
_REST = 0.5
"""What all later broken contracts weigh together, beside 1 for the first: the step that broke first stays decisive."""


class ContractsTracer:
    """Attributes runs by what contracts they break.

    The decisive step is the first that breaks one; steps that break a contract whose breaking is a symptom count
    only where no other is broken. `failure_score` is how likely the run failed if each broken contract speaks for
    itself: one minus the product of what their `trust` leaves open. Where none is broken there is no verdict.

    Args:
        contracts: What is checked, in order.
        files: Digest of the files that some of them were read from; empty where all are installed.
    """

    def __init__(self, contracts: Sequence[Contract], files: str = "") -> None:
        self._contracts = tuple(contracts)
        self._files = files

    @classmethod
    def in_use(cls) -> ContractsTracer:
        """Use the bundled contracts, those of installed packages, and those of `BLAMESPAN_CONTRACTS`.

        Raises:
            ConfigError: if one of them is no contract.
        """
        return cls(contracts_in_use(), digest_of_files())

    @property
    def identity(self) -> TracerIdentity:
        """Name and version; there are no weights."""
        return TracerIdentity("contracts", __version__)

    @property
    def contracts(self) -> tuple[Contract, ...]:
        """What is checked, in order."""
        return self._contracts

    @property
    def settings(self) -> dict[str, str]:
        """What decides its verdicts beside the installed contracts: the files with further ones, by their digest."""
        return {"files": self._files} if self._files else {}

    def attribute(self, traces: Sequence[MessageActionTrace]) -> list[Attribution]:
        """Attribute each run; one verdict per trace, in order."""
        return [attribution_of(trace, judge(self._contracts, trace), self.identity) for trace in traces]


def attribution_of(trace: MessageActionTrace, verdicts: Sequence[Verdict], tracer: TracerIdentity) -> Attribution:
    """Turn the verdicts of contracts on a run into who is to blame."""
    broken = [
        (verdict.step, verdict)
        for verdict in verdicts
        if verdict.outcome == "fail" and verdict.step is not None and trace.can_be_blamed(trace.steps[verdict.step])
    ]
    causes = [each for each in broken if not each[1].contract.is_symptom] or broken
    causes.sort(key=lambda each: each[0])  # stable: contracts in their order where one step breaks several
    if not causes:
        return Attribution.abstain(trace, "no contract is broken", tracer)
    shares = [0.0] * len(trace.steps)
    first = causes[0][0]
    later = [(step, verdict.contract.trust) for step, verdict in causes if step != first]
    whole = sum(trust for _, trust in later)
    for step, trust in later:
        shares[step] += _REST * trust / whole if whole > 0 else 0.0
    shares[first] = 1.0
    failed = _failure_score([verdict for _, verdict in broken])
    return Attribution.of(
        trace,
        shares,
        failure_score=failed,
        unaided_score=failed,
        tracer=tracer,
        modes=_modes(trace, broken),
        evidence=_evidence(causes),
    )


def _failure_score(broken: Sequence[Verdict]) -> float:
    trust = {verdict.contract.name: verdict.contract.trust for verdict in broken}
    open_ = 1.0
    for each in trust.values():
        open_ *= 1.0 - each
    return 1.0 - open_


def _modes(trace: MessageActionTrace, broken: Sequence[tuple[int, Verdict]]) -> list[ModeBlame]:
    best: dict[tuple[str, str], ModeBlame] = {}
    for step, verdict in broken:
        contract, agent = verdict.contract, trace.steps[step].agent
        if contract.mode is None:
            continue
        key = (str(contract.mode), agent)
        if key not in best or best[key].score < contract.trust:
            best[key] = ModeBlame(contract.mode, agent, contract.trust)
    return list(best.values())


def _evidence(broken: Sequence[tuple[int, Verdict]]) -> list[Evidence]:
    quoted = [(step, verdict) for step, verdict in broken if verdict.quote]
    found = dict.fromkeys((step, verdict.quote) for step, verdict in quoted)
    trust = {(step, verdict.quote): verdict.contract.trust for step, verdict in reversed(quoted)}
    return [Evidence(step, quote, trust[step, quote]) for step, quote in list(found)[:_MAX_EVIDENCE]]
