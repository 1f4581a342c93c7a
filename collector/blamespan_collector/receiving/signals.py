"""OTLP's three services: their names, paths and messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from blamespan_collector.journal import Signal

ExportRequest: TypeAlias = ExportTraceServiceRequest | ExportLogsServiceRequest | ExportMetricsServiceRequest
ExportResponse: TypeAlias = ExportTraceServiceResponse | ExportLogsServiceResponse | ExportMetricsServiceResponse


@dataclass(frozen=True, slots=True)
class OtlpService:
    """One of OTLP's services.

    Attributes:
        signal: What it takes.
        name: gRPC's full name of it.
        path: Of `POST` over HTTP.
        request: What it takes.
        response: What it answers.
        groups: Name of the request's only field, as OTLP-JSON and as protobuf write it.
    """

    signal: Signal
    name: str
    path: str
    request: type[ExportRequest]
    response: type[ExportResponse]
    groups: tuple[str, str]


_PACKAGE = "opentelemetry.proto.collector"

SERVICES: tuple[OtlpService, ...] = (
    OtlpService(
        "traces",
        f"{_PACKAGE}.trace.v1.TraceService",
        "/v1/traces",
        ExportTraceServiceRequest,
        ExportTraceServiceResponse,
        ("resourceSpans", "resource_spans"),
    ),
    OtlpService(
        "logs",
        f"{_PACKAGE}.logs.v1.LogsService",
        "/v1/logs",
        ExportLogsServiceRequest,
        ExportLogsServiceResponse,
        ("resourceLogs", "resource_logs"),
    ),
    OtlpService(
        "metrics",
        f"{_PACKAGE}.metrics.v1.MetricsService",
        "/v1/metrics",
        ExportMetricsServiceRequest,
        ExportMetricsServiceResponse,
        ("resourceMetrics", "resource_metrics"),
    ),
)
