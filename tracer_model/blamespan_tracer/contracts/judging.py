"""The contracts in use as a judge, for who shows runs and knows nothing of contracts."""

from __future__ import annotations

from functools import cache

from blamespan.trace import MessageActionTrace
from blamespan_tracer.contracts.contract import Contract, Verdict, judge
from blamespan_tracer.contracts.loading import contracts_in_use

__all__ = ["judge_in_use"]


def judge_in_use(trace: MessageActionTrace) -> list[Verdict]:
    """Check every contract in use on a run; the part `contract_judge` of `blamespan`.

    Raises:
        ConfigError: if a file that `BLAMESPAN_CONTRACTS` names, or an installed package, offers what is no contract.
    """
    return judge(_contracts(), trace)


@cache
def _contracts() -> tuple[Contract, ...]:
    return contracts_in_use()
