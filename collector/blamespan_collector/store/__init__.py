"""The local store: traces as they went out, kept for a while for people to look at."""

from blamespan_collector.store.incidents import Incident, IncidentRule, close_incident
from blamespan_collector.store.records import RunQuery, RunSummary, StoredRun
from blamespan_collector.store.run_store import RunStore
from blamespan_collector.store.run_writer import Retention, RunWriter
from blamespan_collector.store.schema import StoreError, StoreMismatch, StoreUnavailable

__all__ = [
    "Incident",
    "IncidentRule",
    "Retention",
    "RunQuery",
    "RunStore",
    "RunSummary",
    "RunWriter",
    "StoreError",
    "StoreMismatch",
    "StoreUnavailable",
    "StoredRun",
    "close_incident",
]
