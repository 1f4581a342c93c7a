"""Every sink that the settings name."""

from __future__ import annotations

import os

from blamespan_collector.delivering.backend import BackendAccess
from blamespan_collector.delivering.evaluation_sinks import EvaluationLogs, LangfuseScores, PhoenixAnnotations
from blamespan_collector.delivering.file_sink import FileSink
from blamespan_collector.delivering.forwarder import forwarder
from blamespan_collector.delivering.sinks import Sink
from blamespan_collector.delivering.store_sink import StoreSink
from blamespan_collector.settings import CollectorSettings
from blamespan_collector.store import IncidentRule, Retention


def destinations(settings: CollectorSettings) -> list[Sink]:
    """Make the sinks; each named once, however often it is given.

    Raises:
        ConfigError: if one cannot be what it is told to be.
    """
    access = BackendAccess.of(settings)
    sinks: list[Sink] = [forwarder(url, access) for url in settings.forward]
    if settings.out:
        sinks.append(FileSink(settings.out, is_durable=settings.journal_sync == "full"))
    if settings.store:
        retention = Retention(settings.store_max_age_s, settings.store_max_bytes)
        rule = IncidentRule(settings.incident_after, settings.incident_quiet_s)
        sinks.append(StoreSink(settings.store, retention, rule, sync=settings.journal_sync))
    sinks += [EvaluationLogs(url, access) for url in settings.evaluations]
    if settings.phoenix:
        sinks.append(PhoenixAnnotations(settings.phoenix, os.environ.get("PHOENIX_API_KEY", ""), BackendAccess()))
    if settings.langfuse:
        keys = os.environ.get("LANGFUSE_PUBLIC_KEY", ""), os.environ.get("LANGFUSE_SECRET_KEY", "")
        sinks.append(LangfuseScores(settings.langfuse, keys, BackendAccess()))
    return list({sink.name: sink for sink in sinks}.values())
