"""The ledger of a run: every value that a step states, where the value comes from, and what it contradicts."""

from blamespan_tracer.ledger.ledger import Claim, Contradiction, HeldStep, Ledger, LedgerReader, Mention, read_ledger
from blamespan_tracer.ledger.values import Value, find_values

__all__ = [
    "Claim",
    "Contradiction",
    "HeldStep",
    "Ledger",
    "LedgerReader",
    "Mention",
    "Value",
    "find_values",
    "read_ledger",
]
