"""Contracts: rules that runs keep or break, checked by machine; as explanations, as features and as a tracer."""

from blamespan_tracer.contracts.bundled import CONTRACTS
from blamespan_tracer.contracts.columns import verdict_features
from blamespan_tracer.contracts.contract import Contract, Finding, Verdict, judge
from blamespan_tracer.contracts.declared import declared_contracts
from blamespan_tracer.contracts.loading import contracts_in_use
from blamespan_tracer.contracts.run import Run
from blamespan_tracer.contracts.tracer import ContractsTracer

__all__ = [
    "CONTRACTS",
    "Contract",
    "ContractsTracer",
    "Finding",
    "Run",
    "Verdict",
    "contracts_in_use",
    "declared_contracts",
    "judge",
    "verdict_features",
]
